import struct
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Interrupt
from ormsgpack import OPT_NON_STR_KEYS, Ext, packb, unpackb

from ckpt_backends.codec import Cut, Opaque, Tagged, Value, decode
from ckpt_backends.codec.cursor import depth_bound, skip
from ckpt_backends.codec.msgpack import levels_of
from ckpt_backends.model import TypedBytes
from tests.kit.cases import cases
from tests.kit.strategies import packable
from tests.unit.codec.things import HERE, THINGS, Point

NESTED_TUPLE = Tagged("builtins.tuple", [1, Tagged("builtins.tuple", ["a"])])
MORE: list[tuple[Any, Value]] = [
    (frozenset(), Tagged("builtins.frozenset", [])),
    (Point(1, 2), Tagged(f"{HERE}.Point", {"x": 1, "y": 2})),
    ({(1, ("a",)): 2, 3: 4}, {NESTED_TUPLE: 2, 3: 4}),
    ({None: 1, b"a": 2, 1.5: 3}, {None: 1, b"a": 2, 1.5: 3}),
    (ValueError("no"), "ValueError('no')"),
]


@pytest.mark.parametrize(("thing", "value"), [*THINGS.values(), *MORE])
def test_what_langgraph_stores(thing: Any, value: Value) -> None:
    assert decode(TypedBytes(*JsonPlusSerializer().dumps_typed(thing))) == value


def test_messages_and_interrupts_keep_their_fields() -> None:
    call = {"name": "f", "args": {"x": 1}, "id": "c1", "type": "tool_call"}
    message = AIMessage("hello", id="1", tool_calls=[call])
    value = read(JsonPlusSerializer().dumps_typed([message])[1])
    fields: Any = message.model_dump()
    assert value == [Tagged("langchain_core.messages.ai.AIMessage", fields)]
    found: Any = read(JsonPlusSerializer().dumps_typed((Interrupt("why?", id="i1"),))[1])
    (interrupt,) = found
    assert interrupt.type == "langgraph.types.Interrupt"
    assert (interrupt.payload["value"], interrupt.payload["id"]) == ("why?", "i1")


@cases(
    "code parts value",
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
)
def test_payloads_of_other_shapes(code: int, parts: Any, value: Value) -> None:
    assert read(packb(Ext(code, packb(parts)))) == value


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 5, 6, 7, 8, 127])
def test_a_broken_payload_spoils_nothing_else(code: int) -> None:
    assert read(packb([1, Ext(code, b"\x93\xa1"), 2])) == [1, Tagged(f"ext:{code}", b"\x93\xa1"), 2]


def test_timestamps_are_an_ext_type_like_others() -> None:
    assert read(b"\xd6\xff\x00\x00\x00\x01") == Tagged("ext:-1", b"\x00\x00\x00\x01")


@cases(
    "dtype data flat",
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
)
def test_arrays(dtype: str, data: bytes, flat: list[Value]) -> None:
    a, b, c, d, e, f = flat
    shapes: list[tuple[str, Any]] = [("C", [[a, b, c], [d, e, f]])]
    for order, rows in (*shapes, ("F", [[a, c, e], [b, d, f]])):
        found = read(packb(Ext(6, packb([dtype, [2, 3], order, data]))))
        fields: Value = {"dtype": dtype, "shape": [2, 3], "order": order, "data": rows}
        assert found == Tagged("numpy.ndarray", fields)


@cases(
    "dtype shape order data content",
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
)
def test_odd_arrays(dtype: str, shape: list[int], order: str, data: bytes, content: Value) -> None:
    value: Any = read(packb(Ext(6, packb([dtype, shape, order, data]))))
    assert value.payload["data"] == content


def test_many_keys_that_are_tuples() -> None:
    grid = {(x, y): x * y for x in range(30) for y in range(30)}
    value: Any = read(packb(grid, option=OPT_NON_STR_KEYS))
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
    assert span.depth == depth_of(value) == levels_of(value) <= depth_bound(data)
    assert span.nodes == nodes_of(value)


@pytest.mark.parametrize("object_depth", [0, 3])
def test_small_maps_are_not_scanned(object_depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert isinstance(read(packb({"a": deep, "b": [[]] * 300})), Cut if depth > 200 else dict)


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
