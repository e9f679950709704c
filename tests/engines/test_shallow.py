"""Savers that keep the newest checkpoint alone.

Without a snapshot in it, a DeltaChannel is made of the writes of earlier checkpoints, which are
gone: the official saver reads it as empty, and no command invents a value.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AnyMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.errors import GraphRecursionError
from langgraph.graph import StateGraph
from langgraph.graph.message import _messages_delta_reducer

from ckpt_backends.registry import open_store
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.screen import Seat, sit
from ckpt_cli.reading.thread import ThreadReader, why_of
from tests.engines.answers import PLANNED, refuses
from tests.kit.agents.steps import config_of
from tests.kit.command import ckpt

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
WHY = "not stored: it is rebuilt from earlier checkpoints, and the shallow saver keeps none"


class State(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]
    count: int


@pytest.fixture
def store(place: Harness) -> str:
    builder: Any = StateGraph(State)
    builder.add_node("a", lambda state: {"messages": [("ai", "from a")], "count": 1})
    builder.add_node("b", lambda state: {"messages": [("ai", "from b")], "count": 2})
    builder.add_edge("__start__", "a")
    builder.add_edge("a", "b")
    graph = builder.compile(checkpointer=place.kept_saver)
    said = {"messages": [("user", "hello")], "count": 0}
    graph.invoke(said, config_of("trip"), durability="sync")
    assert graph.get_state(config_of("trip")).values["messages"] == []
    return place.url


@pytest.mark.parametrize(
    "place",
    [
        *("postgres-shallow", "redis-shallow"),
        pytest.param("mysql-shallow", marks=pytest.mark.nightly),
    ],
    indirect=True,
)
def test_each_answer_says_that_a_value_is_not_stored(store: str) -> None:
    def asked(*words: str) -> Any:
        return ckpt("-s", store, *words, "-o", "json").json

    shown = asked("show", "trip")
    assert (shown["values"]["count"], shown["values"]["messages"]["$opaque"]["reason"]) == (2, WHY)
    assert (shown["unstored"], shown["rebuilt"]) == (["messages"], {})
    assert asked("show", "trip", "--channel", "messages")["unstored"] == ["messages"]
    assert asked("blame", "trip", "messages")["value"]["$opaque"]["reason"] == WHY
    changes = asked("diff", "trip")["channels"]
    assert changes["messages"]["after"]["$opaque"]["reason"] == WHY
    assert changes["count"]["after"] == 2
    found = asked("replay", "trip", "--verify")["findings"]
    assert {one["channel"]: one["reason"] for one in found} == {
        "count": "its parent is not stored",
        "messages": "its value is not stored",
    }
    for words in (["show", "trip"], ["--redact", "show", "trip"]):
        text = ckpt("-s", store, "-o", "table", *words).out
        assert "messages: written, but the value is not stored" in text
        assert "null" not in text
        assert "assumed" not in text
    for words in (["messages", "trip"], ["messages", "trip", "--channel", "messages"]):
        refuses(store, *words, says=f"channel 'messages' is {WHY}")
    for back in ("--steps=1", "--last-good", "--to-last=done", "head"):
        refuses(store, "rollback", "trip", back, "--dry-run", says="keeps no history to go back to")

    for planned in PLANNED:
        assert ckpt("-s", store, *planned).code == 4, planned

    async def look(seat: Seat) -> None:
        assert seat.sees("messages", "not stored: it is rebuilt")
        assert not seat.sees("assumed")

    sit(store, look, size=(200, 40))


@pytest.mark.parametrize("place", ["postgres-shallow"], indirect=True)
def test_without_history_no_run_is_said_to_have_reached_its_limit(place: Harness) -> None:
    builder: Any = StateGraph(State)
    builder.add_node("think", lambda _: {"count": 1}).add_edge("__start__", "think")
    builder.add_edge("think", "think")
    graph = builder.compile(checkpointer=place.kept_saver)
    with pytest.raises(GraphRecursionError):
        graph.invoke({"count": 0}, {**config_of("t"), "recursion_limit": 25})
    with open_store(place.url) as store:
        (thread,) = store.threads()
        reader = ThreadReader(store, thread)
        why = why_of(reader, reader.moment("", str(thread.head)), datetime(2999, 1, 1, tzinfo=UTC))
    assert (why and why.code) == "killed"


@pytest.mark.parametrize("place", ["redis-shallow"], indirect=True)
def test_a_plan_that_removed_the_last_thread_is_not_repeated(store: str, tmp_path: Path) -> None:
    """Without a thread, the database looks like one of another layout."""
    plan = tmp_path / "plan"
    words = ["threads", "delete", "trip", "--archive", str(tmp_path / "archive")]
    ckpt("-s", store, *words, "--plan-out", plan, code=0)
    ckpt("-s", store, "apply", plan, "--yes", code=0)
    ckpt("-s", store, "apply", plan, "--yes", code=6)
