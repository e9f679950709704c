"""What a store holds is shown as text, however it is made."""

import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.testing.official import config_of
from ckpt_backends.testing.scenarios import graphs
from ckpt_backends.testing.screen import sitting
from ckpt_backends.url import parse_url
from ckpt_cli.reading.store import Opening
from ckpt_cli.tui.writing import ForkForm, ForkWish, Refuse
from tests.kit.command import ckpt

pytestmark = pytest.mark.engines

NAMES = [
    "[red]bold[/red]",
    "[@click=app.quit]press me[/]",
    "\x1b[31mred\x1b[0m",
    "two\nlines",
    "100%s %d {x}",
    "\u202ereversed",
    "'; DROP TABLE checkpoints; --",
    "[/]",
    "x" * 5000,
    "日本語のスレッド",
]


async def test_names_and_values_are_never_markup_or_escapes(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    values = ["[bold]loud[/bold]", "\x1b]0;title\x07", "[link=http://x]y[/link]", "[/nothing]"]
    with SqliteSaver.from_conn_string(str(store)) as saver:
        for name in NAMES:
            graphs.linear(saver).invoke({"items": values}, config_of(name))
    async with sitting(store, size=(100, 30)) as seat:
        for tried in range(len(NAMES)):
            # A tab more for each name, so that all come in turn.
            await seat.press("123456"[tried % 6], "Y", "c")
            for bad in ("\x1b", "\x07", "\u202e"):
                assert bad not in seat.text
            await seat.press("escape", "1")
            # What was said covers a corner for some seconds.
            seat.app.clear_notifications()
            await seat.rest()
            assert seat.sees("[bold]loud[/bold]"), seat.text
            await seat.press("escape", "escape", "j")

        await seat.fill("S", "loud")
        await seat.press("t")
        assert seat.sees("[bold]loud[/bold]", "[red]bold[/red]", "日本語のスレッド"), seat.text
        await seat.press("escape")
        # Brackets in a filter are those of ids.
        await seat.search("[red")
        assert seat.ids == ["[red]bold[/red]"]
        assert seat.ids[0] in ckpt(*shlex.split(seat.main.command_lines()[0])[1:]).out
        assert "\x1b" not in seat.app.export_screenshot()


async def test_names_of_channels_in_the_form_of_a_fork_are_no_escapes_and_chosen_whole(
    sample: Path,
) -> None:
    wishes: list[ForkWish] = []

    async def plan(wish: ForkWish, refuse: Refuse) -> None:
        del refuse
        wishes.append(wish)

    async with sitting(sample) as seat:
        seat.app.push_screen(ForkForm(["plan", "places", "red\x1b[31m"], plan))
        await seat.see("tab", r"plan, places, red\x1b[31m")
        await seat.type("re")
        assert "\x1b" not in seat.text
        await seat.press("backspace", "backspace")
        # The beginning of two names chooses none.
        await seat.type("pla")
        await seat.press("enter")
        await seat.until(lambda: seat.sees("no channel 'pla'", "use one of plan, places"))
        assert wishes == []
        await seat.type("n")
        await seat.press("enter")
        await seat.until(lambda: bool(wishes))
        assert wishes[0][1] == "plan"


async def test_a_value_of_20_mb_is_shown_by_its_beginning(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    with SqliteSaver.from_conn_string(str(store)) as saver:
        value = {"items": ["head " + "x" * 20_000_000]}
        graphs.linear(saver).update_state(config_of("large"), value, as_node="read")
    async with sitting(store, size=(100, 30)) as seat:
        await seat.press("enter")
        for key in "123456":
            await seat.press(key)
            assert seat.document.lines
            assert sum(len(one.text) for one in seat.document.lines) < 5_000_000
        await seat.press("4", "1", "G", "right", "G")
        assert seat.sees("… 16,775,210 more characters"), seat.text
        rows = seat.document
        assert any("(cut, " in one.text for one in rows.lines)


async def test_damaged_rows_are_messages(sample: Path) -> None:
    with closing(sqlite3.connect(sample)) as connection:
        connection.execute("UPDATE checkpoints SET checkpoint = x'c1c1', metadata = x'80ff00'")
        connection.execute("UPDATE writes SET value = x'd9'")
        connection.commit()
    async with sitting(sample) as seat:
        for _ in range(2):
            await seat.press(
                "enter", "1", "2", "3", "4", "5", "6", "7", "8", "9", "escape", "escape", "j"
            )
            assert seat.sees("8 threads")
        await seat.see("enter 1", "not readable")
        await seat.press("i", "escape", "d", "escape")
        await seat.fill("S", "x")
        await seat.press("t", "escape")


async def test_redacted_values_stay_out_of_every_pane(sample: Path) -> None:
    opening = Opening(parse_url(str(sample)), redact=True)
    async with sitting(sample, opening=opening) as seat:
        await seat.press("z")
        for _ in range(2):
            for key in "12345":
                await seat.press(key)
                text = seat.read
                assert "Kanra" not in text
                assert "Refund 89" not in text
            await seat.press("9")
            (said, *_) = seat.document.lines
            assert said.text == "bytes are not shown with --redact"
            seat.threads.action_move(1)
            await seat.rest()
