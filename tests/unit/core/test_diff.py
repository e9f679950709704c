"""What changed between two values or in a step, the way back, and what is read to find it."""

import json
import math
from collections.abc import Collection, Iterator
from copy import deepcopy
from dataclasses import replace
from itertools import combinations
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.codec import to_json
from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_backends.model import Blob, Checkpoint, CheckpointKey, TypedBytes
from ckpt_backends.protocol import Store
from ckpt_cli.core.diff import (
    MAX_CELLS,
    BriefState,
    Cells,
    Op,
    brief_state,
    by_identity,
    changed,
    common_subsequence,
    diff_channels,
    diff_values,
    op_record,
    pointer,
    short_changes,
    step_changes,
    written_changes,
)
from ckpt_cli.core.state import Body
from ckpt_cli.core.values import same
from ckpt_cli.queries.diff import ChannelChanges, Step
from ckpt_cli.render.value_diff import CHANGE
from ckpt_cli.render.values import changes_text
from tests.kit.cases import cases

UNREAD = Opaque("pickle", 3, "ab", "not read")


def message(content: str, ident: str | None, kind: str = "Human") -> Tagged:
    fields: dict[Value, Value] = {"content": content, "type": kind.lower(), "id": ident}
    return Tagged(f"langchain_core.messages.{kind.lower()}.{kind}Message", fields)


@given(st.permutations([message(str(n), str(n)) for n in range(6)]))
def test_a_new_order_of_messages_is_the_fewest_moves(after: list[Value]) -> None:
    before: list[Value] = [message(str(n), str(n)) for n in range(6)]
    ops = diff_values(before, after)
    assert {op.op for op in ops} <= {"move"}
    order = [before.index(one) for one in after]
    parts = (some for size in range(7) for some in combinations(order, size))
    assert len(ops) == 6 - max(len(some) for some in parts if [*some] == sorted(some))


@cases(
    "one other",
    *((True, 1), (1, 1.0), (True, 1.0), (0.0, -0.0), ("1", 1), (b"a", "a")),
    (UNREAD, replace(UNREAD, sha256="cd")),
)
def test_values_of_different_types_differ(one: Value, other: Value) -> None:
    assert diff_values([one], [other]) == [Op("replace", (0,), one, other)]
    assert diff_values({"a": one}, {"a": other}) == [Op("replace", ("a",), one, other)]
    assert not same(Tagged("builtins.set", [one]), Tagged("builtins.set", [other]))
    assert diff_values({"a": [math.nan]}, {"a": [float("nan")]}) == []


SET, CLASS = "builtins.set", "app.A"


@cases(
    "one other is_same",
    ({"a": [1, {"b": 2.5}]}, {"a": [1, {"b": 2.5}]}, True),
    ({"a": 1, "b": [2]}, {"b": [2], "a": 1}, True),
    ({"a": 1, "b": [2]}, {"b": [3], "a": 1}, False),
    ({"a": 1}, {"b": 1}, False),
    ({1: "a", "b": 2}, {1: "a", "b": 2}, True),
    ({1: "a"}, {True: "a"}, False),
    (Tagged(CLASS, {"x": [1]}), Tagged(CLASS, {"x": [1]}), True),
    (Tagged(CLASS, [1]), Tagged(CLASS, [2]), False),
    (Tagged(CLASS, [1]), Tagged("app.B", [1]), False),
    (Tagged(SET, ["a", "b"]), Tagged(SET, ["b", "a"]), True),
    (Tagged(SET, ["a", "b"]), Tagged(SET, ["a", "c"]), False),
    (Tagged(SET, [[1], 2]), Tagged(SET, [2, [1]]), True),
    (Cut([1], 9, "long"), Cut([1], 9, "long"), True),
    ([*range(20), [1]], [*range(20), [2]], False),
    ([*range(20)], [*range(19), "19"], False),
)
def test_what_is_the_same(one: Value, other: Value, is_same: bool) -> None:
    assert (same(one, other), same(other, one)) == (is_same, is_same)
    assert same(one, deepcopy(one))


