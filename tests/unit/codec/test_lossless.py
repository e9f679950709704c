from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Send
from ormsgpack import OPT_NON_STR_KEYS, packb

from ckpt_backends.codec.lossless import Ext, decode_lossless, encode_lossless
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import TypedBytes
from tests.kit.strategies import packable


@given(packable)
def test_msgpack_gives_the_same_bytes(value: Any) -> None:
    data = packb(value, option=OPT_NON_STR_KEYS)
    read = decode_lossless(TypedBytes("msgpack", data))
    assert encode_lossless("msgpack", read) == data


def test_ext_types_stay_as_they_are() -> None:
    data = JsonPlusSerializer().dumps_typed({"a": Send("n", 1), (1, 2): HumanMessage("x")})[1]
    value = decode_lossless(TypedBytes("msgpack", data))
    assert isinstance(value["a"], Ext)
    assert value["a"].code == 1
    assert encode_lossless("msgpack", value) == data


def test_a_changed_body_keeps_the_rest() -> None:
    data = JsonPlusSerializer().dumps_typed({"id": "old", "x": {1, 2}})[1]
    value = decode_lossless(TypedBytes("msgpack", data)) | {"id": "new"}
    assert encode_lossless("msgpack", value) == data.replace(b"old", b"new")


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


@pytest.mark.parametrize(
    ("tag", "data"),
    [
        ("pickle", b"\x80\x04N."),
        ("null", b""),
        ("msgpack+aes", b"1234"),
        ("msgpack", b"\xdc\x00\x01\x01"),
        ("msgpack", b"\xca\x3f\x80\x00\x00"),
        ("msgpack", b"\x82\x01\x01\xc3\x02"),
        ("msgpack", b"\xc0\xc0"),
        ("msgpack", b"\x91"),
        ("msgpack", b"\xd6\xff\x00\x00\x00\x01"),
        ("msgpack", b"\x91" * 500 + b"\xc0"),
        ("json", b'{"a":1, "b":2}'),
        ("json", b'{"a": 1, "a": 2}'),
        ("json", b"1E2"),
        ("json", b"{"),
        ("json", b"[" * 500 + b"]" * 500),
        ("json", b"1" * 5000),
    ],
)
def test_what_would_change_is_refused(tag: str, data: bytes) -> None:
    with pytest.raises(Unsupported):
        decode_lossless(TypedBytes(tag, data))


@pytest.mark.parametrize(("tag", "value"), [("pickle", 1), ("msgpack", {1, 2}), ("json", {1, 2})])
def test_what_cannot_be_written_is_refused(tag: str, value: Any) -> None:
    with pytest.raises(Unsupported):
        encode_lossless(tag, value)
