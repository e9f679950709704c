"""Values are edited, also as JSON: what changes is stored as before, and every other byte stays."""

import json
import math
import pickle
from typing import Any

import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ckpt_backends.codec import decode, from_json, to_json
from ckpt_backends.codec.edits import Put, Take, set_keys
from ckpt_backends.codec.lossless import Ext, decode_lossless, encode_lossless
from ckpt_backends.errors import Unsupported, UsageError
from ckpt_backends.model import TypedBytes
from ckpt_cli.core.edit_state import StoredObjects
from ckpt_cli.core.values import same
from tests.kit.cases import cases


def _ext(code: int, name: str, *rest: Any) -> Ext:
    return Ext(code, encode_lossless("msgpack", ["app.models", name, *rest]))


def _lc2(*path: str, **rest: Any) -> dict[str, Any]:
    return {"lc": 2, "type": "constructor", "id": [*path], **rest}


PARTS: dict[Any, Any] = {("a",): 1, 3: [b"x", 1.5], "$type": 1, "$$x": 2, "more": 2**53 + 1}


def edited(stored: TypedBytes, form: Any) -> bytes:
    """What is stored after a value was edited to a JSON form."""
    objects = StoredObjects(stored.type, [stored])
    return encode_lossless(stored.type, objects.encodable(from_json(form)))


def shown(stored: TypedBytes) -> Any:
    """The JSON form as an editor is given it."""
    return json.loads(json.dumps(to_json(decode(stored)), ensure_ascii=False, indent=2))


@cases(
    "tag value",
    ("msgpack", [PARTS, math.inf, -math.inf, math.nan]),
    # Ext types of every code, some of which have not the shape that LangGraph gives them.
    *(("msgpack", [_ext(0, "set", one), _ext(1, "Plan", [1, one])]) for one in ([1], PARTS)),
    ("msgpack", _ext(2, "Plan", {"a": _ext(0, "set", [1])})),
    *(("msgpack", _ext(3, "Plan", "00", method)) for method in ("fromhex", "fromisoformat")),
    *(("msgpack", _ext(code, "Plan", {"a": 1}, "model_validate_json")) for code in (4, 5)),
    *(("msgpack", Ext(code, encode_lossless("msgpack", PARTS))) for code in (7, 9)),
    *(("msgpack", Ext(code, data)) for code in (0, 3, 20) for data in (b"", b"\xc1")),
    ("json", [1.5, math.nan, "\ud800", {"$type": "x", "$": 1}, 10**30]),
    ("json", {"lc": 1, "type": "constructor", "id": ["a", "B"], "kwargs": {"x": 1}}),
    ("json", [_lc2("builtins", "set", args=[[1, 2]]), {"lc": 2, "type": "undefined"}]),
    ("json", _lc2("builtins", "bytes", method="fromhex", args=["00ff"])),
    ("json", {"a": _lc2("Map", args=[[["a", 1]]])}),
)
def test_a_value_comes_back_from_the_editor_as_it_was(tag: str, value: Any) -> None:
    stored = TypedBytes(tag, encode_lossless(tag, value))
    assert same(decode(TypedBytes(tag, edited(stored, shown(stored)))), decode(stored))


def test_messages_are_edited_added_and_removed_as_the_official_serializer_writes_them() -> None:
    serializer = JsonPlusSerializer()
    before = [HumanMessage("hello", id="1"), AIMessage("hi", id="2"), HumanMessage("bye", id="3")]
    stored = TypedBytes(*serializer.dumps_typed(before))
    form = shown(stored)
    assert edited(stored, form) == stored.data
    form[0]["content"] = "good morning"
    form.append({**form[2], "content": "see you", "id": "4"})
    del form[1]
    assert serializer.loads_typed(("msgpack", edited(stored, form))) == [
        HumanMessage("good morning", id="1"),
        HumanMessage("bye", id="3"),
        HumanMessage("see you", id="4"),
    ]


def test_an_object_of_a_class_that_is_not_stored_is_refused() -> None:
    stored = TypedBytes("msgpack", encode_lossless("msgpack", ["a"]))
    with pytest.raises(UsageError, match=r"cannot write an object of class 'os\.system'"):
        edited(stored, [{"$type": "os.system", "$args": ["id"]}])


