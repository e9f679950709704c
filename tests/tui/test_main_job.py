"""Find the stuck thread among ten thousand, see why, go back, go on, and watch it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.testing.official import config_of
from ckpt_backends.testing.scenarios import graphs
from ckpt_backends.testing.screen import Seat, sit

_THREADS = 10_000
_COPIES = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"


def fill(path: Path) -> None:
    """Ten thousand threads that are done, and one in which a question waits."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graphs.linear(saver).invoke({"items": ["in"]}, config_of("done"))
        graphs.ask_alone(saver).invoke({"items": ["in"]}, config_of("user-4711"))
        graphs.linear(saver).invoke({"items": ["in"]}, config_of("newest"))
    with closing(sqlite3.connect(path)) as connection:
        for table in ("checkpoints", "writes"):
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            rest = ", ".join(name for name in columns if name != "thread_id")
            connection.execute(
                f"INSERT INTO {table} (thread_id, {rest}) {_COPIES}"
                f" SELECT printf('user-%05d', i), {rest} FROM {table}, n WHERE thread_id = 'done'",
                [_THREADS],
            )
        connection.commit()


def test_the_stuck_thread_is_found_rolled_back_and_resumed(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    fill(store)

    async def work(seat: Seat) -> None:
        assert seat.sees(f"{_THREADS + 3:,} threads")
        await seat.press("slash")
        await seat.type("status:interrupted")
        await seat.press("enter")
        assert [one.thread_id for one in seat.main.threads_pane.listing.shown] == ["user-4711"]
        # Why: the question is in the tree and in the state.
        await seat.press("enter")
        assert seat.sees("? ", "question", "interrupted")
        old = seat.main.place
        assert old is not None
        await seat.press("k", "B", "y")
        await seat.until(lambda: seat.sees("rolled back"))
        await seat.press("slash")
        with SqliteSaver.from_conn_string(str(store)) as saver:
            graph = graphs.ask_alone(saver)
            head = graph.get_state(config_of("user-4711"))
            assert head.config["configurable"]["checkpoint_id"] != old.checkpoint_id
            graph.invoke(None, config_of("user-4711"))
            history = [
                one.config["configurable"]["checkpoint_id"]
                for one in graph.get_state_history(config_of("user-4711"))
            ]
        assert old.checkpoint_id in history
        await seat.press("escape", "r")
        await seat.until(lambda: seat.sees("2 branches"))
        assert seat.main.tree_pane.rows.picture is not None
        assert seat.main.tree_pane.rows.picture.line_of(("", history[0])) is not None

    sit(store, work, writes=True)
