"""Erases what is left of removed threads in a database, and names tables that hold more of them."""

from __future__ import annotations

from collections.abc import Sequence

from ckpt_backends.changes.progress import Progress
from ckpt_backends.changes.remains import Remaining, Remains
from ckpt_backends.sql.database import WritableDatabase


def erase_remains(
    database: WritableDatabase, tables: Sequence[str], *, rewrite: bool, progress: Progress
) -> Remains:
    """Erase what was removed from these tables, given by their quoted names."""
    found = database.erase_remains(tables, rewrite=rewrite, progress=progress)
    own = {name.rpartition(".")[2] for name in tables}
    named = {database.quoted(name): name for name in database.tables_with_thread_ids()}
    others = sorted(name for quoted, name in named.items() if own.isdisjoint({quoted, name}))
    if not others:
        return found
    place = Remaining(
        "other tables with thread ids",
        f"{', '.join(others)}: they belong to the application, so ckpt does not change them",
    )
    return found._replace(places=(place, *found.places))
