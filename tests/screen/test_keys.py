"""Keys, the help, the palette, the lists over the screen, and the line of messages."""

import gc
import json
import shlex
from itertools import product
from pathlib import Path
from unittest.mock import Mock, patch

import pytest
from textual.color import Color
from textual.command import CommandList
from textual.events import Key
from textual.widgets import Input

from ckpt_backends.errors import CkptError
from ckpt_backends.testing.screen import Seat, sitting
from ckpt_cli.tui.keys import READING_GROUPS, WRITING_GROUPS, keys_by_use, keys_of
from ckpt_cli.tui.reading import LoadedObjects, say, screen_hint
from ckpt_cli.tui.screens.dialogs import HelpScreen, KeyLine
from ckpt_cli.tui.screens.lists import PlaceList, SearchScreen
from ckpt_cli.tui.styles import readable
from tests.kit.cases import cases
from tests.kit.command import ckpt

pytestmark = pytest.mark.engines


def test_what_was_run_last_is_first_and_then_what_is_used_most() -> None:
    titles = [key.title for key in keys_by_use(READING_GROUPS, ["memory", "again"])]
    assert titles[:3] == ["Refresh", "Memory", "Diff"]
    assert titles.index("Errors") < titles.index("Tab State") < titles.index("Copy ref")
    assert "Palette" not in titles
    changing = [key.title for key in keys_by_use(WRITING_GROUPS, [])]
    assert sorted(set(changing) - set(titles)) == [
        *("Delete", "Fork", "Purge", "Repair", "Roll back", "Undo")
    ]


async def test_the_palette_remembers_what_it_ran_in_this_session(seat: Seat) -> None:
    await seat.press("colon")
    rows = seat.app.screen.query_one(CommandList)
    await seat.until(lambda: rows.option_count > 20)
    assert seat.sees("Diff (d)", "Diff side by side", "Tab State (1)")
    assert not seat.sees("Copy config (Y)")
    await seat.type("Copy config")
    await seat.press("enter")
    assert seat.said.startswith("copied: {")
    await seat.press("colon")
    again = seat.app.screen.query_one(CommandList)
    await seat.until(lambda: again.option_count > 20)
    assert "Copy config (Y)" in str(again.get_option_at_index(0).prompt)


@pytest.mark.parametrize("columns", [80, 200])
async def test_the_help_begins_with_the_six_most_used_keys(sample: Path, columns: int) -> None:
    assert len(READING_GROUPS[0].rows) == 6
    names = [name for group in WRITING_GROUPS for name, _ in group.rows if name != "Enter"]
    assert sorted(set(names)) == sorted(names)
    async with sitting(sample, size=(columns, 24 if columns == 80 else 60)) as seat:
        await seat.see("question_mark", "Most used", *(text for _, text in READING_GROUPS[0].rows))
        await seat.press("G")
        # In two columns, all is seen at once.
        assert seat.sees("The marked checkpoint")
        assert seat.sees("Most used") == (columns == 200)


async def test_the_keys_are_those_of_the_pane_and_can_be_clicked(seat: Seat) -> None:
    for _ in range(3):
        await seat.press("enter", "enter")
        assert " Unfold " in seat.lines[-1]
        await seat.press("escape", "escape")
        assert " Unfold " not in seat.lines[-1]
    at = seat.lines[-1].index("Help")
    await seat.pilot.click(KeyLine, offset=(at, 0))
    await seat.rest()
    assert not isinstance(seat.app.screen, type(seat.main))


async def opened(seat: Seat, key: str) -> None:
    await seat.press(key)
    if key == "S":
        # Letters are typed into the field of the pattern; matches have the keys.
        await seat.type("hotel")
        await seat.press("enter")
    assert seat.app.screen is not seat.main


async def test_a_screen_lists_its_keys_and_is_left_by_the_same_keys(seat: Seat) -> None:
    await seat.press("enter")
    for key, leaves in product("iMSeOd", "hq"):
        await opened(seat, key)
        screen = seat.app.screen
        await seat.press("question_mark")
        assert isinstance(seat.app.screen, HelpScreen)
        assert seat.sees("Close this screen")
        await seat.press(leaves)
        assert seat.app.screen is screen
        await seat.press(leaves)
        assert seat.app.screen is seat.main


def typed_at_once(seat: Seat, *keys: str) -> None:
    """Press keys without waiting, as a paste into a slow terminal does."""
    for key in keys:
        seat.app.post_message(Key(key, key if len(key) == 1 else None))


