from __future__ import annotations

import dataclasses
import enum
import struct
import threading
from collections import deque
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Interrupt, Send
from ormsgpack import OPT_NON_STR_KEYS, Ext, packb, unpackb
from pydantic import BaseModel

from ckpt_backends.codec import DELTA_SNAPSHOT, Cut, Opaque, Tagged, Value, decode
from ckpt_backends.codec.cursor import depth_bound, skip
from ckpt_backends.codec.msgpack import levels_of
from ckpt_backends.model import TypedBytes
from tests.kit.strategies import packable


class Color(enum.Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Address:
    city: str
    corner: Point


class Order(BaseModel):
    number: int
    color: Color


HERE = __name__
PATH = Path("/a/b")
UUID_1 = UUID("12345678123456781234567812345678")

OBJECTS: list[tuple[Any, Value]] = [
    (Send("node", {"a": 1}), Tagged("langgraph.types.Send", ["node", {"a": 1}])),
    (UUID_1, Tagged("uuid.UUID", UUID_1.hex)),
    (Decimal("1.50"), Tagged("decimal.Decimal", "1.50")),
    ({1}, Tagged("builtins.set", [1])),
    (frozenset(), Tagged("builtins.frozenset", [])),
    (deque([1, 2]), Tagged("collections.deque", [1, 2])),
    (PATH, Tagged(f"{type(PATH).__module__}.{type(PATH).__name__}", ["/", "a", "b"])),
    (datetime(2026, 4, 7, tzinfo=UTC), Tagged("datetime.datetime", "2026-04-07T00:00:00+00:00")),
    (date(2026, 4, 7), Tagged("datetime.date", [2026, 4, 7])),
    (timedelta(1, 2, 3), Tagged("datetime.timedelta", [1, 2, 3])),
    (Color.RED, Tagged(f"{HERE}.Color", "red")),
    (Point(1, 2), Tagged(f"{HERE}.Point", {"x": 1, "y": 2})),
    (
        Address("Rome", Point(1, 2)),
        Tagged(
            f"{HERE}.Address", {"city": "Rome", "corner": Tagged(f"{HERE}.Point", {"x": 1, "y": 2})}
        ),
    ),
    (
        Order(number=1, color=Color.RED),
        Tagged(f"{HERE}.Order", {"number": 1, "color": Tagged(f"{HERE}.Color", "red")}),
    ),
    (_DeltaSnapshot([1]), Tagged(DELTA_SNAPSHOT, [1])),
    (
        time(1, 2, 3),
        Tagged(
            "datetime.time",
            {"hour": 1, "minute": 2, "second": 3, "microsecond": 0, "tzinfo": None, "fold": 0},
        ),
    ),
    (
        {(1, ("a",)): 2, 3: 4},
        {Tagged("builtins.tuple", [1, Tagged("builtins.tuple", ["a"])]): 2, 3: 4},
    ),
    ({None: 1, b"a": 2, 1.5: 3}, {None: 1, b"a": 2, 1.5: 3}),
    (ValueError("no"), "ValueError('no')"),
]


@pytest.mark.parametrize(("thing", "value"), OBJECTS, ids=lambda x: type(x).__name__)
def test_what_langgraph_stores(thing: Any, value: Value) -> None:
    assert read(JsonPlusSerializer().dumps_typed(thing)[1]) == value


def test_messages_keep_their_fields() -> None:
    call = {"name": "f", "args": {"x": 1}, "id": "c1", "type": "tool_call"}
    message = AIMessage("hello", id="1", tool_calls=[call])
    value = read(JsonPlusSerializer().dumps_typed([message])[1])
    fields: Any = message.model_dump()
    assert value == [Tagged("langchain_core.messages.ai.AIMessage", fields)]


def test_interrupts() -> None:
    value = read(JsonPlusSerializer().dumps_typed((Interrupt("why?", id="i1"),))[1])
    assert isinstance(value, list)
    (interrupt,) = value
    assert isinstance(interrupt, Tagged)
    assert interrupt.type == "langgraph.types.Interrupt"
    assert isinstance(interrupt.payload, dict)
    assert (interrupt.payload["value"], interrupt.payload["id"]) == ("why?", "i1")


@pytest.mark.parametrize(
    ("code", "parts", "value"),
    [
        (3, ["m", "C", 1, "make"], Tagged("m.C.make", 1)),
        (3, ["m", "C", 1], Tagged("ext:3", ["m", "C", 1])),
        (0, ["m", "C"], Tagged("ext:0", ["m", "C"])),
        (0, [1, "C", 2], Tagged("ext:0", [1, "C", 2])),
        (1, ["m", "C", 1], Tagged("ext:1", ["m", "C", 1])),
        (2, ["m", "C", [1]], Tagged("ext:2", ["m", "C", [1]])),
        (4, ["m", "C", {}, "construct"], Tagged("m.C", {})),
        (0, {"a": 1}, Tagged("ext:0", {"a": 1})),
        (6, ["|u1", "x", "C", b""], Tagged("ext:6", ["|u1", "x", "C", b""])),
        (6, ["|u1", [True], "C", b"a"], Tagged("ext:6", ["|u1", [True], "C", b"a"])),
    ],
)
def test_payloads_of_other_shapes(code: int, parts: Any, value: Value) -> None:
    assert read(packb(Ext(code, packb(parts)))) == value


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 5, 6, 7, 8, 127])
def test_a_broken_payload_spoils_nothing_else(code: int) -> None:
    assert read(packb([1, Ext(code, b"\x93\xa1"), 2])) == [1, Tagged(f"ext:{code}", b"\x93\xa1"), 2]