HI, ANSWER, BYE = message("hi", "1"), message("a", "2", "AI"), message("bye", "3")
HELLO, NEW = message("hello", "1"), message("new", "4")
A, B, C = ({"role": "user", "content": c, "id": c} for c in "abc")
GREETED = Op("replace", (0, "content"), "hi", "hello", id="1")
MOVED = Op("move", (0,), id="c", moved_from=2)
DIFFS: dict[str, tuple[Any, Any, list[Op]]] = {
    "messages are matched by id": (
        [HI, ANSWER, BYE],
        [HELLO, BYE, NEW],
        [GREETED, Op("remove", (1,), ANSWER, id="2"), Op("add", (2,), after=NEW, id="4")],
    ),
    "one that moved and changed is both": (
        [A, B, C],
        [{**C, "content": "C"}, A, B],
        [MOVED, Op("replace", (0, "content"), "c", "C", id="c")],
    ),
    "lists keep their longest common part": (
        [*"abcd"],
        [*"acxde"],
        [Op("remove", (1,), "b"), Op("add", (2,), after="x"), Op("add", (4,), after="e")],
    ),
    "items at the same place are compared inside": (
        [{"id": 1, "done": False}, {"id": 2, "done": False}],
        [{"id": 1, "done": False}, {"id": 2, "done": True}],
        [Op("replace", (1, "done"), False, True)],
    ),
    "members of sets": (
        Tagged("builtins.set", ["a", "b", "c"]),
        Tagged("builtins.set", ["d", "c", "a"]),
        [Op("remove", (1,), "b"), Op("add", (0,), after="d")],
    ),
    "keys that no path can name": ({b"k": 1}, {b"k": 2}, [Op("replace", (), {b"k": 1}, {b"k": 2})]),
}


@pytest.mark.parametrize("name", DIFFS)
def test_what_differs_is_named(name: str) -> None:
    before, after, ops = DIFFS[name]
    assert diff_values(before, after) == ops
    assert diff_values(before, before) == diff_values(after, after) == []


def test_very_long_lists_and_ids_that_identify_nothing() -> None:
    middle = int(MAX_CELLS**0.5) + 1
    before = [0, *range(1, middle + 1), 0]
    after = [0, *range(2, middle + 2), 0]
    assert common_subsequence(before, after, Cells()) == [(0, 0), (middle + 1, middle + 1)]
    assert by_identity(["a", "a", "b", None], ["b", "a", None]) == [(2, 0)]
    same_start, old, new = message("hi", "1"), message("a", "1"), message("b", "2")
    added = Op("add", (1,), after=new, id="2")
    assert diff_values([same_start, old], [same_start, new, old]) == [added]


def test_records_have_what_their_op_has() -> None:
    ops = [
        Op("replace", (1, "content"), "a", None, id="7"),
        Op("add", ("a/b~c",), after=b"x"),
        Op("remove", (0,), before=1.5),
        Op("move", ("list", 2), id="8", moved_from=0),
    ]
    assert pointer(()) == ""
    assert [*map(op_record, ops)] == [
        {"op": "replace", "path": "/1/content", "id": "7", "before": "a", "after": None},
        {"op": "add", "path": "/a~1b~0c", "after": to_json(b"x")},
        {"op": "remove", "path": "/0", "before": 1.5},
        {"op": "move", "path": "/list/2", "from": "/list/0", "id": "8"},
    ]
    removed = diff_channels({"a": 1}, {})["a"]
    assert CHANGE.record(removed) == {"change": "removed", "before": 1, "after": None, "ops": []}


def held(values: dict[str, Value], **versions: Any) -> Body:
    return Body(4, None, values, versions, {}, None)


def apart(size: int, **versions: Any) -> Body:
    """A value that is stored apart."""
    return held({"a": Cut(None, size, "")}, **versions)


@cases(
    "before after verdict",
    (held({"a": 1}, a=1), held({"a": 1}, a=1), False),
    (held({"a": 1}, a=1), held({"a": 2}, a=2), True),
    (held({"a": [1]}, a=1), held({"a": [1]}, a=2), False),
    (held({"a": 1}, a=1), held({"a": True}, a=2), True),
    # Layouts without versions.
    (held({"a": 1}), held({"a": 2}), True),
    # Values that are rebuilt from writes.
    (held({}, a=1), held({}, a=2), True),
    (held({}), held({}), False),
    # It is new.
    (held({}), held({"a": None}, a=1), True),
    (None, held({"a": 1}, a=1), True),
    # Values that are stored apart.
    (apart(9, a=1), apart(8, a=2), True),
    (apart(9, a=1), apart(9, a=2), None),
    (apart(1 << 20, a=1), apart(1 << 20, a=2), True),
)
def test_versions_of_equal_values(before: Body | None, after: Body, verdict: bool | None) -> None:
    assert changed("a", before, after) is verdict


def plain_message(text: str, role: str = "ai") -> dict[str, Any]:
    return {"role": role, "content": text}


def say(value: Any) -> str:
    return value["content"] if isinstance(value, dict) else str(value)


def state(values: dict[str, Any], *unknown: str) -> BriefState:
    return brief_state(values, {*values, *unknown})


