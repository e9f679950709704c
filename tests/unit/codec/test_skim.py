"""Bodies that are skimmed say the same as bodies that are decoded, without large values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ckpt_backends.codec import BodySkimmer, decode_checkpoint
from ckpt_backends.codec.values import Cut, Opaque, Value
from ckpt_backends.model import TypedBytes


@pytest.fixture(autouse=True, scope="module")
def from_the_first_byte() -> Iterator[None]:
    """Compare bodies from the first one on, as is done later in long threads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ckpt_backends.codec.memo.WORTH_BYTES", 0)
        yield


LARGE = "a long text " * 1000
"""Bodies with this text are large enough to be skimmed."""
items = st.one_of(
    st.none(),
    st.integers(-(2**40), 2**40),
    st.text(max_size=5),
    st.sampled_from([LARGE, {"a": [1, LARGE]}, HumanMessage("hello", id="1"), [[], {}, {1: 2}]]),
)
channels = st.dictionaries(
    st.sampled_from(["messages", "n", "é", "branch:to:a", "__pregel_tasks"]),
    st.one_of(items, st.lists(items, max_size=6)),
)


def body_of(values: Any, order: list[str]) -> bytes:
    entries = {
        "v": 4,
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": values,
        "channel_versions": dict.fromkeys(values, "1"),
        "versions_seen": {"a": {"branch:to:a": "1"}},
    }
    return JsonPlusSerializer().dumps_typed({key: entries[key] for key in order})[1]


def without_values(body: Value) -> Value:
    """What must be equal: all but the values, of which those of control channels count."""
    if not isinstance(body, dict):
        return body
    values = body.get("channel_values", {})
    if not isinstance(values, dict):
        return body
    kept = {
        name: one if name in ("branch:to:a", "__pregel_tasks") else 0
        for name, one in values.items()
    }
    return {**body, "channel_values": kept}


orders = st.permutations(["v", "ts", "channel_values", "channel_versions", "versions_seen"])


@given(st.lists(st.tuples(channels, orders), min_size=1, max_size=5))
def test_a_skimmed_body_says_what_a_decoded_one_says(found: list[tuple[Any, list[str]]]) -> None:
    skimmer = BodySkimmer()
    for values, order in found:
        body = TypedBytes("msgpack", body_of({"large": LARGE, **values}, order))
        skimmed, whole = skimmer.decode(body), decode_checkpoint(body)
        assert without_values(skimmed) == without_values(whole)
        assert isinstance(skimmed, dict)
        assert isinstance(skimmed["channel_values"], dict)
        for name, value in skimmed["channel_values"].items():
            if isinstance(value, Cut):
                assert value.kept is None
            else:
                assert value == whole["channel_values"][name]  # type: ignore[index,call-overload]


@given(channels, st.data())
def test_damage_is_found_as_in_a_body_that_is_decoded(values: Any, data: st.DataObject) -> None:
    body = body_of({"large": LARGE, **values}, ["v", "channel_values", "versions_seen"])
    skimmer = BodySkimmer()
    skimmer.decode(TypedBytes("msgpack", body))
    place = data.draw(st.integers(0, len(body) - 1))
    damaged = [body[:place] + bytes([data.draw(st.integers(0, 255))]) + body[place + 1 :]]
    damaged += [body[:place], body + b"\xc0"]
    for one in damaged:
        found = skimmer.decode(TypedBytes("msgpack", one))
        whole = decode_checkpoint(TypedBytes("msgpack", one))
        if isinstance(whole, Opaque):
            assert found == whole
        else:
            assert without_values(found) == without_values(whole)


def test_a_large_value_is_found_only_where_its_channel_has_it() -> None:
    stored = ormsgpack.packb("large") + ormsgpack.packb(LARGE)
    trap = {"before": stored, "also": {"large": LARGE}, "large": "other " * 2000}
    skimmer, order = BodySkimmer(), ["v", "channel_values", "channel_versions"]
    many = {f"n{number}": LARGE for number in range(40)}
    for values in (
        {"large": LARGE},
        trap,
        {"large": LARGE},
        {"also": {"large": LARGE}},
        many,
        many,
    ):
        body = TypedBytes("msgpack", body_of(values, order))
        skimmed, whole = skimmer.decode(body), decode_checkpoint(body)
        assert isinstance(skimmed, dict)
        assert without_values(skimmed) == without_values(whole)
        found = skimmed["channel_values"]
        assert isinstance(found, dict)
        size = len(ormsgpack.packb(values.get("large")))
        assert found.get("large") == (Cut(None, size, "not read") if "large" in values else None)


def test_what_did_not_change_is_not_decoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    unpack = ormsgpack.unpackb

    def counted(data: bytes, **options: Any) -> Any:
        decoded.append(len(data))
        return unpack(data, **options)

    monkeypatch.setattr("ckpt_backends.codec.msgpack.unpackb", counted)
    skimmer = BodySkimmer()
    items = [f"item {number} of a list" for number in range(3000)]
    order = ["v", "channel_values", "channel_versions"]
    sums = []
    for count in (3000, 3000, 2990, 2999):
        decoded.clear()
        body = body_of({"items": items[:count], "text": LARGE}, order)
        skimmer.decode(TypedBytes("msgpack", body))
        sums.append(sum(decoded))
    first, *later = sums
    assert first > 60_000
    assert max(later) < 500
