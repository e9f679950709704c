"""Looks for what an erasure should have removed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from ckpt_backends.changes.bundle import bundles_in, check_bundle, read_header
from ckpt_backends.changes.rows import Row
from ckpt_backends.errors import CkptError, UnknownLayout, Unsupported, UsageError
from ckpt_backends.files.regular_file import open_regular
from ckpt_backends.memory.protocol import ItemKey
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_memory, open_sessions
from ckpt_backends.url import StoreUrl, parse_url
from ckpt_cli.config.folders import history_file, old_history
from ckpt_cli.core.erasure import ErasedIds, ErasurePlace, ErasureReceipt, PlaceKind
from ckpt_cli.core.memory import source_of
from ckpt_cli.operations.log import (
    OperationLog,
    history_entries,
    place_of,
    query_of,
    words_of_query,
)

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


KeysOf = Mapping[str, Callable[[Row], ItemKey]]
"""By layout, how the rows of a memory are told apart."""


def verified_places(
    receipt: ErasureReceipt,
    url: StoreUrl,
    opened: Callable[[], Store],
    memories: Iterable[StoreUrl],
    folders: Collection[Path],
) -> Iterator[ErasurePlace]:
    """Yield each place with the number of things that are back; `kept` if there are any."""
    yield _checked(str(url), "threads", lambda: _threads(receipt, opened()))
    if receipt.ids.sessions or receipt.ids.threads:
        yield from _if_there(str(url), "sessions", lambda: _sessions(receipt, url))
    memories, left = list(memories), set(receipt.memories)
    for one in memories:
        left.discard(place_of(one))
        yield from _if_there(str(one), "memory", partial(_memory, receipt, one))
    if left:
        why = "another memory was erased, too; name it with --memory"
        yield ErasurePlace("memory", "memory", None, None, "unreachable", why)
    for hidden in receipt.unnamed_folders(map(str, folders)):
        why = "the receipt does not tell its name; name it with --archives"
        yield ErasurePlace(hidden, "archives", None, None, "unreachable", why)
    keys_of = _keys_of(memories)
    for folder in folders:
        count = partial(_archives, receipt, url, keys_of, folder)
        yield _checked(str(folder), "archives", count)
        yield _checked(str(folder), "plans", partial(_plans, receipt, folder))
    yield _checked("ckpt", "operations", lambda: _operations(receipt))
    yield _checked("ckpt", "queries", lambda: _queries(receipt))
    yield from receipt.unknown


def _keys_of(memories: Iterable[StoreUrl]) -> dict[str, Callable[[Row], ItemKey]]:
    """Return, by layout, how the archived rows of these memories are told apart."""
    found: dict[str, Callable[[Row], ItemKey]] = {}
    for one in memories:
        with suppress(CkptError), open_memory(one) as memory:
            found[memory.describe().layout] = memory.key_of
    return found


def _checked(store: str, kind: PlaceKind, count: Callable[[], int]) -> ErasurePlace:
    try:
        number = count()
    except CkptError as error:
        return ErasurePlace(store, kind, None, None, "unreachable", error.message)
    if number:
        return ErasurePlace(store, kind, number, None, "kept", "it is back")
    return ErasurePlace(store, kind, 0, None, "erased")


def _if_there(store: str, kind: PlaceKind, count: Callable[[], int]) -> Iterator[ErasurePlace]:
    """Yield a place unless the store has nothing of this kind."""
    try:
        number = count()
    except (UnknownLayout, Unsupported):
        return
    except CkptError as error:
        yield ErasurePlace(store, kind, None, None, "unreachable", error.message)
        return
    yield _checked(store, kind, lambda: number)


def _threads(receipt: ErasureReceipt, store: Store) -> int:
    """Count the threads with any row, also without checkpoints."""
    ids = (thread_id for thread_id, _ in groupby(store.usage(), lambda one: one.thread_id))
    return sum(map(receipt.ids.has_thread, ids))


def _sessions(receipt: ErasureReceipt, url: StoreUrl) -> int:
    with open_sessions(url) as sessions:
        return sum(
            receipt.ids.has_session(one.key) or receipt.ids.has_thread(one.thread_id)
            for one in sessions.sessions()
        )


def _memory(receipt: ErasureReceipt, url: StoreUrl) -> int:
    ids, number = receipt.ids, 0
    with open_memory(url) as memory:
        for one in memory.items(values=True):
            source = source_of(one)
            number += ids.has_item(one.key) or (
                source is not None and ids.has_thread(source.thread_id)
            )
    return number


def _archives(receipt: ErasureReceipt, url: StoreUrl, keys_of: KeysOf, folder: Path) -> int:
    """Count the archives below a folder that hold an erased thread or item."""
    if not folder.exists():
        return 0
    paths = [path for one in with_subfolders([], [folder]) for path in bundles_in(one)]
    return sum(_is_archived(receipt, url, keys_of, path) for path in paths)


def _is_archived(receipt: ErasureReceipt, url: StoreUrl, keys_of: KeysOf, path: Path) -> bool:
    ids, header = receipt.ids, read_header(path)
    if header.thread_id is not None:
        is_ours = is_from_store(header.store, url) and ids.has_thread(header.thread_id)
        return is_ours or ids.has_archive(header.thread_id, header.store)
    key_of = keys_of.get(header.layout)
    if key_of is None:
        return False
    return any(ids.has_item(key_of(row)) for row in check_bundle(path).rows())


def _plans(receipt: ErasureReceipt, folder: Path) -> int:
    plans = saved_plans(with_subfolders([], [folder]))
    return sum(any(_names(receipt.ids, one) for one in records_in(path)) for path in plans)


def _names(ids: ErasedIds, record: Any) -> bool:
    """Return whether a text anywhere in a JSON value names an erased thread or the subject."""
    todo = [record]
    while todo:
        one = todo.pop()
        if isinstance(one, str) and ids.is_named_in(one):
            return True
        if isinstance(one, dict):
            todo += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            todo += one
    return False


def _operations(receipt: ErasureReceipt) -> int:
    """Count the operations that name an erased thread of this store, or the subject."""
    log, ids = OperationLog.of_user(), receipt.ids
    return sum(
        (one.place == receipt.place and any(map(ids.has_thread, one.threads)))
        or any(map(ids.has_name, (*one.threads, one.reason or "", one.command)))
        for one in log.newest_first()
    )


def _queries(receipt: ErasureReceipt) -> int:
    """Count the queries in the history of `ckpt sql`, and in what a killed erasure left of it."""
    path, number = history_file(), 0
    for one in (path, old_history(path)):
        with suppress(FileNotFoundError), open_regular(one, follow=False) as file:
            for text in map(query_of, history_entries(file.read())):
                words = words_of_query(text)
                number += any(map(receipt.ids.has_thread, words)) or receipt.ids.has_name(text)
    return number
