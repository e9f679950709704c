"""A SQLite store on which each command that changes threads or memory has something to do."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import MessagesState
from langgraph.store.sqlite import SqliteStore

from tests.kit.agents.asking import Two
from tests.kit.agents.small import chain
from tests.kit.command import copy_store
from tests.kit.planting.steps import THREAD, Rows, talk

STALE = ("stale-a", "stale-b")
UNANSWERED = "unanswered"
DAMAGED = THREAD
ORPHANED = "weekly-digest"


def fill(folder: Path, sample: Path) -> Path:
    path = copy_store(sample, folder)
    with closing(sqlite3.connect(path, check_same_thread=False)) as db:
        saver = SqliteSaver(db)
        two = Two(saver)
        for name in STALE:
            two.make_stale({"configurable": {"thread_id": name}})
        _ask_in_vain(saver)
        talk(saver, turns=1)
    with closing(sqlite3.connect(path)) as db, db:
        _damage(db)
        _orphan(db)
    with SqliteStore.from_conn_string(str(path)) as store:
        store.setup()
        for key in ("profile", "tea", "time"):
            store.put(("users", "anna"), key, {"text": key})
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
    return path


def _ask_in_vain(saver: Any) -> None:
    """Write a thread with a tool call that has no result."""
    call = {"name": "search", "args": {}, "id": "call-1", "type": "tool_call"}
    nodes = {
        "ask": lambda _: {"messages": [AIMessage("", id="1", tool_calls=[call])]},
        "answer": lambda _: {"messages": [AIMessage("done", id="2")]},
    }
    graph = chain(MessagesState, nodes).compile(checkpointer=saver)
    config = {"configurable": {"thread_id": UNANSWERED}}
    graph.invoke({"messages": [HumanMessage("find it", id="0")]}, config)


def _damage(db: sqlite3.Connection) -> None:
    query = "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? ORDER BY 1 DESC LIMIT 1"
    ((head,),) = db.execute(query, [DAMAGED]).fetchall()
    rows = Rows(db)
    (step,) = (step for step, one in rows.ids().items() if one == head)
    rows.body(step, lambda values: values.pop("log"))


def _orphan(db: sqlite3.Connection) -> None:
    (row,) = db.execute("SELECT * FROM writes WHERE thread_id = ? LIMIT 1", [ORPHANED])
    names = [name for _, name, *_ in db.execute("PRAGMA table_info(writes)")]
    cells = dict(zip(names, row, strict=True))
    cells["checkpoint_id"] = "1ef00000-0000-6000-8000-000000000000"
    marks = ", ".join("?" * len(cells))
    db.execute(f"INSERT INTO writes VALUES ({marks})", list(cells.values()))
