"""What is stored is decoded, up to limits, and never raises; documents are as the driver's."""

import hashlib
import json
import struct
import threading
from typing import Any

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from ormsgpack import OPT_NON_STR_KEYS, Ext, packb, unpackb

from ckpt_backends.codec import (
    Cut,
    Limits,
    Opaque,
    Tagged,
    Value,
    channel_sizes,
    decode,
    decode_checkpoint,
    to_json,
)
from ckpt_backends.codec.bson import plain
from ckpt_backends.codec.cursor import depth_bound, skip
from ckpt_backends.codec.msgpack import levels_of
from ckpt_backends.model import TypedBytes
from tests.kit.cases import cases
from tests.kit.strategies import few, packable
from tests.unit.codec.things import HERE, THINGS, Point

TAGS = ["msgpack", "json", "bytes", "bytearray", "null", "empty", "pickle", "msgpack+aes", ""]
STARTS = st.sampled_from([b"", b"\x80\x04", b"](", b"cos\nx\n)R"])
TIGHT = Limits(value_bytes=100, depth=5, nodes=20)


def test_tags() -> None:
    assert decode(TypedBytes("null", b"")) is None
    assert decode(TypedBytes("empty", b"")) is None
    assert decode(TypedBytes("bytes", b"a")) == b"a"
    assert decode(TypedBytes("bytearray", b"a")) == Tagged("builtins.bytearray", b"a")
    assert isinstance(decode(TypedBytes("null", b"a")), Opaque)
    digest = hashlib.sha256(b"abc").hexdigest()
    for tag in ("zip", "msgpack+aes", ""):
        assert decode(TypedBytes(tag, b"abc")) == Opaque(tag, 3, digest, "unknown type")
        assert channel_sizes(TypedBytes(tag, b"\x80")) is None


@few
@given(st.sampled_from(TAGS), STARTS, st.binary(max_size=300), st.integers(1, 60))
def test_nothing_raises(tag: str, start: bytes, data: bytes, times: int) -> None:
    data = start + data
    for limits in (Limits(), TIGHT):
        for read in (decode, decode_checkpoint):
            json.dumps(to_json(read(TypedBytes(tag, data), limits)))
    json.dumps(to_json(decode_checkpoint(TypedBytes(tag, data[:40] * times), TIGHT)))


@cases(
    "value kept",
    ("x" * 200, "x" * 98),
    (b"x" * 200, b"x" * 98),
    ({"a": 1, "b": "z" * 300, "c": 2}, {"a": 1, "b": "z" * 91}),
    ([[[[[[1]]]]], 2], [[[[[]]]]]),
    ({"a": {"b": {"c": {"d": {"e": {"f": 1}}}}}}, {"a": {"b": {"c": {"d": {}}}}}),
    (
        Ext(2, packb(["m", "C", {"a": 1, "text": "x" * 200}])),
        Tagged("m.C", {"a": 1, "text": "x" * 81}),
    ),
)
def test_a_cut_keeps_the_beginning(value: object, kept: Value) -> None:
    data = packb(value)
    cut = decode(TypedBytes("msgpack", data), TIGHT)
    assert isinstance(cut, Cut)
    assert (cut.size, cut.kept) == (len(data), kept)


LONG = packb("x" * 200)


@cases(
    "data kept",
    (b"\x81\x92\x01\x02" + LONG, {Tagged("builtins.tuple", [1, 2]): "x" * 94}),
    (b"\x91\xc7\xc8\x7f" + b"x" * 200, [Tagged("ext:127", b"x" * 96)]),
    (b"\x92" + packb(1.5) + LONG, [1.5, "x" * 88]),
    (b"\x93" + packb("x" * 88) + packb(1.5) + LONG, ["x" * 88, 1.5]),
    (b"\x91\xc7\x03\x07\x91\x93\xc0" + LONG, [Tagged("langgraph.DeltaSnapshot", [[None]])]),
    (b"\x81\x81\x01\x02" + LONG, "a map key that is a map or an ext type"),
    (b"\x81\xd4\x7f\x02" + LONG, "a map key that is a map or an ext type"),
    (b"\xc1" * 200, "cut off or invalid msgpack"),
)
def test_the_beginning_of_odd_bytes(data: bytes, kept: Any) -> None:
    cut = decode(TypedBytes("msgpack", data), TIGHT)
    if isinstance(kept, str):
        assert isinstance(cut, Opaque)
        assert cut.reason == kept
    else:
        assert isinstance(cut, Cut)
        assert cut.kept == kept


