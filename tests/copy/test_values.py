"""Values that are converted from one serializer to another, as LangGraph reads them."""

import dataclasses
import json
import math
import os
import pickle
import random
import re
from collections import defaultdict, deque
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from ipaddress import ip_address, ip_network
from itertools import permutations
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import bson
import numpy
import orjson
import ormsgpack
import pytest
import redis
from hypothesis import example, given
from hypothesis import strategies as st
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
from langgraph.checkpoint.mongodb.utils import dumps_metadata, loads_metadata
from langgraph.checkpoint.redis import RedisSaver
from langgraph.checkpoint.redis.jsonplus_redis import JsonPlusRedisSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Command, Interrupt, Overwrite, Send, TimeoutPolicy
from pydantic import BaseModel
from zoo_types import Address, Color, Customer, Item, Level, Order, Point, Unserializable

from ckpt_backends.codec import decode
from ckpt_backends.model import TypedBytes
from ckpt_backends.transfer.bodies import converted_metadata, from_plain_json, open_body, plain_json
from ckpt_backends.transfer.form import CannotHold, Form, Serializer
from ckpt_backends.transfer.values import apart_type, as_type, converted_value
from tests.kit.cases import cases

TYPED = JsonPlusSerializer()
REDIS = JsonPlusRedisSerializer()


_SAVER: Any = RedisSaver.__new__(RedisSaver)
_SAVER.serde = REDIS


def typed(value: Any) -> TypedBytes:
    """A value as the savers of SQL databases store it."""
    return TypedBytes(*TYPED.dumps_typed(value))


def read_typed(value: TypedBytes) -> Any:
    return TYPED.loads_typed((value.type, value.data))


def redis_write(value: Any) -> TypedBytes:
    """A write as RedisSaver stores it, with ckpt's name for its JSON."""
    tag, data = REDIS.dumps_typed(value)
    return TypedBytes("redis-json" if tag == "json" else tag, data)


def read_redis_write(value: TypedBytes) -> Any:
    tag = "json" if value.type == "redis-json" else value.type
    return REDIS.loads_typed((tag, value.data))


def redis_value(value: Any) -> TypedBytes:
    """A channel's value as RedisSaver stores it in a document."""
    body = _SAVER._dump_checkpoint({"channel_values": {"value": value}})
    text = json.dumps(body["channel_values"]["value"], ensure_ascii=False)
    return TypedBytes("redis-json", text.encode())


def read_redis_value(value: TypedBytes) -> Any:
    assert value.type == "redis-json"
    return _SAVER._deserialize_channel_values({"value": json.loads(value.data)})["value"]


def same(one: Any, two: Any) -> bool:
    """Whether two values are equal and of the same types, at each level."""
    if type(one) is not type(two):
        return False
    if isinstance(one, float):
        return one == two and math.copysign(1, one) == math.copysign(1, two)
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, dict):
        return list(one) == list(two) and all(same(one[key], two[key]) for key in one)
    if isinstance(one, BaseModel):
        return same(dict(one), dict(two)) and same(one.model_extra, two.model_extra)
    if dataclasses.is_dataclass(one):
        names = [field.name for field in dataclasses.fields(one)]
        return all(same(getattr(one, name), getattr(two, name)) for name in names)
    return bool(one == two)


WHERE = "channel 'a' of checkpoint 'b'"
REDIS_JSON = "redis-json"