def test_timestamps_are_an_ext_type_like_others() -> None:
    assert read(b"\xd6\xff\x00\x00\x00\x01") == Tagged("ext:-1", b"\x00\x00\x00\x01")


@pytest.mark.parametrize(
    ("dtype", "data", "flat"),
    [
        ("<i2", struct.pack("<6h", *range(6)), list(range(6))),
        (">f8", struct.pack(">6d", *range(6)), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
        ("|b1", b"\0\1" * 3, [False, True] * 3),
        ("|S2", b"a\0bbc\0d\0e\0f\0", [b"a", b"bb", b"c", b"d", b"e", b"f"]),
        ("<U1", "abcdef".encode("utf-32-le"), list("abcdef")),
        (
            "<c8",
            struct.pack("<12f", *range(12)),
            [Tagged("builtins.complex", [float(i), i + 1.0]) for i in range(0, 12, 2)],
        ),
        ("<f2", struct.pack("<6e", *range(6)), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
    ],
)
def test_arrays(dtype: str, data: bytes, flat: list[Value]) -> None:
    in_c = read(packb(Ext(6, packb([dtype, [2, 3], "C", data]))))
    in_f = read(packb(Ext(6, packb([dtype, [2, 3], "F", data]))))
    shape: Value = [2, 3]
    a, b, c, d, e, f = flat
    assert in_c == Tagged(
        "numpy.ndarray",
        {"dtype": dtype, "shape": shape, "order": "C", "data": [[a, b, c], [d, e, f]]},
    )
    assert in_f == Tagged(
        "numpy.ndarray",
        {"dtype": dtype, "shape": shape, "order": "F", "data": [[a, c, e], [b, d, f]]},
    )


@pytest.mark.parametrize(
    ("dtype", "shape", "order", "data", "content"),
    [
        ("<i4", [], "C", b"\1\0\0\0", 1),
        ("<i4", [0], "C", b"", []),
        ("<i4", [2, 0], "C", b"", [[], []]),
        ("<i4", [1 << 40, 0], "C", b"", b""),
        ("<i4", [2], "C", b"\1\0\0\0", b"\1\0\0\0"),
        ("<i4", [1], "A", b"\1\0\0\0", b"\1\0\0\0"),
        ("<M8[ns]", [1], "C", bytes(8), bytes(8)),
        ("|V4", [1], "C", bytes(4), bytes(4)),
        ("<U1", [1], "C", b"\xff" * 4, b"\xff" * 4),
        ("<i1", [1] * 40, "C", b"a", b"a"),
    ],
)
def test_arrays_at_the_edge(
    dtype: str, shape: list[int], order: str, data: bytes, content: Value
) -> None:
    value = read(packb(Ext(6, packb([dtype, shape, order, data]))))
    assert isinstance(value, Tagged)
    assert isinstance(value.payload, dict)
    assert value.payload["data"] == content


def test_many_keys_that_are_tuples() -> None:
    grid = {(x, y): x * y for x in range(30) for y in range(30)}
    value = read(packb(grid, option=OPT_NON_STR_KEYS))
    assert isinstance(value, dict)
    assert value[Tagged("builtins.tuple", [29, 29])] == 841


@given(packable)
def test_plain_values(value: Any) -> None:
    data = packb(value, option=OPT_NON_STR_KEYS)
    assert read(data) == unpackb(data, option=OPT_NON_STR_KEYS)


@given(packable)
def test_a_scan_ends_where_the_value_ends(value: Any) -> None:
    data = packb(value, option=OPT_NON_STR_KEYS)
    span = skip(data + b"\xc0", 0)
    assert span.end == len(data)
    assert span.depth == depth_of(value) <= depth_bound(data)
    assert span.nodes == nodes_of(value)


@given(packable)
def test_the_levels_of_a_decoded_value_are_its_depth(value: Any) -> None:
    assert levels_of(value) == depth_of(value)


@pytest.mark.parametrize("object_depth", [0, 3])
def test_many_small_maps_are_not_scanned(
    object_depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    part: Any = "x"
    for _ in range(object_depth):
        part = Ext(0, packb(["m", "C", part]))
    facts = {f"fact {n}": {"tags": [n], "part": part} for n in range(300)}
    expected = read(packb(facts))
    scanned: list[int] = []
    scan = "ckpt_backends.codec.msgpack.skip"
    monkeypatch.setattr(scan, lambda data, *_: scanned.append(len(data)))
    assert read(packb(facts)) == expected
    assert isinstance(expected, dict)
    assert len(expected) == 300
    assert not scanned


@pytest.mark.parametrize("depth", [200, 201])
def test_wide_and_deep(depth: int) -> None:
    deep: Any = [1]
    for _ in range(depth - 2):
        deep = [deep, {}]
    found = read(packb({"a": deep, "b": [[]] * 300}))
    assert isinstance(found, Cut if depth > 200 else dict)


@given(st.binary(max_size=200))
def test_noise(data: bytes) -> None:
    read(data)


@given(st.integers(-8, 127), st.binary(max_size=100))
def test_noise_in_ext_types(code: int, data: bytes) -> None:
    assert not isinstance(read(b"\xc8" + struct.pack(">Hb", len(data), code) + data), Opaque | Cut)


@pytest.mark.parametrize("level", [b"\x91" * 1000, b"\xdc\xff\xff" * 1000, b"\x81\xa1a" * 1000])
@pytest.mark.parametrize("levels", [1, 10, 60])
@pytest.mark.parametrize("lead", [b"", b"\x92" + b"\x01"])
def test_nesting_that_would_overflow_the_stack(level: bytes, levels: int, lead: bytes) -> None:
    data = b"\xc0"
    for _ in range(levels):
        data = b"\xc9" + struct.pack(">Ib", len(level + data), 7) + level + data
    found: list[Value] = []
    old = threading.stack_size(1 << 20)
    try:
        thread = threading.Thread(target=lambda: found.append(read(lead + data)))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(old)
    assert isinstance(found[0], Cut)


@pytest.mark.parametrize("levels", [1, 30, 60])
def test_ext_types_in_ext_types(levels: int) -> None:
    data, value = packb("x"), "x"
    nested: Value = value
    for _ in range(levels):
        data = packb(Ext(2, b"\x93\xa1m\xa1C\x81\xa1a" + data))
        nested = Tagged("m.C", {"a": nested})
    assert read(data) == nested


def test_a_broken_key_at_each_level_takes_no_exponential_time() -> None:
    data = packb(1)
    for _ in range(60):
        data = b"\x82\xa1a" + packb(Ext(7, data)) + b"\x05\xc0"
    assert isinstance(read(data), dict)


def read(data: bytes) -> Value:
    return decode(TypedBytes("msgpack", data))


def depth_of(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(depth_of, inside)) if inside else 0


def nodes_of(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + len(value) + sum(map(nodes_of, value.values()))
    return 1 + sum(map(nodes_of, value)) if isinstance(value, list) else 1