def test_many_keys_with_one_hash_are_not_compared() -> None:
    keys = b"".join(b"\x92" + packb(n) + b"\x01\x01" for n in range(2001))
    found = read(b"\xde\x07\xd1" + keys)
    assert isinstance(found, Opaque)
    assert found.reason == "a map with 2001 keys that are tuples"


@cases("tag kept", ("bytes", b"x" * 100), ("bytearray", Tagged("builtins.bytearray", b"x" * 100)))
def test_long_bytes_are_cut(tag: str, kept: Value) -> None:
    assert decode(TypedBytes(tag, b"x" * 101), TIGHT) == Cut(kept, 101, "longer than 100 bytes")
    assert isinstance(decode_checkpoint(TypedBytes(tag, b"x" * 101), TIGHT), Opaque)


CHANNELS = {
    **{"first": "ok", "long": "x" * 300, "items": [1, "y" * 300], "deep": [[[[[[[1]]]]]]]},
    **{"many": list(range(60)), "last": {"a": [1]}},
}


@pytest.mark.parametrize("tag", ["msgpack", "json"])
def test_a_body_is_cut_by_channel(tag: str) -> None:
    def read(channels: Any, limits: Limits) -> Any:
        body = {"v": 4, "channel_values": channels, "channel_versions": {"first": "1"}}
        data = packb(body) if tag == "msgpack" else json.dumps(body).encode()
        found: Any = decode_checkpoint(TypedBytes(tag, data), limits)
        assert (found["v"], found["channel_versions"]) == (4, {"first": "1"})
        return found["channel_values"]

    channels = read(CHANNELS, Limits(value_bytes=100, depth=5, nodes=50))
    assert [*channels] == [*CHANNELS]
    assert channels["first"] == "ok"
    cut = {name: value for name, value in channels.items() if isinstance(value, Cut)}
    assert {"long", "items", "deep", "many"} <= {*cut}
    assert cut["long"].size > 300
    whole: Any = "x" * 300 if tag == "msgpack" else '"' + "x" * 300
    assert cut["long"].kept
    assert whole.startswith(cut["long"].kept)
    # All share one limit.
    channels = read(
        {f"c{n}": list(range(40)) for n in range(9)}, Limits(value_bytes=500, depth=5, nodes=50)
    )
    whole = [name for name, value in channels.items() if not isinstance(value, Cut)]
    assert whole == ["c0", "c1", "c2", "c3"]


SIZED = {"a": 1, "é": "ü" * 300, "deep": [[{"b": None}]], "": {}, "n": -(2**40), "m": [1.5] * 30}


@cases("other", None, 7, "channel_values", {"a": [1]}, {"channel_values": {"a": "x"}})
def test_channels_have_the_sizes_of_their_values(other: Any) -> None:
    body = {"ts": other, "channel_values": SIZED, "channel_versions": other}
    bodies: list[tuple[str, Any]] = [("msgpack", packb)]
    for ascii_only in (True, False):
        bodies.append(
            ("json", lambda one, it=ascii_only: json.dumps(one, ensure_ascii=it).encode())
        )
    for tag, spell in bodies:
        data = spell(body)
        sizes = {name: len(spell(value)) for name, value in SIZED.items()}
        assert channel_sizes(TypedBytes(tag, data)) == sizes
        for place in range(0, len(data), 5):
            for damaged in (data[:place], data[:place] + b"\xc1" + data[place + 1 :]):
                found = channel_sizes(TypedBytes(tag, damaged))
                assert found is None or sum(found.values()) <= len(damaged)


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


