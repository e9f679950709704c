"""What is stored is decoded, up to limits, and never raises."""

import copy
import hashlib
import json
import pickle
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ormsgpack import OPT_NON_STR_KEYS, Ext, packb

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
from ckpt_backends.model import TypedBytes
from ckpt_cli.core.reducers import Pending
from tests.kit.cases import cases
from tests.kit.strategies import few, packable

TAGS = ["msgpack", "json", "bytes", "bytearray", "null", "empty", "pickle", "msgpack+aes", ""]
TIGHT = Limits(value_bytes=100, depth=5, nodes=20)


def test_tags() -> None:
    assert decode(TypedBytes("null", b"")) is None
    assert decode(TypedBytes("empty", b"")) is None
    assert decode(TypedBytes("bytes", b"a")) == b"a"
    assert decode(TypedBytes("bytearray", b"a")) == Tagged("builtins.bytearray", b"a")
    assert isinstance(decode(TypedBytes("null", b"a")), Opaque)


@pytest.mark.parametrize("tag", ["zip", "msgpack+aes", "int", ""])
def test_tags_that_are_not_read_are_named_and_hashed(tag: str) -> None:
    digest = hashlib.sha256(b"abc").hexdigest()
    opaque = Opaque(tag, 3, digest, "unknown type")
    assert decode(TypedBytes(tag, b"abc")) == opaque
    assert decode_checkpoint(TypedBytes(tag, b"abc")) == opaque


@few
@given(st.sampled_from(TAGS), st.binary(max_size=300), st.integers(1, 60))
def test_nothing_raises(tag: str, data: bytes, times: int) -> None:
    for limits in (Limits(), TIGHT):
        for read in (decode, decode_checkpoint):
            json.dumps(to_json(read(TypedBytes(tag, data), limits)))
    json.dumps(to_json(decode_checkpoint(TypedBytes(tag, data[:40] * times), TIGHT)))


@cases(
    "value kept",
    ("x" * 200, "x" * 98),
    (b"x" * 200, b"x" * 98),
    (["ab"] * 60, ["ab"] * 60),
    ([1, ["y" * 300, 2], 3], [1, ["y" * 300]]),
    ({"a": 1, "b": "z" * 300, "c": 2}, {"a": 1, "b": "z" * 92}),
    (list(range(30)), list(range(30))),
    ([[[[[[1]]]]], 2], [[[[[]]]]]),
    ({"a": {"b": {"c": {"d": {"e": {"f": 1}}}}}}, {"a": {"b": {"c": {"d": {"e": {}}}}}}),
)
def test_a_cut_keeps_the_beginning(value: object, kept: Value) -> None:
    data = packb(value)
    cut = decode(TypedBytes("msgpack", data), TIGHT)
    assert isinstance(cut, Cut)
    assert cut.size == len(data)
    assert begins(cut.kept, kept)
    assert begins(cut.kept, value)


def begins(part: object, whole: object) -> bool:
    """Whether `part` is the beginning of `whole`, at each level that was cut."""
    if isinstance(whole, list) and isinstance(part, list):
        pairs = list(zip(part, whole, strict=False))
        return len(part) <= len(whole) and all(begins(a, b) for a, b in pairs)
    if isinstance(whole, dict) and isinstance(part, dict):
        return [*part] == [*whole][: len(part)] and all(begins(part[k], whole[k]) for k in part)
    if type(whole) in {str, bytes} and type(part) is type(whole):
        return bool(part) and whole.startswith(part)  # type: ignore[attr-defined]
    return part == whole


@few
@given(
    st.recursive(st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x))
)
def test_what_fits_is_never_cut(value: Value) -> None:
    assert decode(TypedBytes("json", json.dumps(value).encode())) == value


@cases("tag kept", ("bytes", b"x" * 100), ("bytearray", Tagged("builtins.bytearray", b"x" * 100)))
def test_long_bytes_are_cut(tag: str, kept: Value) -> None:
    assert decode(TypedBytes(tag, b"x" * 101), TIGHT) == Cut(kept, 101, "longer than 100 bytes")


def test_the_beginning_of_an_object_keeps_its_type() -> None:
    data = packb(Ext(2, packb(["m", "C", {"a": 1, "text": "x" * 200}])))
    cut: Any = decode(TypedBytes("msgpack", data), TIGHT)
    assert cut.kept.type == "m.C"
    assert begins(cut.kept.payload, {"a": 1, "text": "x" * 200})


def test_json_past_a_limit_keeps_its_text() -> None:
    for text in ("[" * 6 + "]" * 6, "[" + "1," * 30 + "1]", json.dumps("x" * 200)):
        cut = decode(TypedBytes("json", text.encode()), TIGHT)
        assert isinstance(cut, Cut)
        assert isinstance(cut.kept, str)
        assert text.startswith(cut.kept)
        assert cut.kept


