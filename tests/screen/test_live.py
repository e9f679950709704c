"""A store that changes, goes away, comes back, or is not open yet while it is looked at, or is
hostile.
"""

import shlex
import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import patch

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.errors import CkptError, StoreUnavailable
from ckpt_backends.model import CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_backends.testing.official import config_of
from ckpt_backends.testing.scenarios import graphs
from ckpt_backends.testing.screen import Seat, sitting
from ckpt_backends.url import parse_url
from ckpt_cli.reading.store import Opening
from ckpt_cli.tui.panes.tree import GrowingTree
from ckpt_cli.tui.writing import ForkForm, ForkWish, Refuse
from tests.kit.command import ckpt

pytestmark = pytest.mark.engines


def say(store: Path, thread_id: str, *texts: str) -> str:
    """Let an agent go on with a thread; returns its head."""
    with SqliteSaver.from_conn_string(str(store)) as saver:
        graph = graphs.linear(saver)
        graph.invoke({"items": [*texts]}, config_of(thread_id))
        return str(graph.get_state(config_of(thread_id)).config["configurable"]["checkpoint_id"])


async def test_new_checkpoints_come_and_the_cursor_stays_or_follows(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    for name in ("first", "second", "third"):
        say(store, name, *["hello"] * 60)
    async with sitting(store, pause=1, size=(80, 24)) as seat:
        await seat.press("j", "enter", "k", "1", "pagedown", "pagedown")
        here, place, before = seat.threads.thread, seat.place, len(seat.tree.lines)
        path = seat.document.path
        assert seat.document.scroll_y > 0
        assert here is not None
        assert here.thread_id == "second"
        say(store, "fourth", "hello")
        say(store, "second", "again")
        # It looks again by itself.
        await seat.until(lambda: seat.ids[:2] == ["second", "fourth"])
        await seat.rest()
        assert seat.threads.thread is not None
        assert (seat.threads.thread.thread_id, seat.place) == ("second", place)
        assert len(seat.tree.lines) > before
        assert seat.document.path == path
        assert seat.document.cursor in seat.document.seen
        await seat.press("f")
        for text in ("one", "two"):
            head = say(store, "second", text)
            await seat.press("r")
            assert seat.place.checkpoint_id == head


def lose(_: object) -> None:
    """Lose the connection of a worker."""
    raise StoreUnavailable("it is lost")


async def test_a_store_that_goes_away_is_waited_for(sample: Path) -> None:
    away = sample.with_name("away.db")
    async with sitting(sample, pause=1) as seat:
        sample.rename(away)
        # What is open stays readable; a new connection is not to be had.
        for worker in seat.app.context.workers:
            with pytest.raises(CkptError):
                await worker.ask(lose)
        await seat.until(lambda: seat.sees("retrying: "))
        assert seat.threads.thread is not None
        await seat.press("enter", "2", "i", "escape", "escape", "escape", "j")
        away.rename(sample)
        await seat.until(lambda: not seat.sees("retrying: "))
        # What could not be read is read now.
        await seat.until(lambda: seat.sees("8 threads", "Refund 89.00 EUR", "question"))


async def test_an_empty_store_has_nothing_to_show(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    with SqliteSaver.from_conn_string(str(store)) as saver:
        saver.setup()
    async with sitting(store) as seat:
        assert seat.sees("0 threads")
        everything = ["enter", "m", "d", "y", "c", "escape", "i", "escape", "o", "a", "7", "9", "z"]
        await seat.press(*everything, "j", "k", "G", "g", "enter")
        assert seat.sees("ckpt")


async def test_keys_go_on_while_loading(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Event()
    read = GrowingTree.read

    def slow(*arguments: Any, **options: Any) -> Any:
        answer.wait(60)
        return read(*arguments, **options)

    async with sitting(sample) as seat:
        monkeypatch.setattr(GrowingTree, "read", slow)
        await seat.press_at_once("j")
        await seat.until(lambda: seat.sees("Tree: loading"))
        await seat.press_at_once("j", "j")
        await seat.until(lambda: seat.threads.cursor == 3)
        assert seat.sees("Tree: loading")
        await seat.press_at_once("m")
        await seat.until(lambda: seat.sees("the tree is still loading"))
        answer.set()
        await seat.rest()
        assert seat.main.tree_pane.view.thread_id == "anna@example.com"
        assert not seat.sees("Tree: loading")


async def test_keys_say_why_they_do_nothing_while_the_store_is_opened(sample: Path) -> None:
    class SlowOpening(Opening):
        def open(self, *args: Any, **kwargs: Any) -> Store:
            may_open.wait(60)
            return super().open(*args, **kwargs)

    async def no_rest(seat: Seat) -> None:
        await seat.pilot.pause()

    may_open, opening = Event(), SlowOpening(parse_url(str(sample)))
    # The screen comes to rest only when the store is open.
    with patch.object(Seat, "rest", no_rest):
        async with sitting(sample, opening=opening, writes=True) as seat:
            keys = "dmyOvUPDBF"
            await seat.press_at_once(*keys)
            await seat.until(lambda: len(seat.app.messages) == len(keys))
            assert {one.text for one in seat.app.messages} == {"the store is not open yet"}
            await seat.until(lambda: seat.main.inspector.tab == "findings")
            await seat.press_at_once("1", "escape", "escape")
            may_open.set()
            await seat.until(lambda: seat.sees("Tree: 20 checkpoints", "step 12 · reply"))


async def test_the_screen_opens_at_a_checkpoint_and_says_which_thread_is_gone(sample: Path) -> None:
    wanted = ckpt("-s", sample, "show", "refund-4711@~2", "-o", "json").json
    goal = CheckpointKey("refund-4711", "", wanted["checkpoint_id"])
    async with sitting(sample, goal=goal) as seat:
        assert seat.place == goal
        assert seat.tree.has_focus
        # It is left as any other.
        await seat.press("G", "r")
        assert seat.place != goal
        await seat.press("escape", "g")
        assert seat.main.tree_pane.view.thread_id == "trip-to-kyoto"
        await seat.press("enter")
        with closing(sqlite3.connect(sample)) as connection, connection:
            for table in ("checkpoints", "writes"):
                connection.execute(f"DELETE FROM {table} WHERE thread_id = 'trip-to-kyoto'")
        await seat.see("k", "no thread 'trip-to-kyoto'")
        await seat.press("r")
        assert seat.threads.thread is not None
        assert seat.threads.thread.thread_id == "refund-4711"
        assert seat.sees("Refund 89.00 EUR")


# What a store holds is shown as text, however it is made


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


async def test_channels_in_the_form_of_a_fork_are_no_escapes_and_chosen_whole(sample: Path) -> None:
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
        assert any("(cut, " in one.text for one in seat.document.lines)


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
