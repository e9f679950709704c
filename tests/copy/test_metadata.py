"""Metadata that is converted between layouts, as the savers of both sides read it."""

import json
from itertools import permutations
from typing import Any

import bson
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.mongodb.utils import dumps_metadata, loads_metadata

from ckpt_backends.model import TypedBytes
from ckpt_backends.transfer.bodies import converted_metadata
from ckpt_backends.transfer.form import CannotHold, Form
from tests.copy.official_readers import REDIS, TYPED, same

WHERE = "checkpoint 'c'"
PAIRS = list(permutations(("json", "redis-json", "msgpack", "bson"), 2))

USUAL = {
    "source": "loop",
    "step": 3,
    "parents": {"": "1ef"},
    "score": 0.1,
    "tags": ["a", {"b": None}],
    "user": None,
    "empty": {},
    "nested": {"deep": {"list": [], "text": "nul\0 é 🌏"}},
    "a.b": {"$c": True},
}


def stored(entries: dict[str, Any], tag: str) -> TypedBytes:
    """Metadata as the saver of a layout stores it."""
    if tag == "json":
        return TypedBytes(tag, json.dumps(entries, ensure_ascii=False).encode())
    if tag == "redis-json":
        return TypedBytes(tag, REDIS.dumps_typed(entries)[1])
    if tag == "msgpack":
        return TypedBytes(*TYPED.dumps_typed(entries))
    document: Any = dumps_metadata(TYPED, entries)
    return TypedBytes(tag, bson.encode(document))


def read(metadata: TypedBytes) -> Any:
    """What the saver of a layout reads."""
    if metadata.type == "json":
        return json.loads(metadata.data)
    if metadata.type == "redis-json":
        found = orjson.loads(metadata.data)
        return REDIS.loads_typed(REDIS.dumps_typed(found))
    if metadata.type == "msgpack":
        return TYPED.loads_typed(("msgpack", metadata.data))
    return loads_metadata(TYPED, bson.decode(metadata.data))


def converted(metadata: TypedBytes, tag: str) -> TypedBytes:
    return converted_metadata(metadata, Form(metadata_type=tag), WHERE)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_metadata_is_equal_for_the_saver_of_the_other_layout(source: str, target: str) -> None:
    given = stored(USUAL, source)
    made = converted(given, target)
    assert made.type == target
    assert same(read(made), USUAL)
    assert made == stored(USUAL, target) or "json" in target
    back = converted(made, source)
    assert same(read(back), USUAL)


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | _TEXT | st.binary(max_size=3)
_KEYS = _TEXT | st.sampled_from(["lc", "type", "id", "__bytes__", "__interrupt__", "value"])
_ENTRIES = st.dictionaries(
    _KEYS,
    st.recursive(
        _LEAVES | st.sampled_from([1, "constructor", True]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)


@given(_ENTRIES, st.sampled_from(PAIRS))
def test_metadata_is_equal_or_refused(entries: dict[str, Any], types: tuple[str, str]) -> None:
    try:
        given = stored(entries, types[0])
        before = read(given)
    except Exception:  # the saver itself cannot store or read this
        return
    try:
        made = converted(given, types[1])
    except CannotHold:
        return
    after = read(made)
    assert same(after, before) or repr(after) == repr(before)


@pytest.mark.parametrize(
    ("source", "data", "target"),
    [
        ("json", b'{"a": {"lc": 1, "type": "constructor", "id": ["x", "Y"]}}', "redis-json"),
        ("json", b'{"a": [{"__interrupt__": true, "value": 1}]}', "redis-json"),
        ("json", b'{"a": 123456789012345678901234567890}', "redis-json"),
        ("json", b'{"a": 123456789012345678901234567890}', "msgpack"),
        ("json", b'{"a": NaN}', "redis-json"),
        ("json", b'{"a": "\\ud800"}', "redis-json"),
        ("json", b'{"a": "\\ud800"}', "msgpack"),
        ("json", b'{"a\\u0000": 1}', "bson"),
        ("json", b"[1]", "msgpack"),
        ("msgpack", TYPED.dumps_typed({"a": b"x"})[1], "json"),
        ("msgpack", TYPED.dumps_typed({"a": {1, 2}})[1], "json"),
        ("msgpack", TYPED.dumps_typed({"a": {1: 2}})[1], "json"),
        ("msgpack", TYPED.dumps_typed({"a": float("inf")})[1], "json"),
        ("bson", bson.encode({"a": bson.ObjectId(b"0" * 12)}), "json"),
        ("bson", bson.encode({"a": ["msgpack+aes", b"0"]}), "json"),
        ("bson", b"\x05", "json"),
        ("what", b"", "json"),
    ],
)
def test_metadata_without_an_equal_form_is_refused(source: str, data: bytes, target: str) -> None:
    with pytest.raises(CannotHold, match=f"the metadata of {WHERE} "):
        converted(TypedBytes(source, data), target)


def test_leaves_of_old_releases_on_mongodb_are_json() -> None:
    old = bson.encode({"source": b'"loop"', "step": b"-1", "parents": {"": b'"1ef"'}})
    expected = {"source": "loop", "step": -1, "parents": {"": "1ef"}}
    for tag in ("json", "msgpack", "redis-json"):
        assert read(converted(TypedBytes("bson", old), tag)) == expected


def test_objects_stay_in_metadata_between_msgpack_and_mongodb() -> None:
    entries = {"a": {1, 2}, "b": {"c": b"raw"}}
    assert read(converted(stored(entries, "msgpack"), "bson")) == entries
    assert read(converted(stored(entries, "bson"), "msgpack")) == entries