CHANNELS = {
    **{"first": "ok", "long": "x" * 300, "items": [1, "y" * 300], "deep": [[[[[[[1]]]]]]]},
    **{"many": list(range(60)), "last": {"a": [1]}},
}
HUGE = "z" * (17 << 20)


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
    assert begins(cut["long"].kept, "x" * 300 if tag == "msgpack" else '"' + "x" * 300)
    # One huge channel leaves the others whole.
    channels = read({"a": [1], "huge": HUGE, "b": {"c": 2}}, Limits())
    assert (channels["a"], channels["b"]) == ([1], {"c": 2})
    assert channels["huge"].size >= len(HUGE)
    assert 16 << 20 >= len(channels["huge"].kept) > 15 << 20
    # All share one limit.
    channels = read(
        {f"c{n}": list(range(40)) for n in range(9)}, Limits(value_bytes=500, depth=5, nodes=50)
    )
    whole = [name for name, value in channels.items() if not isinstance(value, Cut)]
    assert whole == ["c0", "c1", "c2", "c3"]


@cases("data", b"\x91" * 300 + b"\xc0", b"\xde\xff\xff" + b"\xa1a\x01" * 30, b"[")
def test_a_large_body_that_is_not_one(data: bytes) -> None:
    for tag in ("msgpack", "json"):
        assert isinstance(decode_checkpoint(TypedBytes(tag, data), TIGHT), Opaque)


def test_importing_the_codec_is_cheap() -> None:
    script = "import sys, ckpt_backends.codec; print('ormsgpack' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@few
@given(st.dictionaries(names, packable, max_size=5), packable)
def test_msgpack_channels_have_the_sizes_of_their_values(channels: Any, other: Any) -> None:
    body = {"v": 4, "channel_values": channels, "channel_versions": other}
    data = packb(body, option=OPT_NON_STR_KEYS)
    assert channel_sizes(TypedBytes("msgpack", data)) == {
        name: len(packb(value, option=OPT_NON_STR_KEYS)) for name, value in channels.items()
    }


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
)


@given(st.dictionaries(names, json_values, max_size=5), json_values, st.booleans())
def test_json_channels_have_sizes_of_text(channels: Any, other: Any, ascii_only: bool) -> None:
    body = {"ts": other, "channel_values": channels, "z": other}
    data = json.dumps(body, ensure_ascii=ascii_only).encode()
    assert channel_sizes(TypedBytes("json", data)) == {
        name: len(json.dumps(value, ensure_ascii=ascii_only).encode())
        for name, value in channels.items()
    }


@pytest.mark.parametrize("tag", ["msgpack", "json"])
@given(data=st.binary(max_size=40))
def test_any_bytes_give_sizes_or_none(tag: str, data: bytes) -> None:
    sizes = channel_sizes(TypedBytes(tag, data))
    assert sizes is None or sum(sizes.values()) <= len(data)


def test_what_is_not_read_has_no_sizes() -> None:
    for tag in ("pickle", "msgpack+aes", "null"):
        assert channel_sizes(TypedBytes(tag, b"\x80")) is None
    assert channel_sizes(TypedBytes("msgpack", b"\x90")) is None
    assert channel_sizes(TypedBytes("json", b"[]")) is None
    assert channel_sizes(TypedBytes("msgpack", b"\x80")) == {}


NODES = {
    "Tagged(type='a.B', payload={'x': [1]})": Tagged("a.B", {"x": [1]}),
    "Tagged(type='a.B', payload=None)": Tagged("a.B", None),
    "Pending(type='a.B', payload=None)": Pending("a.B", None),
    "Opaque(type='x', size=3, sha256='', reason='why')": Opaque("x", 3, "", "why"),
    "Opaque(type='x', size=3, sha256='', reason='why not')": Opaque("x", 3, "", "why not"),
    "Cut(kept='abc', size=9, reason='long', unit='character')": Cut("abc", 9, "long", "character"),
    "Cut(kept='abc', size=9, reason='long', unit='byte')": Cut("abc", 9, "long"),
}


@pytest.mark.parametrize("shown", NODES)
def test_a_node_equals_its_copies_and_no_other(shown: str) -> None:
    one = NODES[shown]
    assert repr(one) == shown
    assert [name for name, other in NODES.items() if other == one] == [shown]
    for again in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert again == one
        assert again is not one
        assert hash(again) == hash(one)
    assert one != [*map(repr, NODES)]
    assert not hasattr(one, "__dict__")
