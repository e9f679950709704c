"""Values of a version are compared alike, whether they are kept or only their digests."""

from __future__ import annotations

import pytest

from ckpt_backends.codec.lossless import Ext, pack_lossless
from ckpt_backends.model import TypedBytes
from ckpt_backends.transfer import convert as seen_thread
from ckpt_backends.transfer.convert import KeptValues, SeenThread
from ckpt_backends.transfer.form import CannotHold, Form
from ckpt_backends.transfer.sealing import AsStored

PLACE = ("", "items", "1.0")


@pytest.fixture(params=[0, 8 << 20])
def thread(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SeenThread:
    monkeypatch.setattr(seen_thread, "_ROOM", request.param)
    return SeenThread(KeptValues(), Form(), AsStored())


def _set(*members: str) -> TypedBytes:
    inner = pack_lossless(["builtins", "set", [*members]])
    return TypedBytes("msgpack", pack_lossless(Ext(0, inner)))


def test_an_equal_value_is_not_new(thread: SeenThread) -> None:
    assert thread.is_new(PLACE, TypedBytes("msgpack", b"\x91\x01"), "it")
    assert not thread.is_new(PLACE, TypedBytes("msgpack", bytes([0x91, 1])), "it")


def test_the_order_of_a_set_does_not_matter(thread: SeenThread) -> None:
    assert thread.is_new(PLACE, _set("a", "b"), "it")
    assert not thread.is_new(PLACE, _set("b", "a"), "it")


@pytest.mark.parametrize(
    "other", [TypedBytes("msgpack", b"\x91\x02"), TypedBytes("bytes", b"\x91\x01"), _set("a")]
)
def test_another_value_is_refused(thread: SeenThread, other: TypedBytes) -> None:
    assert thread.is_new(PLACE, TypedBytes("msgpack", b"\x91\x01"), "it")
    with pytest.raises(CannotHold, match="it has another value than version"):
        thread.is_new(PLACE, other, "it")


def test_a_value_that_is_stored_apart_wins(thread: SeenThread) -> None:
    thread.note_apart(PLACE)
    assert not thread.is_new(PLACE, TypedBytes("msgpack", b"\x91\x01"), "it")
