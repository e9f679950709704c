"""A thread written by the official saver, and faults inserted into its rows."""

import operator
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

SERDE = JsonPlusSerializer()
THREAD = "planted"
TURNS = 3


class Planted(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    log: Annotated[list[str], operator.add]
    total: Annotated[int, operator.add]
    facts: Annotated[dict[str, int], operator.or_]
    tags: Annotated[set[str], operator.or_]
    mood: str


def graph(saver: Any) -> Any:
    """Build the graph model -> two parallel nodes -> close; each turn adds to every channel."""

    def model(state: Any) -> dict[str, Any]:
        n = len(state["messages"])
        return {"messages": [AIMessage(f"answer {n}", id=f"ai-{n}")], "mood": f"mood {n}"}

    def note(name: str) -> Callable[[Any], dict[str, Any]]:
        def run(state: Any) -> dict[str, Any]:
            n = len(state["messages"])
            return {
                "log": [f"{name} {n}"],
                "total": n,
                "facts": {f"{name}{n}": n},
                "tags": {f"{name}{n}"},
            }

        return run

    def close(state: Any) -> dict[str, Any]:
        return {"log": ["closed"], "mood": f"closed {len(state['messages'])}"}

    builder: Any = StateGraph(Planted)
    for name, node in {
        "model": model,
        "left": note("left"),
        "right": note("right"),
        "close": close,
    }.items():
        builder.add_node(name, node)
    builder.add_edge(START, "model")
    builder.add_edge("model", "left")
    builder.add_edge("model", "right")
    builder.add_edge(["left", "right"], "close")
    builder.add_edge("close", END)
    return builder.compile(checkpointer=saver)


def talk(saver: Any, thread_id: str = THREAD, turns: int = TURNS) -> None:
    """Run some turns of one conversation."""
    config = {"configurable": {"thread_id": thread_id}}
    for turn in range(turns):
        human = HumanMessage(f"question {turn}", id=f"human-{turn}")
        # Not in the background, which may store a join's set as changed by the next step.
        graph(saver).invoke({"messages": [human], "log": ["asked"]}, config, durability="sync")


def make_store(path: Path) -> None:
    with SqliteSaver.from_conn_string(str(path)) as saver:
        talk(saver)


@dataclass
class Rows:
    """The rows of a SQLite store, changed through the official serializer."""

    db: sqlite3.Connection

    def ids(self) -> dict[int, str]:
        """Return step to checkpoint id."""
        rows = self.db.execute("SELECT checkpoint_id, json(metadata) FROM checkpoints")
        return {SERDE.loads_typed(("json", text.encode()))["step"]: one for one, text in rows}

    def body(self, step: int, change: Callable[[dict[str, Any]], Any]) -> None:
        """Change the values of the checkpoint of this step."""
        where = "FROM checkpoints WHERE checkpoint_id = ?"
        one = self.ids()[step]
        ((tag, data),) = self.db.execute(f"SELECT type, checkpoint {where}", [one]).fetchall()
        body = SERDE.loads_typed((tag, data))
        change(body["channel_values"])
        tag, data = SERDE.dumps_typed(body)
        self.db.execute(
            "UPDATE checkpoints SET type = ?, checkpoint = ? WHERE checkpoint_id = ?",
            [tag, data, one],
        )

    def write(self, step: int, channel: str, change: Callable[[Any], Any], path: str = "%") -> None:
        """Change what a task of the checkpoint of this step wrote to a channel."""
        where = "checkpoint_id = ? AND channel = ? AND task_path LIKE ?"
        key = [self.ids()[step], channel, path]
        found = self.db.execute(f"SELECT rowid, type, value FROM writes WHERE {where}", key)
        for rowid, tag, data in found.fetchall():
            value = SERDE.dumps_typed(change(SERDE.loads_typed((tag, data))))
            self.db.execute(
                "UPDATE writes SET type = ?, value = ? WHERE rowid = ?", [*value, rowid]
            )

    def drop_write(self, step: int, channel: str, path: str = "%") -> None:
        where = "checkpoint_id = ? AND channel = ? AND task_path LIKE ?"
        self.db.execute(f"DELETE FROM writes WHERE {where}", [self.ids()[step], channel, path])

    def swap_writes(self, step: int, channel: str, one: str, other: str) -> None:
        """Exchange the values that two tasks wrote to a channel."""
        where = "checkpoint_id = ? AND channel = ? AND task_path LIKE ?"
        found = [
            self.db.execute(
                f"SELECT rowid, value FROM writes WHERE {where}",
                [self.ids()[step], channel, f"%{node}"],
            ).fetchone()
            for node in (one, other)
        ]
        for (rowid, _), (_, value) in zip(found, reversed(found), strict=True):
            self.db.execute("UPDATE writes SET value = ? WHERE rowid = ?", [value, rowid])
