"""Values that are converted from one serializer to another, as LangGraph reads them."""

from __future__ import annotations

import re
from collections import deque
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Command, Interrupt, Overwrite, Send, TimeoutPolicy

from ckpt_backends.transfer.form import Serializer
from ckpt_backends.transfer.values import as_type, converted_value
from tests.copy.official_readers import (
    read_redis_value,
    read_typed,
    same,
    typed,
)

WHERE = "channel 'a' of checkpoint 'b'"
REDIS_JSON = "redis-json"

MESSAGES = [
    HumanMessage("hi", id="1"),
    HumanMessage([{"type": "text", "text": "é"}, "b"], name="Ana", favourite=[1, {"a": None}]),
    AIMessage(
        "",
        id="2",
        tool_calls=[{"name": "f", "args": {"x": 1.5}, "id": "c1"}],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        response_metadata={"model": "m", "at": datetime(2026, 1, 2, tzinfo=UTC)},
    ),
    AIMessage(
        "",
        invalid_tool_calls=[
            {"name": "f", "args": "{", "id": "c", "error": "x", "type": "invalid_tool_call"}
        ],
    ),
    AIMessageChunk(
        content="a", tool_call_chunks=[{"name": "f", "args": "{}", "id": "1", "index": 0}]
    ),
    ToolMessage("out", tool_call_id="c1", artifact={"rows": [1, (2, 3)]}, status="error"),
    SystemMessage("s"),
    ChatMessage(content="c", role="critic"),
    FunctionMessage(content="f", name="f"),
    RemoveMessage(id="gone"),
    Document("text", metadata={"page": 1}, id="d"),
]
PLAIN = [
    {"a": [{"b": [{"c": [[], {}, [None]]}]}], "": "empty key"},
    {"$type": "not.a.Type", "$$x": 1, "plain": {"$bytes": "aGk="}},
    {"lc": 3, "type": "constructor"},
    [2**60, -(2**63), 2**64 - 1, 2**53 + 1, True, False, None],
    [0.1, -0.0, 1e22, 5e-324, 1.7976931348623157e308, 4.1775159910395057e-13, 1.0],
    "tab\tnewline\nnul\x00 esc\x1b[31m 你好 🌏 \u2028",
    b"\x00\xff",
    {"blob": b"", "list": [b"x"]},
]
STANDARD = [
    datetime(2026, 4, 7, 10, 30, 15, 123456),  # noqa: DTZ001
    datetime(2026, 4, 7, 10, 30, tzinfo=UTC),
    datetime(2026, 4, 7, 10, 30, tzinfo=timezone(timedelta(hours=-5.5))),
    [date(2026, 2, 28), time(23, 59, 58, 7), time(1, 2, tzinfo=UTC), time(1, fold=1)],
    [
        timedelta(days=-1, seconds=5, microseconds=7),
        timedelta(0),
        timezone(timedelta(hours=-3), "X"),
    ],
    [UUID(int=2**100 + 7), Decimal("12.340"), Decimal("-0E+3"), Decimal("NaN").__abs__()][:3],
    [{"b", "a"}, frozenset({3, 1}), deque([1, "two", None, [3]]), set(), frozenset(), deque()],
    [{date(2026, 1, 1), UUID(int=1), frozenset({1})}],
    [Path("/var/log/a b.txt"), Path("x/y"), Path(), re.compile(r"^a+\s", re.IGNORECASE)],
    [ip_address("192.0.2.1"), ip_address("::1"), ip_network("10.0.0.0/8"), ZoneInfo("Europe/Rome")],
]
LANGGRAPH = [
    [
        Send("node", {"a": 1, "b": b"raw"}),
        Send("n", HumanMessage("x"), timeout=TimeoutPolicy(run_timeout=3.0)),
    ],
    (Interrupt({"question": "?"}, id="i1"),),
    [Command(update={"a": 1}, goto=["x", Send("y", 2)], resume={"i": 3}), Overwrite([1])],
    _DeltaSnapshot([HumanMessage("x"), {"raw": b"x"}]),
]
HELD = [*MESSAGES, *PLAIN, *STANDARD, *LANGGRAPH, MESSAGES]


@pytest.mark.parametrize("value", HELD, ids=lambda value: repr(value)[:40])
def test_a_value_is_the_same_object_in_a_redis_document(value: Any) -> None:
    stored = typed(value)
    made = as_type(stored, REDIS_JSON, WHERE)
    assert same(read_redis_value(made), read_typed(stored))
    back = converted_value(made, Serializer.REDIS_JSON, Serializer.TYPED, WHERE, in_body=True)
    assert same(read_typed(back), read_typed(stored))
