"""Pickled values that are converted to msgpack, as LangGraph reads them."""

from __future__ import annotations

import os
import pickle
import re
from collections import OrderedDict, defaultdict, deque
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
import zoo_types
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Command, Interrupt, Overwrite, Send

from ckpt_backends.model import TypedBytes
from ckpt_backends.transfer.bodies import open_body
from ckpt_backends.transfer.form import CannotHold, Serializer
from ckpt_backends.transfer.values import as_type, converted_value
from tests.copy.official_readers import read_redis_value, read_typed, same

WHERE = "channel 'a' of checkpoint 'b'"
SHARED = {"shared": [1]}

HELD = [
    {"a": [1, 2.5, None, True, "é", b"raw"], 1: "one", "": {}},
    [SHARED, SHARED],
    [HumanMessage("hi", id="1", extra={"x": 1}), RemoveMessage(id="2")],
    AIMessage("", tool_calls=[{"name": "f", "args": {"x": 1}, "id": "c"}]),
    ToolMessage("out", tool_call_id="c", artifact={"at": datetime(2026, 1, 2, tzinfo=UTC)}),
    Document("text", metadata={"page": 1}),
    zoo_types.Order(
        number=7, items=[zoo_types.Item(sku="A", price=1.5, color=zoo_types.Color.RED)]
    ),
    [zoo_types.Color.BLUE, zoo_types.Level.HIGH, zoo_types.Point(1, 2)],
    [
        datetime(2026, 4, 7, 10, 30, 15, 1),  # noqa: DTZ001
        datetime(2026, 4, 7, tzinfo=timezone(timedelta(hours=3))),
    ],
    [date(2026, 2, 28), time(23, 59, 58, 7), time(1, tzinfo=UTC), timedelta(-1, 5, 7)],
    [UUID(int=2**100), Decimal("12.340"), ip_address("192.0.2.1"), ZoneInfo("Europe/Rome")],
    [Path("/var/log"), re.compile("^a+", re.IGNORECASE), timezone(timedelta(hours=1), "X")],
    [{1, "a"}, frozenset({2}), deque([1, [2]]), set()],
    [Send("n", {"a": 1}), Interrupt({"q": 1}, id="i"), Overwrite([1])],
    [("user", "hi"), {(1, ("a",)): ()}, {(1, 2)}, bytearray(b"x"), deque([1], maxlen=2)],
    Command(update={"a": 1}, resume="x"),
    _DeltaSnapshot([HumanMessage("x")]),
]


@pytest.mark.parametrize("protocol", [4, 5])
@pytest.mark.parametrize("value", HELD, ids=lambda value: type(value).__name__)
def test_a_pickled_value_is_the_same_object_in_msgpack(value: Any, protocol: int) -> None:
    stored = TypedBytes("pickle", pickle.dumps(value, protocol))
    made = converted_value(stored, Serializer.PICKLE, Serializer.TYPED, WHERE)
    assert same(read_typed(made), value)


def test_a_pickled_value_is_the_same_object_in_a_redis_document() -> None:
    value = {"messages": [HumanMessage("hi", id="1")], "at": datetime(2026, 1, 2, tzinfo=UTC)}
    stored = TypedBytes("pickle", pickle.dumps(value))
    made = converted_value(stored, Serializer.PICKLE, Serializer.REDIS_JSON, WHERE, in_body=True)
    assert same(read_redis_value(as_type(made, "redis-json", WHERE)), value)


class Exploit:
    def __reduce__(self) -> Any:
        return os.getcwd, ()


class ExploitWithText:
    def __reduce__(self) -> Any:
        return os.getenv, ("HOME",)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (int, "a class or function"),
        (zoo_types.Address("s", "c"), "'zoo_types.Address'"),
        (zoo_types.Unserializable("x", [1]), "'zoo_types.Unserializable'"),
        (datetime(2026, 1, 1, fold=1), "fold=1"),  # noqa: DTZ001
        (datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Rome")), "an object"),
        (defaultdict(list, a=[1]), "'collections.defaultdict'"),
        (OrderedDict(a=1), "'collections.OrderedDict'"),
        ([2**64], "cannot become msgpack"),
        ("\ud800", "cannot become msgpack"),
        ({b"a": 1}, "keys"),
        (Exploit(), "getcwd'"),
        (ExploitWithText(), "not copied"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_pickled_value_without_an_equal_form_is_refused(value: Any, reason: str) -> None:
    stored = TypedBytes("pickle", pickle.dumps(value))
    with pytest.raises(CannotHold, match=f"{WHERE} .*{reason}"):
        as_type(stored, "msgpack", WHERE)


def test_a_pickle_that_refers_to_itself_is_refused() -> None:
    inside: list[Any] = []
    inside.append(inside)
    with pytest.raises(CannotHold, match="contains itself"):
        as_type(TypedBytes("pickle", pickle.dumps(inside)), "msgpack", WHERE)


def test_a_small_pickle_that_becomes_huge_is_refused() -> None:
    found: list[Any] = ["x"]
    for _ in range(40):
        found = [found, found]
    with pytest.raises(CannotHold, match="too often"):
        as_type(TypedBytes("pickle", pickle.dumps(found)), "msgpack", WHERE)


@pytest.mark.parametrize("data", [b"", b"x", pickle.dumps([1])[:-1], pickle.dumps([1]) + b"x"])
def test_a_damaged_pickle_is_refused(data: bytes) -> None:
    with pytest.raises(CannotHold):
        as_type(TypedBytes("pickle", data), "msgpack", WHERE)


def test_a_pickled_body_is_taken_apart() -> None:
    body = {
        "v": 4,
        "id": "1",
        "channel_values": {"messages": [HumanMessage("x")], "n": 1},
        "channel_versions": {"messages": "1", "n": "2"},
    }
    found = open_body(TypedBytes("pickle", pickle.dumps(body)), "checkpoint '1'")
    assert found.fields == {name: one for name, one in body.items() if name != "channel_values"}
    assert same(read_typed(found.values["messages"]), [HumanMessage("x")])
    body["channel_values"] = {"odd": int}
    with pytest.raises(CannotHold, match="channel 'odd' holds a class"):
        open_body(TypedBytes("pickle", pickle.dumps(body)), "checkpoint '1'")
