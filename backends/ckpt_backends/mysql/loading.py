"""Writes statements that add many rows at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ckpt_backends.sql.database import Loaded, RowRefused

_STATEMENT = 1 << 20
"""Approximate length of a statement in bytes. A longer row has a statement of its own."""


def statements(
    head: bytes, are_bytes: Sequence[bool], rows: Sequence[Loaded], longest: int
) -> Iterator[tuple[bytes, Sequence[Loaded]]]:
    """Statements that add the rows, each with its rows.

    `head` is the statement up to `VALUES`, `are_bytes` says for each column whether it stores bytes
    and not text, and `longest` is the length that the server allows. Raises `RowRefused`.
    """
    texts: list[bytes] = []
    start = size = 0
    for n, row in enumerate(rows):
        try:
            text = b"(" + b", ".join(map(_literal, row, are_bytes)) + b")"
        except UnicodeEncodeError as error:
            raise RowRefused(
                row, f"the server stores no lone surrogates ({error.reason})"
            ) from None
        if len(head) + len(text) + 1 > longest:
            limit = f"max_allowed_packet of {longest} bytes"
            raise RowRefused(row, f"its row is longer than the server's {limit}")
        if texts and size + len(text) > min(_STATEMENT, longest):
            yield head + b", ".join(texts), rows[start:n]
            texts, start, size = [], n, len(head)
        texts.append(text)
        size += len(text) + 2
    if texts:
        yield head + b", ".join(texts), rows[start:]


def _literal(cell: object, is_bytes: bool) -> bytes:
    """A cell as an SQL literal, for sessions in which backslashes escape."""
    if cell is None:
        return b"NULL"
    if isinstance(cell, int):
        return b"%d" % cell
    data = cell if isinstance(cell, bytes) else str(cell).encode()
    quoted = b"'" + data.replace(b"\\", b"\\\\").replace(b"'", b"''") + b"'"
    return b"_binary" + quoted if is_bytes else quoted
