"""Threads with hostile ids, metadata of users, and every type of value."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from uuid import UUID

import zoo_types

from ckpt_backends.testing.scenarios import channel_graphs, compat, graphs
from ckpt_backends.testing.scenarios.running import SKIPPED, START_ITEMS, ScenarioRun, scenario

# Metadata and hostile thread ids

USER_RUN: dict[str, Any] = {
    "metadata": {"user_id": "user-17", "plan": "pro", "attempt": 2, "score": 0.5, "beta": True},
    "tags": ["nightly", "eu"],
    "run_name": "support run",
    "configurable": {"tenant": "acme"},
}


@scenario("with-metadata", graphs.linear, config=USER_RUN)
def with_metadata(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)


@scenario("with-metadata-subgraph", graphs.subgraph, config=USER_RUN)
def with_metadata_subgraph(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)


HOSTILE_IDS = [
    "alice@example.com",
    'o\'brien "x"',
    "two\nlines",
    "100%",
    "-dash",
    "*?[",
    "会话-四十二",
    "linear@head",
    "__\x1b[31mred\t<b>[bold]",
    "rtl \u202eevil\u202c",
    " padded ",
    "4711",
]


def hostile(run: ScenarioRun) -> None:
    run.invoke({"items": [f"in {run.config['configurable']['thread_id']}"]})


for _id in HOSTILE_IDS:
    scenario(_id, graphs.linear, name="hostile-id")(hostile)


# The types zoo


def keep_each(values: list[Any]) -> Callable[[ScenarioRun], None]:
    def drive(run: ScenarioRun) -> None:
        for value in values:
            run.invoke({"value": value})

    return drive


def zoo(thread_id: str, *values: Any, needs: Any = True) -> None:
    scenario(thread_id, channel_graphs.holder, needs=needs, name=thread_id)(keep_each(list(values)))


def aware(hours: float) -> timezone:
    return timezone(timedelta(hours=hours))


Unserializable = zoo_types.Unserializable
"""A class that no serializer of LangGraph can store but by pickle."""
ORDER = zoo_types.Order(
    number=7, items=[zoo_types.Item(sku="A-1", price=19.5, color=zoo_types.Color.BLUE)]
)
CUSTOMER = zoo_types.Customer("Ana", zoo_types.Address("Rúa 1", "Vigo"), ["vip", "eu"])

zoo("zoo-pydantic", ORDER, {"nested": [ORDER, {"deeper": ORDER}]})
zoo("zoo-dataclass", CUSTOMER, [CUSTOMER, None])
zoo("zoo-enum", zoo_types.Color.RED, {"level": zoo_types.Level.HIGH})
zoo("zoo-namedtuple", zoo_types.Point(1, -2))
zoo(
    "zoo-times",
    datetime(2026, 4, 7, 10, 30, 15, 123456),
    datetime(2026, 4, 7, 10, 30, tzinfo=UTC),
    [datetime(2026, 4, 7, 10, 30, tzinfo=aware(5.5)), date(2026, 2, 28)],
    [timedelta(days=-1, seconds=5, microseconds=7), aware(-3)],
)
zoo("zoo-time", time(23, 59, 58, 7), time(1, 2, tzinfo=UTC))
zoo("zoo-uuid-decimal", UUID(int=2**100 + 7), Decimal("12.340"), Decimal("-0E+3"))
zoo("zoo-sets", {"b", "a", "c"}, frozenset({3, 1, 2}), deque([1, "two", None], maxlen=5), set())
zoo(
    "zoo-path-regex",
    Path("/var/log/a b.txt"),
    Path("relative/x"),
    re.compile(r"^a+\s", re.IGNORECASE | re.MULTILINE),
    ip_address("192.0.2.1"),
)
zoo("zoo-bytes", b"\x00\xff raw", bytearray(b"mutable\x00"), {"blob": b"", "list": [b"x"]})
zoo("zoo-floats", math.nan, [math.inf, -math.inf], {"zero": -0.0, "one": 1.0, "tiny": 5e-324})
zoo("zoo-ints", 2**60, [-(2**63), 2**64 - 1, 2**53, 2**53 + 1], 0, True)
zoo(
    "zoo-text", "你好，世界 🌏👩‍👩‍👧", "", "tab\tnewline\nnul\x00 esc\x1b[31m", None, "e\u0301 vs é"
)
zoo(
    "zoo-dollar",
    {"$type": "not.a.Type", "$$x": 1, "plain": {"$bytes": "aGk="}},
    {"lc": 3, "type": "constructor"},
)
zoo("zoo-nested", {"a": [{"b": [{"c": [[], {}, [None]]}]}], "": "empty key"}, [], {})
zoo("zoo-keys", {1: "one", 2: {"x": (1, 2)}}, {True: "yes", None: "none"}, needs=compat.NON_STR)
zoo("zoo-large", "long text " * 300, list(range(200)))


def arrays() -> list[Any]:
    import numpy

    return [
        numpy.array([1, 2, 3], dtype="int64"),
        numpy.array([0.5, numpy.nan, numpy.inf], dtype="float32"),
        numpy.arange(6, dtype="float64").reshape(2, 3),
        numpy.asfortranarray(numpy.arange(6, dtype="int32").reshape(2, 3)),
        {"mask": numpy.array([True, False, True])},
    ]


if compat.HAS_NUMPY:
    zoo("zoo-numpy", *arrays())
else:
    SKIPPED["zoo-numpy"] = "zoo-numpy"
