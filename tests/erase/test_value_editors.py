"""Erasing in stored bytes gives what erasing in the value gives, and changes nothing else."""

import json
import pickle
import struct
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
    packed_ext,
    packed_text,
)
from ckpt_backends.model import TypedBytes
from ckpt_backends.transfer.form import CannotHold
from tests.kit.cases import cases

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


def replaced(value: Any, *, renames: bool = True) -> Any:
    """Return what becomes of a plain value; unless `renames`, equal keys become one."""
    if isinstance(value, str):
        return ERASURE.replaced(value)
    if isinstance(value, list):
        return [replaced(one, renames=renames) for one in value]
    if not isinstance(value, dict):
        return value
    made: dict[str, Any] = {}
    for key, one in value.items():
        new = first = ERASURE.replaced_key(key) if renames else ERASURE.replaced(key)
        number = 1
        while renames and new in made:
            number += 1
            new = f"{first} {number}"
        made[new] = replaced(one, renames=renames)
    return made


def erased(
    tag: str, data: bytes, erasure: Erasure = ERASURE, spot: Spot | None = None
) -> tuple[bytes, ChangedPlaces]:
    changed = ChangedPlaces()
    return erased_value(TypedBytes(tag, data), erasure, spot or Spot(), changed, "it").data, changed


@given(values)
def test_msgpack_is_spliced(value: Any) -> None:
    data = ormsgpack.packb(value)
    made, changed = erased("msgpack", data)
    assert made == ormsgpack.packb(replaced(value))
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
    assert pickle.loads(made) == replaced(value, renames=False)


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


@cases("size", 0, 40, 300, 70_000)
def test_texts_and_objects_of_any_length(size: int) -> None:
    text = f"{SECRET}{'x' * size}"
    keys = {f"{SECRET} 2": 3, SECRET: text, MARKER: 4, text: 1, SHORT: 2}
    value = [text, keys, dict(reversed(keys.items()))]
    assert erased("msgpack", ormsgpack.packb(value))[0] == ormsgpack.packb(replaced(value))
    tag, data = SERIALIZER.dumps_typed(HumanMessage(text, id="1"))
    made = SERIALIZER.loads_typed((tag, erased(tag, data)[0]))
    assert made == HumanMessage(ERASURE.replaced(text), id="1")
    for number in (size, *range(34), 255, 256, 65535, 65536):
        assert packed_text("x" * number) == ormsgpack.packb("x" * number)
        packed = packed_ext(5, bytes(number))
        assert ormsgpack.unpackb(packed, ext_hook=lambda *one: [*one]) == [5, bytes(number)]


def test_snapshots_arrays_and_unknown_objects() -> None:
    made, _ = erased("msgpack", packed_ext(7, ormsgpack.packb([SECRET, "other"])))
    assert made == packed_ext(7, ormsgpack.packb([MARKER, "other"]))
    array = ormsgpack.packb(["<u1", [24], "C", SECRET.encode()])
    for code, data in ((6, array), (99, SECRET.encode())):
        made, changed = erased("msgpack", packed_ext(code, data))
        assert (len(made), ERASURE.has_part(made)) == (len(packed_ext(code, data)), False)
        assert changed.steps


def test_objects_keep_their_names() -> None:
    def state(text: str) -> dict[str, Any]:
        call = {"name": "login", "args": {"password": text}, "id": "c"}
        arguments = {"arguments": json.dumps({"password": text})}
        return {
            "messages": [
                HumanMessage(f"my password is {text}", id="1"),
                AIMessage("ok", id="2", tool_calls=[call], additional_kwargs=arguments),
            ],
            "question": Interrupt(value={"code": text}, id="i"),
            "send": Send("login", {"password": text}),
            "at": datetime(2026, 1, 2, tzinfo=UTC),
            "tags": {text, "other"},
        }

    tag, data = SERIALIZER.dumps_typed({**state(SECRET), "raw": SECRET.encode()})
    loaded = SERIALIZER.loads_typed((tag, erased(tag, data)[0]))
    raw = loaded.pop("raw")
    assert loaded == state(MARKER)
    assert (len(raw), raw.startswith(MARKER.encode())) == (len(SECRET.encode()), True)


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
    assert pickle.loads(made) == replaced(value, renames=False)


@pytest.mark.parametrize("tag", ["msgpack", "json", "bson-plain"])
def test_numbers_are_erased_at_their_place(tag: str) -> None:
    value: dict[str, Any] = {
        "card": {"pin": 4711, "ok": True, "code": "pin7", "sum": 1.5},
        "other": [4711, True],
    }
    places: list[tuple[str, Scalar]] = [("pin", 4711), ("ok", True), ("code", "pin7"), ("sum", 1.5)]
    if tag == "bson-plain":
        del value["card"]["sum"]
        value["other"] = 4711
    spot = Spot(scalars=tuple(ScalarPlace(("card", name), one) for name, one in places))
    packs: dict[str, Any] = {
        "msgpack": ormsgpack.packb,
        "json": lambda one: json.dumps(one).encode(),
        "bson-plain": lambda one: document_of({key: bson_plain(it) for key, it in one.items()}),
    }
    pack = packs[tag]
    made, changed = erased(tag, pack(value), Erasure(frozenset()), spot)
    card = {"pin": 0, "ok": False, "code": MARKER, "sum": 0.0}
    assert made == pack({**value, "card": {name: card[name] for name in value["card"]}})
    assert len(changed.steps) == len(value["card"])


def test_bytes_in_documents_are_texts_of_old_savers_or_keep_their_length() -> None:
    def binary(data: bytes) -> bytes:
        return document_of({"v": b"\x05" + struct.pack("<i", len(data)) + b"\0" + data})

    other = b"\xff" + SECRET.encode()
    for data, new in (
        (json.dumps({"a": SECRET}).encode(), json.dumps({"a": MARKER}).encode()),
        (other, ERASURE.replaced_bytes(other)),
    ):
        made, changed = erased("bson-plain", binary(data))
        assert (made, bool(changed.steps)) == (binary(new), True)


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
