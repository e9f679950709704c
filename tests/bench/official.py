"""What the official library says of a copied thread: the copies in the stores are real threads."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver

from tests.bench import agent, make_postgres
from tests.bench.declared import Asked, Made


def equals_official_on_sqlite(made: Made, ask: Asked) -> None:
    """Assert that `show` and `history` say what the library says of the waiting thread."""
    uri = f"file:{made.url}?mode=ro"
    waiting = made.facts["waiting"]
    with closing(sqlite3.connect(uri, uri=True, check_same_thread=False)) as connection:
        config = {"configurable": {"thread_id": waiting}}
        history = list(agent.build(SqliteSaver(connection)).get_state_history(config))
    shown = _compared(history, ask, waiting, "tools")
    ids = [message.id for message in history[0].values["messages"]]
    assert [message["id"] for message in shown["values"]["messages"]] == ids
    assert shown["interrupts"][0]["interrupt_id"] == history[0].interrupts[0].id


def equals_official_on_postgres(made: Made, ask: Asked) -> None:
    """Assert the same on PostgreSQL."""
    waiting, steps = made.facts["waiting"], int(made.facts["steps"])
    with PostgresSaver.from_conn_string(made.url) as saver:
        config = {"configurable": {"thread_id": waiting}}
        history = list(make_postgres.build(saver, steps - 2, True).get_state_history(config))
    assert history[0].interrupts
    shown = _compared(history, ask, waiting, "work")["values"]
    # An empty default is stored nowhere.
    assert {"messages": [], **shown} == history[0].values


def _compared(history: list[Any], ask: Asked, thread_id: str, node: str) -> Any:
    head, *earlier = history
    assert head.next == (node,)
    assert all(task.result is not None for one in earlier for task in one.tasks)
    shown = ask("show", thread_id)
    assert shown["waiting"] == [node]
    told = [
        (one["checkpoint_id"], one["ts"][:19], sorted(one["next"]))
        for one in ask("history", thread_id)
    ]
    assert told == [
        (one.config["configurable"]["checkpoint_id"], one.created_at[:19], sorted(one.next))
        for one in history
    ]
    return shown