CALL: Any = {"name": "f", "args": "{}", "id": "c"}
HELD = [
    HumanMessage([{"type": "text", "text": "é"}, "b"], name="Ana", favourite=[1, {"a": None}]),
    AIMessage(
        "",
        id="2",
        tool_calls=[{"name": "f", "args": {"x": 1.5}, "id": "c1"}],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        response_metadata={"model": "m", "at": datetime(2026, 1, 2, tzinfo=UTC)},
    ),
    AIMessage("", invalid_tool_calls=[CALL | {"error": "x", "type": "invalid_tool_call"}]),
    AIMessageChunk(content="a", tool_call_chunks=[CALL | {"index": 0}]),
    ToolMessage("out", tool_call_id="c1", artifact={"rows": [1, (2, 3)]}, status="error"),
    [SystemMessage("s"), ChatMessage(content="c", role="critic"), RemoveMessage(id="gone")],
    [FunctionMessage(content="f", name="f"), Document("text", metadata={"page": 1}, id="d")],
    {"a": [{"b": [[], {}, [None]]}], "": "empty key", "lc": 3, "type": "constructor"},
    {"$type": "not.a.Type", "$$x": 1, "plain": {"$bytes": "aGk="}, "blob": b"", "list": [b"x"]},
    [2**60, -(2**63), 2**64 - 1, 0.1, -0.0, 1e22, 5e-324, 1.7976931348623157e308],
    "tab\tnewline\nnul\x00 esc\x1b[31m 你好 🌏 \u2028",
    b"\x00\xff",
    datetime(2026, 4, 7, 10, 30, 15, 123456),  # noqa: DTZ001
    [date(2026, 2, 28), time(23, 59, 58, 7), time(1, 2, tzinfo=UTC), time(1, fold=1)],
    [timedelta(-1, 5, 7), timezone(timedelta(hours=-3), "X"), UUID(int=1), Decimal("-0E+3")],
    [{"b", "a"}, frozenset({3, 1}), deque([1, "two", None, [3]]), set(), frozenset(), deque()],
    [{date(2026, 1, 1), UUID(int=1), frozenset({1})}],
    [Path("/var/log/a b.txt"), Path(), re.compile(r"^a+\s", re.IGNORECASE)],
    [ip_address("192.0.2.1"), ip_address("::1"), ip_network("10.0.0.0/8"), ZoneInfo("Europe/Rome")],
    [Send("node", {"b": b"raw"}), Send("n", 1, timeout=TimeoutPolicy(run_timeout=3.0))],
    (Interrupt({"question": "?"}, id="i1"),),
    [Command(update={"a": 1}, goto=["x", Send("y", 2)], resume={"i": 3}), Overwrite([1])],
    _DeltaSnapshot([HumanMessage("x"), {"raw": b"x"}]),
]
PICKLED = [
    *HELD,
    {"a": [1, 2.5, None, True, "é", b"raw"], 1: "one", "": {}},
    [HELD[:1]] * 2,
    Order(number=7, items=[Item(sku="A", price=1.5, color=Color.RED)]),
    [Color.BLUE, Level.HIGH, Point(1, 2)],
    [("user", "hi"), {(1, ("a",)): ()}, {(1, 2)}, bytearray(b"x"), deque([1], maxlen=2)],
]
"""With values that msgpack holds, but not all documents of Redis."""


@pytest.mark.parametrize("value", PICKLED, ids=lambda value: type(value).__name__)
def test_a_pickled_value_is_the_same_object_in_msgpack(value: Any) -> None:
    for protocol in (4, 5):
        stored = TypedBytes("pickle", pickle.dumps(value, protocol))
        made = converted_value(stored, Serializer.PICKLE, Serializer.TYPED, WHERE)
        assert same(read_typed(made), value)


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
_MARKS = ["lc", "type", "id", "kwargs", "args", "value", "node", "arg"]
_MARKS += ["__bytes__", "__send__", "__interrupt__", "__delta_snapshot__", "__set_items__"]
_KEYS = _TEXTS | st.sampled_from(_MARKS)
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | _TEXTS
    | st.sampled_from(
        [1, 2, "constructor", "aGk=", ["builtins", "set"], ["langgraph", "types", "Send"]]
    )
)
_ZONES = st.none() | st.integers(-1439, 1439).map(lambda m: timezone(timedelta(minutes=m)))
_HASHABLE = (
    st.integers(-9, 9)
    | _TEXTS
    | st.datetimes(timezones=_ZONES)
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.uuids()
    | st.decimals(allow_nan=False)
    | st.ip_addresses()
    | st.sampled_from([Path("a/b"), re.compile("a"), Color.RED, (1, 2)])
    | st.frozensets(st.integers(0, 3), max_size=2)
)


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    dicts = st.dictionaries(_KEYS, inner, max_size=4)
    return (
        st.lists(inner, max_size=3)
        | dicts
        | st.dictionaries(st.integers(-9, 9) | _TEXTS, inner, max_size=2)
        | st.lists(inner, max_size=3).map(deque)
        | inner.map(lambda one: Send("node", one))
        | inner.map(lambda one: Interrupt(one, id="i"))
        | inner.map(lambda one: Command(update=one, goto=["a"]))
        | inner.map(_DeltaSnapshot)
        | dicts.map(lambda one: HumanMessage("x", additional_kwargs=one))
        | dicts.map(lambda one: AIMessage("x", tool_calls=[{"name": "f", "args": one, "id": "1"}]))
        | inner.map(lambda one: ToolMessage("x", tool_call_id="1", artifact=one))
        | inner.map(lambda one: Document("x", metadata={"a": one}))
        | inner.map(lambda one: Address("s", one))
        | inner.map(lambda one: Point(1, one))
    )


