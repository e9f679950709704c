"""The panes, the keys and the colours, and what the screen remembers of its last use."""

import gc
import json
import shlex
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from unittest.mock import Mock, patch

import pytest
from rich.segment import Segment
from textual.color import BLACK, WHITE, Color
from textual.events import Key
from textual.theme import BUILTIN_THEMES
from textual.widgets import Input

from ckpt_backends.errors import CkptError
from ckpt_backends.testing.screen import Seat, sitting
from ckpt_backends.url import parse_url
from ckpt_cli.reading.store import Opening
from ckpt_cli.tui import app
from ckpt_cli.tui.app import CkptApp
from ckpt_cli.tui.context import RememberedLook, ScreenContext, read_look, write_look
from ckpt_cli.tui.keys import READING_GROUPS, WRITING_GROUPS, keys_by_use, keys_of
from ckpt_cli.tui.panes.body import ChosenShares
from ckpt_cli.tui.panes.tree import TreePane
from ckpt_cli.tui.reading import LoadedObjects, say, screen_hint
from ckpt_cli.tui.screens.dialogs import HelpScreen, KeyLine
from ckpt_cli.tui.screens.lists import PlaceList, SearchScreen
from ckpt_cli.tui.styles import DARK_TINTS, LEAST, LIGHT_TINTS, STYLES, contrast, is_text, readable
from ckpt_cli.tui.tabs.checkpoint import SidesRows
from tests.kit.cases import cases
from tests.kit.command import ckpt
from tests.packaging.pictures import FOLDER, PICTURES, Picture, take

pytestmark = pytest.mark.engines


async def test_panes_are_as_needed_or_dragged(seat: Seat, monkeypatch: pytest.MonkeyPatch) -> None:
    main = seat.main
    for size, (threads, tree), shown in (
        # The row of threads is longer than its share of the screen.
        ((80, 24), (50, 40), (26, 9, False)),
        # Side by side where there is space.
        ((200, 60), (90, 50), (60, 26, False)),
        ((300, 90), (500, 500), (72, 113, True)),
        # As large as needed, within bounds.
        ((120, 40), (30, 14), (30, 14, False)),
    ):
        await seat.pilot.resize_terminal(*size)
        await seat.rest()
        monkeypatch.setattr(TreePane, "needed", tree)
        main.threads_pane.longest = threads
        for _ in range(2):
            main.body.fit()
            await seat.rest()
        outer, is_beside = main.tree_pane.outer_size, main.body.has_class("beside")
        part = outer.width if is_beside else outer.height
        assert (main.threads_pane.outer_size.width, part, is_beside) == shown

    async def drag(first: tuple[int, int], last: tuple[int, int]) -> None:
        await seat.pilot.mouse_down(offset=first)
        await seat.pilot.hover(offset=last)
        await seat.pilot.mouse_up(offset=last)
        await seat.rest()

    await drag((main.body.right.region.x, 9), (50, 12))
    assert main.threads_pane.region.width == pytest.approx(50, abs=1)
    y = main.inspector.region.y
    await drag((70, y), (70, y + 5))
    assert main.inspector.region.y == pytest.approx(y + 5, abs=1)
    # The mouse beside a border changes nothing.
    y = main.inspector.region.y
    await drag((70, y - 3), (70, y - 6))
    assert main.inspector.region.y == y


async def test_keys_change_the_focused_pane_and_it_comes_back(sample: Path, tmp_path: Path) -> None:
    look = tmp_path / "state" / "look.json"
    before: list[tuple[int, ...]] = []

    def sizes(seat: Seat) -> tuple[int, ...]:
        main = seat.main
        return main.threads_pane.size.width, main.tree_pane.size.height, main.inspector.size.height

    async with sitting(sample, look=look) as seat:
        threads, tree, inspector = sizes(seat)
        await seat.press("plus", "equals_sign")
        wider, *same = sizes(seat)
        assert wider == threads + 12
        assert same == [tree, inspector]
        await seat.press("minus", "tab", "plus")
        assert sizes(seat)[0] == threads + 6
        assert sizes(seat)[1] == pytest.approx(tree + 2, abs=1)
        await seat.press("tab", "plus", "plus")
        before.append(sizes(seat))
        await seat.press("z", "plus")
        assert "press z" in seat.said
        await seat.press("z")
        assert sizes(seat) == before[0]
        await seat.press("1", "escape", "escape", "s", "o", "4", "z")
        seat.app.theme = "nord"
    assert look.stat().st_mode & 0o777 == 0o600
    assert look.parent.stat().st_mode & 0o777 == 0o700
    async with sitting(sample, look=look) as seat:
        assert seat.app.theme == "nord"
        found = seat.main.look
        assert (found.sort, found.tab, found.is_zoomed) == ("first", "messages", True)
        assert seat.sees("oldest first")
        await seat.press("z")
        assert sizes(seat) == before[0]
        await seat.press("underscore")
        assert sizes(seat) != before[0]
        assert seat.main.body.chosen == ChosenShares()
        # A remembered file may hold any number.
        seat.main.body.chosen = ChosenShares(10**9, -7)
        seat.main.body.fit()
        await seat.rest()
        assert sizes(seat)[0] < 100
    async with sitting(sample, look=look, start="memory alone") as seat:
        assert seat.app.theme == "nord"
        seat.app.theme = "dracula"
    assert (read_look(look).theme, read_look(look).sort) == ("dracula", "first")
    # What a file names and nobody knows is ignored.
    write_look(look, RememberedLook("no-such", "no-such", "no-such"))
    async with sitting(sample, look=look) as seat:
        assert seat.main.look == RememberedLook("", "last", "state")


