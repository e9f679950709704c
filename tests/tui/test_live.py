"""A store that changes, goes away and comes back while it is looked at."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.testing.official import config_of
from ckpt_backends.testing.scenarios import graphs
from ckpt_backends.testing.screen import Seat, sit
from ckpt_cli.tui.panes.tree import GrowingTree


def test_new_checkpoints_come_and_the_cursor_stays_where_it_is(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"

    def say(thread_id: str, text: str) -> None:
        with SqliteSaver.from_conn_string(str(store)) as saver:
            config = {"configurable": {"thread_id": thread_id}}
            graphs.linear(saver).invoke({"items": [text]}, config)

    for name in ("first", "second", "third"):
        say(name, "hello")

    async def look(seat: Seat) -> None:
        rows, tree = seat.main.threads_pane.rows, seat.main.tree_pane.rows
        await seat.press("j", "enter", "k")
        here, place = rows.thread, seat.main.place
        assert here is not None
        assert here.thread_id == "second"
        before = len(tree.lines)
        say("fourth", "hello")
        say("second", "again")
        await seat.press("r")
        assert [one.thread_id for one in rows.listing.shown[:2]] == ["second", "fourth"]
        assert rows.thread is not None
        assert rows.thread.thread_id == "second"
        assert seat.main.place == place
        assert len(tree.lines) > before

    sit(store, look)


def test_it_looks_again_by_itself(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    with SqliteSaver.from_conn_string(str(store)) as saver:
        graph = graphs.linear(saver)
        graph.invoke({"items": ["a"]}, {"configurable": {"thread_id": "one"}})

    async def look(seat: Seat) -> None:
        with SqliteSaver.from_conn_string(str(store)) as saver:
            graph = graphs.linear(saver)
            graph.invoke({"items": ["a"]}, {"configurable": {"thread_id": "two"}})
        await seat.until(lambda: seat.sees("2 threads"))

    sit(store, look, pause=1)


def test_a_thread_that_is_deleted_meanwhile_is_said_to_be_gone(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("enter")
        with closing(sqlite3.connect(sample)) as connection:
            for table in ("checkpoints", "writes"):
                connection.execute(f"DELETE FROM {table} WHERE thread_id = 'trip-to-kyoto'")
            connection.commit()
        await seat.press("k")
        assert seat.sees("no thread 'trip-to-kyoto'")
        await seat.press("r")
        assert seat.main.threads_pane.rows.thread is not None
        assert seat.main.threads_pane.rows.thread.thread_id == "refund-4711"
        assert seat.sees("Refund 89.00 EUR")

    sit(sample, look)


def test_a_store_that_goes_away_is_waited_for(sample: Path) -> None:
    away = sample.with_name("away.db")

    async def look(seat: Seat) -> None:
        await seat.press("j")
        sample.rename(away)
        # What is open stays readable; a new connection is not to be had.
        for worker in seat.app.context.workers:
            worker._live.drop()
        await seat.until(lambda: seat.sees("retrying: "))
        assert seat.main.threads_pane.rows.thread is not None
        await seat.press("j", "enter", "2", "i", "escape")
        away.rename(sample)
        await seat.until(lambda: not seat.sees("retrying: "))
        await seat.press("r", "shift+tab", "shift+tab")
        assert seat.sees("8 threads")

    sit(sample, look, pause=0.3)


@pytest.mark.slow
def test_an_empty_store_has_nothing_to_show(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    with SqliteSaver.from_conn_string(str(store)) as saver:
        saver.setup()

    async def look(seat: Seat) -> None:
        assert seat.sees("0 threads")
        everything = ["enter", "m", "d", "y", "c", "escape", "i", "escape", "o", "a", "7", "9", "z"]
        await seat.press(*everything, "j", "k", "G", "g", "enter")
        assert seat.sees("ckpt")

    sit(store, look)


def test_a_slow_store_is_said_to_be_loading_and_keys_go_on(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Event()
    read = GrowingTree.read

    def slow(*arguments: Any, **options: Any) -> Any:
        answer.wait(60)
        return read(*arguments, **options)

    async def look(seat: Seat) -> None:
        monkeypatch.setattr(GrowingTree, "read", slow)
        await seat.press_at_once("j")
        await seat.until(lambda: seat.sees("Tree: loading"))
        await seat.press_at_once("j", "j")
        assert seat.main.threads_pane.rows.cursor == 3
        assert seat.sees("Tree: loading")
        await seat.press_at_once("m")
        await seat.until(lambda: seat.sees("the tree is still loading"))
        answer.set()
        await seat.rest()
        assert seat.main.tree_pane.view.thread_id == "anna@example.com"
        assert not seat.sees("Tree: loading")

    sit(sample, look)


@pytest.mark.engines
def test_what_could_not_be_read_is_read_when_it_is_there_again(sample: Path) -> None:
    away = sample.with_name("away.db")

    async def look(seat: Seat) -> None:
        sample.rename(away)
        await seat.press("j")
        await seat.until(lambda: seat.sees("retrying: "))
        away.rename(sample)
        await seat.until(lambda: seat.sees("Refund 89.00 EUR", "question"))

    sit(sample, look, pause=0.3)


@pytest.mark.engines
def test_a_page_that_is_read_stays_where_it_is(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"

    def say(text: str) -> None:
        with SqliteSaver.from_conn_string(str(store)) as saver:
            graphs.linear(saver).invoke({"items": [text] * 40}, config_of("busy"))

    say("hello")

    async def look(seat: Seat) -> None:
        document = seat.main.inspector.rows
        await seat.press("enter", "1", "pagedown", "pagedown")
        path = document.path
        assert document.scroll_y > 0
        say("again")
        await seat.press("r")
        # It is no longer the head, so the lines above the values may be fewer.
        assert document.path == path
        assert document.cursor in document.seen

    sit(store, look, size=(80, 24))


@pytest.mark.engines
def test_the_cursor_goes_with_the_head_if_it_is_to(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"

    def say(text: str) -> str:
        with SqliteSaver.from_conn_string(str(store)) as saver:
            graph = graphs.linear(saver)
            graph.invoke({"items": [text]}, config_of("busy"))
            return str(graph.get_state(config_of("busy")).config["configurable"]["checkpoint_id"])

    say("hello")

    async def look(seat: Seat) -> None:
        await seat.press("enter", "k", "f")
        for text in ("one", "two"):
            head = say(text)
            await seat.press("r")
            assert seat.main.place is not None
            assert seat.main.place.checkpoint_id == head
        await seat.press("f")
        before = seat.main.place
        say("three")
        await seat.press("r")
        assert seat.main.place == before

    sit(store, look)
