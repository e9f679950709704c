"""The pane of threads: order, titles, signs, columns and filters."""

import shlex
import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import Mock

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.errors import ParseError
from ckpt_backends.model import Status, Thread
from ckpt_backends.testing.official import config_of
from ckpt_backends.testing.scenarios import graphs
from ckpt_backends.testing.screen import NOW, Seat, sitting
from ckpt_cli.core.filters import FilterAlias, FilterTerms, format_filter, no_alias
from ckpt_cli.queries.heads import Details
from ckpt_cli.tui.panes import threads as reading
from ckpt_cli.tui.panes.threads import ThreadListing, parse_thread_filter, read_matches
from tests.kit.command import ckpt
from tests.screen.stores import many


async def test_threads_come_newest_first_with_what_they_wait_for(sample: Path) -> None:
    listed = ckpt("-s", sample, "threads", "list", "-o", "json").json
    signs = {"done": "✓", "interrupted": "?", "error": "✗", "pending": "▸"}
    async with sitting(sample) as seat:
        rows = [one[:40].split()[:2] for one in seat.lines[3 : 3 + len(listed)]]
        assert rows == [[signs[one["status"]], one["thread_id"]] for one in listed]
        assert seat.sees("read-only", "sqlite", f"{len(listed)} threads")


async def test_threads_are_sorted_and_the_cursor_stays_on_its_own(seat: Seat) -> None:
    await seat.press("j", "j")
    here = seat.threads.thread
    assert here is not None
    for sort in ("first", "id", "checkpoints", "last"):
        await seat.press("s")
        assert seat.main.threads_pane.listing.sort == sort
        assert seat.threads.thread == here
    await seat.press("s", "s")
    ids = seat.ids
    assert ids == sorted(ids)


async def test_moving_by_lines_pages_and_to_the_ends(seat: Seat) -> None:
    rows = seat.threads
    await seat.press("G")
    assert rows.cursor == 7
    await seat.press("g")
    assert rows.cursor == 0
    await seat.press("down", "j", "k")
    assert rows.cursor == 1
    await seat.press("space", "pageup", "end", "home")
    assert rows.cursor == 0
    await seat.press("up")
    assert rows.cursor == 0


KYOTO = "trip-to-kyoto"


async def shown(seat: Seat, typed: str) -> set[str]:
    """Return the threads that a filter lets through."""
    await seat.search(typed)
    return {*seat.ids}


async def test_a_filter_takes_text_patterns_status_and_user(seat: Seat) -> None:
    assert await shown(seat, "KYOTO") == {KYOTO}
    # What was said first is the title.
    assert await shown(seat, "nights in kyo") == {KYOTO}
    assert await shown(seat, "*-report") == {"nightly-report"}
    assert await shown(seat, "status:interrupted") == {"refund-4711"}
    assert seat.sees("ask_approval", "Refund 89.00 EUR")
    assert await shown(seat, "status:interrupted,error") == {"refund-4711", "invoice-import"}
    assert await shown(seat, "user:nobody") == set()
    await seat.press("escape")
    assert len(seat.ids) == 8
    await shown(seat, "status:asleep")
    assert seat.sees("no status 'asleep'")


async def test_a_filter_takes_the_language_of_where(seat: Seat) -> None:
    assert await shown(seat, "checkpoints > 16") == {KYOTO, "research-agent"}
    waiting = {"refund-4711", "anna@example.com"}
    assert await shown(seat, "not (status = done) and step > 2") == waiting
    found = await shown(seat, "values.hotel != null or error ~ Error")
    assert found == {KYOTO, "invoice-import"}
    words = shlex.split(seat.main.command_lines()[0])[1:]
    assert {row["thread_id"] for row in ckpt(*words, "-o", "json").json} == found
    # An id may contain what an alias begins with.
    assert await shown(seat, "@example") == {"anna@example.com"}
    await shown(seat, "status = asleep")
    assert seat.sees("no status 'asleep'")
    assert seat.main.threads_pane.search.cursor_position == len("status = ")
    await seat.press("escape")
    assert len(seat.ids) == 8


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("@stuck", "idle > 1h"),
        ("not @stuck and user = a", "not idle > 1h and user = a"),
        ("@stuck and", None),
        ("@gone and user = a", None),
        ("@gone", ""),
        ("@example.com", ""),
        ("metadata.user = anna", "metadata.user = anna"),
        ("status", ""),
        ("status:error", ""),
        ("thread-1", ""),
        ("idle >", None),
    ],
)
def test_a_filter_of_the_language_is_told_from_a_part_of_an_id(
    text: str, written: str | None
) -> None:
    terms = FilterTerms(
        lambda name: FilterAlias("idle > 1h") if name == "stuck" else no_alias(name)
    )
    if written is None:
        with pytest.raises(ParseError):
            parse_thread_filter(text, terms)
        return
    found = parse_thread_filter(text, terms).where
    assert ("" if found is None else format_filter(found)) == written


