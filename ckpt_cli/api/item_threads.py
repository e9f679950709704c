"""The threads of memory items: where an item came from, and whether that thread still exists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ckpt_backends.errors import CkptError, UnknownLayout, Unsupported
from ckpt_cli.api.surroundings import Surroundings

if TYPE_CHECKING:
    from ckpt_backends.memory.protocol import Item, ItemKey, MemoryStore, Namespace
    from ckpt_cli.queries.provenance import ItemOrigin

_NAME_THREADS = "name their store: add --threads STORE"


def origin(around: Surroundings, item: Item, chosen: str | None) -> ItemOrigin | None:
    """Return the origin of an item that was read with its value; None if it names no thread.

    `chosen` names the store of its thread. Raises what opening that store raises.
    """
    from ckpt_cli.core.memory.fact_problems import source_of, text_of
    from ckpt_cli.queries.provenance import ItemOrigin, threads_place, trace

    source = source_of(item)
    if source is None or source.thread_id is None:
        return None
    names = around.names
    place = threads_place(names.store_url, names.other_store("threads", chosen))
    if place.url is None:
        return ItemOrigin(source.thread_id, "", remark=f"cannot find its store: {place.why}")
    try:
        with around.open_other(place.url) as threads:
            return trace(threads, source.thread_id, item.created_at, text_of(item))
    except CkptError as error:
        if chosen is not None:
            raise
        return ItemOrigin(source.thread_id, str(place.url), remark=f"{error.message} ({place.why})")


def marked(
    around: Surroundings,
    memory: MemoryStore,
    prefix: Namespace,
    *,
    duplicates: bool,
    orphans: bool,
    threads: str | None,
) -> dict[ItemKey, dict[str, Any]]:
    """Return the faults of items under a namespace. Raises what opening the threads raises."""
    from ckpt_cli.core.memory.fact_problems import marks

    items = list(memory.items(prefix=prefix, values=True))
    if not orphans:
        return marks(items, twice=duplicates, is_there=None)
    from ckpt_cli.queries.provenance import threads_place

    names = around.names
    place = threads_place(names.store_url, names.other_store("threads", threads))
    if place.url is None:
        raise Unsupported(f"cannot find the threads: {place.why}", hint=_NAME_THREADS)
    try:
        opened = around.open_other(place.url)
    except UnknownLayout as error:
        raise UnknownLayout(
            f"cannot find the threads: {error.message}", hint=_NAME_THREADS
        ) from None
    with opened as store:
        return marks(
            items,
            twice=duplicates,
            is_there=lambda thread_id: store.thread(thread_id) is not None,
        )
