"""The threads of memory items, for several commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ckpt_backends.errors import CkptError, UnknownLayout, Unsupported

if TYPE_CHECKING:
    from ckpt_backends.memory.protocol import Item, ItemKey, MemoryStore, Namespace
    from ckpt_cli.queries.provenance import ItemOrigin
    from ckpt_cli.session import Session


_NAME_THREADS = "name their store: add --threads STORE"


@dataclass(frozen=True, slots=True)
class Faults:
    """The faults to look for in facts."""

    duplicates: bool = False
    orphans: bool = False
    threads: str | None = None
    """The store of their threads, if it was named."""

    def __bool__(self) -> bool:
        return self.duplicates or self.orphans


def origin(session: Session, item: Item, chosen: str | None) -> ItemOrigin | None:
    """The origin of an item that was read with its value; None if it names no thread."""
    from ckpt_cli.core.memory.fact_problems import source_of, text_of
    from ckpt_cli.queries.provenance import ItemOrigin, threads_place, trace

    source = source_of(item)
    if source is None or source.thread_id is None:
        return None
    place = threads_place(session.names.store_url, session.names.other_store("threads", chosen))
    if place.url is None:
        return ItemOrigin(source.thread_id, "", remark=f"cannot find its store: {place.why}")
    try:
        with session.open_other(place.url) as threads:
            return trace(threads, source.thread_id, item.created_at, text_of(item))
    except CkptError as error:
        if chosen is not None:
            raise
        return ItemOrigin(source.thread_id, str(place.url), remark=f"{error.message} ({place.why})")


def faults(
    session: Session, memory: MemoryStore, prefix: Namespace, wanted: Faults
) -> dict[ItemKey, dict[str, Any]]:
    """The faults of items under a namespace. Raises what opening the threads raises."""
    from ckpt_cli.core.memory.fact_problems import marks

    items = list(memory.items(prefix=prefix, values=True))
    if not wanted.orphans:
        return marks(items, twice=wanted.duplicates, is_there=None)
    from ckpt_cli.queries.provenance import threads_place

    place = threads_place(
        session.names.store_url, session.names.other_store("threads", wanted.threads)
    )
    if place.url is None:
        raise Unsupported(f"cannot find the threads: {place.why}", hint=_NAME_THREADS)
    try:
        opened = session.open_other(place.url)
    except UnknownLayout as error:
        raise UnknownLayout(
            f"cannot find the threads: {error.message}", hint=_NAME_THREADS
        ) from None
    with opened as threads:
        return marks(
            items,
            twice=wanted.duplicates,
            is_there=lambda thread_id: threads.thread(thread_id) is not None,
        )
