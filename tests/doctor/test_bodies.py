"""What a body must have, so that LangGraph loads it and goes on from it: its own graph says so."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from tests.doctor.asking import codes, findings
from tests.kit.command import ckpt

KEYS = ("v", "ts", "id", "channel_values", "channel_versions", "versions_seen")
GONE = "left out"
CHANGES: list[tuple[str, Any]] = [
    *((key, GONE) for key in (*KEYS, "updated_channels")),
    *((key, None) for key in KEYS),
    *((key, []) for key in ("channel_values", "channel_versions", "versions_seen")),
    ("v", "4"),
    ("v", 99),
    ("channel_versions", {"messages": None}),
    ("versions_seen", {"ask": None}),
]
CONFIG: Any = {"configurable": {"thread_id": "t"}}


def ask(_state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage(interrupt("?"))]}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A store with one thread that waits for an answer."""
    path = tmp_path_factory.mktemp("filled") / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph(saver).invoke({"messages": [HumanMessage("h")]}, CONFIG)
    return path.read_bytes()


def graph(saver: SqliteSaver) -> Any:
    builder: Any = StateGraph(MessagesState)
    return builder.add_node("ask", ask).add_edge(START, "ask").compile(saver)


@pytest.mark.parametrize(("key", "value"), CHANGES, ids=lambda one: repr(one)[:24])
def test_a_body_that_langgraph_cannot_use_is_found(
    key: str, value: Any, filled: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(filled)
    with SqliteSaver.from_conn_string(str(path)) as saver:
        body: dict[str, Any] = dict(saver.get_tuple(CONFIG).checkpoint)  # type: ignore[union-attr]
        body[key] = value
        given = {name: one for name, one in body.items() if one is not GONE}
        kind, data = saver.serde.dumps_typed(given)
        saver.conn.execute(
            "UPDATE checkpoints SET type = ?, checkpoint = ?"
            " WHERE checkpoint_id = (SELECT max(checkpoint_id) FROM checkpoints)",
            (kind, data),
        )
        saver.conn.commit()
    found = findings(path)
    copied = ckpt("-s", str(path), "rollback", "t", "head", "--dry-run")
    expected = ["body-unreadable"] if is_refused(path) else []
    assert [one["code"] for one in found] == expected
    assert [one for one in codes(path, "--deep") if one != "state-mismatch"] == expected
    assert all(f"'{key}'" in one["detail"] for one in found)
    if expected:
        assert f"it has no valid '{key}'" in copied.err


def is_refused(path: Path) -> bool:
    """Return whether LangGraph fails to load the thread, to resume it, or to go on with it."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        try:
            graph(saver).get_state(CONFIG)
            graph(saver).invoke(Command(resume="yes"), CONFIG)
            graph(saver).invoke({"messages": [HumanMessage("again")]}, CONFIG)
        except (KeyError, TypeError, AttributeError):
            return True
    return False
