"""Find the store of a folder if none is named: there has to be exactly one.

Looked at are the files and folders with the names of stores, and the server that `langgraph.json`
or `.env` names. What lies in the folder is opened for reading, as `ckpt stores` does. A server is
contacted only if its file is trusted. If there is neither, the usual places are looked at: some
folders below this one, and the home folder, where applications keep their stores.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from ckpt_backends import shell
from ckpt_backends.declaration import Backend
from ckpt_backends.discovery import bundled
from ckpt_backends.errors import (
    CkptError,
    ForeignFile,
    SeveralLayouts,
    StoreUnavailable,
    UnknownLayout,
    UsageError,
)
from ckpt_backends.url import StoreUrl, parse_url
from ckpt_cli.config.confined import needs_trust
from ckpt_cli.config.server_in_environment import NamedServer, server_named_in

_FOLDERS = (
    *("data", "db", "checkpoints", "storage", "backend", "backend/data", ".deepagents"),
    *(".deer-flow/data", "backend/.deer-flow/data"),
)
"""Below a project, where applications often keep their store."""
_ENTRIES, _FILES, _LISTED = 10_000, 20, 6
"""Maximum number of entries of a folder that are seen, opened, and listed in an error."""


@dataclass(frozen=True, slots=True)
class StoreHere:
    """A store that lies in a folder, or a server that one of its files names."""

    url: StoreUrl
    what: str
    """It in words, without a secret."""
    words: tuple[str, ...] = ()
    """The options that name it again; none for a server, whose URL may hold a password."""
    has_threads: bool = True
    server: NamedServer | None = None


def only_store(folder: Path) -> StoreHere | None:
    """Return the only store of a folder; None if it has none. Memory counts if no threads are here.

    Raises `UsageError` if there are several, or if it is a server that is not trusted.
    """
    here = [*_local(folder), *_server(folder)]
    where = "here" if here else "in the usual places"
    here = here or [*_below(folder)] or [*_usual(folder)]
    found = [one for one in here if one.has_threads] or here
    if len(found) > 1:
        raise UsageError(f"no store given, and there are {len(found)} {where}", hint=_choice(found))
    for one in found:
        if one.server is not None and one.server.distrust is not None:
            source = os.path.relpath(one.server.source)
            raise UsageError(
                f"no store given; '{source}' {one.server.distrust} and names a server",
                hint=f"read the file, then run `ckpt trust {shell.word(source)}`; or use -s URL",
            )
    return found[0] if found else None


def _choice(found: Sequence[StoreHere]) -> str:
    """Return how to choose each of several stores."""
    ways = [
        f"`{shell.command('ckpt', *one.words)}`" if one.words else f"-s URL for {one.what}"
        for one in found[:_LISTED]
    ]
    more = ["`ckpt stores` lists the others"] if len(found) > _LISTED else []
    return "name one: " + ", ".join([*ways, *more])


def _below(folder: Path) -> Iterator[StoreHere]:
    """Yield the stores in folders below, in which applications often keep them."""
    for name in _FOLDERS:
        if (folder / name).is_dir() and needs_trust(str(folder / name), {}, folder) is None:
            yield from _local(folder, name)


def _usual(folder: Path) -> Iterator[StoreHere]:
    """Yield the stores of applications that always keep them in one place."""
    for backend in bundled():
        for name, whose in backend.usual_paths.items():
            path = Path(name).expanduser()
            url = parse_url(str(path) if path.is_absolute() else f"./{name}")
            if (folder / path).exists() and _has_threads(url, folder / path, backend):
                yield StoreHere(url, f"'{url.path}', {whose}", ("-s", url.path))


def _local(folder: Path, inside: str = "") -> Iterator[StoreHere]:
    """Yield the stores that lie in a folder, or in one `inside` it, by name.

    Links that lead out of it are passed over.
    """
    top, folder = folder, folder / inside
    names: dict[str, Backend] = {}
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in islice(entries, _ENTRIES):
            backend = _by_name(f"{entry.name}/" if entry.is_dir() else entry.name)
            if backend is not None and needs_trust(str(folder / entry.name), {}, top) is None:
                names[entry.name] = backend
    if len(names) > _FILES:
        raise UsageError(
            f"no store given, and {len(names)} files here may be one",
            hint="use -s FILE; `ckpt stores` lists the stores",
        )
    for name, backend in sorted(names.items()):
        # With a slash, it is never the name of a profile.
        url = parse_url(f"./{inside}/{name}" if inside else f"./{name}")
        has_threads = _has_threads(url, folder / name, backend)
        if has_threads is not None:
            where = f"in '{inside}', and none is in this folder" if inside else "in this folder"
            what = f"'{url.path}', the only store {where}"
            yield StoreHere(url, what, ("-s", url.path), has_threads)


def _by_name(name: str) -> Backend | None:
    local = (one for one in bundled() if one.is_local)
    fitting = (one for one in local if any(fnmatchcase(name, form) for form in one.file_names))
    return next(fitting, None)


def _has_threads(url: StoreUrl, path: Path, backend: Backend) -> bool | None:
    """Return whether a place holds threads or else memory; None if it holds neither."""
    from ckpt_backends.registry import open_memory, open_store

    if path.is_dir() and not any(os.path.isfile(path / inner) for inner in backend.inner_paths):
        return None
    if path.is_dir() or not backend.layouts:
        return bool(backend.layouts)
    try:
        with open_store(url):
            return True
    except SeveralLayouts:
        return True
    except UnknownLayout:
        with suppress(CkptError), open_memory(url):
            return False
    except ForeignFile:
        pass
    except StoreUnavailable:
        # It may be a store that is locked, damaged or not readable: it must not be passed over.
        return True
    return None


def _server(folder: Path) -> Iterator[StoreHere]:
    found = server_named_in(folder)
    if found is not None:
        source = os.path.relpath(found.source)
        what = f"the server of {found.key} in '{source}' ({found.url})"
        yield StoreHere(found.url, what, server=found)
