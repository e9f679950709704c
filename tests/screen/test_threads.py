"""The pane of threads: order, titles, signs, columns and filters."""

import shlex
import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import Mock

import pytest

from ckpt_backends.errors import ParseError
from ckpt_backends.model import Status, Thread
from ckpt_backends.testing.screen import NOW, Seat, sitting
from ckpt_cli.core.filters import FilterAlias, FilterTerms, format_filter, no_alias
from ckpt_cli.queries.heads import Details
from ckpt_cli.tui.panes import threads as reading
from ckpt_cli.tui.panes.threads import ThreadListing, parse_thread_filter, read_matches
from tests.kit.cases import cases
from tests.kit.command import ckpt
from tests.screen.stores import copied, many

KYOTO = "trip-to-kyoto"


async def shown(seat: Seat, typed: str) -> set[str]:
    await seat.search(typed)
    return {*seat.ids}


async def test_threads_come_newest_first_are_sorted_and_filtered(seat: Seat, sample: Path) -> None:
    listed = ckpt("-s", sample, "threads", "list", "-o", "json").json
    signs = {"done": "✓", "interrupted": "?", "error": "✗", "pending": "▸"}
    signed = [one[:40].split()[:2] for one in seat.lines[3 : 3 + len(listed)]]
    assert signed == [[signs[one["status"]], one["thread_id"]] for one in listed]
    assert seat.sees("read-only", "sqlite", f"{len(listed)} threads")
    rows = seat.threads
    for keys, cursor in (("G", 7), ("g", 0), ("up", 0), ("down j k", 1), ("space pageup home", 0)):
        await seat.press(*keys.split())
        assert rows.cursor == cursor
    await seat.press("j", "j")
    here = rows.thread
    assert here is not None
    for sort in ("first", "id", "checkpoints", "last"):
        await seat.press("s")
        assert seat.main.threads_pane.listing.sort == sort
        assert rows.thread == here
        if sort == "id":
            assert seat.ids == sorted(seat.ids)

    # A filter takes text, patterns, a status, and the language of --where.
    await seat.press("g")
    assert await shown(seat, "KYOTO") == {KYOTO}
    # What was said first is the title.
    assert await shown(seat, "nights in kyo") == {KYOTO}
    assert await shown(seat, "*-report") == {"nightly-report"}
    assert await shown(seat, "status:interrupted,error") == {"refund-4711", "invoice-import"}
    assert await shown(seat, "user:jonas") == {"refund-4711"}
    waiting = {"refund-4711", "anna@example.com"}
    assert await shown(seat, "not (status = done) and step > 2") == waiting
    found = await shown(seat, "values.hotel != null or error ~ Error")
    assert found == {KYOTO, "invoice-import"}
    words = shlex.split(seat.main.command_lines()[0])[1:]
    assert {row["thread_id"] for row in ckpt(*words, "-o", "json").json} == found
    # An id may contain what an alias begins with.
    assert await shown(seat, "@example") == {"anna@example.com"}
    assert await shown(seat, "zzzz") == set()
    assert seat.sees("no thread matches", "0 of 8 threads")
    await seat.press("d", "y")
    assert seat.app.screen is seat.main
    assert seat.sees("no checkpoint selected")
    await shown(seat, "status = asleep")
    assert seat.sees("no status 'asleep'")
    assert seat.main.threads_pane.search.cursor_position == len("status = ")
    await seat.see("escape", "20 checkpoints", "8 threads")


@cases(
    "text written",
    ("@stuck", "idle > 1h"),
    ("not @stuck and user = a", "not idle > 1h and user = a"),
    ("@stuck and", None),
    ("@gone and user = a", None),
    ("@gone", ""),
    ("metadata.user = anna", "metadata.user = anna"),
    ("status", ""),
    ("status:error", ""),
    ("idle >", None),
)
def test_a_filter_is_told_from_a_part_of_an_id(text: str, written: str | None) -> None:
    terms = FilterTerms(
        lambda name: FilterAlias("idle > 1h") if name == "stuck" else no_alias(name)
    )
    if written is None:
        with pytest.raises(ParseError):
            parse_thread_filter(text, terms)
        return
    found = parse_thread_filter(text, terms).where
    assert ("" if found is None else format_filter(found)) == written


