"""A digest of the rows of a thread or an item, to find out whether anything in it changed."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from ckpt_backends.changes.rows import Cell, Row

_BYTES = 16
_EXPIRY = "expires_at"
"""The cell that changes when a thread is only read, where reading extends its time to live."""


def rows_digest(rows: Iterable[Row]) -> str:
    """Return the number of rows and a digest of them, which does not depend on their order."""
    number = total = 0
    for row in rows:
        number += 1
        total = (total + int.from_bytes(_digest(row), "big")) % (1 << 8 * _BYTES)
    return f"{number} {total:0{2 * _BYTES}x}"


def _digest(row: Row) -> bytes:
    digest = blake2b(digest_size=_BYTES)
    for text in (row.table, *_cells(row)):
        data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.digest()


def _cells(row: Row) -> Iterable[str | bytes]:
    for name in sorted(row.cells.keys() - {_EXPIRY}):
        cell = row.cells[name]
        yield name
        yield type(cell).__name__
        yield _text(cell)


def _text(cell: Cell) -> str | bytes:
    return cell if isinstance(cell, str | bytes) else repr(cell)
