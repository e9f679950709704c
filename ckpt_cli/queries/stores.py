"""Find stores: the named one, those of the profiles, and those in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from ckpt_backends.discovery import known_backends
from ckpt_backends.errors import CkptError, SeveralLayouts, UnknownLayout, Unsupported
from ckpt_backends.memory.protocol import MemoryInfo
from ckpt_backends.model import StoreInfo
from ckpt_backends.registry import open_memory, open_store
from ckpt_backends.url import StoreUrl, printable, printable_written, without_values


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


def inspect(name: str, url: StoreUrl) -> list[FoundStore]:
    """Open a store and describe it, once for each of its layouts. The name may be a URL."""
    name = printable(name)
    try:
        with open_store(url) as store:
            info = store.describe()
    except SeveralLayouts as several:
        chosen = [url.with_params(one) for one in several.choices]
        return [found for one in chosen for found in inspect(name, one)]
    except (UnknownLayout, Unsupported) as error:
        return [_of_memory(name, url, error)]
    except CkptError as error:
        return [FoundStore(name, str(url), None, error)]
    names = tuple(without_values(one, url) for one in info.tables)
    notes = tuple(without_values(one, url) for one in info.notes)
    return [FoundStore(name, str(url), info._replace(tables=names, notes=notes), None)]


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
