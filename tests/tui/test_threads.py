"""The pane of threads: titles, columns, filters, and what is known of each thread."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from ckpt_backends.testing.screen import Seat, sit

UUID = "3f2c9a4e-7b1d-4c55-9a10-5e0f6d2b8c11"


def renamed(store: Path, before: str, after: str) -> None:
    """Give a thread another id."""
    with closing(sqlite3.connect(store)) as database, database:
        for table in ("checkpoints", "writes"):
            statement = f"UPDATE {table} SET thread_id = ? WHERE thread_id = ?"  # noqa: S608
            database.execute(statement, (after, before))


def pane(seat: Seat) -> list[str]:
    """Return the lines of the pane of threads."""
    rows = seat.main.rows
    return [rows.line_at(at, rows.width).text for at in range(rows.count())]


def test_threads_have_titles_below_names_of_columns(sample: Path) -> None:
    renamed(sample, "refund-4711", UUID)

    async def look(seat: Seat) -> None:
        assert seat.lines[2].split()[:3] == ["THREAD", "IDLE", "CKPTS"]
        titled = next(one for one in pane(seat) if "…8c11" in one)
        assert titled.startswith("? The shoes") and "3f2c" not in titled
        await seat.press("z")
        kyoto = next(one for one in pane(seat) if "trip-to-kyoto" in one)
        assert "trip-to-kyoto  Five nights in Kyoto" in kyoto

    sit(sample, look)
