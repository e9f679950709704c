"""Steps that cannot be saved, because the engine refuses their checkpoint each time."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph

from tests.kit.command import ckpt
from tests.kit.harness.mongodb import Place
from tests.kit.servers import Server, mongodb_database, postgres_database

ATTEMPTS = 3
CONFIG: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    log: Annotated[list[str], list.__add__]
    text: str


def attempts(saver: Any, last: Callable[[], State], durability: str = "async") -> None:
    """Run a graph whose second step cannot be saved, and resume it again and again."""
    builder: Any = StateGraph(State)
    builder.add_node("first", lambda _: {"log": ["x" * (5 << 20)], "text": "sound"})
    builder.add_node("second", lambda _: last()).add_node("third", lambda _: {"log": ["end"]})
    builder.add_edge(START, "first").add_edge("first", "second").add_edge("second", "third")
    graph = builder.compile(checkpointer=saver)
    for attempt in range(ATTEMPTS):
        given: Any = None if attempt else {"log": []}
        with pytest.raises(Exception, match=r"full|NUL|u0000|0x00|too large"):
            graph.invoke(given, CONFIG, durability=durability)


def told(store: Path | str) -> tuple[str, str]:
    """What doctor says of the step, and why the thread waits."""
    found = ckpt("-s", store, "doctor", "--grace", "0s", "-o", "json").json["findings"]
    (detail,) = (one["detail"] for one in found if one["code"] == "step-uncommitted")
    later = ("--as-of", "2999-01-01")
    (thread,) = ckpt("-s", store, "threads", "list", *later, "--long", "-o", "json").json
    assert thread["why"]["code"] == "cannot-save"
    return detail, thread["why"]["text"]


class Full(SqliteSaver):
    """A saver that has no room for the checkpoint of the second step."""

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        if metadata["step"] > 1:
            raise OSError("the disk is full")
        return super().put(config, checkpoint, metadata, new_versions)


def test_each_attempt_leaves_writes_without_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "full.db"
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        attempts(Full(connection), lambda: {"log": ["end"]})
    assert told(path) == (
        "'second' finished, and no checkpoint followed; it could not be saved 3 times",
        "step 2 could not be saved 3 times",
    )


@pytest.mark.engines
def test_postgresql_refuses_a_nul_character(postgres_server: Server) -> None:
    with postgres_database(postgres_server) as url:
        with PostgresSaver.from_conn_string(url) as saver:
            saver.setup()
            attempts(saver, lambda: {"text": "a\0b"}, "sync")
        detail, why = told(url)
    assert detail.endswith("; it could not be saved: a NUL character in 'text'")
    assert why == "step 2 could not be saved: a NUL character in 'text'?"


@pytest.mark.engines
def test_mongodb_refuses_a_large_document(mongodb_server: Server) -> None:
    with mongodb_database(mongodb_server) as url:
        place = Place(url)
        with closing(place.client):
            attempts(place.saver(), lambda: {"log": ["x" * (12 << 20)]}, "sync")
        detail, why = told(url)
    assert detail.endswith("; it could not be saved: 17.0 MiB, too large for a document")
    assert why == "step 2 could not be saved: 17.0 MiB, too large for a document?"
