"""Sizes of channels inside bodies, told without decoding."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ormsgpack import OPT_NON_STR_KEYS, packb

from ckpt_backends.codec import channel_sizes
from ckpt_backends.model import TypedBytes
from tests.kit.strategies import packable

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


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
def test_json_channels_have_the_sizes_of_their_text(
    channels: Any, other: Any, ascii_only: bool
) -> None:
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
