"""An agent that works on a SQLite file until it is told to stop. Run with the path of the file.

The last of its threads then waits for an answer.
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.graph import StateGraph
from langgraph.types import interrupt

TRIP = "trip"
"""The thread that asks a question in the end."""


class Notes(TypedDict):
    items: Annotated[list[str], lambda old, new: old + new]


def graph_of(saver: Any) -> Any:
    """Return a graph that notes each word, and asks before it does what `book` says."""

    def note(state: Notes) -> Any:
        return {"items": [f"noted {len(state['items'])}"]}

    def book(state: Notes) -> Any:
        if state["items"][-2] != "book":
            return {}
        return {"items": [f"booked: {interrupt('book it?')}"]}

    builder = StateGraph(Notes)
    builder.add_node("note", note)
    builder.add_node("book", book)
    builder.add_edge("__start__", "note")
    builder.add_edge("note", "book")
    return builder.compile(checkpointer=saver)


def config_of(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id}}


def work(path: Path) -> None:
    """Add turns to some threads until the file `stop` is there, then ask."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        saver = SqliteSaver(connection)
        saver.setup()
        graph = graph_of(saver)
        turn = 0
        while not path.with_name("stop").exists():
            turn += 1
            thread = TRIP if turn % 3 == 0 else f"t{turn % 7}"
            graph.invoke({"items": [f"turn {turn}"]}, config_of(thread))
            print(turn, flush=True)
        graph.invoke({"items": ["book"]}, config_of(TRIP))


if __name__ == "__main__":
    work(Path(sys.argv[1]))
