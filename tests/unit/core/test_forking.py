"""Ids of copies come after all others, and their form follows from what is stored."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.errors import Refused, Unsupported
from ckpt_backends.model import (
    Checkpoint,
    CheckpointKey,
    TypedBytes,
    make_id,
    step_of,
    ticks_at,
    time_of,
)
from ckpt_cli.core.forking import check_body, first_tick, form_of, mark_clone
from ckpt_cli.core.state import Body, read_body

NOW = datetime(2026, 4, 7, 10, 30, tzinfo=UTC)
KEY = CheckpointKey("t", "", make_id(ticks_at(NOW) - 10, 3, 7))
times = st.integers(0, 2**31).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
nodes = st.integers(0, 2**48 - 1)


@given(times, st.integers(-8192, 8191), nodes)
def test_an_id_holds_its_time_and_its_step(at: datetime, step: int, node: int) -> None:
    found = make_id(ticks_at(at), step, node)
    assert (time_of(found), step_of(found)) == (at, step)


@given(st.lists(st.tuples(st.integers(-(10**9), 10**9), nodes), min_size=1), nodes)
def test_a_new_id_is_greater_than_all_others(heads: list[tuple[int, int]], node: int) -> None:
    """Also where the clock went back: up to a hundred seconds, here."""
    ids = [make_id(ticks_at(NOW) + ahead, -1, other) for ahead, other in heads]
    assert make_id(first_tick(NOW, ids, force=False), 0, node) > max(ids)


def test_a_head_in_the_far_future_is_refused_unless_forced() -> None:
    head = make_id(ticks_at(NOW + timedelta(days=2)), 1, 1)
    with pytest.raises(Refused, match="dated in the future"):
        first_tick(NOW, [head], force=False)
    assert make_id(first_tick(NOW, [head], force=True), 1, 0) > head
    with pytest.raises(Refused):
        first_tick(NOW, [make_id((1 << 60) - 1, 1, 1)], force=True)
    with pytest.raises(Unsupported, match="was not made by LangGraph"):
        first_tick(NOW, [KEY.checkpoint_id, "ckpt_005"], force=True)


def body(**parts: object) -> TypedBytes:
    fields = {"v": 4, "ts": "2026-04-07T10:30:00+00:00", "id": "old", "channel_values": {"a": 1}}
    return TypedBytes("json", json.dumps({**fields, **parts}).encode())


def stored(**parts: object) -> Checkpoint:
    metadata = {"source": "loop", "step": 3, "writes": {}, "run_id": "r", "user": "Zoë"}
    text = json.dumps(metadata, ensure_ascii=False).encode()
    return Checkpoint(KEY, "parent", body(**parts), TypedBytes("json", text))


def test_the_form() -> None:
    four, three = (read_body(stored(v=v)) for v in (4, 3))
    assert form_of(four, [], sibling=False)[0] == "child"
    assert form_of(four, [], sibling=True)[0] == "sibling"
    assert form_of(three, [], sibling=False)[0] == "sibling"
    form, why = form_of(four, ["log"], sibling=False)
    assert (form, "log" in why) == ("sibling", True)


@pytest.mark.parametrize("found", [body(v=5), body(v=0), TypedBytes("msgpack+aes", b"x")])
def test_a_body_that_is_not_known_is_refused(found: TypedBytes) -> None:
    checkpoint = stored()._replace(body=found)
    check_body(KEY, Body(1, None, {}, {}, {}, None))
    with pytest.raises(Unsupported):
        check_body(KEY, read_body(checkpoint))


@pytest.mark.parametrize("metadata", [b"", b"null", b"[1]", b"{broken"])
def test_metadata_that_cannot_be_read_is_replaced(metadata: bytes) -> None:
    marked = mark_clone(TypedBytes("json", metadata), "from", 1, 2, "why")
    assert json.loads(marked.data)["forked_from_thread"] == "from"