async def test_brackets_in_a_filter_are_those_of_ids(tmp_path: Path) -> None:

    store = tmp_path / "agent.db"
    with SqliteSaver.from_conn_string(str(store)) as saver:
        for name in ("[red]one", "two[1]", "three"):
            graphs.linear(saver).invoke({"items": ["in"]}, config_of(name))
    async with sitting(store) as seat:
        for typed, wanted in (("[red", "[red]one"), ("two[1]", "two[1]"), ("th*e", "three")):
            await seat.search(typed)
            assert seat.ids == [wanted]
            line = seat.main.command_lines()[0]
            assert wanted in ckpt(*shlex.split(line)[1:]).out


async def test_nothing_fits_and_what_fits_again(seat: Seat) -> None:
    await seat.search("zzzz")
    assert seat.sees("no thread matches", "0 of 8 threads")
    assert not seat.sees("branches")
    await seat.press("d", "y")
    assert seat.app.screen is seat.main
    assert seat.sees("no checkpoint selected")
    await seat.see("escape", "20 checkpoints", "8 threads")


UUID = "3f2c9a4e-7b1d-4c55-9a10-5e0f6d2b8c11"


def renamed(store: Path, before: str, after: str) -> None:
    """Give a thread another id."""
    with closing(sqlite3.connect(store)) as database, database:
        for table in ("checkpoints", "writes"):
            statement = f"UPDATE {table} SET thread_id = ? WHERE thread_id = ?"
            database.execute(statement, (after, before))


def pane(seat: Seat) -> list[str]:
    """Return the lines of the pane of threads."""
    rows = seat.threads
    return [rows.line_at(at, rows.width).text for at in range(rows.count())]


async def test_threads_have_titles_below_names_of_columns(sample: Path) -> None:
    renamed(sample, "refund-4711", UUID)
    async with sitting(sample) as seat:
        assert seat.lines[2].split()[:3] == ["THREAD", "IDLE", "CKPTS"]
        titled = next(one for one in pane(seat) if "…8c11" in one)
        assert titled.startswith("? The shoes")
        assert "3f2c" not in titled
        await seat.press("z")
        kyoto = next(one for one in pane(seat) if "trip-to-kyoto" in one)
        assert "trip-to-kyoto  Five nights in Kyoto" in kyoto


async def test_a_filter_by_title_reads_threads_that_were_not_seen_and_may_match(
    sample: Path,
) -> None:
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
    async with sitting(sample, size=(100, 24)) as seat:
        listing = seat.main.threads_pane.listing
        await seat.press("slash")
        await seat.type("status:error the SHOES")
        assert not listing.shown
        assert len(listing.heads) < number
        seat.main.threads_pane.search.value = ""
        await seat.type("the SHOES")
        assert len(listing.shown) == number + 1


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


async def test_an_id_of_blanks_is_seen_in_lists(sample: Path) -> None:
    renamed(sample, "refund-4711", "  ")
    renamed(sample, "invoice-import", "late ")
    printed = ckpt("-s", sample, "threads", "list", "-o", "table").out
    assert '"  "' in printed
    assert '"late "' in printed
    assert '"' not in next(one for one in printed.splitlines() if "trip" in one).split()[0]
    # Programs get the id as it is.
    rows = ckpt("-s", sample, "threads", "list", "-o", "tsv").out.splitlines()
    assert sum(one.startswith("  \t") for one in rows) == 1
    async with sitting(sample) as seat:
        assert seat.sees('? "  "', '✗ "late "')
        await seat.see("i", '"  "')


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


async def test_a_wide_pane_shows_users_and_a_filter_finds_them(seat: Seat) -> None:
    assert "USER" not in seat.text
    await seat.press("z")
    line = next(one for one in seat.lines if "trip-to-kyoto" in one)
    assert "mara" in line
    assert any("THREAD" in one and "USER" in one for one in seat.lines)
    await seat.search("user:jonas")
    assert seat.ids == ["refund-4711"]
