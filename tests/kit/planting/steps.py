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
from langgraph.graph.message import add_messages

from tests.kit.agents.small import chain

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
            own = f"{name}{n}"
            return {"log": [f"{name} {n}"], "total": n, "facts": {own: n}, "tags": {own}}

        return run

    def close(state: Any) -> dict[str, Any]:
        return {"log": ["closed"], "mood": f"closed {len(state['messages'])}"}

    builder = chain(Planted, {"model": model})
    for name in ("left", "right"):
        builder.add_node(name, note(name)).add_edge("model", name)
    builder.add_node("close", close).add_edge(["left", "right"], "close")
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
        where, one = "WHERE checkpoint_id = ?", self.ids()[step]
        query = f"SELECT type, checkpoint FROM checkpoints {where}"
        body = SERDE.loads_typed(self.db.execute(query, [one]).fetchone())
        change(body["channel_values"])
        update = f"UPDATE checkpoints SET type = ?, checkpoint = ? {where}"
        self.db.execute(update, [*SERDE.dumps_typed(body), one])

    def write(self, step: int, channel: str, change: Callable[[Any], Any], path: str = "%") -> None:
        """Change what a task of the checkpoint of this step wrote to a channel."""
        for rowid, tag, data in self._writes("SELECT rowid, type, value", step, channel, path):
            value = SERDE.dumps_typed(change(SERDE.loads_typed((tag, data))))
            update = "UPDATE writes SET type = ?, value = ? WHERE rowid = ?"
            self.db.execute(update, [*value, rowid])

    def drop_write(self, step: int, channel: str, path: str = "%") -> None:
        self._writes("DELETE", step, channel, path)

    def swap_writes(self, step: int, channel: str, one: str, other: str) -> None:
        """Exchange the values that two tasks wrote to a channel."""
        found = [
            *self._writes("SELECT rowid, value", step, channel, f"%{one}"),
            *self._writes("SELECT rowid, value", step, channel, f"%{other}"),
        ]
        for (rowid, _), (_, value) in zip(found, reversed(found), strict=True):
            self.db.execute("UPDATE writes SET value = ? WHERE rowid = ?", [value, rowid])

    def _writes(self, what: str, step: int, channel: str, path: str) -> list[Any]:
        where = "checkpoint_id = ? AND channel = ? AND task_path LIKE ?"
        key = [self.ids()[step], channel, path]
        return self.db.execute(f"{what} FROM writes WHERE {where}", key).fetchall()