BEFORE: dict[str, Any] = {"a": 1, "é": ["ü", 1.5], "b": {"c": None}, "t": '"x": {'}
MANY = {**{f"n{n}": [n] for n in range(20)}, **BEFORE}
CHANGES: list[dict[str, Any]] = [
    *({"a": 2}, {"a": ..., "new": [True, {}]}, {"é": ..., "b": {"é": 1}}, {"none": ...}),
    *(dict.fromkeys(MANY, ...), {f"m{n}": "ü" for n in range(20)}, {"t": None, "n3": ...}),
]
SPELLINGS: list[dict[str, Any]] = [
    *({"ensure_ascii": False}, {"ensure_ascii": True}, {"ensure_ascii": False, "indent": 2}),
    {"ensure_ascii": False, "separators": (",", ":")},
]


@pytest.mark.parametrize("stored", [{}, {"b": {}}, BEFORE, MANY], ids=len)
@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_keys_are_set_and_removed(stored: dict[str, Any], changes: dict[str, Any]) -> None:
    after = {key: value for key, value in {**stored, **changes}.items() if value is not ...}
    edits: dict[str, Any] = {key: None if it is ... else Put(it) for key, it in changes.items()}
    edits = {"inner": edits, **edits}
    whole, expected = {"inner": stored, **stored}, {"inner": after, **after}
    packed = set_keys(TypedBytes("msgpack", ormsgpack.packb(whole)), edits)
    assert packed.data == ormsgpack.packb(expected)
    for spelling in SPELLINGS:
        typed = TypedBytes("json", json.dumps(whole, **spelling).encode())
        found = json.loads(set_keys(typed, edits).data)
        assert found == expected
        assert (list(found), list(found["inner"])) == (list(expected), list(after))
        assert set_keys(typed, {}) == typed


@pytest.mark.parametrize("tag", ["msgpack", "json", "pickle"])
@pytest.mark.parametrize("stored", [{"b": {}}, BEFORE, MANY], ids=len)
def test_an_entry_gets_another_key(stored: dict[str, Any], tag: str) -> None:
    dumps: dict[str, Any] = {"msgpack": ormsgpack.packb, "json": dumped, "pickle": pickle.dumps}
    typed, (old, value), *_ = TypedBytes(tag, dumps[tag](stored)), *stored.items()
    with pytest.raises(Unsupported):
        set_keys(typed, {old: None, [*stored][-1]: Take(old)})
    left = {name: one for name, one in stored.items() if name != old}
    for key in ("", "other é", "x" * 40):
        found = decode(set_keys(typed, {old: None, key: Take(old)}))
        assert found == decode(TypedBytes(tag, dumps[tag]({**left, key: value})))


def dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    "value",
    [ormsgpack.Ext(5, b"\xc1 not msgpack"), ormsgpack.Ext(99, b""), ormsgpack.Ext(1, b"\x93")],
    ids=["text", "unknown", "cut"],
)
def test_what_is_not_understood_stays(value: Any) -> None:
    stored = {"id": "old", "value": [value, {"deep": value}], "ts": "1"}
    changed = set_keys(
        TypedBytes("msgpack", ormsgpack.packb(stored)), {"id": Put("new"), "ts": Put("later")}
    )
    assert changed.data == ormsgpack.packb({**stored, "id": "new", "ts": "later"})


@cases(
    "typed",
    TypedBytes("msgpack+aes", b"x"),
    TypedBytes("pickle", b"\x80\x04]."),
    TypedBytes("bson", b"\x05\x00\x00\x00"),
    TypedBytes("bson", b"\x06\x00\x00\x00\x02\x00"),
    TypedBytes("pickle", b"\x80\x04}"),
    TypedBytes("json", b'{"a" 1}'),
    TypedBytes("msgpack", b""),
    TypedBytes("msgpack", b"\x93\x01"),
    TypedBytes("msgpack", b"\x81\xa1a\x01\x02"),
    TypedBytes("json", b"[1]"),
    TypedBytes("json", b'{"a": 1'),
    TypedBytes("json", b'{"a": 1} {}'),
    ids=lambda one: f"{one.type} {one.data!r}",
)
def test_what_is_no_map_is_refused(typed: TypedBytes) -> None:
    with pytest.raises(Unsupported):
        set_keys(typed, {"a": Put(1)})


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_takes_items_at_its_end(protocol: int) -> None:
    shared = ["x" * 70_000, {1, 2}]
    value = {"id": "a", "channel_values": {"n": shared, "m": shared}, "blob": b"y" * 70_000}
    stored = pickle.dumps(value, protocol)
    put = {"id": "b", "ts": 1 << 40, "n": 3, "none": None, "in": {"a": [True, 0.5]}}
    once = set_keys(TypedBytes("pickle", stored), {name: Put(one) for name, one in put.items()})
    twice = set_keys(once, {"id": Put("c")})
    assert once.data.startswith(stored[:-1])
    assert pickle.loads(once.data) == {**value, **put}
    assert pickle.loads(twice.data) == {**value, **put, "id": "c"}


