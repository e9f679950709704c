"""Tells whether a view that stands in the place of a saver's table may leave out rows.

A saver does not care whether `checkpoints` is a table. A view may show one tenant's rows only, and
then the writes of all others look as if they belonged to nothing. Engines return the definition of
a view as text, each in its own way:

    PostgreSQL   ` SELECT a,\n    b\n   FROM checkpoints\n  WHERE tenant = 'x'::text;`
    MySQL        "select `d`.`t`.`a` AS `a` from `d`.`t` where (`d`.`t`.`tenant` = 'x')"

SQLite needs none of this: `ckpt` does not take a view in a file for a saver's table.

A definition is not parsed. Only the simplest form is taken to show all rows: one SELECT of columns
from one table, and nothing after it. Whatever else it says, rows may be missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ckpt_backends.model import HiddenRows

_NAME = r'(?:"(?:[^"]|"")+"|`(?:[^`]|``)+`|\[[^]]+\]|[\w$]+)'
_TABLE = rf"{_NAME}(?:\s*\.\s*{_NAME}){{0,2}}"
_PLAIN = re.compile(
    r"select\s+(?!distinct\b|all\b)(?P<columns>.*?)"
    rf"\sfrom\s+(?P<table>{_TABLE})(?:\s+(?:as\s+)?(?!where\b|limit\b){_NAME})?\s*;?\s*",
    re.IGNORECASE | re.DOTALL,
)
_FROM = re.compile(r"\bfrom\b", re.IGNORECASE)
_CALL = re.compile(r"\w\s*\(")
"""A function call: an aggregate makes one row of many."""
_LAST_NAME = re.compile(rf"{_NAME}$")
_OF_ONE_ROW = re.compile(r"\b(?:coalesce|convert|cast)\s*\(", re.IGNORECASE)
_DEPTH = 10
"""Views of views that are followed."""
REMEDY = "name the tables themselves, such as ?schema=NAME or another database, as a role for them"


def base_of(definition: str) -> str | None:
    """The name of the table or view that a view shows whole; None if rows may be left out."""
    found = _PLAIN.fullmatch(definition.strip())
    if found is None or len(_FROM.findall(definition)) != 1:
        return None
    if _CALL.search(_OF_ONE_ROW.sub("", found["columns"])):
        return None
    last = _LAST_NAME.search(found["table"])
    return None if last is None else last[0].strip('"`[]')


def shows_all(name: str, views: Mapping[str, str]) -> bool:
    """Whether a table or view shows all rows, by the definitions of the views of its database."""
    for _ in range(_DEPTH):
        if name not in views:
            return True
        base = base_of(views[name])
        if base is None or base == name:
            # A view of the same name in another schema cannot be followed.
            return base == name
        name = base
    return False


def hidden_by_views(tables: Sequence[str], views: Mapping[str, str]) -> Iterator[HiddenRows]:
    """Why rows of these tables may be hidden, by the definitions of views."""
    for name in tables:
        if not shows_all(name, views):
            yield may_hide(name)


def may_hide(view: str) -> HiddenRows:
    """The reason for a view that may leave out rows."""
    return HiddenRows(f"'{view}' is a view that may leave out rows", REMEDY)
