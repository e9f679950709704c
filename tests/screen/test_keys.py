"""Keys, the help, the palette, the lists over the screen, and the line of messages."""

import gc
import json
import shlex
from pathlib import Path
from unittest.mock import Mock, patch

import pytest
from textual.events import Key
from textual.widgets import Input

from ckpt_backends.errors import CkptError
from ckpt_backends.testing.screen import Seat
from ckpt_cli.tui import app
from ckpt_cli.tui.keys import READING_GROUPS, WRITING_GROUPS, keys_by_use, keys_of
from ckpt_cli.tui.reading import LoadedObjects, say, screen_hint
from ckpt_cli.tui.screens.dialogs import HelpScreen, KeyLine
from ckpt_cli.tui.screens.lists import PlaceList, SearchScreen
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


@pytest.mark.screen(size=(80, 90))
async def test_the_help_begins_with_the_six_most_used_keys_and_names_every_key(seat: Seat) -> None:
    assert len(READING_GROUPS[0].rows) == 6
    names = [name for group in WRITING_GROUPS for name, _ in group.rows if name != "Enter"]
    assert sorted(set(names)) == sorted(names)
    await seat.see("question_mark", "Most used", *(text for _, text in READING_GROUPS[0].rows))
    assert all(seat.sees(key.help) for key in keys_of(READING_GROUPS))
    assert max(map(len, seat.lines)) <= 80
    await seat.see("G", "Thread with status error", "Checkpoint of a fork", "Folded steps")
    await seat.pilot.resize_terminal(200, 60)
    await seat.rest()
    # In two columns, all is seen at once.
    assert seat.sees("Most used", "The marked checkpoint")


async def test_a_pane_and_a_screen_list_their_keys_and_a_screen_is_left_by_the_same_keys(
    seat: Seat,
) -> None:
    await seat.press("l", "l")
    assert seat.document.has_focus
    assert " Unfold " in seat.lines[-1]
    await seat.press("ctrl+d")
    assert 0 < seat.document.cursor < seat.document.size.height
    await seat.press("ctrl+u", "h", "h")
    assert seat.document.cursor == 0
    assert seat.threads.has_focus
    assert " Unfold " not in seat.lines[-1]
    at = seat.lines[-1].index("Help")
    await seat.pilot.click(KeyLine, offset=(at, 0))
    await seat.rest()
    assert isinstance(seat.pilot.app.screen, HelpScreen)
    await seat.press("escape", "enter")
    for key, leaves in (*(("S", one) for one in "hq"), *zip("iMeOd", "hqhqh", strict=True)):
        await seat.press(key)
        if key == "S":
            # Letters are typed into the field of the pattern; matches have the keys.
            await seat.type("hotel")
            await seat.press("enter")
        screen = seat.app.screen
        assert screen is not seat.main
        await seat.press("question_mark")
        assert isinstance(seat.app.screen, HelpScreen)
        assert seat.sees("Close this screen")
        await seat.press(leaves)
        assert seat.app.screen is screen
        await seat.press(leaves)
        assert seat.app.screen is seat.main


