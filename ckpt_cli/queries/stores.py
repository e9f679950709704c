"""Describes stores and layouts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path

from ckpt_backends.codec import decode_checkpoint
from ckpt_backends.declaration import Backend, bundled, is_read_only, known_backends, package_of
from ckpt_backends.errors import CkptError, SeveralLayouts, UnknownLayout, Unsupported
from ckpt_backends.memory import MemoryInfo
from ckpt_backends.model import Capability, Record, StoreInfo
from ckpt_backends.plugins import name_conflicts, plugins
from ckpt_backends.protocol import Store
from ckpt_backends.registry import driver_requirement, open_memory, open_store
from ckpt_backends.transfer.form import Language
from ckpt_backends.url import StoreUrl, printable, printable_written, without_values
from ckpt_cli.core.state import read_body
from ckpt_cli.core.support_matrix import LIMITS, limit
from ckpt_cli.core.users import UserKey
from ckpt_cli.reading.users import StoreWithUsers


@dataclass(frozen=True, slots=True)
class FoundStore:
    """One store, or the reason why it could not be opened."""

    name: str
    url: str
    """URL without secrets, safe to print."""
    info: StoreInfo | None
    error: CkptError | None
    memory: MemoryInfo | None = None
    """Set if the place contains long-term memory and no threads."""
    user_key: UserKey | None = None
    """Where the users of its threads are named; None if nothing tells, or its layout records them.
    """


def inspect(name: str, url: StoreUrl, told: UserKey | None = None) -> list[FoundStore]:
    """Open a store and describe it, once for each of its layouts. The name may be a URL.

    `told` says where users are named.
    """
    name = printable(name)
    try:
        with open_store(url) as store:
            info = store.describe()
            user_key = StoreWithUsers(store, told).user_key
    except SeveralLayouts as several:
        chosen = [url.with_params(one) for one in several.choices]
        return [found for one in chosen for found in inspect(name, one, told)]
    except (UnknownLayout, Unsupported) as error:
        return [_of_memory(name, url, error)]
    except CkptError as error:
        return [FoundStore(name, str(url), None, error)]
    names = tuple(without_values(one, url) for one in info.tables)
    notes = tuple(without_values(one, url) for one in info.notes)
    info = info._replace(tables=names, notes=notes)
    return [FoundStore(name, str(url), info, None, user_key=user_key)]


def _of_memory(name: str, url: StoreUrl, error: CkptError) -> FoundStore:
    """Describe the long-term memory of a place without threads, if it has any."""
    with suppress(CkptError), open_memory(url) as memory:
        return FoundStore(name, str(url), None, None, memory.describe())
    return FoundStore(name, str(url), None, error)


def broken(name: str, url: str, error: CkptError) -> FoundStore:
    """Return an entry for a store without a valid URL, such as a profile with an unset variable."""
    return FoundStore(name, printable_written(url), None, error)


def in_folder(folder: Path) -> Iterator[FoundStore]:
    """Yield the stores in a folder; databases without checkpoints or memory are left out.

    Then those in the usual places of applications that everybody has.
    """
    kinds: dict[str, str] = {}
    with suppress(OSError):
        for entry in os.scandir(folder):
            name = f"{entry.name}/" if entry.is_dir() else entry.name
            for backend in known_backends():
                if any(fnmatchcase(name, pattern) for pattern in backend.file_names):
                    kinds.setdefault(entry.name, backend.schemes[0])
    for name, kind in sorted(kinds.items()):
        for found in inspect(name, StoreUrl(kind, str(folder / name), raw=name)):
            if not isinstance(found.error, UnknownLayout):
                yield found
    for backend in known_backends():
        for name in backend.usual_paths:
            path = Path(name).expanduser()
            if path.is_absolute() and path.exists():
                url = StoreUrl(backend.schemes[0], str(path), raw=str(path))
                yield from (one for one in inspect(name, url) if one.info is not None)


@dataclass(frozen=True, slots=True)
class OpenableLayout:
    """One layout with its backend, or a backend without layouts, or one that cannot be loaded."""

    layout: str
    """Empty for a backend that has no layouts of checkpoints."""
    title: str
    package: str
    """The distribution that brings it."""
    schemes: tuple[str, ...] = ()
    engine: str = ""
    """The engine in whose databases it is found, if it has no schemes of its own."""
    file_names: tuple[str, ...] = ()
    capabilities: Capability | None = None
    commands: Mapping[str, str] = field(default_factory=dict)
    """The cell of each command in the support matrix, such as `yes`."""
    needs: str = ""
    """The requirement that brings its driver, if that is missing."""
    notes: tuple[str, ...] = ()
    error: str = ""
    """Why a plug-in cannot be loaded."""


def openable_layouts() -> Iterator[OpenableLayout]:
    """Yield the layouts of the bundled backends, by name, then those of each plug-in."""
    ours = [one for backend in bundled() for one in _layouts(backend)]
    yield from sorted(ours, key=lambda one: (one.layout or one.title.casefold(), one.title))
    for plugin in plugins():
        if plugin.backend is None:
            yield OpenableLayout("", plugin.name, plugin.package, error=plugin.problem)
        else:
            yield from _layouts(plugin.backend)


def all_name_conflicts() -> Iterator[str]:
    """Yield one line for each name of a plug-in that a backend before it has, too."""
    for plugin in plugins():
        if plugin.backend is not None:
            yield from _name_conflicts(plugin.backend)


def _layouts(backend: Backend) -> Iterator[OpenableLayout]:
    read_only = is_read_only(backend)
    found: Mapping[str, Capability | None] = backend.layouts or {"": None}
    for name, can in found.items():
        cells = {} if can is None else {one: limit(one, can, read_only=read_only) for one in LIMITS}
        yield OpenableLayout(
            name,
            backend.title,
            package_of(backend),
            backend.schemes,
            "" if backend.schemes else backend.engine,
            backend.file_names,
            can,
            {one: "yes" if found is None else found.cell for one, found in cells.items()},
            "" if _has_driver(backend) else driver_requirement(backend),
            tuple(_name_conflicts(backend)),
        )


def _name_conflicts(backend: Backend) -> list[str]:
    """The names of a plug-in that backends before it have, which are opened in its place."""
    plugin = next((one for one in plugins() if one.backend is backend), None)
    if plugin is None:
        return []  # bundled backends share no names
    backends = known_backends()
    place = next(number for number, one in enumerate(backends) if one is backend)
    label = f"backend '{plugin.name}' (package {plugin.package})"
    return name_conflicts(backend, backends[:place], label)


def _has_driver(backend: Backend) -> bool:
    if not backend.driver:
        return True
    try:
        return find_spec(backend.driver) is not None
    except (ImportError, ValueError):  # of the package around it
        return False


def language_of(store: Store, thread_id: str | None = None) -> Language | None:
    """Return the language of a thread, by default of the newest; None if there is no checkpoint."""
    named = [] if thread_id is None else [store.thread(thread_id)]
    for thread in store.threads(limit=1) if thread_id is None else filter(None, named):
        wanted = None if thread.head is None else [thread.head]
        for found in store.checkpoints(thread.thread_id, checkpoint_ids=wanted, body=True):
            return Language.JAVASCRIPT if read_body(found).is_javascript else Language.PYTHON
    return None


def language_of_record(record: Record) -> Language:
    """Return which of them wrote a checkpoint, by the form of its time."""
    body = decode_checkpoint(record.value)
    ts = body.get("ts") if isinstance(body, dict) else None
    is_javascript = isinstance(ts, str) and ts.endswith("Z")
    return Language.JAVASCRIPT if is_javascript else Language.PYTHON
