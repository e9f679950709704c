"""What may be in a database in which a store is made: nothing, or LangGraph's own memory."""

from __future__ import annotations

from collections.abc import Iterable

from ckpt_backends import shell
from ckpt_backends.errors import Refused

MEMORY_TABLES = frozenset({"store", "store_migrations", "store_vectors", "vector_migrations"})
"""The tables of LangGraph's long-term memory, which may share a database with threads."""

THREAD_TABLES = frozenset(
    {"checkpoints", "writes", "checkpoint_writes", "checkpoint_blobs", "checkpoint_migrations"}
)
"""The tables of LangGraph's savers, with which a store of long-term memory may share a database."""


def something_else(where: str, tables: Iterable[str]) -> Refused:
    """The error for a database with other tables."""
    found = sorted(tables)
    named = ", ".join(map(shell.word, found[:10])) + (", ..." if len(found) > 10 else "")
    return Refused(
        f"cannot make a store in '{where}': it is not empty",
        hint=f"found {named}; name an empty database or a new file",
    )
