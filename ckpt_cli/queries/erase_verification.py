"""Check place by place that nothing of a receipt has come back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path

from ckpt_backends.changes.bundle import bundles_in, read_header
from ckpt_backends.errors import CkptError, UnknownLayout, Unsupported
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_memory, open_sessions
from ckpt_backends.url import StoreUrl
from ckpt_cli.core.erasure.places import ErasurePlace, PlaceKind
from ckpt_cli.core.erasure.receipt import ErasureReceipt
from ckpt_cli.core.memory.fact_problems import source_of
from ckpt_cli.operations.log import OperationLog
from ckpt_cli.operations.place import place_of
from ckpt_cli.queries.archived_store import is_from_store


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
    left = set(receipt.memories)
    for one in memories:
        left.discard(place_of(one))
        yield from _if_there(str(one), "memory", partial(_memory, receipt, one))
    if left:
        why = "another memory was erased, too; name it with --memory"
        yield ErasurePlace("memory", "memory", None, None, "unreachable", why)
    for hidden in receipt.unnamed_folders(map(str, folders)):
        why = "the receipt does not tell its name; name it with --archives"
        yield ErasurePlace(hidden, "archives", None, None, "unreachable", why)
    for folder in folders:
        yield _checked(str(folder), "archives", partial(_archives, receipt, url, folder))
    yield _checked("ckpt", "operations", lambda: _operations(receipt))


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


def _archives(receipt: ErasureReceipt, url: StoreUrl, folder: Path) -> int:
    if not folder.exists():
        return 0
    return sum(
        receipt.ids.has_thread(header.thread_id)
        for header in map(read_header, bundles_in(folder))
        if is_from_store(header.store, url)
    )


def _operations(receipt: ErasureReceipt) -> int:
    log = OperationLog.of_user()
    return sum(
        any(map(receipt.ids.has_thread, one.threads))
        for one in log.newest_first()
        if one.place == receipt.place
    )