@pytest.mark.screen(size=(40, 12))
async def test_a_narrow_screen_shows_one_pane_after_the_other(seat: Seat) -> None:
    main = seat.main
    # A checkpoint is shown where its tree never was.
    await seat.see("j 8", "step 3 · check_policy")
    await seat.see("escape", "● 8d9f")
    await seat.see("escape", "refund-4711")
    assert not main.body.right.region.area
    await seat.see("enter", "● 8d9f")
    assert not main.threads_pane.region.area
    await seat.press("escape", "G")
    await seat.pilot.resize_terminal(120, 40)
    await seat.rest()
    assert all(one.region.area for one in (main.threads_pane, main.tree_pane, main.inspector))
    assert seat.threads.cursor in seat.threads.seen
    await seat.pilot.resize_terminal(80, 8)
    await seat.rest()
    assert seat.threads.cursor in seat.threads.seen
    assert seat.threads.seen.stop < 9


async def test_escape_leads_out_of_one_thing_after_the_other(seat: Seat) -> None:
    main = seat.main
    panes = [main.threads_pane, main.tree_pane, main.inspector]
    for pane, rows in zip(panes, (seat.threads, seat.tree, seat.document), strict=True):
        main.body.go(rows)
        await seat.press("z")
        assert [one for one in panes if one.region.area] == [pane]
        await seat.press("escape")
        assert not main.body.is_zoomed
        assert main.focused is rows
        assert rows.region.area
    await seat.press("escape")
    assert seat.tree.has_focus
    await seat.press("escape")
    assert seat.threads.has_focus
    # A tab that is asked for is shown, whatever stood alone before.
    await seat.press("z", "7")
    assert main.inspector.region.area
    assert not main.threads_pane.region.area
    await seat.press("right_parenthesis", "left_parenthesis", "left_parenthesis")
    assert main.inspector.tab == "errors"


async def test_a_screen_that_ends_at_once_remembers_as_before(sample: Path, tmp_path: Path) -> None:
    class Ending(CkptApp):
        def on_load(self) -> None:
            super().on_load()
            self.exit()

    look = tmp_path / "look.json"
    write_look(look, RememberedLook("", "first", "diff"))
    context = ScreenContext(Opening(parse_url(str(sample))), [], UTC, 0)
    await Ending(context, look=look).run_async(headless=True)
    assert (read_look(look).sort, read_look(look).tab) == ("first", "diff")


@pytest.mark.parametrize("text", ["{", "[" * 4000, '{"tab": 3, "is_zoomed": "yes"}', " " * 5000])
def test_a_broken_file_is_ignored(tmp_path: Path, text: str) -> None:
    look = tmp_path / "look.json"
    look.write_text(text)
    assert read_look(look) == RememberedLook()
    assert read_look(tmp_path / "none" / "look.json") == RememberedLook()
    # A folder in the place of the file.
    write_look(tmp_path, RememberedLook())


# Colours: all text is readable in every theme, and only what waits is yellow; and the pictures


_THEMES = [
    name
    for name, theme in BUILTIN_THEMES.items()
    if not theme.to_color_system().generate()["background"].startswith("ansi_")
]
"""All but those that use the colours of the terminal, which are not known."""


def test_contrast_is_that_of_wcag_and_tinted_text_has_it() -> None:
    assert contrast(BLACK, WHITE) == pytest.approx(21)
    assert contrast(Color(119, 119, 119), WHITE) == pytest.approx(4.48, abs=0.01)
    assert readable(Color(119, 119, 119), WHITE) != Color(119, 119, 119)
    assert readable(BLACK, WHITE) == BLACK
    for one in (*DARK_TINTS.values(), *LIGHT_TINTS.values()):
        assert one.color is not None
        assert one.bgcolor is not None
        on = Color.from_rich_color(one.bgcolor)
        assert contrast(Color.from_rich_color(one.color), on) >= LEAST


