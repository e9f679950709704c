"""Objects that LangGraph stores, and what is decoded of each."""

import dataclasses
import enum
import re
from collections import OrderedDict, defaultdict, deque
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import PosixPath
from typing import Any, NamedTuple
from uuid import UUID

from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Send
from pydantic import BaseModel

from ckpt_backends.codec import DELTA_SNAPSHOT, Tagged, Value


class Color(enum.Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Address:
    city: str
    tags: list[Any]


class Order(BaseModel):
    number: int
    color: Color


HERE = __name__
RED = Tagged(f"{HERE}.Color", "red")
ROME = Tagged(f"{HERE}.Address", {"city": "Rome", "tags": ["a"]})
AT = datetime(2026, 4, 7, 10, 1, 2, 3, tzinfo=UTC)
CLOCK: Value = {"hour": 1, "minute": 2, "second": 3, "microsecond": 0, "tzinfo": None, "fold": 0}
ZONE = Tagged("datetime.timezone", [Tagged("datetime.timedelta", [0, 7200, 0])])
THINGS: dict[str, tuple[Any, Value]] = {
    "send": (Send("node", {"a": 1}), Tagged("langgraph.types.Send", ["node", {"a": 1}])),
    "uuid": (UUID(int=7), Tagged("uuid.UUID", f"{7:032}")),
    "decimal": (Decimal("1.50"), Tagged("decimal.Decimal", "1.50")),
    "set": ({1}, Tagged("builtins.set", [1])),
    "frozenset": (frozenset([1]), Tagged("builtins.frozenset", [1])),
    "deque": (deque([1, 2]), Tagged("collections.deque", [1, 2])),
    "path": (PosixPath("/a/b"), Tagged(f"{PosixPath.__module__}.PosixPath", ["/", "a", "b"])),
    "datetime": (AT, Tagged("datetime.datetime", "2026-04-07T10:01:02.000003+00:00")),
    "no zone": (AT.replace(tzinfo=None), Tagged("datetime.datetime", "2026-04-07T10:01:02.000003")),
    "with an offset": (
        AT.astimezone(timezone(-timedelta(hours=3))),
        Tagged("datetime.datetime", "2026-04-07T07:01:02.000003-03:00"),
    ),
    "date": (date(2026, 4, 7), Tagged("datetime.date", [2026, 4, 7])),
    "time": (time(1, 2, 3), Tagged("datetime.time", CLOCK)),
    "timedelta": (timedelta(1, 2, 3), Tagged("datetime.timedelta", [1, 2, 3])),
    "timezone": (timezone(timedelta(hours=2)), ZONE),
    "pattern": (re.compile("a+", re.IGNORECASE), Tagged("re.compile", ["a+", 34])),
    "bytes": (b"\x00\xff", b"\x00\xff"),
    "no bytes": (b"", b""),
    "enum": (Color.RED, RED),
    "dataclass": (Address("Rome", ["a"]), ROME),
    "nested": ({"a": [{"b": Address("Rome", ["a"])}]}, {"a": [{"b": ROME}]}),
    "pydantic": (
        Order(number=1, color=Color.RED),
        Tagged(f"{HERE}.Order", {"number": 1, "color": RED}),
    ),
    "delta": ({"items": _DeltaSnapshot([1])}, {"items": Tagged(DELTA_SNAPSHOT, [1])}),
    "ordered": (OrderedDict(a=1), {"a": 1}),
    "defaults": (defaultdict(list, a=[1]), {"a": [1]}),
}
