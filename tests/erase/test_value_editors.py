"""Erasing in stored bytes gives what erasing in the value gives, and changes nothing else."""

import json
import pickle
from base64 import b64decode, b64encode
from collections import OrderedDict
from datetime import UTC, datetime
from typing import Any

import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Interrupt, Send

from ckpt_backends.codec import decode
from ckpt_backends.codec.bson import document_of, typed
from ckpt_backends.codec.bson import plain as bson_plain
from ckpt_backends.codec.values import Tagged
from ckpt_backends.erasing.formats import (
    BODY,
    MARKER,
    METADATA,
    ChangedPlaces,
    Erasure,
    Scalar,
    ScalarPlace,
    Spot,
    Treatment,
    erased_value,
)
from ckpt_backends.model import TypedBytes
from ckpt_backends.transfer.form import CannotHold

SECRET = 'hunter2 "ümlaut"\n/pass'
SHORT = "pin7"
ERASURE = Erasure(frozenset({SECRET, SHORT}))
SERIALIZER = JsonPlusSerializer()

texts = st.one_of(
    st.text(max_size=12),
    st.sampled_from([SECRET, SHORT, f"a {SECRET} b", f"{SHORT} inside", json.dumps({"k": SECRET})]),
)
leaves = st.one_of(
    texts, st.none(), st.booleans(), st.integers(-(2**60), 2**60), st.floats(allow_nan=False)
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=25,
)


def replaced(value: Any) -> Any:
    """Return what becomes of a plain value."""
    if isinstance(value, str):
        return ERASURE.replaced(value)
    if isinstance(value, list):
        return [replaced(one) for one in value]
    if isinstance(value, dict):
        made: dict[str, Any] = {}
        for key, one in value.items():
            new = first = ERASURE.replaced_key(key)
            number = 1
            while new != key and new in made:
                number += 1
                new = f"{first} {number}"
            made[new] = replaced(one)
        return made
    if isinstance(value, Tagged):
        return Tagged(value.type, replaced(value.payload))
    return value


def erased(
    tag: str, data: bytes, erasure: Erasure = ERASURE, spot: Spot | None = None
) -> tuple[bytes, ChangedPlaces]:
    changed = ChangedPlaces()
    made = erased_value(TypedBytes(tag, data), erasure, spot or Spot(), changed, "it")
    return made.data, changed


@given(values)
def test_msgpack_is_spliced(value: Any) -> None:
    data = ormsgpack.packb(value)
    made, changed = erased("msgpack", data)
    expected = replaced(value)
    assert made == ormsgpack.packb(expected)
    assert bool(changed.steps) == (made != data)


@given(values, st.sampled_from([(", ", ": "), (",", ":")]), st.booleans(), st.integers(0, 2))
def test_json_is_spliced(value: Any, separators: Any, ascii_only: bool, indent: int) -> None:
    def dumped(one: Any) -> bytes:
        text = json.dumps(
            one, separators=separators, ensure_ascii=ascii_only, indent=indent or None
        )
        return text.encode("utf-8", "surrogatepass")

    made, changed = erased("json", dumped(value))
    expected = replaced(value)
    assert json.loads(made.decode("utf-8", "surrogatepass")) == expected
    if not changed.steps:
        assert made == dumped(value)


@given(values)
@pytest.mark.parametrize("protocol", range(6))
def test_pickles_are_spliced(protocol: int, value: Any) -> None:
    made, _ = erased("pickle", pickle.dumps(value, protocol))
    assert pickle.loads(made) == _without_renamed_keys(value)


def _without_renamed_keys(value: Any) -> Any:
    """Return what becomes of a value if equal keys are not told apart, as in pickles."""
    if isinstance(value, str):
        return ERASURE.replaced(value)
    if isinstance(value, list):
        return [_without_renamed_keys(one) for one in value]
    if isinstance(value, dict):
        return {ERASURE.replaced(key): _without_renamed_keys(one) for key, one in value.items()}
    return value


@given(st.dictionaries(st.text("abc", min_size=1), texts, max_size=5))
def test_bson_is_spliced(value: dict[str, str]) -> None:
    plain_document = document_of({key: bson_plain(one) for key, one in value.items()})
    leaves_document = document_of(
        {key: typed(TypedBytes("msgpack", ormsgpack.packb(one))) for key, one in value.items()}
    )
    for tag, data in (("bson-plain", plain_document), ("bson", leaves_document)):
        made, changed = erased(tag, data)
        assert decode(TypedBytes(tag, made)) == {
            key: ERASURE.replaced(one) for key, one in value.items()
        }
        assert bool(changed.steps) == (made != data)


def test_objects_keep_their_names() -> None:
    state = {
        "messages": [
            HumanMessage(f"my password is {SECRET}", id="1"),
            AIMessage(
                "ok",
                id="2",
                tool_calls=[{"name": "login", "args": {"password": SECRET}, "id": "c"}],
                additional_kwargs={"arguments": json.dumps({"password": SECRET})},
            ),
        ],
        "question": Interrupt(value={"code": SECRET}, id="i"),
        "send": Send("login", {"password": SECRET}),
        "at": datetime(2026, 1, 2, tzinfo=UTC),
        "tags": {SECRET, "other"},
        "raw": SECRET.encode(),
    }
    tag, data = SERIALIZER.dumps_typed(state)
    made, _ = erased(tag, data)
    loaded = SERIALIZER.loads_typed((tag, made))
    assert loaded["messages"] == [
        HumanMessage(f"my password is {MARKER}", id="1"),
        AIMessage(
            "ok",
            id="2",
            tool_calls=[{"name": "login", "args": {"password": MARKER}, "id": "c"}],
            additional_kwargs={"arguments": json.dumps({"password": MARKER})},
        ),
    ]
    assert loaded["question"] == Interrupt(value={"code": MARKER}, id="i")
    assert loaded["send"] == Send("login", {"password": MARKER})
    assert loaded["at"] == state["at"]
    assert loaded["tags"] == {MARKER, "other"}
    assert len(loaded["raw"]) == len(SECRET.encode())
    assert loaded["raw"].startswith(MARKER.encode())


