"""Find archives and saved plans in folders, and tell whether they were made from a store."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ckpt_backends.errors import CkptError, UsageError
from ckpt_backends.files.regular_file import open_regular
from ckpt_backends.url import StoreUrl, parse_url
from ckpt_cli.operations.place import place_of

_PLAN = re.compile(rb'\{\s*"ckpt_(?:purge_)?plan"')
_LONGEST = 256 << 20


def with_subfolders(folders: Iterable[Path], named: Iterable[Path]) -> list[Path]:
    """Return these folders, and all below those that were named, also what cannot be listed.

    Links to other folders are not followed.
    """
    found = dict.fromkeys(folders)

    def unlisted(error: OSError) -> None:
        found.setdefault(Path(error.filename))

    for one in named:
        for below, _, _ in os.walk(one.absolute(), onerror=unlisted):
            found.setdefault(Path(below))
    return list(found)


def linked_folders(named: Iterable[Path]) -> Iterator[Path]:
    """Yield the links to other folders below those that were named."""
    for one in named:
        for below, names, _ in os.walk(one.absolute()):
            yield from (Path(below, name) for name in names if os.path.islink(f"{below}/{name}"))


def saved_plans(folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the saved plans in some folders."""
    for folder in folders:
        for path in sorted(folder.glob("*")) if folder.is_dir() else ():
            with suppress(OSError, CkptError):
                if path.is_file() and path.stat().st_size <= _LONGEST and _is_plan(path):
                    yield path


def records_in(path: Path) -> Iterator[Any]:
    """Yield the JSON values of a file with one on each line; damaged lines are left out."""
    with suppress(OSError, CkptError), open_regular(path, follow=False) as file:
        for line in file:
            with suppress(ValueError, RecursionError):
                yield json.loads(line)


def _is_plan(path: Path) -> bool:
    with open_regular(path, follow=False) as file:
        return _PLAN.match(file.read(64)) is not None


def is_from_store(written: str, url: StoreUrl) -> bool:
    """Return whether the header of an archive, such as `agent.db`, names this store.

    A relative path was relative to a folder that is not known, so any end of the path will do.
    """
    if written == str(url):
        return True
    with suppress(UsageError):
        named = parse_url(written)
        if place_of(named) == place_of(url):
            return True
        path = os.path.realpath(url.path)
        return (
            named.scheme == url.scheme
            and written == named.path
            and not os.path.isabs(written)
            and path.endswith(f"/{os.path.normpath(written)}")
        )
    return False