@pytest.mark.screen(writes=True)
async def test_what_is_typed_at_once_goes_into_the_field_and_runs_no_command(
    seat: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long a key takes here.
    monkeypatch.setattr(app, "_PATIENCE", 60.0)
    # Without waiting, as a paste into a slow terminal; e lists errors, and D deletes a thread.
    for key in ("slash", *"DeFXw"):
        seat.app.post_message(Key(key, key if len(key) == 1 else None))
    await seat.until(lambda: seat.main.threads_pane.search.value == "DeFXw")
    await seat.rest()
    assert seat.app.screen is seat.main
    await seat.press("escape")
    for key in "Shotel":
        seat.app.post_message(Key(key, key))
    await seat.rest()
    screen = seat.app.screen
    assert isinstance(screen, SearchScreen)
    assert screen.query_one(Input).value == "hotel"


async def test_ctrl_c_twice_leaves_from_a_field_and_from_a_box(
    seat: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long a key takes here.
    monkeypatch.setattr(app, "_TWICE", 60.0)
    await seat.press("slash", "ctrl+c")
    assert seat.said == "press Ctrl-C again to quit"
    assert seat.app.is_running
    assert seat.app.return_code is None
    await seat.press("escape", "question_mark", "ctrl+c")
    assert seat.app.return_code == 0


KYOTO = "trip-to-kyoto"


async def test_a_search_a_question_an_error_and_the_palette_lead_to_their_checkpoint(
    seat: Seat, sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await seat.fill("S", "booked")
    found = ckpt("-s", sample, "grep", "-i", "booked", "--match", KYOTO, "-o", "json").json
    assert seat.sees("Search in this thread", f"{len(found)} matches", "is booked from 7 April")
    # The table of the command, a header above.
    assert seat.lines[2].split() == ["THREAD", "REF", "IN", "PATH", "TEXT"]
    await seat.press("t")
    everywhere = ckpt("-s", sample, "grep", "-i", "booked", "-o", "json").json
    assert seat.sees("Search in all threads", f"{len(everywhere)} matches")
    await seat.press("enter")
    assert seat.place.checkpoint_id == everywhere[0]["checkpoint_id"]
    await seat.fill("S", "(")
    assert seat.sees("cannot read the pattern")
    await seat.see("escape i", "Questions: 1", "refund-4711", "ask_approval")
    await seat.see("enter", "? ask_approval: {question: Refund 89.00 EUR")
    assert seat.place.thread_id == "refund-4711"
    await seat.see("e", "Errors: 1", "invoice-import", "match_supplier", "LookupError")
    await seat.press("enter")
    assert seat.place.thread_id == "invoice-import"

    await seat.see("colon", "Name of a key, THREAD or THREAD@REF")
    await seat.until(lambda: seat.sees("Diff (d)", "Diff side by side", "Tab State (1)"))
    await seat.type("Messages")
    await seat.press("enter")
    assert seat.main.inspector.tab == "messages"
    await seat.fill("colon", "refund-4711@~2")
    wanted = ckpt("-s", sample, "show", "refund-4711@~2", "-o", "json").json
    assert seat.place.thread_id == "refund-4711"
    assert seat.place.checkpoint_id == wanted["checkpoint_id"]
    await seat.fill("colon", "no-such-thread")
    await seat.until(lambda: seat.sees("no thread 'no-such-thread'"))

    failing = Mock(side_effect=CkptError("the list cannot be read"))
    monkeypatch.setattr(PlaceList, "threads", failing)
    await seat.see("i j", "the list cannot be read")
    assert not seat.sees("no unanswered questions")
    assert not seat.sees("loading")


async def test_each_command_line_runs_and_what_is_copied_is_what_commands_and_graphs_take(
    seat: Seat, sample: Path
) -> None:
    await seat.search("status:done kyoto")
    await seat.press("enter", "k", "y")
    shown = ckpt("-s", sample, "show", seat.app.clipboard, "-o", "json").json
    assert shown["checkpoint_id"] == seat.place.checkpoint_id
    await seat.press("Y")
    copied = json.loads(seat.app.clipboard)
    named = {"thread_id": KYOTO, "checkpoint_ns": "", "checkpoint_id": shown["checkpoint_id"]}
    assert copied["configurable"] == named
    assert copied["metadata"]["user_id"] == shown["metadata"]["user_id"]
    await seat.press("m", "j")
    for tab in "1234567":
        await seat.press(tab)
        lines = seat.main.command_lines()
        assert len(lines) == 3
        for one in lines:
            _, *words = shlex.split(one)
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
    assert note.strip() not in seat.text
    await seat.press("escape")
    assert seat.lines[-1] == footer
    await seat.press("L")
    listed = [one for one in seat.lines if "oops" in one or "copied" in one]
    assert "! no status 'oops'" in listed[0]
    assert note.strip() in listed[-1]
    await seat.press("escape")
    assert seat.app.screen is seat.main
    say(seat.main, "x\x1b[31m" + "word " * 60)
    await seat.rest()
    # A long one takes three lines, and the panes keep their places.
    assert seat.lines[-3].startswith(r" x\x1b[31mword word")
    assert seat.main.query_one("#body").region.bottom == 39
    # A note goes away by itself, and takes no error with it.
    with patch.object(seat.app, "NOTIFICATION_TIMEOUT", 0.2):
        say(seat.main, "a note")
    await seat.rest()
    await seat.until(lambda: not seat.said)
    with patch.object(seat.app, "NOTIFICATION_TIMEOUT", 0.01):
        say(seat.main, "a note")
        say(seat.main, "an error", is_error=True)
    await seat.pilot.pause(0.1)
    assert seat.said == "an error"


@cases(
    "hint shown",
    ("an agent may be running; check the thread, then run the command again", None),
    ("new ids must sort later; override with --force", "new ids must sort later"),
    ("leave out --redact, or use a condition", ""),
    ("`ckpt diff --writes THREAD@REF` shows what its tasks wrote", "the tab Writes shows what its"),
    ("sound values: `ckpt rollback trip REF`", "sound values: press B"),
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