@pytest.mark.screen(writes=True)
async def test_what_is_typed_at_once_goes_into_the_field_and_runs_no_command(seat: Seat) -> None:
    # Of these letters, e lists errors, and D deletes a thread.
    typed_at_once(seat, "slash", *"DeFXw")
    await seat.until(lambda: seat.main.threads_pane.search.value == "DeFXw")
    await seat.rest()
    assert seat.app.screen is seat.main
    await seat.press("escape")
    typed_at_once(seat, "S", *"hotel")
    await seat.rest()
    screen = seat.app.screen
    assert isinstance(screen, SearchScreen)
    assert screen.query_one(Input).value == "hotel"


@pytest.mark.parametrize("before", [(), ("slash",), ("question_mark",)])
async def test_ctrl_c_twice_leaves(seat: Seat, before: tuple[str, ...]) -> None:
    await seat.press(*before, "ctrl+c")
    assert seat.said == "press Ctrl-C again to quit"
    assert seat.app.is_running
    assert seat.app.return_code is None
    await seat.press("ctrl+c")
    assert seat.app.return_code == 0


async def test_h_and_l_go_out_and_in_and_control_keys_by_half_pages(seat: Seat) -> None:
    await seat.press("l")
    assert seat.tree.has_focus
    await seat.press("l")
    assert seat.document.has_focus
    await seat.press("ctrl+d")
    half = seat.document.cursor
    assert 0 < half < seat.document.size.height
    await seat.press("ctrl+u", "h", "h")
    assert seat.document.cursor == 0
    assert seat.threads.has_focus


@pytest.mark.screen(size=(80, 90))
async def test_help_names_every_key(seat: Seat) -> None:
    await seat.press("question_mark")
    assert all(seat.sees(key.help) for key in keys_of(READING_GROUPS))
    assert max(map(len, seat.lines)) <= 80
    await seat.see("G", "Thread with status error", "Checkpoint of a fork", "Folded steps")
    await seat.press("escape")
    assert seat.app.screen is seat.main


async def test_the_palette_does_what_keys_do_and_goes_to_a_typed_ref(
    seat: Seat, sample: Path
) -> None:
    await seat.see("colon", "Name of a key, THREAD or THREAD@REF")
    await seat.type("Messages")
    await seat.press("enter")
    assert seat.main.inspector.tab == "messages"
    await seat.fill("colon", "refund-4711@~2")
    place = seat.place
    assert place.thread_id == "refund-4711"
    wanted = ckpt("-s", sample, "show", "refund-4711@~2", "-o", "json").json
    assert place.checkpoint_id == wanted["checkpoint_id"]
    await seat.fill("colon", "no-such-thread")
    await seat.until(lambda: seat.sees("no thread 'no-such-thread'"))


async def test_a_search_in_a_pane_goes_from_hit_to_hit(seat: Seat) -> None:
    await seat.press("enter", "z")
    await seat.search("assistant")
    first = seat.tree.here
    assert "assistant" in seat.tree.lines[first].text
    await seat.press("n")
    assert seat.tree.here != first
    await seat.press("N")
    assert seat.tree.here == first
    await seat.search("zebra")
    assert seat.sees("no match for 'zebra'")


async def test_from_a_question_and_from_an_error_to_its_thread(seat: Seat) -> None:
    await seat.see("i", "Questions: 1", "refund-4711", "ask_approval")
    await seat.see("enter", "? ask_approval: {question: Refund 89.00 EUR")
    assert seat.place.thread_id == "refund-4711"
    await seat.see("e", "Errors: 1", "invoice-import", "match_supplier", "LookupError")
    await seat.press("enter")
    assert seat.place.thread_id == "invoice-import"


