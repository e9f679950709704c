"""The filters of `--where` and of `where=`, with the clock and the aliases of a run."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from ckpt_cli.api.surroundings import Surroundings
from ckpt_cli.api.texts import texts

if TYPE_CHECKING:
    from ckpt_cli.core.filters.expressions import Filter


def filter_of(
    around: Surroundings, where: str | Iterable[str] | None, *, acts: bool = False
) -> Filter | None:
    """Return the filter that these texts describe together; None if there are none.

    With `acts`, what matches will be changed: then aliases need a trusted configuration. Raises
    `ParseError`.
    """
    written = texts(where)
    if not written:
        return None
    # Imported late, because most commands get no filter.
    from ckpt_cli.core.filters.expressions import all_of
    from ckpt_cli.core.filters.parse import parse_filter
    from ckpt_cli.core.filters.terms import FilterTerms

    alias = partial(around.names.filter_alias, acts=acts)
    terms = FilterTerms(alias, around.now, around.zone)
    return all_of(parse_filter(text, terms) for text in written)
