"""Fill a store with credentials through LangGraph's own savers."""

import operator
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.store.sqlite import SqliteStore
from langgraph.types import interrupt

THREAD = "user-42"


class Leaky(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    config: dict[str, Any]
    log: Annotated[list[str], operator.add]
    blob: bytes
    asked: str


def fill(path: Path, planted: dict[str, Any]) -> None:
    """Fill a SQLite file with a thread, and with an item of long-term memory."""
    with closing(sqlite3.connect(path, check_same_thread=False)) as db:
        run(SqliteSaver(db), planted)
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as db:
        store = SqliteStore(db)
        store.setup()
        store.put(("users", "anna"), "profile", planted["item"])


def run(saver: Any, planted: dict[str, Any], **options: Any) -> None:
    """Run a graph that puts what is planted where agents put it, and stops at a question."""

    def connect(_: Leaky) -> Leaky:
        call = {"name": "call", "args": planted["args"], "id": "call-1"}
        return {
            "messages": [AIMessage(planted["answer"], id="m-ai", tool_calls=[call])],
            "config": planted["config"],
        }

    def use(_: Leaky) -> Leaky:
        return {
            "messages": [ToolMessage(planted["result"], tool_call_id="call-1", id="m-tool")],
            "log": [planted["line"]],
            "blob": planted["blob"],
        }

    def ask(_: Leaky) -> Leaky:
        return {"asked": interrupt({"draft": planted["question"]})}

    graph: Any = StateGraph(Leaky)
    graph.add_node("connect", connect)
    graph.add_node("use", use)
    graph.add_node("ask", ask)
    graph.add_edge(START, "connect")
    graph.add_edge("connect", "use")
    graph.add_edge("use", "ask")
    graph.add_edge("ask", END)
    graph.compile(checkpointer=saver).invoke(
        {"messages": [HumanMessage(planted["input"], id="m-human")]},
        {"configurable": {"thread_id": THREAD}, "metadata": {"session": planted["metadata"]}},
        **options,
    )
