"""Finds and opens the files of `langgraph dev`, and finds the file of LangGraph.js.

The server for Python never changes a file in place: it writes `NAME.tmp` and renames that over the
old file. So an open file never changes. The server replaces its three files one after the other. To
get files of the same moment, `open_files` opens them again until none was replaced or is being
written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ckpt_backends import shell
from ckpt_backends.closing import Closing
from ckpt_backends.errors import (
    SeveralLayouts,
    StoreUnavailable,
    UnknownLayout,
    UsageError,
    reason_of,
)
from ckpt_backends.files.regular_file import open_regular
from ckpt_backends.langgraph_dev.declaration import (
    BACKEND,
    CHECKPOINTS,
    FOLDER,
    JAVASCRIPT,
    JAVASCRIPT_LAYOUT,
    LAYOUT,
    SUFFIX,
)
from ckpt_backends.url import StoreUrl

WRITES, BLOBS = (f".langgraph_checkpoint.{number}{SUFFIX}" for number in (2, 3))
NAMES = (CHECKPOINTS, WRITES, BLOBS)
TRIES = 60
PAUSE_SECONDS = 0.05
WRITING_SECONDS = 2
"""A `.tmp` file that changed within this time is being written."""
_BUFFER = 1 << 18
Stamp = tuple[int, int, int, int]
"""Device, inode, size in bytes, and time of change in ns of a file."""


def place_of(url: StoreUrl) -> tuple[Path, str]:
    """The folder that holds the files, and their layout.

    Raises `UsageError`, `StoreUnavailable`, `UnknownLayout`, and `SeveralLayouts` if the servers of
    both languages have written files and the URL names no layout.
    """
    unknown = sorted(set(url.params) - {"layout"})
    if unknown:
        raise UsageError(f"unknown parameter '{unknown[0]}' of a folder of langgraph dev")
    path, named = Path(os.path.abspath(url.path)), url.params.get("layout")
    if named not in {None, *BACKEND.layouts}:
        raise UsageError(
            f"no layout '{named}' in a folder of langgraph dev",
            hint=f"known: {', '.join(BACKEND.layouts)}",
        )
    if path.suffix == SUFFIX or path.name == JAVASCRIPT:
        named = named or (LAYOUT if path.suffix == SUFFIX else JAVASCRIPT_LAYOUT)
        path = path.parent
    elif os.path.isdir(path / FOLDER):
        path /= FOLDER
    if not os.path.isdir(path):
        raise StoreUnavailable(
            f"cannot open '{url}': no such folder",
            hint=f"name the folder {FOLDER}, or the project that holds it",
        )
    found = [one for one, name in _FIRST.items() if os.path.exists(path / name)]
    if len(found) > 1 and named is None:
        files = [shell.word(os.path.relpath(path / _FIRST[one])) for one in found]
        raise SeveralLayouts(
            f"'{url}' holds 2 stores: of langgraph dev for Python, and of LangGraph.js",
            [{"layout": one} for one in found],
            hint=f"name one: -s {' or -s '.join(files)}",
        )
    wanted = named or next(iter(found), LAYOUT)
    if wanted not in found:
        raise UnknownLayout(
            f"no checkpoints of langgraph dev in '{url}'",
            hint=f"there is no {_FIRST[wanted]}; some releases write it when the server stops",
        )
    return path, wanted


_FIRST = {LAYOUT: CHECKPOINTS, JAVASCRIPT_LAYOUT: JAVASCRIPT}
"""By layout, the file by which it is recognised."""


def stamps(folder: Path, names: Iterable[str] = NAMES) -> dict[str, Stamp]:
    """The files that exist now, by name."""
    found = {}
    for name in names:
        with suppress(FileNotFoundError):
            facts = (folder / name).stat()
            found[name] = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)
    return found


@dataclass(slots=True)
class Files(Closing):
    """The three files of the same moment, opened for reading."""

    folder: Path
    stamps: Mapping[str, Stamp]
    opened: Mapping[str, BinaryIO]
    """By name; file 3 may be missing."""

    def close(self) -> None:
        for file in self.opened.values():
            file.close()


@contextmanager
def unchanging(path: Path) -> Iterator[None]:
    """Raise `StoreUnavailable` if what lies at the path cannot be read or is removed meanwhile."""
    try:
        yield
    except FileNotFoundError:
        raise StoreUnavailable(f"'{path}' was removed meanwhile") from None
    except OSError as error:
        raise StoreUnavailable(f"cannot read '{path}': {reason_of(error)}") from error


def being_written(path: Path) -> StoreUnavailable:
    """The error of a file that changed in each of the `TRIES`."""
    return StoreUnavailable(
        f"cannot read '{path}': its server is writing to it", hint="try again in a moment"
    )


def open_files(folder: Path) -> Files:
    """Open all files of the same moment. Raises `StoreUnavailable`."""
    with unchanging(folder):
        for _ in range(TRIES):
            before = stamps(folder)
            if CHECKPOINTS not in before:
                raise FileNotFoundError
            files = Files(folder, before, {name: _open(folder / name) for name in before})
            if stamps(folder) == before and not _is_written(folder):
                return files
            files.close()
            time.sleep(PAUSE_SECONDS)
    raise being_written(folder)


def _open(path: Path) -> BinaryIO:
    return open_regular(path, buffering=_BUFFER)


def _is_written(folder: Path) -> bool:
    """Whether the server is writing a file. An old `.tmp` file was left by a killed server."""
    for name in NAMES:
        with suppress(FileNotFoundError):
            if time.time() - (folder / f"{name}.tmp").stat().st_mtime < WRITING_SECONDS:
                return True
    return False