async def test_all_text_is_readable_in_every_theme(sample: Path) -> None:
    assert len(_THEMES) > 10
    async with sitting(sample, writes=True, size=(80, 24)) as seat:
        _the_header_has_the_colour(seat, "error")
        # A search marks lines, and the cursor is on a thread with red and green beside it.
        await seat.press("j", "l", "2")
        await seat.search("a")
        for name in _THEMES:
            seat.app.theme = name
            for rows in (seat.threads, seat.tree):
                rows.focus()
                await seat.pilot.pause()
                _red_and_green_can_be_told_apart_on_the_cursor(seat)
            seat.document.focus()
            await _all_text_is_readable(seat)
        for key in ("F", "question_mark", "colon"):
            await seat.press(key)
            for name in _THEMES[::9]:
                seat.app.theme = name
                await _all_text_is_readable(seat)
            await seat.press("escape")


async def _all_text_is_readable(seat: Seat) -> None:
    await seat.pilot.pause()
    for segment in _texts(seat):
        assert _contrast(segment) >= LEAST, (seat.app.screen, seat.app.theme, segment)


def _red_and_green_can_be_told_apart_on_the_cursor(seat: Seat) -> None:
    rows = seat.threads
    on_cursor = next(iter(rows.render_line(rows.cursor))).style
    assert on_cursor is not None
    assert on_cursor.bgcolor is not None
    below = Color.from_rich_color(on_cursor.bgcolor)
    assert below != rows.background_colors[1], seat.app.theme
    colors = seat.app.ansi_theme.ansi_colors
    red, green = (readable(Color(*colors[at]), below) for at in (1, 2))
    assert red.r - max(red.g, red.b) > 20, (seat.app.theme, red)
    assert green.g - max(green.r, green.b) > 20, (seat.app.theme, green)


async def test_uncoloured_text_is_readable(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with sitting(sample) as seat:
        for name in ("textual-dark", "textual-light"):
            seat.app.theme = name
            await _all_text_is_readable(seat)
            for segment in _texts(seat):
                assert segment.style is not None
                assert segment.style.color is not None
                assert len(set(segment.style.color.get_truecolor())) == 1
        assert seat.sees("✗ invoice-import", "? refund-4711", "▸ anna", "✓ nightly-report")


async def test_only_what_waits_is_yellow_and_tints_follow_the_theme(seat: Seat) -> None:
    _the_header_has_the_colour(seat, "panel")
    waits = STYLES["question"].color
    assert [name for name, style in STYLES.items() if style.color == waits] == ["question"]
    await seat.press("m", "slash")
    say(seat.main, "an error", is_error=True)
    await seat.rest()
    yellow = seat.app.ansi_theme.ansi_colors[3]
    said = {
        one.text.strip()
        for one in _texts(seat)
        if one.style and one.style.color and one.style.color.triplet == yellow
    }
    assert said == {"?", "refund-4711"}
    await seat.press("escape", "enter", "g", "d")
    for theme, tints in (("textual-light", LIGHT_TINTS), ("textual-dark", DARK_TINTS)):
        seat.app.theme = theme
        await seat.rest()
        seen = {one.style.bgcolor for strip in seat.draw() for one in strip if one.style}
        assert tints["removed"].bgcolor in seen
    await seat.search("KYO-HKK")
    rows = seat.app.screen.query_one(SidesRows)
    tint = DARK_TINTS["removed"].bgcolor
    found, other = (rows.render_line(at - rows.seen.start) for at in (rows.here, rows.here + 1))
    assert tint not in {one.style.bgcolor for one in found if one.style}
    assert tint in {one.style.bgcolor for one in other if one.style}


def _the_header_has_the_colour(seat: Seat, name: str) -> None:
    wanted = Color.parse(seat.app.get_css_variables()[name]).rich_color.name
    styles = [part.style for part in seat.draw()[0]]
    assert {one.bgcolor.name for one in styles if one and one.bgcolor} == {wanted}
    assert seat.lines[0].startswith(" ckpt WRITE") == (name == "error")


def _texts(seat: Seat) -> Iterator[Segment]:
    for strip in seat.draw():
        for segment in strip:
            if is_text(segment.text):
                yield segment


def _contrast(segment: Segment) -> float:
    style = segment.style
    assert style is not None
    assert style.color is not None
    assert style.bgcolor is not None
    return contrast(Color.from_rich_color(style.color), Color.from_rich_color(style.bgcolor))


@pytest.mark.parametrize("picture", PICTURES, ids=lambda one: one.name)
def test_the_screen_looks_as_in_its_picture(picture: Picture) -> None:
    kept = (FOLDER / f"{picture.name}.svg").read_text(encoding="utf-8")
    # Not compared by pytest, which would look for the difference of long lines for minutes.
    is_same = take(picture) == kept
    assert is_same, "if this is meant: python -m tests.packaging.pictures"


# Keys, the help, the palette, the lists over the screen, and the line of messages


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


async def test_a_pane_and_a_screen_list_their_keys_and_a_screen_is_left(seat: Seat) -> None:
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
async def test_typed_at_once_runs_no_command(seat: Seat, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_command_lines_run_and_copies_are_taken_elsewhere(seat: Seat, sample: Path) -> None:
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
            answer = ckpt(*words, code=0)
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
