"""The pane of threads: titles, columns, filters, and what is known of each thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from ckpt_backends.model import Status, Thread
from ckpt_backends.protocol import Store
from ckpt_backends.testing.screen import NOW, Seat, sit
from ckpt_cli.queries.heads import Details
from ckpt_cli.tui.panes import threads as reading
from ckpt_cli.tui.panes.threads import ThreadListing, read_matches
from tests.kit.command import ckpt

pytestmark = pytest.mark.slow

UUID = "3f2c9a4e-7b1d-4c55-9a10-5e0f6d2b8c11"


def renamed(store: Path, before: str, after: str) -> None:
    """Give a thread another id."""
    with closing(sqlite3.connect(store)) as database, database:
        for table in ("checkpoints", "writes"):
            statement = f"UPDATE {table} SET thread_id = ? WHERE thread_id = ?"
            database.execute(statement, (after, before))


def pane(seat: Seat) -> list[str]:
    """Return the lines of the pane of threads."""
    rows = seat.main.threads_pane.rows
    return [rows.line_at(at, rows.width).text for at in range(rows.count())]


def test_threads_have_titles_below_names_of_columns(sample: Path) -> None:
    renamed(sample, "refund-4711", UUID)

    async def look(seat: Seat) -> None:
        assert seat.lines[2].split()[:3] == ["THREAD", "IDLE", "CKPTS"]
        titled = next(one for one in pane(seat) if "…8c11" in one)
        assert titled.startswith("? The shoes")
        assert "3f2c" not in titled
        await seat.press("z")
        kyoto = next(one for one in pane(seat) if "trip-to-kyoto" in one)
        assert "trip-to-kyoto  Five nights in Kyoto" in kyoto

    sit(sample, look)


def test_a_filter_finds_threads_by_what_was_said_first(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("slash")
        await seat.type("nights in kyo")
        await seat.press("enter")
        assert [one.thread_id for one in seat.main.threads_pane.listing.shown] == ["trip-to-kyoto"]

    sit(sample, look)


def test_a_filter_by_title_reads_threads_that_were_not_seen_and_may_match(sample: Path) -> None:
    number = 150
    with closing(sqlite3.connect(sample)) as database, database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(checkpoints)")]
        rest = ", ".join(name for name in columns if name != "thread_id")
        database.execute(
            f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
            f" INSERT INTO checkpoints (thread_id, {rest}) SELECT printf('user-%03d', i), {rest}"
            f" FROM checkpoints, n WHERE thread_id = 'refund-4711'",
            [number],
        )

    async def look(seat: Seat) -> None:
        listing = seat.main.threads_pane.listing
        await seat.press("slash")
        await seat.type("status:error the SHOES")
        assert not listing.shown
        assert len(listing.heads) < number
        seat.main.threads_pane.search.value = ""
        await seat.type("the SHOES")
        assert len(listing.shown) == number + 1

    sit(sample, look, size=(100, 24))


@pytest.mark.parametrize("typed", ["status = error", "status:error"])
def test_a_filter_by_status_reads_only_heads_with_the_writes_for_it(
    sample: Path, typed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def counted(store: Store, threads: Sequence[Thread], **rest: Any) -> list[bool]:
        asked.extend(one.thread_id for one in threads)
        return read_matches(store, threads, **rest)

    monkeypatch.setattr(reading, "read_matches", counted)
    monkeypatch.setattr(reading, "_HEADS", 2)

    async def look(seat: Seat) -> None:
        await seat.press("slash")
        await seat.type(typed)
        await seat.press("enter")
        assert [one.thread_id for one in seat.main.threads_pane.listing.shown] == ["invoice-import"]
        assert asked == ["invoice-import"]

    sit(sample, look)


def test_a_look_at_the_store_does_not_restart_the_reading_of_heads(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on = [], Event()

    def slow(store: Store, threads: Sequence[Thread], **rest: Any) -> list[bool]:
        began.append(1)
        go_on.wait(20)
        return read_matches(store, threads, **rest)

    monkeypatch.setattr(reading, "read_matches", slow)

    async def look(seat: Seat) -> None:
        await seat.press("slash")
        seat.main.threads_pane.search.value = "values.hotel != null"
        await seat.until(lambda: began)
        for _ in range(3):
            await seat.main.threads_pane.load().wait()
        go_on.set()
        await seat.rest()
        assert len(began) == 1
        assert [one.thread_id for one in seat.main.threads_pane.listing.shown] == ["trip-to-kyoto"]

    sit(sample, look)


def test_from_an_error_to_its_thread(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("e")
        assert seat.sees("Errors: 1", "invoice-import", "match_supplier", "LookupError")
        await seat.press("enter")
        assert seat.main.place is not None
        assert seat.main.place.thread_id == "invoice-import"

    sit(sample, look)


def test_operations_of_a_thread_are_listed_and_the_last_one_undone(sample: Path) -> None:
    async def change(seat: Seat) -> None:
        await seat.press("O")
        await seat.until(lambda: seat.sees("ckpt recorded no change of this thread"))
        await seat.press("escape", "enter", "k", "k", "B", "y")
        await seat.until(lambda: ": head is now " in seat.said)
        await seat.press("O")
        await seat.until(lambda: seat.sees("on trip-to-kyoto: 1", "rollback"))
        await seat.press("U")
        assert seat.sees("Undo this operation?")
        await seat.press("y")
        await seat.until(lambda: "undid the last change" in seat.said)

    async def look(seat: Seat) -> None:
        await seat.press("O")
        await seat.until(lambda: seat.sees("on trip-to-kyoto: 2", "UNDOES", "UNDONE BY"))
        await seat.press("u")
        assert f"read-only: start with `ckpt -s {sample} tui --write`" in seat.said
        await seat.press("j", "u")
        assert "cannot undo rollback " in seat.said
        assert "it was taken back by operation" in seat.said

    sit(sample, change, writes=True)
    sit(sample, look)


def test_an_earlier_operation_is_undone(sample: Path) -> None:
    def recorded() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = ckpt("-s", sample, "ops", "list", "-o", "json").json
        return found

    async def change(seat: Seat) -> None:
        await seat.press("enter", "k", "k", "B", "y")
        await seat.until(lambda: len(recorded()) == 1)
        await seat.rest()
        await seat.press("k", "k", "k", "k", "B", "y")
        await seat.until(lambda: len(recorded()) == 2)
        await seat.rest()
        newer, older = recorded()
        await seat.press("O")
        await seat.until(lambda: seat.sees("on trip-to-kyoto: 2"))
        await seat.press("j", "u")
        assert seat.sees("Undo this operation?")
        await seat.press("y")
        await seat.until(lambda: f"undid rollback {older['op']}" in seat.said)
        assert [one["undone_by"] is None for one in recorded()] == [True, True, False]
        assert recorded()[1]["op"] == newer["op"]

    sit(sample, change, writes=True)


def test_an_id_of_blanks_is_seen_in_lists(sample: Path) -> None:
    renamed(sample, "refund-4711", "  ")
    renamed(sample, "invoice-import", "late ")
    printed = ckpt("-s", sample, "threads", "list", "-o", "table").out
    assert '"  "' in printed
    assert '"late "' in printed
    assert '"' not in next(one for one in printed.splitlines() if "trip" in one).split()[0]
    # Programs get the id as it is.
    rows = ckpt("-s", sample, "threads", "list", "-o", "tsv").out.splitlines()
    assert sum(one.startswith("  \t") for one in rows) == 1

    async def look(seat: Seat) -> None:
        assert seat.sees('? "  "', '✗ "late "')
        await seat.press("i")
        assert seat.sees('"  "')

    sit(sample, look)


def test_what_is_known_of_removed_threads_is_forgotten() -> None:
    kept, gone = (Thread(one, None, None, None, 1, 1) for one in ("kept", "gone"))
    listing = ThreadListing()
    listing.take_threads([kept, gone])
    listing.take_heads([kept, gone], [Details((Status.DONE,), None, None)] * 2)
    listing.answer([kept, gone], [True, True], NOW)
    listing.take_threads([kept])
    assert {*listing.heads} == {*listing.matches} == {"kept"}
