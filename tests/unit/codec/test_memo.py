"""Bodies that are decoded one after another, or skimmed, say what they say alone."""

import re
from collections.abc import Callable, Iterator
from copy import copy
from random import Random
from typing import Any

import ormsgpack
import pytest
from ormsgpack import OPT_NON_STR_KEYS, Ext, packb

from ckpt_backends.codec import (
    DEFAULT_LIMITS,
    BodySkimmer,
    Limits,
    Opaque,
    Value,
    decode_checkpoint,
)
from ckpt_backends.codec.memo import SuccessiveValues, remembering
from ckpt_backends.codec.msgpack import decode_msgpack
from ckpt_backends.codec.values import Cut, PastLimit
from ckpt_backends.model import TypedBytes
from ckpt_cli.core.values import same
from tests.kit.cases import cases

State = dict[Any, Any]


@pytest.fixture(autouse=True, scope="module")
def from_the_first_byte() -> Iterator[None]:
    """Compare bodies from the first one on, as is done later in long threads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ckpt_backends.codec.memo.WORTH_BYTES", 0)
        yield


def _packed(value: Any) -> bytes:
    return packb(value, option=OPT_NON_STR_KEYS)


def _message(seed: Random) -> Ext:
    fields = {"content": "é" * seed.randrange(40), "id": str(seed.random())}
    return Ext(5, _packed(["langchain_core.messages.ai", "AIMessage", fields, "model_validate"]))


def _item(seed: Random) -> Any:
    kinds: list[Callable[[], Any]] = [
        lambda: _message(seed),
        # The keys of a body, as they are stored, inside texts and inside bytes.
        lambda: "x" * seed.randrange(60) + "\x0echannel_versions",
        lambda: b"\xb0channel_versions\x80" + b"\xa5facts\x81" * seed.randrange(4),
        lambda: {"channel_versions": {"facts": seed.random()}, "tags": ["one", "two", "y" * 30]},
        lambda: [seed.randrange(1 << 40), seed.random(), None, True],
        lambda: {seed.randrange(9): "a number as key"},
    ]
    return seed.choice(kinds)()


def _first(seed: Random) -> State:
    return {
        "facts": {f"fact {n}": _item(seed) for n in range(seed.choice([3, 60]))},
        "items": [_item(seed) for _ in range(seed.choice([2, 70]))],
        "left": 3,
        "notes": [f"a note with number {n}" for n in range(60)],
        "text": "no container" * seed.choice([1, 1000]),
        "branch:to:a": None,
        "__pregel_tasks": [_item(seed)],
    }


def _change(seed: Random, state: State) -> None:
    items, facts = state.setdefault("items", []), state.setdefault("facts", {})
    place = seed.randrange(len(items) + 1)
    changes: list[Callable[[], Any]] = [
        lambda: items.append(_item(seed)),
        lambda: items.insert(place, _item(seed)),
        lambda: items.__delitem__(slice(place, place + seed.randrange(3))),
        lambda: items.__setitem__(slice(place, place + 1), [_item(seed)]),
        items.reverse,
        lambda: items.extend(items[:20]),
        lambda: facts.update({f"fact {seed.randrange(80)}": _item(seed)}),
        lambda: facts.pop(next(iter(facts), None), None),
        lambda: facts.update({seed.randrange(3): "a number as key"}),
        lambda: state.update(left=seed.choice([-1, 7, 300, None, "text", [], {}])),
        lambda: state.update({f"more {seed.randrange(3)}": _item(seed)}),
        lambda: state.pop(seed.choice(["facts", "items", "more 1"]), None),
        lambda: state.update(items=seed.choice([{}, [], "text", {"a": items}])),
        lambda: state["notes"].append("ü" * seed.randrange(300)),
    ]
    for _ in range(seed.choice([0, 1, 1, 3])):
        seed.choice(changes)()
        items, facts = state.get("items"), state.get("facts")
        if not (isinstance(items, list) and isinstance(facts, dict)):
            return


def _bodies(seed: Random, number: int) -> list[bytes]:
    """Make bodies of a thread; now and then it goes on from an earlier one."""
    states, bodies = [_first(seed)], list[bytes]()
    for n in range(number):
        before = seed.choice([states[-1], states[-1], seed.choice(states)])
        state = {k: copy(v) if isinstance(v, list | dict) else v for k, v in before.items()}
        if isinstance(state.get("items", []), list):
            _change(seed, state)
        states.append(state)
        versions = {str(name): f"{n:032}.{seed.random()}" for name in state}
        body = {"v": 4, "id": str(n), "channel_values": state, "channel_versions": versions}
        bodies.append(_packed({**body, "versions_seen": {"node": versions}}))
    return bodies


def without_values(body: Value) -> Value:
    """What a skimmed body must tell: all but the values, unless they are of control channels."""
    values = body.get("channel_values") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(values, dict):
        return body
    control = ("branch:to:a", "__pregel_tasks")
    kept: Value = {name: one if name in control else 0 for name, one in values.items()}
    return {**body, "channel_values": kept}


def check_skimmed(skimmer: BodySkimmer, data: bytes, whole: Any) -> None:
    skimmed: Any = skimmer.decode(TypedBytes("msgpack", data))
    if isinstance(whole, Opaque):
        assert skimmed == whole
        return
    assert same(without_values(skimmed), without_values(whole))
    values = skimmed.get("channel_values") if isinstance(skimmed, dict) else None
    for name, value in values.items() if isinstance(values, dict) else ():
        is_left_out = isinstance(value, Cut) and value.kept is None
        assert is_left_out or same(value, whole["channel_values"][name])


def _damaged(seed: Random, body: bytes) -> bytes:
    place = seed.randrange(len(body))
    ways = [
        body[:place],
        body + b"more",
        body[:place] + seed.randbytes(3) + body[place:],
        body[:place] + seed.randbytes(1) + body[place + 1 :],
    ]
    return seed.choice(ways)


@pytest.mark.parametrize("is_damaged", [False, True])
@pytest.mark.parametrize("number", range(20))
def test_bodies_are_those_that_are_decoded_alone(number: int, is_damaged: bool) -> None:
    seed, all_before = Random(number), frozenset[bytes]()
    bodies = _bodies(seed, 30)
    if is_damaged:
        bodies[1::2] = [_damaged(seed, one) for one in bodies[1::2]]
    alone = [decode_checkpoint(TypedBytes("msgpack", data)) for data in bodies]
    successive, skimmer = SuccessiveValues(decode_msgpack, _numbers), BodySkimmer()
    with remembering():
        for data, expected in zip(bodies, alone, strict=True):
            assert same(decode_checkpoint(TypedBytes("msgpack", data)), expected)
            check_skimmed(skimmer, data, expected)
            all_before |= _numbers(data)
            try:
                found = successive.body(data, DEFAULT_LIMITS)
            except (ValueError, PastLimit):  # damaged, or keys that are no texts
                continue
            assert same(found, expected)
            assert _numbers(data) <= successive.gathered <= all_before


def _numbers(data: bytes) -> frozenset[bytes]:
    return frozenset(re.findall(rb"number [0-9]+|fact [0-9]+|0x?[.][0-9]+", data))


def test_what_long_bodies_hold_is_gathered_once_while_they_are_decoded() -> None:
    bodies = [data for number in range(5) for data in _bodies(Random(number), 20)]
    known = 0
    with remembering(_numbers) as memo:
        for some in (bodies[n : n + 10] for n in range(0, len(bodies), 10)):
            for data in reversed(some):
                decode_checkpoint(TypedBytes("msgpack", data))
            for data in some:
                found = memo.take_gathered(data)
                assert found is None or _numbers(data) <= found
                assert memo.take_gathered(data) is None
                known += found is not None
    assert known


@pytest.mark.parametrize("number", range(20))
def test_values_are_those_that_are_decoded_alone(number: int) -> None:
    seed, successive = Random(number), SuccessiveValues(decode_msgpack)
    state = _first(seed)
    for _ in range(30):
        _change(seed, state)
        if not isinstance(state.setdefault("items", []), list):
            state["items"] = []
        for name, value in state.items():
            data = _packed(value)
            found = successive.value(name, data, DEFAULT_LIMITS)
            assert same(found, decode_msgpack(data, DEFAULT_LIMITS))


@cases(
    "limits grows is_refused",
    (Limits(nodes=300), lambda state: state["list"].extend(["x" * 40] * 30), True),
    (Limits(depth=12), lambda state: state.update(list=[state["list"], "x" * 40]), True),
    (Limits(depth=12), lambda state: state["list"].append([[["x" * 40]]] * 2), False),
    (Limits(value_bytes=5000), lambda state: state["list"].append("x" * 900), True),
)
def test_limits_are_those_of_bodies_that_are_decoded_alone(
    limits: Limits, grows: Callable[[State], None], is_refused: bool
) -> None:
    successive, refused = SuccessiveValues(decode_msgpack), False
    state: State = {"list": [f"text {n}" * 5 for n in range(60)]}
    for n in range(20):
        data = _packed({"v": 4, "channel_values": state, "ts": str(n)})
        try:
            expected = decode_msgpack(data, limits)
        except PastLimit:
            refused = True
            with pytest.raises(PastLimit):
                successive.body(data, limits)
        else:
            assert same(successive.body(data, limits), expected)
        grows(state)
    assert refused is is_refused


LARGE = "a long text " * 1000
"""Bodies with this text are large enough to be skimmed."""


def body_of(values: Any) -> bytes:
    versions = dict.fromkeys(values, "1")
    return _packed({"v": 4, "channel_values": values, "channel_versions": versions})


def test_a_large_value_is_found_only_where_its_channel_has_it() -> None:
    stored = ormsgpack.packb("large") + ormsgpack.packb(LARGE)
    trap = {"before": stored, "also": {"large": LARGE}, "large": "other " * 2000}
    skimmer = BodySkimmer()
    many = {f"n{number}": LARGE for number in range(40)}
    plain, inside = {"large": LARGE}, {"also": {"large": LARGE}}
    for values in (plain, trap, plain, inside, many, many):
        body = TypedBytes("msgpack", body_of(values))
        skimmed: Any = skimmer.decode(body)
        assert without_values(skimmed) == without_values(decode_checkpoint(body))
        size = len(ormsgpack.packb(values.get("large")))
        expected = Cut(None, size, "not read") if "large" in values else None
        assert skimmed["channel_values"].get("large") == expected


def test_what_did_not_change_is_not_decoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    unpack = ormsgpack.unpackb

    def counted(data: bytes, **options: Any) -> Any:
        decoded.append(len(data))
        return unpack(data, **options)

    monkeypatch.setattr("ckpt_backends.codec.msgpack.unpackb", counted)
    skimmer = BodySkimmer()
    items = [f"item {number} of a list" for number in range(3000)]
    sums = []
    for count in (3000, 3000, 2990, 2999):
        decoded.clear()
        skimmer.decode(TypedBytes("msgpack", body_of({"items": items[:count], "text": LARGE})))
        sums.append(sum(decoded))
    first, *later = sums
    assert first > 60_000
    assert max(later) < 500


def test_a_long_body_with_arrays_is_decoded_as_a_whole() -> None:
    array = Ext(6, _packed(["<f4", [100_000], "C", bytes(400_000)]))
    data = _packed({"v": 4, "channel_values": {"one": array, "two": array}})
    alone = decode_checkpoint(TypedBytes("msgpack", data))
    with remembering():
        for _ in range(2):
            assert same(decode_checkpoint(TypedBytes("msgpack", data)), alone)
