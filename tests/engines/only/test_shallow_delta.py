"""A DeltaChannel of a shallow saver is not stored, and no command invents a value.

A shallow saver keeps the newest checkpoint alone. Without a snapshot there, a DeltaChannel is made
of the writes of earlier checkpoints, which are gone: the official saver reads it as empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AnyMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import StateGraph
from langgraph.graph.message import _messages_delta_reducer

from ckpt_backends.testing.screen import Seat, sit
from tests.kit.command import ckpt
from tests.kit.servers import mysql_connection

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
WHY = "not stored: it is rebuilt from earlier checkpoints, and the shallow saver keeps none"


def _append(values: list[str], writes: list[list[str]]) -> list[str]:
    return values + [one for some in writes for one in some]


class State(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]
    count: int


class Often(TypedDict):
    items: Annotated[list[str], DeltaChannel(_append, list, snapshot_frequency=1)]


@contextmanager
def _saver(layout: str, url: str) -> Iterator[Any]:
    saver: Any
    if layout == "postgres-shallow":
        from langgraph.checkpoint.postgres.shallow import ShallowPostgresSaver

        with ShallowPostgresSaver.from_conn_string(url) as saver:
            saver.setup()
            yield saver
    elif layout == "redis-shallow":
        from langgraph.checkpoint.redis.shallow import ShallowRedisSaver

        with ShallowRedisSaver.from_conn_string(url) as saver:
            saver.setup()
            yield saver
    else:
        from langgraph.checkpoint.mysql.pymysql import ShallowPyMySQLSaver

        with mysql_connection(url) as connection:
            saver = ShallowPyMySQLSaver(connection)
            saver.setup()
            yield saver


SERVERS = {
    "postgres-shallow": "postgres_url",
    "mysql-shallow": "mysql_url",
    "redis-shallow": "redis_stack_url",
}


@pytest.fixture(params=list(SERVERS))
def store(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(SERVERS[request.param])
    builder: Any = StateGraph(State)
    builder.add_node("a", lambda state: {"messages": [("ai", "from a")], "count": 1})
    builder.add_node("b", lambda state: {"messages": [("ai", "from b")], "count": 2})
    builder.add_edge("__start__", "a")
    builder.add_edge("a", "b")
    with _saver(request.param, url) as saver:
        graph = builder.compile(checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "trip"}}
        graph.invoke({"messages": [("user", "hello")], "count": 0}, config, durability="sync")
        assert graph.get_state(config).values["messages"] == []
    return url


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


@pytest.mark.parametrize("channel", [[], ["--channel", "messages"]])
def test_messages_says_so(store: str, channel: list[str]) -> None:
    refused = ckpt("-s", store, "messages", "trip", *channel)
    assert refused.code == 4
    assert f"channel 'messages' is {WHY}" in refused.err


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


def test_the_screen_says_so(store: str) -> None:
    async def look(seat: Seat) -> None:
        assert seat.sees("messages", "not stored: it is rebuilt")
        assert not seat.sees("assumed")

    sit(store, look, size=(200, 40))


def test_a_stored_snapshot_is_shown(redis_stack_url: str) -> None:
    """What the shallow saver does store is not lost."""
    builder: Any = StateGraph(Often)
    builder.add_node("a", lambda state: {"items": ["from a"]})
    builder.add_edge("__start__", "a")
    with _saver("redis-shallow", redis_stack_url) as saver:
        config: Any = {"configurable": {"thread_id": "trip"}}
        builder.compile(checkpointer=saver).invoke({"items": ["in"]}, config, durability="sync")
    shown = ckpt("-s", redis_stack_url, "show", "trip", "-o", "json").json
    assert shown["values"]["items"] == ["in", "from a"]
    assert "unstored" not in shown


@pytest.mark.parametrize("back", ["--steps=1", "--last-good", "--to-last=done", "head"])
def test_a_rollback_is_refused_with_the_reason(store: str, back: str) -> None:
    refused = ckpt("-s", store, "rollback", "trip", back, "--dry-run")
    assert refused.code == 4
    assert "keeps no history to go back to" in refused.err
