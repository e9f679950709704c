"""Finds the store of this folder or of the environment, where none is named."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from ckpt_backends import errors, shell
from ckpt_backends.declaration import Backend, backend_of, bundled
from ckpt_backends.url import VARIABLE, StoreUrl, parse_url
from ckpt_cli.config import trust
from ckpt_cli.config.trust import needs_trust

# Which server an application's own files name: `langgraph.json`, and the file of its variables.
#
# The variables are those of LangGraph's Agent Server. Its `REDIS_URI` is left out: that is a
# message broker and holds no checkpoints. `checkpointer.path` names code, which is never run.


PROJECT, VARIABLES = "langgraph.json", ".env"
_BACKEND = "LS_DEFAULT_CHECKPOINTER_BACKEND"
_MONGO = "mongo"
_URIS: Mapping[str, tuple[str, ...]] = {
    "default": ("DATABASE_URI", "POSTGRES_URI_CUSTOM", "POSTGRES_URI"),
    _MONGO: ("LS_MONGODB_URI", "MONGODB_URI"),
}
"""By the checkpointer of the server, the variables that may hold its URL; the first counts."""
_LINE = re.compile(
    r"""^[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_]\w*)[ \t]*=[ \t]*"""
    r"""(?:'(?P<single>[^'\n]*)'|"(?P<double>[^"\n]*)"|(?P<bare>[^\n]*))""",
    re.ASCII | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class NamedServer:
    """A server that a file of an application names."""

    url: StoreUrl
    key: str
    """The variable, or the key of `langgraph.json`."""
    source: Path
    """The file that holds the URL."""
    distrust: str | None
    """Why it may not be contacted; None if the file is trusted."""


def server_named_in(folder: Path) -> NamedServer | None:
    """Return the server that the files of a folder name; None if they name none.

    Reads two small files at most, and only in the folder.
    """
    folder = Path(os.path.realpath(folder))
    project = _read(folder, PROJECT)
    table = _table(project)
    checkpointer = table.get("checkpointer")
    checkpointer = checkpointer if isinstance(checkpointer, dict) else {}
    if "path" in checkpointer:
        return None
    env = table.get("env", VARIABLES)
    if isinstance(env, dict):
        source, variables = project, {str(name): str(value) for name, value in env.items()}
    else:
        source = _read(folder, env) if isinstance(env, str) else None
        variables = parse_variables(source)
    kind = checkpointer.get("backend", variables.get(_BACKEND, "default"))
    uri = checkpointer.get("uri")
    if kind == _MONGO and project is not None and isinstance(uri, str):
        return _server(uri, "checkpointer.uri", project)
    for name in _URIS.get(kind, ()) if isinstance(kind, str) and source is not None else ():
        if variables.get(name) and source is not None:
            return _server(variables[name], name, source)
    return None


def parse_variables(contents: trust.Contents | None) -> dict[str, str]:
    """Return the variables of a file of lines `NAME=VALUE`, as `dotenv` reads them."""
    if contents is None:
        return {}
    found = {}
    for line in _LINE.finditer(contents.data.decode(errors="replace")):
        quoted = line["single"] if line["double"] is None else line["double"]
        bare = re.split(r"(?:^|\s)#", line["bare"] or "", maxsplit=1)[0].strip()
        found[line["name"]] = bare if quoted is None else quoted
    return found


def _server(text: str, key: str, source: trust.Contents) -> NamedServer | None:
    """Return the server of a URL; None if `ckpt` has no backend for it, or if it is no server."""
    if VARIABLE.search(text):
        return None
    try:
        url = parse_url(text)
    except errors.UsageError:
        return None
    backend = backend_of(url.scheme)
    if "://" not in text or backend is None or backend.is_local:
        return None
    return NamedServer(url, key, source.path, _distrust(source))


def _distrust(source: trust.Contents) -> str | None:
    try:
        source.check_owner()
    except trust.NotOurs as error:
        return f"cannot be used ({error.message.rpartition(': ')[2]})"
    return trust.distrust(source)


def _read(folder: Path, name: str) -> trust.Contents | None:
    """Return a small file that lies in a folder; None if there is none, or if a link leads out."""
    try:
        path = trust.where_it_lies(folder / name)
        inside = Path(os.path.realpath(path)).is_relative_to(folder)
        return trust.read(path) if inside and os.path.lexists(path) else None
    except (errors.UsageError, ValueError):
        return None


def _table(contents: trust.Contents | None) -> Mapping[str, object]:
    if contents is None:
        return {}
    try:
        found = json.loads(contents.data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


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
    here = [*_local(folder), *_dev_server(folder)]
    where = "here" if here else "in the usual places"
    found = _with_threads(here) or _elsewhere(folder)
    if len(found) > 1:
        raise errors.UsageError(
            f"no store given, and there are {len(found)} {where}", hint=_choice(found)
        )
    for one in found:
        if one.server is not None and one.server.distrust is not None:
            source = os.path.relpath(one.server.source)
            raise errors.UsageError(
                f"no store given; '{source}' {one.server.distrust} and names a server",
                hint=f"read the file, then run `ckpt trust {shell.word(source)}`; or use -s URL",
            )
    return found[0] if found else None


def found_in(folder: Path) -> list[StoreHere]:
    """Return the stores of a folder, or else those in the usual places, as `only_store` looks.

    Raises `UsageError` if too many files may be one.
    """
    return _with_threads([*_local(folder), *_dev_server(folder)]) or _elsewhere(folder)


def _elsewhere(folder: Path) -> list[StoreHere]:
    """Return those below a folder, or else those of applications."""
    return _with_threads([*_below(folder)] or [*_usual(folder)])


def _with_threads(found: list[StoreHere]) -> list[StoreHere]:
    """Return those that hold threads, or else all."""
    return [one for one in found if one.has_threads] or found


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
        raise errors.UsageError(
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
    except errors.SeveralLayouts:
        return True
    except errors.UnknownLayout:
        with suppress(errors.CkptError), open_memory(url):
            return False
    except errors.ForeignFile:
        pass
    except errors.StoreUnavailable:
        # It may be a store that is locked, damaged or not readable: it must not be passed over.
        return True
    return None


def _dev_server(folder: Path) -> Iterator[StoreHere]:
    found = server_named_in(folder)
    if found is not None:
        source = os.path.relpath(found.source)
        what = f"the server of {found.key} in '{source}' ({found.url})"
        yield StoreHere(found.url, what, server=found)