def told(before: BriefState, after: BriefState, **written: list[Any]) -> str:
    names = {*after.channels}
    return changes_text(short_changes(written_changes(names, before, after, written), say))


@cases(
    "before after text",
    ({"budget": 120}, {"budget": 90}, "budget 120 → 90"),
    ({"budget": 90}, {"budget": 90}, ""),
    ({"ok": False}, {"ok": 0}, "ok False → 0"),
    ({"notes": ["a"]}, {"notes": ["a", "b", "c"]}, "notes +2"),
    ({"notes": ["a", "b"]}, {"notes": ["b"]}, "notes"),
    ({"plan": {"a": 1}}, {"plan": {"a": 2}}, "plan"),
    ({"mail": "long" * 20}, {"mail": "short"}, "mail → short"),
)
def test_values_are_told_as_far_as_states_tell(before: Any, after: Any, text: str) -> None:
    assert told(state(before), state(after)) == text


def test_the_items_that_a_step_appended_are_told_unless_others_changed() -> None:
    notes: dict[str, Any] = {"notes": ["a", "b"]}
    assert step_changes(notes, notes, {"notes": ["a", "b", "c"]}).added == {"notes": ["c"]}
    assert step_changes(notes, notes, {"notes": ["b", "a", "c"]}).added == {}


def test_what_was_written_is_told_as_far_as_it_is_new_messages_first() -> None:
    known = state({"messages": [1, 2]})
    written = [[plain_message("old"), plain_message("older"), plain_message("new")]]
    assert told(known, state({"messages": [1, 2, 3]}), messages=written) == "+1 new"
    assert told(known, state({"messages": [1, 2]}), messages=written) == "messages"
    notes = state({"notes": ["a"]})
    assert told(notes, notes, notes=[[]]) == ""
    assert told(notes, state({"notes": ["b"]}), notes=[["b"]]) == "notes"
    # As a channel that stores only snapshots now and then.
    before, after = state({}, "messages"), state({"messages": [1, 2, 3]})
    assert told(before, after) == "messages"
    assert told(before, after, messages=[[plain_message("new")]]) == "+1 new"
    assert told(before, before, messages=[[plain_message("", "remove")]]) == "messages"
    before, after = state({"a": 1}, "messages"), state({"a": 2}, "messages")
    written = [[plain_message("one"), plain_message("two")]]
    assert told(before, after, messages=written) == "+2 two, a 1 → 2"
    many: dict[str, Any] = {"messages": [plain_message("one")]} | {f"c{n}": n for n in range(8)}
    text = changes_text(short_changes(step_changes(many, {}, many), say))
    assert text.startswith("+1 one, c0 → 0")
    assert text.endswith("c4 → 4, 3 more channels")


class _Apart:
    """Five checkpoints; each step but the last one wrote `a`."""

    def __init__(self) -> None:
        self.asked: list[tuple[set[str], Collection[str]]] = []

    def checkpoints(
        self, thread_id: str, *, checkpoint_ids: set[str], values: Collection[str], **_: Any
    ) -> Iterator[Checkpoint]:
        self.asked.append((checkpoint_ids, values))
        for number, text in enumerate(["[1]", "[1]", "[2]", "[2, 3]", "[2, 3]"]):
            name, version = f"c{number}", min(number, 3)
            if name in checkpoint_ids:
                body = json.dumps({"v": 4, "channel_versions": {"a": version}}).encode()
                value = TypedBytes("json", text.encode()) if "a" in values else None
                yield Checkpoint(
                    CheckpointKey(thread_id, "", name),
                    None,
                    TypedBytes("json", body),
                    blobs={"a": Blob("json", len(text), value)},
                )


def test_only_values_of_equal_size_and_another_version_are_read() -> None:
    store, changes = _Apart(), ChannelChanges("t", "", "a")
    steps: list[Step] = [(f"c{n}", f"c{n - 1}" if n else None) for n in (4, 3, 2, 1, 0)]
    changes.read(cast("Store", store), steps)
    assert [changes.known(one) for one in steps] == [False, True, True, False, True]
    everything, unsure = store.asked
    assert everything == ({"c0", "c1", "c2", "c3", "c4"}, ())
    assert unsure == ({"c0", "c1", "c2"}, ["a"])


def test_a_step_that_was_removed_or_not_read() -> None:
    store, changes = _Apart(), ChannelChanges("t", "", "a")
    changes.read(cast("Store", store), [("gone", "c1")])
    assert changes.known(("gone", "c1")) is False
    assert changes.known(("c1", "c0")) is None
