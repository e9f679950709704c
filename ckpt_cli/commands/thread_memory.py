"""The memory items of threads, for several commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ckpt_cli.queries.memory_location import memory_place

if TYPE_CHECKING:
    from ckpt_cli.session import Session


def remembered(
    session: Session, chosen: str | None, is_wanted: Callable[[str], bool]
) -> list[dict[str, Any]] | None:
    """The items that came from some threads, as rows; None if no memory is known."""
    place = memory_place(session.names.store_url, session.names.other_store("memory", chosen))
    if place is None:
        return None
    from ckpt_cli.queries.provenance import memories_of
    from ckpt_cli.render.memory.provenance import memory_rows

    found = memories_of(place, is_wanted, session.note)
    redacted = bool(session.settings.get("redact"))
    return None if found is None else memory_rows(found, redacted=redacted)
