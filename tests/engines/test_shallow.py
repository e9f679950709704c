"""Savers that keep the newest checkpoint alone.

Without a snapshot in it, a DeltaChannel is made of the writes of earlier checkpoints, which are
gone: the official saver reads it as empty, and no command invents a value.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AnyMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.errors import GraphRecursionError
from langgraph.graph import StateGraph
from langgraph.graph.message import _messages_delta_reducer

from ckpt_backends.model import Capability
from ckpt_backends.registry import open_store
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.screen import Seat, sit
from ckpt_cli.reading.thread import ThreadReader, why_of
from tests.engines.commands import COMMANDS, PLANNED
from tests.kit.agents.steps import SAID, config_of, talk
from tests.kit.command import ckpt

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
LATER = datetime(2999, 1, 1, tzinfo=UTC)
WHY = "not stored: it is rebuilt from earlier checkpoints, and the shallow saver keeps none"


def _append(values: list[str], writes: list[list[str]]) -> list[str]:
    return values + [one for some in writes for one in some]


class State(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]
    count: int


class Often(TypedDict):
    items: Annotated[list[str], DeltaChannel(_append, list, snapshot_frequency=1)]


on_each = pytest.mark.parametrize(
    "place", ["postgres-shallow", "mysql-shallow", "redis-shallow"], indirect=True
)


@on_each
def test_a_shallow_store_has_one_checkpoint_a_namespace(place: Harness) -> None:
    talk(place.kept_saver, "trip")
    head = place.kept_saver.get_tuple(config_of("trip"))
    before = place.fingerprint()
    with open_store(place.url) as store:
        info = store.describe()
        assert info.layout == place.name
        assert Capability.HISTORY not in info.capabilities
        (thread,) = store.threads()
        assert thread == store.thread("trip")
        assert (thread.head, thread.checkpoints) == (head.checkpoint["id"], 1)
        assert store.size("trip").bytes > 0
    shown = ckpt("-s", place.url, "show", "trip", "-o", "json").json
    assert shown["checkpoint_id"] == head.checkpoint["id"]
    values = {"items": ["in trip", "from a", "from b"], "n": 1, "messages": [SAID]}
    assert (shown["values"], shown["next"]) == (values, [])
    for words in COMMANDS:
        assert ckpt("-s", place.url, *words).code == 0, words
    for words in PLANNED:
        refused = ckpt("-s", place.url, *words)
        assert (refused.code, refused.out, "hint: " in refused.err) == (4, "", True), words
    assert place.fingerprint() == before


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


@on_each
def test_show_says_that_it_is_not_stored(store: str) -> None:
    shown = ckpt("-s", store, "show", "trip", "-o", "json").json
    assert shown["values"]["count"] == 2
    assert shown["values"]["messages"]["$opaque"]["reason"] == WHY
    assert shown["unstored"] == ["messages"]
    assert shown["rebuilt"] == {}
    text = ckpt("-s", store, "show", "trip", "-o", "table").out
    assert WHY.replace(" ", "") in "".join(text.split())
    assert "messages: written, but the value is not stored" in text
    assert "null" not in text
    assert "assumed" not in text
    one = ckpt("-s", store, "show", "trip", "--channel", "messages", "-o", "json").json
    assert one["unstored"] == ["messages"]
    redacted = ckpt("-s", store, "--redact", "show", "trip", "-o", "table").out
    assert "messages: written, but the value is not stored" in redacted


@on_each
@pytest.mark.parametrize("channel", [[], ["--channel", "messages"]])
def test_messages_says_so(store: str, channel: list[str]) -> None:
    refused = ckpt("-s", store, "messages", "trip", *channel)
    assert refused.code == 4
    assert f"channel 'messages' is {WHY}" in refused.err


@on_each
def test_what_compares_values_says_so(store: str) -> None:
    (entry,) = ckpt("-s", store, "history", "trip", "-o", "json").json
    assert entry["step"] == 2
    changes = ckpt("-s", store, "diff", "trip", "-o", "json").json["channels"]
    assert changes["messages"]["after"]["$opaque"]["reason"] == WHY
    assert changes["count"]["after"] == 2
    assert "null" not in ckpt("-s", store, "diff", "trip", "-o", "table").out
    verified = ckpt("-s", store, "replay", "trip", "--verify", "-o", "json").json
    reasons = {one["channel"]: one["reason"] for one in verified["findings"]}
    assert reasons == {"count": "its parent is not stored", "messages": "its value is not stored"}
    blamed = ckpt("-s", store, "blame", "trip", "messages", "-o", "json").json
    assert blamed["value"]["$opaque"]["reason"] == WHY


@on_each
def test_the_screen_says_so(store: str) -> None:
    async def look(seat: Seat) -> None:
        assert seat.sees("messages", "not stored: it is rebuilt")
        assert not seat.sees("assumed")

    sit(store, look, size=(200, 40))


@pytest.mark.parametrize("place", ["redis-shallow"], indirect=True)
def test_a_stored_snapshot_is_shown(place: Harness) -> None:
    """What the shallow saver does store is not lost."""
    builder: Any = StateGraph(Often)
    builder.add_node("a", lambda state: {"items": ["from a"]})
    builder.add_edge("__start__", "a")
    graph = builder.compile(checkpointer=place.kept_saver)
    graph.invoke({"items": ["in"]}, config_of("trip"), durability="sync")
    shown = ckpt("-s", place.url, "show", "trip", "-o", "json").json
    assert shown["values"]["items"] == ["in", "from a"]
    assert "unstored" not in shown


@on_each
@pytest.mark.parametrize("back", ["--steps=1", "--last-good", "--to-last=done", "head"])
def test_a_rollback_is_refused_with_the_reason(store: str, back: str) -> None:
    refused = ckpt("-s", store, "rollback", "trip", back, "--dry-run")
    assert refused.code == 4
    assert "keeps no history to go back to" in refused.err


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
        why = why_of(reader, reader.moment("", str(thread.head)), LATER)
    assert (why and why.code) == "killed"
