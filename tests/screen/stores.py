"""Stores on which the screen is opened."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from ckpt_backends.testing.official import config_of
from ckpt_backends.testing.scenarios import graphs


def stored(path: Path, *updates: Mapping[str, object]) -> Path:
    """A store with one thread of some updates; items are added to those before."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        for one in updates:
            graphs.linear(saver).update_state(config_of("long"), one, as_node="read")
    return path


def many(path: Path, number: int) -> None:
    """A store of so many threads that are done, and a newest one in which a question waits."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graphs.linear(saver).invoke({"items": ["in"]}, config_of("done"))
        graphs.ask_alone(saver).invoke({"items": ["in"]}, config_of("newest"))
    copied(path, "done", number)


def copied(path: Path, thread_id: str, number: int) -> None:
    """Add so many copies of a thread."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in ("checkpoints", "writes"):
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            rest = ", ".join(name for name in columns if name != "thread_id")
            connection.execute(
                f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
                f" INSERT INTO {table} (thread_id, {rest})"
                f" SELECT printf('user-%05d', i), {rest} FROM {table}, n WHERE thread_id = ?",
                [number, thread_id],
            )


class State(TypedDict, total=False):
    items: Annotated[list[int], add]
    budget: int | None


def long_graph(saver: Any, turns: int, wrong: int) -> Any:
    """A graph that plans and acts in turns. It sets its budget, which is wrong from some turn on.

    Each turn writes `budget`, as nodes that return the whole state do. A fourth of the way to what
    is wrong, it is first set to what is right.
    """

    def act(state: State) -> State:
        number = len(state["items"])
        return {"budget": None if number < wrong // 4 else 500 if number < wrong else -40}

    graph = StateGraph(State)
    graph.add_node("plan", lambda _: {"items": [1]})
    graph.add_node("act", act)
    graph.add_edge(START, "plan")
    graph.add_edge("plan", "act")
    graph.add_conditional_edges(
        "act", lambda state: END if len(state["items"]) % turns == 0 else "plan"
    )
    return graph.compile(checkpointer=saver)


def long_thread(path: Path, turns: int, wrong: int) -> None:
    """Let the graph run once."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.conn.execute("PRAGMA synchronous = OFF")
        config: Any = {**config_of("long"), "recursion_limit": 2 * turns + 2}
        long_graph(saver, turns, wrong).invoke({"items": []}, config)