class Caller:
    """An object of the application, whose class only a pickle can name."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Caller) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_keys_of_a_pickle_are_removed_and_changed_inside(protocol: int) -> None:
    kept: Any = Caller()
    kept.name, kept.itself = "anna", kept
    shared: Any = (1 << 40, b"bytes", "text", frozenset({1}), {"a": 1.5}, (), [], None, True)
    value = {"user": kept, "run": "r1", "in": {"a": 1, "b": kept, "c": 2}, "shared": shared}
    edits = {"run": None, "none": None, "in": {"a": Put("new"), "c": None}, "new": {"x": Put(1)}}
    stored = TypedBytes("pickle", pickle.dumps(value, protocol))
    found = pickle.loads(set_keys(stored, edits).data)
    assert found.pop("user") is found["in"].pop("b")
    assert found == {"in": {"a": "new"}, "shared": shared, "new": {"x": 1}}
    assert set_keys(stored, {"none": None, "empty": {}}) == stored
    with pytest.raises(Unsupported, match="as a whole"):
        set_keys(stored, {"run": lambda data: data})


@pytest.mark.parametrize("style", ["msgpack", "json"])
@cases(
    "kept put",
    ({}, {"a": 1, "": None}),
    ({"a": True, "é": 1.5}, {}),
    ({"a": None, "é": "ü", "n": -(2**60)}, {"a": "new", "source": "fork", "more": 2**40}),
)
def test_leaves_of_a_document_are_written_as_the_others(
    kept: dict[str, Any], put: dict[str, Any], style: str
) -> None:
    import bson

    def leaf(value: Any) -> Any:
        if style == "json":
            return json.dumps(value).encode()
        return ["msgpack", ormsgpack.packb(value)]

    doc = bson.encode({"source": leaf("loop"), "parents": {}, **{k: leaf(kept[k]) for k in kept}})
    found = set_keys(TypedBytes("bson", doc), {name: Put(one) for name, one in put.items()})
    made = bson.decode(found.data)
    assert {k: v for k, v in made.items() if k not in put} == {
        k: v for k, v in bson.decode(doc).items() if k not in put
    }
    assert {type(made[name]) for name in put} <= {type(leaf(1))}
    assert decode(found) == {"source": "loop", "parents": {}, **kept, **put}


@given(value=st.recursive(st.none() | st.integers() | st.floats() | st.text(), st.lists))
@pytest.mark.parametrize("escaped", [True, False])
@pytest.mark.parametrize("separators", [(", ", ": "), (",", ":")])
def test_json_keeps_its_spelling(value: Any, escaped: bool, separators: tuple[str, str]) -> None:
    def spell(thing: object) -> bytes:
        text = json.dumps(thing, ensure_ascii=escaped, separators=separators)
        return text.encode("utf-8", "surrogatepass")

    body = {"id": "é", "values": [value, {"a": 1}]}
    data = spell(body)
    read = decode_lossless(TypedBytes("json", data))
    assert encode_lossless("json", read, like=data) == data
    assert encode_lossless("json", read | {"id": "è"}, like=data) == spell(body | {"id": "è"})


@cases(
    "tag data",
    ("pickle", b"\x80\x04N."),
    ("msgpack", b"\xdc\x00\x01\x01"),
    ("msgpack", b"\xca\x3f\x80\x00\x00"),
    ("msgpack", b"\x82\x01\x01\xc3\x02"),
    ("msgpack", b"\xd6\xff\x00\x00\x00\x01"),
    ("msgpack", b"\x91" * 500 + b"\xc0"),
    ("json", b'{"a":1, "b":2}'),
    ("json", b'{"a": 1, "a": 2}'),
    ("json", b"1E2"),
    ("json", b"[" * 500 + b"]" * 500),
    ("json", b"1" * 5000),
)
def test_what_would_change_is_refused(tag: str, data: bytes) -> None:
    with pytest.raises(Unsupported):
        decode_lossless(TypedBytes(tag, data))


@pytest.mark.parametrize(("tag", "value"), [("pickle", 1), ("msgpack", {1, 2}), ("json", {1, 2})])
def test_what_cannot_be_written_is_refused(tag: str, value: Any) -> None:
    with pytest.raises(Unsupported):
        encode_lossless(tag, value)
