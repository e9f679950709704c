"""What commands that show or remove threads tell of the memory that came from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ckpt_cli.reading.beside import memory_place

if TYPE_CHECKING:
    from ckpt_cli.session import Session


def remembered(
    session: Session, chosen: str | None, is_wanted: Callable[[str], bool]
) -> list[dict[str, Any]] | None:
    """The items that name some threads as their source, as rows; None where no memory is known."""
    place = memory_place(session.store_url, session.other_store("memory", chosen))
    if place is None:
        return None
    from ckpt_cli.reading.provenance import memories_of
    from ckpt_cli.render.provenance import memory_rows

    found = memories_of(place, is_wanted, session.note)
    redacted = bool(session.settings.get("redact"))
    return None if found is None else memory_rows(found, redacted=redacted)