async def test_questions_that_cannot_be_read_are_not_said_to_be_none(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = Mock(side_effect=CkptError("the list cannot be read"))
    monkeypatch.setattr(PlaceList, "threads", failing)
    async with sitting(sample) as seat:
        await seat.see("i j", "the list cannot be read")
        assert not seat.sees("no unanswered questions")
        assert not seat.sees("loading")


KYOTO = "trip-to-kyoto"


async def test_a_search_in_a_thread_and_in_all(seat: Seat, sample: Path) -> None:
    await seat.fill("S", "booked")
    found = ckpt("-s", sample, "grep", "-i", "booked", "--match", KYOTO, "-o", "json").json
    assert seat.sees("Search in this thread", f"{len(found)} matches", "is booked from 7 April")
    await seat.press("t")
    everywhere = ckpt("-s", sample, "grep", "-i", "booked", "-o", "json").json
    assert seat.sees("Search in all threads", f"{len(everywhere)} matches")
    await seat.press("enter")
    place = seat.place
    assert place.checkpoint_id == everywhere[0]["checkpoint_id"]
    await seat.fill("S", "refund")
    await seat.press("t")
    # The table of the command, a header above.
    assert seat.lines[2].split() == ["THREAD", "REF", "IN", "NODE", "PATH", "TEXT"]
    assert " question  ask_approval  __interrupt__[0].value.question " in seat.text
    await seat.press("escape")
    await seat.fill("S", "(")
    assert seat.sees("cannot read the pattern")


async def test_what_is_copied_is_what_the_commands_and_graphs_take(
    seat: Seat, sample: Path
) -> None:
    await seat.press("enter", "k", "y")
    place = seat.place
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


async def test_each_command_line_runs_and_shows_what_the_screen_does(seat: Seat) -> None:
    await seat.search("status:done kyoto")
    await seat.press("enter", "k", "m", "j")
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
    await seat.see("c", "ckpt -s")
    await seat.press("y")
    assert seat.app.clipboard == seat.main.command_lines()[0]


async def test_an_error_stays_until_a_key_and_the_last_message_is_shown_alone(seat: Seat) -> None:
    footer = seat.lines[-1]
    await seat.press("y")
    note = seat.lines[-1]
    assert note.startswith(" copied: ")
    await seat.search("status:oops")
    assert seat.lines[-1].startswith(" ! no status 'oops'")
    # One line at most, until it is too long.
    assert sum(one.display for one in seat.app.screen.query("Toast")) == 1
    assert note.strip() not in seat.text
    colours = {
        segment.style.color.name
        for segment in seat.draw()[-1]
        if segment.style is not None and segment.style.color and segment.text.strip()
    }
    red = Color(*seat.app.ansi_theme.ansi_colors[1])
    assert colours == {readable(red, Color.parse(seat.app.theme_variables["panel"])).hex.lower()}
    await seat.press("escape")
    assert seat.lines[-1] == footer
    await seat.press("L")
    listed = [one for one in seat.lines if "oops" in one or "copied" in one]
    assert "! no status 'oops'" in listed[0]
    assert note.strip() in listed[-1]
    await seat.press("escape")
    assert seat.app.screen is seat.main


async def test_a_note_goes_away_by_itself(seat: Seat) -> None:
    with patch.object(seat.app, "NOTIFICATION_TIMEOUT", 0.2):
        say(seat.main, "a note")
        say(seat.main, "an error", is_error=True)
        say(seat.main, "another note")
    await seat.until(lambda: not seat.said)
    with patch.object(seat.app, "NOTIFICATION_TIMEOUT", 0.01):
        say(seat.main, "a note")
        say(seat.main, "an error", is_error=True)
    await seat.pilot.pause(0.1)
    assert seat.said == "an error"


async def test_a_message_is_shown_over_each_screen(seat: Seat) -> None:
    await seat.press("c", "y")
    assert seat.lines[-1].startswith(" copied")
    await seat.press("escape")
    assert seat.said == ""
    say(seat.main, "x\x1b[31m" + "word " * 60)
    await seat.rest()
    # A long one takes three lines, and the panes keep their places.
    assert seat.lines[-3].startswith(r" x\x1b[31mword word")
    assert seat.main.query_one("#body").region.bottom == 39


@cases(
    "hint shown",
    ("an agent may be running; check the thread, then run the command again", None),
    ("new ids must sort later; override with --force", "new ids must sort later"),
    ("leave out --redact, or use a condition", ""),
    ("--dry-run shows the plan without writing", ""),
    ("`ckpt diff --writes THREAD@REF` shows what its tasks wrote", "the tab Writes shows what its"),
    ("`ckpt show THREAD@REF` says why", "the tab Raw"),
    ("`ckpt rollback trip REF` goes to any checkpoint", "B on a checkpoint goes back"),
    ("sound values: `ckpt rollback trip REF`", "sound values: press B"),
    ("`ckpt ops list` lists all operations", "press O to list all operations"),
    ("use step:3 or step:-1", "use step:3 or step:-1"),
)
def test_hints_name_keys_and_no_options(hint: str, shown: str | None) -> None:
    said = screen_hint(CkptError("no", hint=hint))
    assert "--" not in said
    assert "command" not in said
    if shown is not None:
        assert said.startswith(shown)
        assert bool(said) == bool(shown)


def test_many_objects_leave_garbage_collection_once(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(len(frozen)))
    objects = LoadedObjects()
    for number in (10, 2000, 2001, 2400, 2500, 1500, 2500):
        objects.loaded(number)
    # At first, and after growing by a quarter; not for another thread of the same length.
    assert len(frozen) == 2