_VALUES = st.recursive(
    _SCALARS | st.binary(max_size=3) | _HASHABLE | st.sets(_HASHABLE, max_size=3),
    _containers,
    max_leaves=8,
)


def _held(stored: TypedBytes) -> TypedBytes | None:
    try:
        return as_type(stored, REDIS_JSON, WHERE)
    except CannotHold:
        return None


def check_in_a_document(stored: TypedBytes, made: TypedBytes) -> None:
    """Check that RedisSaver reads the same object, and that it comes back."""
    assert same(read_redis_value(made), read_typed(stored))
    back = converted_value(made, Serializer.REDIS_JSON, Serializer.TYPED, WHERE, in_body=True)
    assert same(read_typed(back), read_typed(stored))


@pytest.mark.parametrize("value", HELD, ids=lambda value: type(value).__name__)
def test_a_value_is_the_same_object_in_a_redis_document(value: Any) -> None:
    check_in_a_document(typed(value), as_type(typed(value), REDIS_JSON, WHERE))


@given(_VALUES)
def test_any_value_is_the_same_object_on_redis_or_refused_in_a_document(value: Any) -> None:
    if (made := _held(typed(value))) is not None:
        check_in_a_document(typed(value), made)
    # A write keeps its bytes.
    write = converted_value(typed(value), Serializer.TYPED, Serializer.REDIS_JSON, WHERE)
    assert write == typed(value)
    assert same(read_redis_write(write), read_typed(write))


@given(_VALUES, st.booleans())
@example(Interrupt(_DeltaSnapshot(Send("node", Interrupt(None, id="i"))), id="i"), True)
def test_any_value_of_redis_is_the_same_in_msgpack_or_refused(value: Any, in_body: bool) -> None:
    store, read = (redis_value, read_redis_value) if in_body else (redis_write, read_redis_write)
    try:
        stored = store(value)
        before = read(stored)
    except Exception:  # RedisSaver itself cannot store or read this
        return
    try:
        made = converted_value(
            stored, Serializer.REDIS_JSON, Serializer.TYPED, WHERE, in_body=in_body
        )
    except CannotHold:
        return
    assert same(read_typed(made), before)


_JSON = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=5),
    max_leaves=10,
)
_CLASSES = [
    one.split(".")
    for one in (
        *("langchain.schema.messages.HumanMessage", "langchain.schema.messages.ToolMessage"),
        *("langchain_core.messages.ai.AIMessage", "langchain_core.documents.base.Document"),
        *("builtins.set", "datetime.datetime", "uuid.UUID", "langgraph.types.Send"),
        *("langgraph.types.Interrupt", "zoo_types.Address", "zoo_types.Item"),
    )
]
_ENVELOPES = st.fixed_dictionaries(
    {
        "lc": st.sampled_from([1, 2, 1.0, True]),
        "type": st.sampled_from(["constructor", "secret", "not_implemented"]),
        "id": st.sampled_from([*_CLASSES, "text", None]),
    },
    optional={
        "args": st.sampled_from([None, [], [[1, "a"]], ["a", 1], [2026, 1, 2], ["0" * 32]]),
        "kwargs": st.dictionaries(
            st.sampled_from(["content", "tool_call_id", "value", "node", "arg", "id"]),
            _JSON,
            max_size=4,
        ),
        "method": st.sampled_from([None, "fromisoformat", [None, "construct"]]),
    },
)
_WITH_ENVELOPES = st.recursive(
    _ENVELOPES | _JSON,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=4,
)


