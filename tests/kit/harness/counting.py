"""Tables of LangGraph's savers, and how an SQL engine counts what they hold."""

from __future__ import annotations

from collections.abc import Iterator

CHECKPOINTS, BLOBS, WRITES = "checkpoints", "checkpoint_blobs", "checkpoint_writes"
TABLES = (CHECKPOINTS, BLOBS, WRITES)
HOLDS = {CHECKPOINTS: "checkpoints", BLOBS: "blobs", WRITES: "writes"}
"""What each table holds, in the words of `Count.add`."""


def sized(size_of_body: str) -> Iterator[tuple[str, str]]:
    """Yield each table of a saver for SQL, with a query for its rows and bytes."""
    for table in TABLES:
        size = size_of_body if table == CHECKPOINTS else "coalesce(octet_length(`blob`), 0)"
        yield table, f"SELECT count(*), coalesce(sum({size}), 0) FROM {table}"