def test_names_are_kept_though_they_are_erased_elsewhere() -> None:
    name = "langchain_core.messages.human"
    erasure = Erasure(
        frozenset({name, "HumanMessage", "HumanMessageX", "content", "additional_kwargs"})
    )
    tag, data = SERIALIZER.dumps_typed([HumanMessage("additional_kwargs", id="1"), name])
    made, _ = erased(tag, data, erasure)
    assert SERIALIZER.loads_typed((tag, made)) == [HumanMessage(MARKER, id="1"), MARKER]
    envelope = {
        "lc": 2,
        "type": "constructor",
        "id": ["langchain_core", "messages", "human", "HumanMessage"],
        "kwargs": {"content": "HumanMessage"},
    }
    made, _ = erased("json", json.dumps(envelope).encode(), erasure)
    assert json.loads(made) == {**envelope, "kwargs": {"content": MARKER}}
    made, _ = erased(
        "pickle",
        pickle.dumps(OrderedDict(a="OrderedDict")),
        Erasure(frozenset({"OrderedDict", "collections"})),
    )
    assert pickle.loads(made) == OrderedDict(a=MARKER)


def test_large_pickles_have_right_frames() -> None:
    value = [SECRET, "x" * 200_000, [f"{SECRET} {n}" for n in range(5000)], "y" * 70_000]
    made, _ = erased("pickle", pickle.dumps(value, 4))
    assert pickle.loads(made) == _without_renamed_keys(value)


@pytest.mark.parametrize("tag", ["msgpack", "json"])
def test_numbers_are_erased_at_their_place(tag: str) -> None:
    value = {"card": {"pin": 4711, "ok": True, "code": "pin7", "sum": 1.5}, "other": [4711, True]}
    places: list[tuple[str, Scalar]] = [("pin", 4711), ("ok", True), ("code", "pin7"), ("sum", 1.5)]
    spot = Spot(scalars=tuple(ScalarPlace(("card", name), one) for name, one in places))
    pack: Any = ormsgpack.packb if tag == "msgpack" else lambda one: json.dumps(one).encode()
    made, changed = erased(tag, pack(value), Erasure(frozenset()), spot)
    card = {"pin": 0, "ok": False, "code": MARKER, "sum": 0.0}
    assert made == pack({**value, "card": card})
    assert len(changed.steps) == len(places)


def test_what_savers_need_in_metadata_stays() -> None:
    value = {"source": SECRET, "user": SECRET, "parents": {"": SECRET}}
    made, _ = erased("json", json.dumps(value).encode(), ERASURE, Spot(METADATA))
    assert json.loads(made) == {**value, "user": MARKER}
    made, _ = erased("msgpack", ormsgpack.packb(value), ERASURE, Spot(Treatment()))
    assert made == ormsgpack.packb(value)


def test_sends_of_early_postgres_savers_are_base64() -> None:
    sends = ormsgpack.packb([{"node": "login", "arg": SECRET}])
    body = {"channel_values": {}, "pending_sends": ["msgpack", b64encode(sends).decode()]}
    made, changed = erased("json", json.dumps(body).encode(), spot=Spot(BODY))
    tag, text = json.loads(made)["pending_sends"]
    assert (tag, ormsgpack.unpackb(b64decode(text))) == (
        "msgpack",
        [{"node": "login", "arg": MARKER}],
    )
    assert changed.steps


def test_what_cannot_be_read_is_overwritten() -> None:
    for tag, data in (
        ("msgpack", ormsgpack.packb([1, SECRET])[:-1] + b"\xc1\xc1" + SECRET.encode()),
        ("json", b'{"a": ' + SECRET.encode()),
        ("pickle", pickle.dumps(SECRET)[:-1]),
        ("unknown", b"\0" + SECRET.encode()),
    ):
        made, changed = erased(tag, data)
        assert not ERASURE.has_part(made)
        assert len(made) == len(data)
        assert changed.steps
    with pytest.raises(CannotHold):
        erased("msgpack", b"\xc1" + SHORT.encode())


def test_numbers_in_pickles_are_refused() -> None:
    spot = Spot(scalars=(ScalarPlace(("card", "pin"), 4711),))
    data = pickle.dumps({"card": {"pin": 4711}})
    with pytest.raises(CannotHold):
        erased("pickle", data, Erasure(frozenset()), spot)
    other = pickle.dumps({"card": {"pin": 4712}, "pin": 4711})
    assert erased("pickle", other, Erasure(frozenset()), spot)[0] == other


def test_deep_nesting_does_not_stop_an_erasure() -> None:
    for tag, opening, packed in (
        ("msgpack", b"\x91", ormsgpack.packb(SECRET)),
        ("json", b"[", json.dumps(SECRET).encode() + b"]" * 5000),
    ):
        made, _ = erased(tag, opening * 5000 + packed)
        assert not ERASURE.has_part(made)