@given(_WITH_ENVELOPES, st.sampled_from(["document", "write", "typed"]))
def test_any_json_is_the_same_object_in_msgpack_or_refused(value: Any, place: str) -> None:
    stored = TypedBytes("json" if place == "typed" else REDIS_JSON, json.dumps(value).encode())
    reader = {"document": read_redis_value, "write": read_redis_write, "typed": read_typed}[place]
    try:
        if place == "typed":
            made = as_type(stored, "msgpack", WHERE)
        else:
            source, target = Serializer.REDIS_JSON, Serializer.TYPED
            made = converted_value(stored, source, target, WHERE, in_body=place == "document")
    except CannotHold:
        return
    assert same(read_typed(made), reader(stored))


def nested(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


@pytest.mark.parametrize("value", [None, b"\x00\xff", b"", bytearray(b"x" * 300)], ids=repr)
def test_types_of_their_own_become_part_of_a_body_and_come_back(value: Any) -> None:
    made = as_type(typed(value), "msgpack", WHERE)
    assert made.type == "msgpack"
    assert same(read_typed(made), value)
    assert (decode(made), apart_type(made)) == (decode(typed(value)), typed(value))
    if isinstance(value, bytes):  # and in a body of LangGraph.js
        stored = TypedBytes("bytes", value)
        made = as_type(stored, "json", WHERE, Serializer.JAVASCRIPT)
        assert decode(made) == value
        spaced = TypedBytes("json", json.dumps(json.loads(made.data)).encode())
        assert apart_type(made) == apart_type(spaced) == stored


def test_values_of_old_releases_become_msgpack() -> None:
    """The JSON of langgraph-checkpoint 1 and 2, as the newest release reads it."""
    texts = [
        '{"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages",'
        ' "HumanMessage"], "kwargs": {"content": "x", "type": "human", "id": "1"}}',
        '{"lc": 2, "type": "constructor", "id": ["uuid", "UUID"], "args": ["' + "0" * 32 + '"]}',
        '{"lc": 2, "type": "constructor", "id": ["langgraph", "types", "Interrupt"],'
        ' "kwargs": {"value": 1, "resumable": true, "ns": ["a:1"], "when": "during"}}',
        '[{"a": null, "b": [1.5, "\\u00e9"]}]',
    ]
    for text in texts:
        stored = TypedBytes("json", text.encode())
        assert same(read_typed(as_type(stored, "msgpack", WHERE)), read_typed(stored))


@cases("value", None, True, 2**64 - 1, 0.1, -1.0, 123456789012.345, "é 🌏")
def test_values_that_no_engine_changes_stay_in_the_body(value: Any) -> None:
    made = plain_json(typed(value))
    assert made is not None
    assert same(json.loads(made.data), value)
    back = from_plain_json(made)
    assert back is not None
    assert same(read_typed(back), value)


def test_values_that_an_engine_may_change_leave_the_body() -> None:
    for value in (0.1234567890123456, 1e16, -0.0, math.inf, "nul\0", "x" * (17 << 20), [1], b"x"):
        assert plain_json(typed(value)) is None


def test_an_exception_on_redis_is_what_its_saver_gives_back() -> None:
    """It keeps the class and the notes, and gives them back as a dict."""
    noted = Unserializable("x", [1])
    vars(noted)["__notes__"] = ["During task 'a'"]
    for value in (ValueError("x"), noted):
        stored = redis_write(value)
        made = converted_value(stored, Serializer.REDIS_JSON, Serializer.TYPED, WHERE)
        assert same(read_typed(made), read_redis_write(stored))


def test_redis_keeps_what_is_written(redis_stack_url: str) -> None:
    """RedisJSON parses documents and writes them out again."""
    rng = random.Random(20)
    floats = [rng.uniform(-1, 1) * 10.0 ** rng.randint(-300, 300) for _ in range(2000)]
    made = [one for one in (_held(typed(value)) for value in [*HELD, *floats]) if one is not None]
    assert len(made) > len(HELD) + 0.98 * len(floats)
    with redis.Redis.from_url(redis_stack_url) as client:
        text = b"[" + b",".join(one.data for one in made) + b"]"
        client.execute_command("JSON.SET", "document", "$", text)
        kept = client.execute_command("JSON.GET", "document")
    assert same(json.loads(kept), [json.loads(one.data) for one in made])


def ext_in_ext(code: int, levels: int) -> bytes:
    data = b"\xc0"
    for _ in range(levels):
        inner = data if code == 7 else b"\x93\xa1a\xa1b" + data
        data = ormsgpack.packb(ormsgpack.Ext(code, inner))
    return data


class Exploit:
    def __reduce__(self) -> Any:
        return os.getcwd, ()


class ExploitWithText:
    def __reduce__(self) -> Any:
        return os.getenv, ("HOME",)


ITSELF: list[Any] = []
ITSELF.append(ITSELF)
HUGE: list[Any] = ["x"]
for _ in range(40):
    HUGE = [HUGE, HUGE]


@cases(
    "stored tag reason",
    # RedisSaver would give it back as something else.
    *(
        (typed(value), REDIS_JSON, reason)
        for value, reason in (
            (Customer("A", Address("s", "c"), []), "'zoo_types.Address': if it is not a dataclass"),
            (Order(number=1, items=[]), "'zoo_types.Order'"),
            ([Color.RED], "'zoo_types.Color'"),
            ({"a": {1: "x"}}, "cannot become JSON"),
            ({"a": {"__bytes__": "x"}}, "would take for an object"),
            ([float("nan")], "cannot become JSON"),
            ([{"lc": 1, "type": "constructor", "id": ["a", "b"]}], "would take for an object"),
            ({"__send__": True, "node": "a", "arg": 1}, "would take for an object"),
            (HumanMessage("x", additional_kwargs={"raw": b"x"}), "bytes inside"),
            ({(1, 2)}, "items that a set cannot have"),
            (numpy.array([1]), "an array of numpy"),
            (0.23566079292726638, "RedisJSON does not store exactly"),
            (AIMessage.model_construct(content=None), "unusual fields"),
            (nested(130), "levels deep"),
        )
    ),
    # A body has no form for its type.
    (TypedBytes("bytearray", b"x"), REDIS_JSON, ""),
    (TypedBytes("bytes", b"x"), "json", ""),
    (TypedBytes("msgpack", b"\x01"), "json", ""),
    (TypedBytes("msgpack+aes", b"x"), REDIS_JSON, ""),
    (TypedBytes("msgpack", b"\x92\x01"), REDIS_JSON, ""),
    (TypedBytes("json", b"{"), "msgpack", ""),
    # LangGraph reads the JSON of old releases in another way.
    *(
        (TypedBytes("json", text), "msgpack", "")
        for text in (
            b'{"lc":2, "type":"constructor", "id":["zoo_types", "Order"], "kwargs":{"number":1}}',
            b'{"lc":2, "type":"constructor", "id":["datetime", "datetime"],'
            b' "method":"fromisoformat", "args":["2026-01-01T00:00:00"]}',
            b'{"lc":1, "type":"constructor", "id":["os", "system"], "kwargs":{}}',
            b"[123456789012345678901234567890]",
            b"[NaN]",
        )
    ),
    # It is nested without end.
    (TypedBytes("msgpack", ext_in_ext(7, 2000)), REDIS_JSON, ""),
    (TypedBytes("msgpack", ext_in_ext(5, 300)), REDIS_JSON, ""),
    (TypedBytes("msgpack", b"\x91" * 100_000 + b"\xc0"), REDIS_JSON, ""),
    (TypedBytes("json", b"[" * 100_000 + b"]" * 100_000), "msgpack", ""),
    (TypedBytes("json", b'{"lc":1,"a":' * 5000 + b"1" + b"}" * 5000), "msgpack", ""),
    (TypedBytes("pickle", b"\x80\x04" + b"]" * 10_000 + b"a" * 9_999 + b"."), "msgpack", ""),
    # A pickle holds more than msgpack, or is damaged.
    *(
        (TypedBytes("pickle", pickle.dumps(value)), "msgpack", reason)
        for value, reason in (
            (int, "a class or function"),
            (Address("s", "c"), "'zoo_types.Address'"),
            (Unserializable("x", [1]), "'zoo_types.Unserializable'"),
            (datetime(2026, 1, 1, fold=1), "fold=1"),  # noqa: DTZ001
            (datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Rome")), "an object"),
            (defaultdict(list, a=[1]), "'collections.defaultdict'"),
            ("\ud800", "cannot become msgpack"),
            ({b"a": 1}, "keys"),
            (Exploit(), "getcwd'"),
            (ExploitWithText(), "not copied"),
            (ITSELF, "contains itself"),
            (HUGE, "too often"),
        )
    ),
    *(
        (TypedBytes("pickle", data), "msgpack", "")
        for data in (b"", b"x", pickle.dumps([1])[:-1], pickle.dumps([1]) + b"x")
    ),
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_equal_form_is_refused(stored: TypedBytes, tag: str, reason: str) -> None:
    with pytest.raises(CannotHold, match=f"{WHERE} .*{reason}" if reason else WHERE):
        as_type(stored, tag, WHERE)


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


def stored_metadata(entries: dict[str, Any], tag: str) -> TypedBytes:
    if tag == "json":
        return TypedBytes(tag, json.dumps(entries, ensure_ascii=False).encode())
    if tag == "redis-json":
        return TypedBytes(tag, REDIS.dumps_typed(entries)[1])
    if tag == "msgpack":
        return TypedBytes(*TYPED.dumps_typed(entries))
    document: Any = dumps_metadata(TYPED, entries)
    return TypedBytes(tag, bson.encode(document))


def read_metadata(metadata: TypedBytes) -> Any:
    if metadata.type == "json":
        return json.loads(metadata.data)
    if metadata.type == "redis-json":
        return REDIS.loads_typed(REDIS.dumps_typed(orjson.loads(metadata.data)))
    if metadata.type == "msgpack":
        return TYPED.loads_typed(("msgpack", metadata.data))
    return loads_metadata(TYPED, bson.decode(metadata.data))


def converted_entries(metadata: TypedBytes, tag: str) -> TypedBytes:
    return converted_metadata(metadata, Form(metadata_type=tag), WHERE)


_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | _TEXTS | st.binary(max_size=3)
_NAMES = _TEXTS | st.sampled_from(["lc", "type", "id", "__bytes__", "__interrupt__", "value"])
_ENTRIES = st.dictionaries(
    _NAMES,
    st.recursive(
        _LEAVES | st.sampled_from([1, "constructor", True]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)


@given(_ENTRIES)
@example({"parents": {"": "1ef"}, "step": 3, "score": 0.1, "a.b": {"$c": True}, "d": [{}, None]})
@example({"a": {1, 2}, "b": {"c": b"raw"}, "user": None, "nul": "\0 é 🌏"})
def test_metadata_is_equal_for_the_saver_of_any_layout_or_refused(entries: dict[str, Any]) -> None:
    for source, target in list(permutations(("json", "redis-json", "msgpack", "bson"), 2)):
        try:
            given = stored_metadata(entries, source)
            before = read_metadata(given)
        except Exception:  # the saver itself cannot store or read this
            continue
        try:
            made = converted_entries(given, target)
        except CannotHold:
            assert "parents" not in entries
            continue
        assert made.type == target
        after = read_metadata(made)
        assert same(after, before) or repr(after) == repr(before)


@cases(
    "source data target",
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
)
def test_metadata_without_an_equal_form_is_refused(source: str, data: bytes, target: str) -> None:
    with pytest.raises(CannotHold, match=f"the metadata of {WHERE} "):
        converted_entries(TypedBytes(source, data), target)


def test_leaves_of_old_releases_on_mongodb_are_json() -> None:
    old = bson.encode({"source": b'"loop"', "step": b"-1", "parents": {"": b'"1ef"'}})
    expected = {"source": "loop", "step": -1, "parents": {"": "1ef"}}
    for tag in ("json", "msgpack", "redis-json"):
        assert read_metadata(converted_entries(TypedBytes("bson", old), tag)) == expected
