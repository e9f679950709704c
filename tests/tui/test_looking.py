"""Looking at a store: every key of the main screen, on the sample store."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Never

import pytest

from ckpt_backends.errors import CkptError, ParseError
from ckpt_backends.testing.screen import Seat, sit
from ckpt_cli.core.filters import FilterAlias, FilterTerms, format_filter, no_alias
from ckpt_cli.tui.keys import READING_GROUPS, keys_of
from ckpt_cli.tui.panes.threads import parse_thread_filter
from ckpt_cli.tui.screens.lists import PlaceList
from tests.kit.command import ROOT, ckpt
from tests.kit.savers.three_table import connected, maker

pytestmark = pytest.mark.slow

KYOTO = "trip-to-kyoto"


def test_threads_come_newest_first_with_what_they_wait_for(sample: Path) -> None:
    listed = ckpt("-s", sample, "threads", "list", "-o", "json").json
    signs = {"done": "✓", "interrupted": "?", "error": "✗", "pending": "▸"}

    async def look(seat: Seat) -> None:
        rows = [one[:40].split()[:2] for one in seat.lines[3 : 3 + len(listed)]]
        assert rows == [[signs[one["status"]], one["thread_id"]] for one in listed]
        assert seat.sees("read-only", "sqlite", f"{len(listed)} threads")

    sit(sample, look)


def test_a_question_that_the_layout_cannot_answer_is_not_asked_again(tmp_path: Path) -> None:
    store = tmp_path / "three.db"
    with connected(str(store)) as execute:
        maker().fill("sqlite", execute)

    async def look(seat: Seat) -> None:
        assert seat.sees("1 thread ")
        await seat.press("9")
        assert seat.sees("cannot print the stored bytes")
        assert not seat.sees("retrying")

    sit(store, look)


def test_the_tree_is_that_of_show(sample: Path) -> None:
    drawn = ckpt("-s", sample, "--utc", "show", "--tree", KYOTO).out.splitlines()[3:]
    # The screen has other columns at the right, and more room for what a step changed.
    ends = re.compile(r"…?( +\d+ writes?)? +[\d:]+(–[\d:]+)?$")
    rows = [ends.sub("", one) for one in drawn if "Nov" not in one and one][:-1]

    async def look(seat: Seat) -> None:
        shown = [one.text for one in seat.main.tree_pane.rows.lines]
        assert [one for one in rows if not any(row.startswith(one) for row in shown)] == []

    sit(sample, look, size=(200, 40))


def test_each_tab_shows_its_part_of_the_checkpoint(sample: Path) -> None:
    says = {
        "1": ["next", "booking", "KYO-HKK-0407"],
        "2": ["--- step 11", "+++ step 12 · reply · f169", "itinerary"],
        "3": ["writes that produced this checkpoint", "last_value"],
        "4": ["human", "Five nights in Kyoto"],
        "7": ["checked 1 thread", "no findings"],
        "8": ["parent", "channel_versions", "source"],
        "9": ["where", "body", "000000"],
        "5": ["14 steps", "planner > check_weather", "answered"],
    }

    async def look(seat: Seat) -> None:
        await seat.press("z")
        for key, words in says.items():
            await seat.press(key)
            text = "\n".join(one.text for one in seat.main.inspector.rows.lines)
            assert all(word in text for word in words), (key, text)

    sit(sample, look)


def test_a_filter_takes_text_patterns_status_and_user(sample: Path) -> None:
    async def shown(seat: Seat, typed: str) -> list[str]:
        await seat.press("slash")
        seat.main.threads_pane.search.value = ""
        await seat.type(typed)
        await seat.press("enter")
        return [one.thread_id for one in seat.main.threads_pane.listing.shown]

    async def look(seat: Seat) -> None:
        assert await shown(seat, "KYOTO") == [KYOTO]
        assert await shown(seat, "*-report") == ["nightly-report"]
        assert await shown(seat, "status:interrupted") == ["refund-4711"]
        assert seat.sees("ask_approval", "Refund 89.00 EUR")
        assert set(await shown(seat, "status:interrupted,error")) == {
            "refund-4711",
            "invoice-import",
        }
        assert await shown(seat, "user:nobody") == []
        await seat.press("escape")
        assert len(seat.main.threads_pane.listing.shown) == 8
        await shown(seat, "status:asleep")
        assert seat.sees("no status 'asleep'")

    sit(sample, look)


def test_a_filter_takes_the_language_of_where(sample: Path) -> None:
    async def shown(seat: Seat, typed: str) -> set[str]:
        await seat.press("slash")
        seat.main.threads_pane.search.value = ""
        await seat.type(typed)
        await seat.press("enter")
        return {one.thread_id for one in seat.main.threads_pane.listing.shown}

    async def look(seat: Seat) -> None:
        assert await shown(seat, "checkpoints > 16") == {KYOTO, "research-agent"}
        waiting = {"refund-4711", "anna@example.com"}
        assert await shown(seat, "not (status = done) and step > 2") == waiting
        assert await shown(seat, "values.hotel != null or error ~ Error") == {
            KYOTO,
            "invoice-import",
        }
        listed, *_ = seat.main.command_lines()
        words = shlex.split(listed)[1:]
        assert {row["thread_id"] for row in ckpt(*words, "-o", "json").json} == {
            KYOTO,
            "invoice-import",
        }
        # An id may contain what an alias begins with.
        assert await shown(seat, "@example") == {"anna@example.com"}

        await shown(seat, "status = asleep")
        assert seat.sees("no status 'asleep'")
        assert seat.main.threads_pane.search.cursor_position == len("status = ")
        await seat.press("escape")
        assert len(seat.main.threads_pane.listing.shown) == 8

    sit(sample, look)


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


def test_threads_are_sorted_and_the_cursor_stays_on_its_own(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("j", "j")
        here = seat.main.threads_pane.rows.thread
        assert here is not None
        for sort in ("first", "id", "checkpoints", "last"):
            await seat.press("s")
            assert seat.main.threads_pane.listing.sort == sort
            assert seat.main.threads_pane.rows.thread == here
        await seat.press("s", "s")
        ids = [one.thread_id for one in seat.main.threads_pane.listing.shown]
        assert ids == sorted(ids)

    sit(sample, look)


def test_moving_by_lines_pages_and_to_the_ends(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        rows = seat.main.threads_pane.rows
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

    sit(sample, look)


def test_into_a_subgraph_call_and_back_to_its_step(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("enter")
        tree = seat.main.tree_pane.rows
        picture = tree.picture
        assert picture is not None
        (call,) = picture.inner
        tree.cursor = call
        outside = tree.key
        await seat.press("enter")
        assert seat.sees("4 checkpoints", "> planner (Esc leaves)", "draft_days", "check_weather")
        # The status of the thread is not that of the call.
        assert "done" not in seat.main.tree_pane.heading
        assert seat.main.place is not None
        assert seat.main.place.checkpoint_ns.startswith("planner:")
        await seat.press("escape")
        assert tree.key == outside
        assert seat.sees("20 checkpoints")
        await seat.press("escape")
        assert seat.main.threads_pane.rows.has_focus

    sit(sample, look)


def test_folds_open_and_subgraphs_are_drawn_inside(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("enter", "z", "g", "j")
        assert seat.sees("3 steps")
        await seat.press("enter")
        assert not seat.sees("3 steps")
        await seat.press("o")
        assert seat.sees("3 steps")
        assert not seat.sees("draft_days")
        await seat.press("a")
        assert seat.sees("draft_days")

    sit(sample, look)


def test_two_marked_checkpoints_stand_side_by_side(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("enter", "k", "k", "k", "m", "G", "d")
        assert seat.sees("Diff of trip-to-kyoto", "itinerary", " │ ")
        assert any("+" in one.partition("│")[2] for one in seat.lines)
        await seat.press("escape", "2")
        assert seat.sees("--- step 7 ", "+++ step 12 ")
        await seat.press("escape", "k", "k", "k", "m")
        assert seat.main.base is None

    sit(sample, look)


def test_from_a_question_to_its_thread(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("i")
        assert seat.sees("Questions: 1", "refund-4711", "ask_approval")
        await seat.press("enter")
        assert seat.main.place is not None
        assert seat.main.place.thread_id == "refund-4711"
        assert seat.sees("? ask_approval: {question: Refund 89.00 EUR")

    sit(sample, look)


def test_questions_that_cannot_be_read_are_not_said_to_be_none(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> Never:
        raise CkptError("the list cannot be read")

    async def look(seat: Seat) -> None:
        await seat.press("i", "j")
        assert seat.sees("the list cannot be read")
        assert not seat.sees("no unanswered questions")
        assert not seat.sees("loading")

    monkeypatch.setattr(PlaceList, "threads", failing)
    sit(sample, look)


def test_a_search_in_a_thread_and_in_all(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("S")
        await seat.type("booked")
        await seat.press("enter")
        found = ckpt("-s", sample, "grep", "-i", "booked", "--match", KYOTO, "-o", "json").json
        assert seat.sees("Search in this thread", f"{len(found)} matches", "is booked from 7 April")
        await seat.press("t")
        everywhere = ckpt("-s", sample, "grep", "-i", "booked", "-o", "json").json
        assert seat.sees("Search in all threads", f"{len(everywhere)} matches")
        await seat.press("enter")
        place = seat.main.place
        assert place is not None
        assert place.checkpoint_id == everywhere[0]["checkpoint_id"]
        await seat.press("S")
        await seat.type("refund")
        await seat.press("enter", "t")
        # The table of the command, a header above.
        assert seat.lines[2].split() == ["THREAD", "REF", "IN", "NODE", "PATH", "TEXT"]
        assert " question  ask_approval  __interrupt__[0].value.question " in seat.text
        await seat.press("escape", "S")
        await seat.type("(")
        await seat.press("enter")
        assert seat.sees("cannot read the pattern")

    sit(sample, look)


def test_a_terminal_that_shrinks_keeps_the_cursor_in_view(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        rows = seat.main.threads_pane.rows
        await seat.press("G")
        assert rows.cursor in rows.seen
        await seat.pilot.resize_terminal(80, 8)
        await seat.rest()
        assert rows.cursor in rows.seen
        assert rows.seen.stop < 9

    sit(sample, look)


def test_from_a_message_to_the_step_that_wrote_it(sample: Path) -> None:
    blamed = ckpt("-s", sample, "blame", KYOTO, "messages[1]", "-o", "json").json

    async def look(seat: Seat) -> None:
        await seat.press("4", "j", "j", "j", "enter")
        place = seat.main.place
        assert place is not None
        assert place.checkpoint_id == blamed["checkpoint_id"]
        assert seat.main.inspector.tab == "writes"
        assert seat.main.tree_pane.rows.has_focus

    sit(sample, look)


def test_what_is_copied_is_what_the_commands_and_graphs_take(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("enter", "k", "y")
        place = seat.main.place
        assert place is not None
        shown = ckpt("-s", sample, "show", seat.app.clipboard, "-o", "json").json
        assert shown["checkpoint_id"] == place.checkpoint_id
        await seat.press("Y")
        copied = json.loads(seat.app.clipboard)
        assert copied["configurable"] == {
            "thread_id": KYOTO,
            "checkpoint_ns": "",
            "checkpoint_id": place.checkpoint_id,
        }
        assert copied["metadata"]["user_id"] == shown["metadata"]["user_id"]

    sit(sample, look)


def test_each_command_line_runs_and_shows_what_the_screen_does(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("slash")
        await seat.type("status:done kyoto")
        await seat.press("enter", "enter", "k", "m", "j")
        for tab in "1234567":
            await seat.press(tab)
            lines = seat.main.command_lines()
            assert len(lines) == 3
            for one in lines:
                program, *words = shlex.split(one)
                assert program == "ckpt"
                answer = ckpt(*words)
                assert answer.code == 0, (one, answer.err)
                # There are no findings and no errors in this thread.
                assert {"doctor", "errors"} & {*words} or b"kyoto" in answer.raw.lower()
        await seat.press("c")
        assert seat.sees("ckpt -s")
        await seat.press("y")
        assert seat.app.clipboard == seat.main.command_lines()[0]

    sit(sample, look)


def test_one_pane_alone_and_all_again(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        main = seat.main
        panes = [main.threads_pane, main.tree_pane, main.inspector]
        for _, pane in enumerate(panes):
            await seat.press("z")
            assert [one for one in panes if one.region.area] == [pane]
            await seat.press("z")
            assert all(one.region.area for one in panes)
            await seat.press("tab")

    sit(sample, look)


def test_help_names_every_key(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("question_mark")
        assert all(seat.sees(key.help) for key in keys_of(READING_GROUPS))
        assert max(map(len, seat.lines)) <= 80
        await seat.press("G")
        assert seat.sees("Thread with status error", "Checkpoint of a fork", "Folded steps")
        await seat.press("escape")
        assert seat.app.screen is seat.main

    sit(sample, look, size=(80, 90))


@pytest.mark.slow  # the message may come after the screen rests
def test_the_palette_does_what_keys_do_and_goes_to_a_typed_ref(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("colon")
        assert seat.sees("Name of a key, THREAD or THREAD@REF")
        await seat.type("Messages")
        await seat.press("enter")
        assert seat.main.inspector.tab == "messages"
        await seat.press("colon")
        await seat.type("refund-4711@~2")
        await seat.press("enter")
        place = seat.main.place
        assert place is not None
        assert place.thread_id == "refund-4711"
        wanted = ckpt("-s", sample, "show", "refund-4711@~2", "-o", "json").json
        assert place.checkpoint_id == wanted["checkpoint_id"]
        await seat.press("colon")
        await seat.type("no-such-thread")
        await seat.press("enter")
        await seat.until(lambda: seat.sees("no thread 'no-such-thread'"))

    sit(sample, look)


def test_a_search_in_a_pane_goes_from_hit_to_hit(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("enter", "z", "slash")
        await seat.type("assistant")
        await seat.press("enter")
        first = seat.main.tree_pane.rows.here
        assert "assistant" in seat.main.tree_pane.rows.lines[first].text
        await seat.press("n")
        assert seat.main.tree_pane.rows.here != first
        await seat.press("N")
        assert seat.main.tree_pane.rows.here == first
        await seat.press("slash")
        await seat.type("zebra")
        await seat.press("enter")
        assert seat.sees("no match for 'zebra'")

    sit(sample, look)


def test_the_screen_is_refused_without_a_terminal(sample: Path) -> None:
    answer = ckpt("-s", sample, "tui")
    assert answer.code == 2
    assert "not a terminal" in answer.err


def test_without_textual_it_says_how_to_install_it(sample: Path) -> None:
    program = (
        "import sys; sys.modules['textual'] = None; from ckpt_cli.__main__ import main;"
        f" sys.argv = ['ckpt', '-s', {str(sample)!r}, 'tui']; main()"
    )
    # A terminal, as without one it is not tried at all.
    command = ["script", "-qec", shlex.join([sys.executable, "-c", program]), "/dev/null"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "pip install 'langgraph-ckpt[tui]'" in found.stdout


def test_nothing_fits_and_what_fits_again(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("slash")
        await seat.type("zzzz")
        await seat.press("enter")
        assert seat.sees("no thread matches", "0 of 8 threads")
        assert not seat.sees("branches")
        await seat.press("d", "y")
        assert seat.app.screen is seat.main
        assert seat.sees("no checkpoint selected")
        await seat.press("escape")
        assert seat.sees("20 checkpoints", "8 threads")

    sit(sample, look)


def test_a_mark_is_seen_wherever_one_goes(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("enter", "m", "escape", "j", "2")
        assert seat.sees(
            "marked trip-to-kyoto > step 12 ", "trip-to-kyoto > step 12 · reply · f169 → step"
        )

    sit(sample, look)


def test_escape_leads_out_of_one_thing_after_the_other(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        main = seat.main
        for rows in (main.threads_pane.rows, main.tree_pane.rows, main.inspector.rows):
            main.body.go(rows)
            await seat.press("z", "escape")
            assert not main.body.is_zoomed
            assert main.focused is rows
            assert rows.region.area
        await seat.press("escape")
        assert main.tree_pane.rows.has_focus
        await seat.press("escape")
        assert main.threads_pane.rows.has_focus
        # A tab that is asked for is shown, whatever stood alone before.
        await seat.press("z", "7")
        assert main.inspector.region.area
        assert not main.threads_pane.region.area
        await seat.press("right_parenthesis", "left_parenthesis", "left_parenthesis")
        assert main.inspector.tab == "errors"

    sit(sample, look)


def test_a_narrow_screen_shows_one_pane_after_the_other(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        main = seat.main
        await seat.press("j")
        assert seat.sees("refund-4711")
        assert not main.body.right.region.area
        await seat.press("enter")
        assert seat.sees("● 8d9f")
        assert not main.threads_pane.region.area
        await seat.press("enter")
        assert seat.sees("1 State", "question")
        await seat.press("tab")
        assert main.threads_pane.region.area
        await seat.pilot.resize_terminal(120, 40)
        await seat.rest()
        assert all(one.region.area for one in (main.threads_pane, main.tree_pane, main.inspector))

    sit(sample, look, size=(40, 12))


def test_brackets_in_a_filter_are_those_of_ids(tmp_path: Path) -> None:
    from langgraph.checkpoint.sqlite import SqliteSaver

    from ckpt_backends.testing.official import config_of
    from ckpt_backends.testing.scenarios import graphs

    store = tmp_path / "agent.db"
    with SqliteSaver.from_conn_string(str(store)) as saver:
        for name in ("[red]one", "two[1]", "three"):
            graphs.linear(saver).invoke({"items": ["in"]}, config_of(name))

    async def look(seat: Seat) -> None:
        for typed, wanted in (("[red", "[red]one"), ("two[1]", "two[1]"), ("th*e", "three")):
            await seat.press("slash")
            seat.main.threads_pane.search.value = ""
            await seat.type(typed)
            await seat.press("enter")
            assert [one.thread_id for one in seat.main.threads_pane.listing.shown] == [wanted]
            line = seat.main.command_lines()[0]
            assert wanted in ckpt(*shlex.split(line)[1:]).out

    sit(store, look)
