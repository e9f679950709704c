"""Aliases of filters, from the tables `[filters]` and `[stores.NAME.filters]`."""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_backends.errors import UsageError
from ckpt_cli.core.filters.terms import is_alias_name

_EXAMPLE = '''stuck = "status = error and idle > 1h"'''


def parse_aliases(table: object, header: str, place: str) -> Mapping[str, str]:
    """Return the texts of filters by name.

    `header` is the name of the table, `place` names the file. Raises `UsageError` for another form;
    the filters themselves are read when they are used.
    """
    if not isinstance(table, dict) or not all(isinstance(one, str) for one in table.values()):
        raise UsageError(
            f"filters are not a table of texts in {place}", hint=f"write [{header}] and {_EXAMPLE}"
        )
    for name in table:
        if not is_alias_name(name):
            raise UsageError(
                f"cannot name a filter '{name}' in {place}",
                hint="a name has letters, digits, - and _, and does not begin with -",
            )
    return table
