"""The parts of the checks that need no store."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.codec import decode
from ckpt_backends.codec.memo import remembering
from ckpt_backends.codec.values import MOST_BYTES, Cut, Opaque, Tagged, Value, unread
from ckpt_backends.encryption import DAMAGED, NO_KEY, NO_LIBRARY, WRONG_KEY
from ckpt_backends.model import TypedBytes
from ckpt_cli.core.doctor.checks import (
    DeltaChains,
    Readability,
    are_messages,
    is_broken_inside,
    is_damaged,
    is_encrypted,
    known_versions,
    may_remove,
    new_versions,
    readability,
    supersteps,
    unanchored,
    unstored_deltas,
    without_writes,
)
from ckpt_cli.core.replay import NumberedVersions, is_number
from ckpt_cli.core.state import LOST_DELTA, Body, Version, version_number
from tests.kit.cases import cases

AI = Tagged("langchain_core.messages.ai.AIMessage", {"content": "x", "type": "ai", "id": "1"})
REMOVE = Tagged(
    "langchain_core.messages.modifier.RemoveMessage", {"content": "", "type": "remove", "id": "1"}
)


def body(versions: dict[str, Version], seen: dict[str, dict[str, Version]] | None = None) -> Body:
    return Body(4, None, {}, versions, seen or {}, None)


def unique(number: int, suffix: int) -> str:
    return f"{number:032}.0.{suffix}"


@cases(
    "typed expected",
    (TypedBytes("msgpack", b"\x01"), Readability.READABLE),
    (TypedBytes("msgpack", b"\xc1"), Readability.DAMAGED),
    (TypedBytes("json", b"{"), Readability.DAMAGED),
    (TypedBytes("null", b"x"), Readability.DAMAGED),
    (TypedBytes("own", b"x"), Readability.FOREIGN),
    (TypedBytes("msgpack+aes", b"x", encrypted=True, problem=NO_KEY), Readability.CLOSED),
    (TypedBytes("msgpack+aes", b"x", encrypted=True, problem=WRONG_KEY), Readability.REFUSED),
    (TypedBytes("msgpack+aes", b"x", encrypted=True, problem=DAMAGED), Readability.DAMAGED),
    (TypedBytes("json", b"", problem="longer than 9 MiB, not read", whole=9), Readability.UNREAD),
    (TypedBytes("json", b"", problem=LOST_DELTA.reason), Readability.LEFT_OUT),
    (TypedBytes("", b"x", problem="not valid base64"), Readability.DAMAGED),
    (TypedBytes("msgpack", b"", problem="payload 'k' is missing"), Readability.DAMAGED),
    (TypedBytes("msgpack", b"", problem="payload is in S3: add ?bucket=N"), Readability.UNREAD),
)
def test_only_damaged_bytes_are_called_damaged(typed: TypedBytes, expected: Readability) -> None:
    assert readability(decode(typed)) is expected


@cases(
    "value expected",
    ([1, {"a": "b"}, AI], False),
    (Tagged("ext:9", b"of a newer release"), False),
    (Tagged("ext:5", b"\xc1"), True),
    ({"a": [Tagged("x.Y", {"b": Tagged("ext:2", b"")})]}, True),
    (Cut([Opaque("json", 1, "", "x")], 9, "long"), True),
)
def test_a_part_that_cannot_be_read_is_found(value: Any, expected: bool) -> None:
    assert is_broken_inside(value) is expected


def test_the_cache_counts_what_cannot_be_read_and_returns_equal_values() -> None:
    long = TypedBytes("msgpack", b"\xda\x00\xc8" + b"x" * 200)
    with remembering() as memo:
        assert decode(long) is decode(TypedBytes("msgpack", bytes(bytearray(long.data))))
        assert memo.unreadable == 0
        decode(TypedBytes("msgpack", b"\xc1"))
        assert memo.unreadable == 1
    assert decode(long) is not decode(long)


def test_a_chain_is_lost_until_its_next_snapshot() -> None:
    chains = DeltaChains()
    assert chains.lost_at("b", "a", {"log"}, is_cut=True) == {"log"}
    assert chains.lost_at("c", "b", {"log"}, is_cut=False) == set()  # reported at its parent
    assert chains.lost_at("d", "c", set(), is_cut=False) == set()  # has a snapshot
    assert chains.lost_at("e", "d", {"log"}, is_cut=False) == set()
    assert chains.lost_at("z", None, {"log"}, is_cut=False) == set()


@given(st.integers(0, 10**31), st.text("0123456789abcdef", max_size=20))
def test_the_number_of_a_version_is_read_in_every_form(number: int, rest: str) -> None:
    assert (version_number(number), version_number(str(number))) == (number, number)
    assert version_number(f"{number:032}.{rest}") == number
    assert not is_number(f"{number:032}.{rest}")


@pytest.mark.parametrize("odd", ["", "x", "²", "9" * 5000, float("nan"), float("inf"), "-1"])
def test_an_odd_version_has_no_number(odd: Version) -> None:
    assert version_number(odd) == 0


def test_branches_that_count_alike_are_found() -> None:
    numbered = NumberedVersions()
    numbered.add("a", {"items": 3, "own": unique(3, 5)})
    numbered.add("b", {"items": 3, "own": unique(3, 5)})
    assert numbered.givers("items", 3) == ["a", "b"]
    assert numbered.givers("items", 4) == ()
    assert numbered.givers("own", unique(3, 5)) == ()


def is_ancestor(older: Body, younger: Body) -> bool:
    return not known_versions(younger).isdisjoint(new_versions(older))


def test_versions_prove_an_ancestor() -> None:
    older = body({"a": unique(2, 11), "b": unique(3, 22)})
    assert is_ancestor(older, body({"b": unique(3, 22), "c": unique(5, 33)}))
    assert is_ancestor(older, body({"b": unique(4, 1)}, {"node": {"b": unique(3, 22)}}))
    # A sibling of it may have the same older version.
    assert not is_ancestor(older, body({"a": unique(2, 11), "b": unique(3, 44)}))
    # Numbers, and hashes of values, may be the same on two branches.
    assert not is_ancestor(body({"a": 3}), body({"a": 3}))
    hashed = f"{3:032}.92130cf3f2c89ef760bdbd00a19a9e09"
    assert not is_ancestor(body({"a": hashed}), body({"a": hashed}))
    assert not is_ancestor(body({}), body({}))


@cases(
    "writes expected",
    ([], False),
    ([[AI], AI], False),
    ([[AI], [REMOVE]], True),
    ([[]], True),
    ([{"__overwrite__": []}], True),
    (["text"], True),
)
def test_only_writes_of_messages_cannot_remove_any(writes: list[Any], expected: bool) -> None:
    assert may_remove(writes) is expected


def test_a_list_of_messages_is_not_empty() -> None:
    assert are_messages([AI])
    assert not are_messages([])
    assert not are_messages([AI, "text"])
    assert not are_messages("text")


def closed(problem: str) -> Value:
    return decode(TypedBytes("msgpack+aes", b"x" * 40, encrypted=True, problem=problem))


@cases(
    "value",
    decode(TypedBytes("msgpack", b"\xc1")),
    decode(TypedBytes("json", b'{"a":')),
    decode(TypedBytes("pickle", b"\x80\x04]")),
    decode(TypedBytes("null", b"x")),
    closed(DAMAGED),
)
def test_bytes_that_no_decoder_can_read_are_damaged(value: Value) -> None:
    assert (is_damaged(value), is_encrypted(value)) == (True, False)


@cases(
    "value",
    None,
    {"a": 1},
    LOST_DELTA,
    decode(TypedBytes("dict", b"an own serializer")),
    decode(unread("msgpack", MOST_BYTES + 1)),
    decode(TypedBytes("msgpack", b"\x91" * 500 + b"\xc0")),
)
def test_other_values_are_not(value: Value) -> None:
    assert (is_damaged(value), is_encrypted(value)) == (False, False)


@pytest.mark.parametrize("problem", [NO_KEY, WRONG_KEY, NO_LIBRARY + "pip install x"])
def test_a_missing_key_is_no_damage(problem: str) -> None:
    assert (is_damaged(closed(problem)), is_encrypted(closed(problem))) == (False, True)


def metadata(**counters: object) -> Any:
    return {"counters_since_delta_snapshot": counters}


def test_a_channel_without_a_value_has_nothing_to_rebuild() -> None:
    counters = metadata(written=[1, 2], stored=[1, 2], never=[0, 2])
    found = unstored_deltas(
        Body(
            4, None, {"stored": None}, dict.fromkeys(("written", "stored", "plain"), "1"), {}, None
        ),
        counters,
    )
    assert found == {"written"}


@given(st.integers(0, 20), st.integers(0, 20), st.integers(1, 20))
def test_a_value_is_lost_where_no_snapshot_follows(left: int, snapshot: int, count: int) -> None:
    """`left` ancestors are stored; the one at `snapshot` stores the channel."""
    line = [{"log"} if place == snapshot else set[str]() for place in range(left)]
    found = unanchored({"log"}, metadata(log=[1, count]), line)
    assert bool(found) == (snapshot >= left and count > left)


def test_without_a_counter_the_snapshot_has_to_be_there() -> None:
    broken: Any
    for broken in ({}, metadata(log=7), metadata(log=["x", "y"]), {"counters": None}):
        assert supersteps(broken, "log") is None
        assert unanchored({"log"}, broken, [set(), set()]) == {"log"}
        assert unanchored({"log"}, broken, [set(), {"log"}]) == set()


def test_a_step_that_counts_an_update_has_written() -> None:
    before, after = metadata(log=[1, 2]), metadata(log=[2, 3], other=[0, 3])
    assert without_writes(after, before, {"plain"}) == {"log"}
    assert without_writes(after, before, {"log"}) == set()
    assert without_writes(before, before, set()) == set()
    assert without_writes(metadata(log=[1, 1]), {}, set()) == {"log"}
