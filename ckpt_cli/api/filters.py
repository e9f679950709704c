"""The filters of `--where` and of `where=`, with the clock and the aliases of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ckpt_cli.api.surroundings import Surroundings
from ckpt_cli.api.texts import texts

if TYPE_CHECKING:
    from ckpt_cli.core.filters.expressions import Filter

T = TypeVar("T")


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


def explained_if_none(
    around: Surroundings, where: str | Iterable[str] | None, found: Iterable[T]
) -> Iterator[T]:
    """Yield what filters have found; if that is nothing, note how their short forms were read."""
    any_found = False
    for one in found:
        any_found = True
        yield one
    if not any_found:
        explain_short_forms(around, where)


def explain_short_forms(around: Surroundings, where: str | Iterable[str] | None) -> None:
    """Note for each `KEY=VALUE` that it asked for metadata: KEY may be a misspelled field."""
    written = texts(where)
    if not written:
        return
    from ckpt_cli.core.filters.fields import FIELDS, nearest_field
    from ckpt_cli.core.filters.parse import shorthand_key

    for key in filter(None, map(shorthand_key, written)):
        near = nearest_field(key)
        meant = f"; did you mean the field {near}?" if near in FIELDS else ""
        around.note(f"'{key}=...' was read as metadata.{key}{meant}")
