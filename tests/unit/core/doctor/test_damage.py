"""Which values that cannot be read are damaged."""

from __future__ import annotations

import pytest

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import MOST_BYTES, Opaque, Value, unread
from ckpt_backends.encryption import DAMAGED, NO_KEY, NO_LIBRARY, WRONG_KEY
from ckpt_backends.model import TypedBytes
from ckpt_cli.core.doctor.checks import is_damaged, is_encrypted
from ckpt_cli.core.state import LOST_DELTA


def closed(problem: str) -> Value:
    return decode(TypedBytes("msgpack+aes", b"x" * 40, encrypted=True, problem=problem))


@pytest.mark.parametrize(
    "value",
    [
        decode(TypedBytes("msgpack", b"\xc1")),
        decode(TypedBytes("json", b'{"a":')),
        decode(TypedBytes("pickle", b"\x80\x04]")),
        decode(TypedBytes("null", b"x")),
        closed(DAMAGED),
    ],
)
def test_bytes_that_no_decoder_can_read_are_damaged(value: Value) -> None:
    assert is_damaged(value)
    assert not is_encrypted(value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        {"a": 1},
        LOST_DELTA,
        decode(TypedBytes("dict", b"an own serializer")),
        decode(unread("msgpack", MOST_BYTES + 1)),
        decode(TypedBytes("msgpack", b"\x91" * 500 + b"\xc0")),
    ],
)
def test_other_values_are_not(value: Value) -> None:
    assert not is_damaged(value)
    assert not is_encrypted(value)


@pytest.mark.parametrize("problem", [NO_KEY, WRONG_KEY, NO_LIBRARY + "pip install x"])
def test_a_missing_key_is_no_damage(problem: str) -> None:
    value = closed(problem)
    assert isinstance(value, Opaque)
    assert is_encrypted(value)
    assert not is_damaged(value)
