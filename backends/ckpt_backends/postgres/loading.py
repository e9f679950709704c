"""Loads rows into a table with COPY, in PostgreSQL's binary format."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from psycopg import DataError
from psycopg.errors import NotNullViolation, ProgramLimitExceeded, StatementTooComplex

from ckpt_backends.postgres.guarded import GuardedPsycopg
from ckpt_backends.sql.database import Loaded, RowRefused

_SENT_AS = {"text": "text", "varchar": "text", "bpchar": "text"} | {
    name: name for name in ("int2", "int4", "int8", "bytea")
}
_JSONB = "jsonb"
_VERSION = b"\x01"
"""The first byte of each `jsonb` in the binary format."""
_LINE = re.compile(r"COPY .*?, line (\d+)(?:, column (\w+))?")


def load_rows(
    driver: GuardedPsycopg, target: str, kinds: Sequence[str], rows: Sequence[Loaded]
) -> None:
    """Add rows to a table with columns, such as `"public"."t" ("a", "b")`, of these types.

    Raises `RowRefused` for a row that the server refuses, and `psycopg.Error`.
    """
    sent = ["bytea" if kind == _JSONB else _SENT_AS.get(kind, "") for kind in kinds]
    if not all(sent):
        raise psycopg.NotSupportedError(f"a column has the type {kinds[sent.index('')]}")
    last: Loaded = rows[0]
    try:
        statement = f"COPY {target} FROM STDIN (FORMAT BINARY)".encode()
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types(sent)
            for last, row in zip(rows, _with_versions(kinds, rows), strict=True):  # noqa: B007
                copy.write_row(row)
    except (DataError, NotNullViolation, ProgramLimitExceeded, StatementTooComplex) as error:
        raise _refused(error, rows, last) from None
    except (UnicodeEncodeError, OverflowError) as error:
        raise RowRefused(last, str(error)) from None


def _with_versions(kinds: Sequence[str], rows: Sequence[Loaded]) -> Iterator[Sequence[Any]]:
    """The rows as COPY needs them: each JSON text after its version."""
    texts = [n for n, kind in enumerate(kinds) if kind == _JSONB]
    if not texts:
        yield from rows
        return
    for row in rows:
        cells: list[Any] = [*row]
        for n in texts:
            cells[n] = _VERSION + cells[n]
        yield cells


def _refused(error: psycopg.Error, rows: Sequence[Loaded], last: Loaded) -> RowRefused:
    """The error for the row that the server names; without a name, for the last one sent."""
    found = _LINE.search(error.diag.context or "")
    number = int(found[1]) - 1 if found else -1
    row = rows[number] if 0 <= number < len(rows) else last
    reason = error.diag.message_primary or str(error).partition("\n")[0]
    if found and found[2]:
        reason = f"{found[2]}: {reason}"
    return RowRefused(row, reason)