def renamed(store: Path, before: str, after: str) -> None:
    """Give a thread another id."""
    with closing(sqlite3.connect(store)) as database, database:
        for table in ("checkpoints", "writes"):
            statement = f"UPDATE {table} SET thread_id = ? WHERE thread_id = ?"
            database.execute(statement, (after, before))


def pane(seat: Seat) -> list[str]:

    rows = seat.threads
    return [rows.line_at(at, rows.width).text for at in range(rows.count())]


async def test_threads_have_titles_and_ids_below_names_of_columns(sample: Path) -> None:
    renamed(sample, "refund-4711", "3f2c9a4e-7b1d-4c55-9a10-5e0f6d2b8c11")
    renamed(sample, "invoice-import", "late ")
    async with sitting(sample) as seat:
        assert seat.lines[2].split()[:3] == ["THREAD", "IDLE", "CKPTS"]
        titled = next(one for one in pane(seat) if "…8c11" in one)
        assert titled.startswith("? The shoes")
        assert "3f2c" not in titled
        # A blank is seen.
        assert seat.sees('✗ "late "')
        await seat.press("z")
        assert any("THREAD" in one and "USER" in one for one in seat.lines)
        kyoto = next(one for one in pane(seat) if "trip-to-kyoto" in one)
        assert "trip-to-kyoto  Five nights in Kyoto" in kyoto
        assert "mara" in kyoto


async def test_a_filter_by_title_reads_threads_that_may_match(sample: Path) -> None:
    number = 150
    copied(sample, "refund-4711", number)
    async with sitting(sample, size=(100, 24)) as seat:
        listing = seat.main.threads_pane.listing
        assert await shown(seat, "status:error the SHOES") == set()
        assert len(listing.heads) < number
        assert len(await shown(seat, "the SHOES")) == number + 1


@pytest.mark.parametrize("typed", ["status = error", "status:error"])
async def test_a_filter_by_status_reads_only_heads_with_the_writes_for_it(
    sample: Path, typed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Mock(wraps=read_matches)
    monkeypatch.setattr(reading, "read_matches", read)
    monkeypatch.setattr(reading, "_HEADS", 2)
    async with sitting(sample) as seat:
        await seat.search(typed)
        assert seat.ids == ["invoice-import"]
        threads = [one for call in read.call_args_list for one in call.kwargs["threads"]]
        assert [one.thread_id for one in threads] == ["invoice-import"]


async def test_a_look_at_the_store_does_not_restart_the_reading_of_heads(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = Event()

    def slow(*asked: Any, **rest: Any) -> list[bool]:
        go_on.wait(20)
        return read_matches(*asked, **rest)

    read = Mock(side_effect=slow)
    monkeypatch.setattr(reading, "read_matches", read)
    async with sitting(sample) as seat:
        await seat.press("slash")
        seat.main.threads_pane.search.value = "values.hotel != null"
        await seat.until(lambda: read.called)
        for _ in range(3):
            await seat.main.threads_pane.load().wait()
        go_on.set()
        await seat.rest()
        assert read.call_count == 1
        assert seat.ids == ["trip-to-kyoto"]


def test_what_is_known_of_removed_threads_is_forgotten() -> None:
    kept, gone = (Thread(one, None, None, None, 1, 1) for one in ("kept", "gone"))
    listing = ThreadListing()
    listing.take_threads([kept, gone])
    listing.take_heads([kept, gone], [Details((Status.DONE,), None, None)] * 2)
    listing.answer([kept, gone], [True, True], NOW)
    listing.take_threads([kept])
    assert {*listing.heads} == {*listing.matches} == {"kept"}


async def test_every_thread_on_the_screen_has_its_sign(tmp_path: Path) -> None:
    store = tmp_path / "many.db"
    many(store, 400)

    def signs(seat: Seat) -> set[Status | None]:
        listing, seen = seat.main.threads_pane.listing, seat.threads.seen
        return {listing.status(one) for one in listing.shown[seen.start : seen.stop]}

    async with sitting(store, size=(100, 24)) as seat:
        assert signs(seat) == {Status.INTERRUPTED, Status.DONE}
        await seat.press("G")
        assert signs(seat) == {Status.DONE}
        await seat.press("g")
        await seat.pilot.resize_terminal(100, 150)
        await seat.rest()
        assert len(seat.threads.seen) > 140
        assert signs(seat) == {Status.INTERRUPTED, Status.DONE}