@cases(
    "code parts value",
    (3, ["m", "C", 1, "make"], Tagged("m.C.make", 1)),
    (3, ["m", "C", 1], Tagged("ext:3", ["m", "C", 1])),
    (0, [1, "C", 2], Tagged("ext:0", [1, "C", 2])),
    (2, ["m", "C", [1]], Tagged("ext:2", ["m", "C", [1]])),
    (4, ["m", "C", {}, "construct"], Tagged("m.C", {})),
    (0, {"a": 1}, Tagged("ext:0", {"a": 1})),
    (0, ["m", "C", 1, "make"], Tagged("ext:0", ["m", "C", 1, "make"])),
    (1, ["m", "C", 1], Tagged("ext:1", ["m", "C", 1])),
    (2, ["m", "C", {}, "make"], Tagged("ext:2", ["m", "C", {}, "make"])),
    (3, ["m", "C", 1, 7], Tagged("ext:3", ["m", "C", 1, 7])),
    (3, ["m", "C", "2026", "fromisoformat"], Tagged("m.C.fromisoformat", "2026")),
    (3, ["datetime", "datetime", [1], "now"], Tagged("datetime.datetime.now", [1])),
    (6, ["|u1", [-1], "C", b""], Tagged("ext:6", ["|u1", [-1], "C", b""])),
    (6, ["|u1", "x", "C", b""], Tagged("ext:6", ["|u1", "x", "C", b""])),
    (6, ["|u1", [True], "C", b"a"], Tagged("ext:6", ["|u1", [True], "C", b"a"])),
)
def test_payloads_of_other_shapes(code: int, parts: Any, value: Value) -> None:
    assert read(packb(Ext(code, packb(parts)))) == value


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 5, 6, 7, 8, 127])
def test_a_broken_payload_spoils_nothing_else(code: int) -> None:
    assert read(packb([1, Ext(code, b"\x93\xa1"), 2])) == [1, Tagged(f"ext:{code}", b"\x93\xa1"), 2]
    timestamp = b"\xd6\xff\x00\x00\x00\x01"
    assert read(timestamp) == Tagged("ext:-1", b"\x00\x00\x00\x01")


@cases(
    "dtype data flat",
    ("<i2", struct.pack("<6h", *range(6)), list(range(6))),
    (">f8", struct.pack(">6d", *range(6)), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
    ("|S2", b"a\0bbc\0d\0e\0f\0", [b"a", b"bb", b"c", b"d", b"e", b"f"]),
    ("<U1", "abcdef".encode("utf-32-le"), list("abcdef")),
    (
        "<c8",
        struct.pack("<12f", *range(12)),
        [Tagged("builtins.complex", [float(i), i + 1.0]) for i in range(0, 12, 2)],
    ),
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
    ("<i4", [1 << 40, 0], "C", b"", b""),
    ("<i4", [2], "C", b"\1\0\0\0", b"\1\0\0\0"),
    ("<i4", [1], "A", b"\1\0\0\0", b"\1\0\0\0"),
    ("<M8[ns]", [1], "C", bytes(8), bytes(8)),
    ("<U1", [1], "C", b"\xff" * 4, b"\xff" * 4),
    ("<i1", [1] * 40, "C", b"a", b"a"),
    ("<i3", [1], "C", b"abc", b"abc"),
    ("<i4", [1], "C", b"abc", b"abc"),
    ("|S0", [0], "C", b"", b""),
    (">U1", [1], "C", b"\0\0\0a", ["a"]),
)
def test_odd_arrays(dtype: str, shape: list[int], order: str, data: bytes, content: Value) -> None:
    value: Any = read(packb(Ext(6, packb([dtype, shape, order, data]))))
    assert value.payload["data"] == content


@given(packable)
def test_a_scan_ends_where_the_value_ends(value: Any) -> None:
    data = packb(value, option=OPT_NON_STR_KEYS)
    assert read(data) == unpackb(data, option=OPT_NON_STR_KEYS)
    span = skip(data + b"\xc0", 0)
    assert span.end == len(data)
    assert span.depth == depth_of(value) == levels_of(value) <= depth_bound(data)
    assert span.nodes == nodes_of(value)


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


@cases("data", b"\x91" * 300 + b"\xc0", b"\xde\xff\xff" + b"\xa1a\x01" * 30, b"[")
def test_a_large_body_that_is_not_one(data: bytes) -> None:
    for tag in ("msgpack", "json"):
        assert isinstance(decode_checkpoint(TypedBytes(tag, data), TIGHT), Opaque)


WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
WHOLE = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-3, 3)
DOCUMENTS = st.dictionaries(
    WORDS,
    st.recursive(
        st.none() | st.booleans() | WHOLE | WORDS,
        lambda inner: st.dictionaries(WORDS, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)


@few
@given(DOCUMENTS)
def test_plain_values_are_those_of_the_driver(document: dict[str, Any]) -> None:
    # Before the document stands the byte of its kind.
    assert plain(document)[1:] == bson.encode(document)
