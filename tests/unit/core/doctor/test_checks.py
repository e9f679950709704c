"""The checks that need no store: keys, values, steps and calls that contradict each other."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Cut, Opaque, Tagged
from ckpt_backends.encryption import DAMAGED, NO_KEY, NO_LIBRARY, WRONG_KEY
from ckpt_backends.model import (
    NULL_TASK_ID,
    Checkpoint,
    CheckpointKey,
    TypedBytes,
    Write,
    make_id,
    ticks_at,
)
from ckpt_cli.core.doctor.checks import (
    Readability,
    WritesOfOne,
    ahead_finding,
    is_broken_inside,
    is_damaged,
    is_encrypted,
    is_orphaned,
    known_versions,
    lineage_findings,
    may_remove,
    new_versions,
    readability,
    repeated_calls,
    step_findings,
    supersteps,
    unanchored,
    without_writes,
)
from ckpt_cli.core.doctor.findings import Finding, Severity
from ckpt_cli.core.replay import NumberedVersions, is_number
from ckpt_cli.core.resume import Unsaved
from ckpt_cli.core.state import LOST_DELTA, Body, Version, version_number
from ckpt_cli.core.tasks import Question, Step, Task, is_uncommitted
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
    (TypedBytes("msgpack", b"\x91" * 500 + b"\xc0"), Readability.READABLE),
    (TypedBytes("own", b"x"), Readability.FOREIGN),
    (TypedBytes("x+aes", b"x", encrypted=True, problem=NO_LIBRARY + "x"), Readability.CLOSED),
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
    value = decode(typed)
    assert readability(value) is expected
    assert is_damaged(value) == (expected is Readability.DAMAGED)
    assert is_encrypted(value) == (expected in {Readability.CLOSED, Readability.REFUSED})


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


@cases(
    "writes expected",
    ([], False),
    ([[AI], AI], False),
    ([[AI], [REMOVE]], True),
    ([{"__overwrite__": []}], True),
    (["text"], True),
)
def test_only_writes_of_messages_cannot_remove_any(writes: list[Any], expected: bool) -> None:
    assert may_remove(writes) is expected


def metadata(**counters: object) -> Any:
    return {"counters_since_delta_snapshot": counters}


def test_counters_tell_where_a_snapshot_has_to_be_and_which_step_has_written() -> None:
    broken: Any
    for broken in ({}, metadata(log=7), metadata(log=["x", "y"]), {"counters": None}):
        assert supersteps(broken, "log") is None
        assert unanchored({"log"}, broken, [set(), set()]) == {"log"}
        assert unanchored({"log"}, broken, [set(), {"log"}]) == set()
    for count, snapshot, is_lost in ((3, 2, True), (3, 1, False), (2, 9, False)):
        line = [{"log"} if place == snapshot else set() for place in range(2)]
        assert bool(unanchored({"log"}, metadata(log=[1, count]), line)) is is_lost
    before, after = metadata(log=[1, 2]), metadata(log=[2, 3], other=[0, 3])
    assert without_writes(after, before, {"plain"}) == {"log"}
    assert without_writes(after, before, {"log"}) == without_writes(before, before, set()) == set()
    assert without_writes(metadata(log=[1, 1]), {}, set()) == {"log"}


NOW = datetime(2026, 4, 7, 10, tzinfo=UTC)


def id_at(seconds: float, step: int = 0) -> str:
    return make_id(ticks_at(NOW + timedelta(seconds=seconds)), step, 7)


def checkpoint(own: str, parent: str | None, at: datetime | None = None) -> Checkpoint:
    return Checkpoint(CheckpointKey("t", "", own), parent, at=at)


def listed(*checkpoints: Checkpoint) -> list[Checkpoint]:
    """In the order of a store that sorts by id."""
    return sorted(checkpoints, key=lambda one: one.key.checkpoint_id, reverse=True)


def told(found: Iterator[Finding]) -> list[tuple[str, str | None]]:
    return [(one.code, one.checkpoint_id) for one in found]


def test_children_of_the_removed_are_found() -> None:
    ids = [id_at(place) for place in range(5)]
    history = listed(*map(checkpoint, ids, [None, ids[0], ids[1], ids[1], ids[0]]))
    assert told(lineage_findings(history, {})) == []
    left = [one for one in history if one.key.checkpoint_id != ids[1]]
    for writes, severity in (({}, Severity.INFO), ({ids[1]: WritesOfOne(2)}, Severity.WARNING)):
        found = list(lineage_findings(left, writes))
        assert told(iter(found)) == [("parent-missing", one) for one in (ids[3], ids[2])]
        assert {one.severity for one in found} == {severity}


def test_some_ids_are_not_questioned() -> None:
    """JavaScript may give a child the time of its parent."""
    parent, child = id_at(0, step=-1), id_at(0, step=0)
    assert child < parent
    history = listed(checkpoint(parent, None), checkpoint(child, parent))
    assert told(lineage_findings([checkpoint(id_at(1), child), *history], {})) == []
    # In layouts that sort by the time of storing, ids need not grow.
    moved = [checkpoint(id_at(0), id_at(1), NOW), checkpoint(id_at(1), None, NOW)]
    assert told(lineage_findings(moved, {})) == []
    # Old subgraphs have parents of their own.
    own, elsewhere = id_at(0), id_at(-1)
    assert told(lineage_findings([checkpoint(own, own)], {})) == []
    assert told(lineage_findings([checkpoint(own, elsewhere)], {}, {own, elsewhere})) == []


def test_writes_older_than_the_head_are_orphaned_at_once() -> None:
    before = NOW - timedelta(minutes=1)
    head = checkpoint("b", None, at=NOW - timedelta(seconds=10))
    writes = WritesOfOne()
    writes.add("task", NOW - timedelta(seconds=20))
    assert is_orphaned("a", writes, head, before)
    writes.add("task", NOW - timedelta(seconds=5))
    assert not is_orphaned("a", writes, head, before)
    assert is_orphaned("a", writes, head, NOW)
    # In layouts that do not store the time of a write, the ids count.
    writes, before = WritesOfOne(1, {"task"}), NOW - timedelta(minutes=1)
    head = checkpoint(id_at(-10), None)
    assert is_orphaned(id_at(-11), writes, head, before)
    assert not is_orphaned(id_at(-9), writes, head, before)
    assert not is_orphaned(id_at(-10, step=3), writes, head, before)
    assert is_orphaned(id_at(-9), writes, head, NOW)
    assert not is_orphaned(id_at(-9), writes, None, before)
    assert is_orphaned(id_at(-61), writes, None, before)
    assert not is_orphaned("no-time", writes, head, NOW)


KEY = CheckpointKey("t", "", "c")


def write(task_id: str, channel: str, value: Any) -> Write:
    data = ormsgpack.packb(value)
    return Write(KEY, task_id, "", 0, channel, len(data), TypedBytes("msgpack", data))


def task(
    node: str, *writes: Write, asks: str = "", finished: bool = False, error: str | None = None
) -> Task:
    question = Question("i", node, node, asks, answered=finished)
    return Task(node, node, "", finished, error, False, (question,) if asks else (), writes)


def step(*tasks: Task, others: tuple[Task, ...] = (), assumed: bool = False) -> Step:
    nodes = tuple(str(one.node) for one in tasks)
    waiting = tuple(str(one.node) for one in tasks if not one.finished)
    return Step(tasks, others, nodes, waiting, assumed)


def found(step: Step, *null: Write) -> list[tuple[str, str | None]]:
    writes = [*null, *(one for run in (*step.tasks, *step.others) for one in run.writes)]
    findings: list[Finding] = list(step_findings(KEY, step, writes, Unsaved))
    assert all(one.checkpoint_id == "c" for one in findings)
    return [(one.code, one.task_id) for one in findings]


@cases(
    "one",
    step(),
    step(task("a", finished=True), task("b")),
    step(task("a", finished=True), assumed=True),
    step(task("a", finished=True), others=(task("call", asks="sure?"),)),
    step(task("a", finished=True), others=(task("handler", error="no"),)),
    Step((), (), None, None, False),
)
def test_any_other_step_may_wait(one: Step) -> None:
    assert not is_uncommitted(one)
    assert found(one) == []


def resume(value: Any) -> Write:
    return write(NULL_TASK_ID, "__resume__", value)


def test_an_answer_that_its_task_has_used_waits_for_the_next_question() -> None:
    asking = task("a", write("a", "__resume__", ["yes"]), asks="again?")
    assert found(step(asking), resume("yes")) == [("resume-stale", "a")]
    assert found(step(asking)) == []
    # The agent was killed after it got the answer.
    assert found(step(task("a", asks="sure?")), resume("yes")) == []


@cases("used answer", ([1], True), (["yes"], "no"), (["1"], 1), ([["yes"]], "yes"))
def test_only_the_same_answer_is_stale(used: Any, answer: Any) -> None:
    asking = task("a", write("a", "__resume__", used), asks="again?")
    assert found(step(asking), resume(answer)) == []


ARGS = {"city": "Kyoto", "days": 2}
TEXT = json.dumps({"days": 2, "city": "Kyoto"})


def ai(content: Any = "", **fields: Any) -> Tagged:
    payload: Any = {"type": "ai", "content": content, **fields}
    return Tagged("langchain_core.messages.ai.AIMessage", payload)


def block(**fields: Any) -> Any:
    return ai([{"type": "text", "text": "Let me see."}, fields])


FORMS: dict[str, Callable[[Any], Any]] = {
    "langchain": lambda n: ai(tool_calls=[{"name": "look", "args": ARGS, "id": f"c{n}"}]),
    "not parsed": lambda n: ai(invalid_tool_calls=[{"name": "look", "args": TEXT, "id": f"c{n}"}]),
    "openai": lambda n: {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"c{n}", "function": {"name": "look", "arguments": TEXT}}],
    },
    "openai before tools": lambda _: ai(
        additional_kwargs={"function_call": {"name": "look", "arguments": TEXT}}
    ),
    "responses": lambda n: block(
        type="function_call", name="look", arguments=TEXT, call_id=f"c{n}", id=f"fc{n}"
    ),
    "anthropic": lambda n: block(type="tool_use", name="look", input=ARGS, id=f"c{n}"),
    "of the provider": lambda n: block(type="server_tool_use", name="look", input=ARGS, id=f"c{n}"),
    "not standard": lambda n: block(
        type="non_standard", value={"type": "mcp_call", "name": "look", "arguments": TEXT}
    ),
    "bedrock": lambda n: block(toolUse={"name": "look", "input": ARGS, "toolUseId": f"c{n}"}),
    "google": lambda _: block(functionCall={"name": "look", "args": ARGS}),
    "twice in one message": lambda n: ai(
        [{"type": "tool_use", "name": "look", "input": ARGS, "id": f"c{n}"}],
        tool_calls=[{"name": "look", "args": ARGS, "id": f"c{n}"}],
        additional_kwargs={"function_call": {"name": "look", "arguments": TEXT}},
    ),
}


def details(items: list[Any], *, names: bool = True) -> list[str]:
    found = list(repeated_calls(CheckpointKey("t", "", "c"), "messages", items, names=names))
    assert {(one.code, one.checkpoint_id, one.channel) for one in found} <= {
        ("tool-call-repeated", "c", "messages")
    }
    return [one.detail for one in found]


@pytest.mark.parametrize("form", FORMS)
def test_calls_are_counted_in_each_form(form: str) -> None:
    made = [FORMS[form](n) for n in range(6)]
    assert details(made[:4]) == []
    assert details(made[:5]) == ["'look' was called 5 times with the same arguments"]
    times = "was called 6 times with the same arguments"
    assert details(made, names=False) == [f"a tool (number 1) {times}"]


def test_arguments_of_any_form_are_compared() -> None:
    def call(args: Any) -> Tagged:
        return ai(tool_calls=[{"name": "look", "args": args, "id": None}])

    order = {1: 2, "a": Tagged("app.Order", {"n": 1})}
    forms: list[Any] = [{}, "[" * 50_000, "not json", order, [1, 2]]
    for args in forms:
        assert len(details([call(args)] * 5)) == 1
    empty: list[Any] = [{}, None, "", "{}", " {} "]
    assert len(details([call(one) for one in empty])) == 1


def test_a_head_may_be_ahead_by_less_than_the_tolerance() -> None:
    minute = timedelta(minutes=1)
    assert ahead_finding(checkpoint(id_at(60), None), NOW, minute) is None
    found = ahead_finding(checkpoint(id_at(7200), None), NOW, minute)
    assert found is not None
    assert found.detail == "it is dated 2 hours after now"
    by_store = checkpoint(id_at(7200), None, at=NOW)
    assert ahead_finding(by_store, NOW, minute) is None
    assert ahead_finding(by_store._replace(at=NOW + 9 * minute), NOW, minute) is not None
