"""The filters of `--where` and of `where=`, with the clock and the aliases of a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ckpt_cli.api.surroundings import Surroundings
from ckpt_cli.api.texts import texts

if TYPE_CHECKING:
    from ckpt_cli.core.filters.expressions import Filter


def filter_of(
    around: Surroundings,  # noqa: ARG001
    where: str | Iterable[str] | None,
) -> Filter | None:
    """Return the filter that these texts describe together; None if there are none.

    Raises `ParseError`.
    """
    written = texts(where)
    if not written:
        return None
    # Imported late, because most commands get no filter.
    from ckpt_cli.core.filters.expressions import all_of
    from ckpt_cli.core.filters.parse import parse_filter

    return all_of(map(parse_filter, written))
