"""The long-term memory made from threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ckpt_cli.api.surroundings import Surroundings
from ckpt_cli.queries.memory_location import memory_place


def memories_from(
    around: Surroundings, chosen: str | None, is_wanted: Callable[[str], bool]
) -> list[dict[str, Any]] | None:
    """Return the memory items that came from some threads; None if no memory is known.

    `chosen` names the memory; without it, the one of the profile or next to the store is read.
    Raises what opening a memory raises that is named.
    """
    place = memory_place(around.names.store_url, around.names.other_store("memory", chosen))
    if place is None:
        return None
    # Most stores have no memory next to them.
    from ckpt_cli.queries.provenance import memories_of
    from ckpt_cli.render.memory.provenance import memory_rows

    found = memories_of(place, is_wanted, around.note)
    return None if found is None else memory_rows(found, redacted=around.opening.redact)
