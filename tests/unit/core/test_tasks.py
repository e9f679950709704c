"""What comes after a checkpoint and what a resume does, rule by rule, on bodies made by hand."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import ormsgpack
import pytest

from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_backends.model import NULL_TASK_ID, CheckpointKey, Status, TypedBytes, Write
from ckpt_cli.core import tasks
from ckpt_cli.core.resume import following, goto_tasks, resume_level, stored_answer
from ckpt_cli.core.state import Body, Readers, Version, half_filled, learn, state_values
from ckpt_cli.core.tasks import (
    Lookups,
    Step,
    conditions_of,
    handler_path,
    plan_step,
    send_path,
    status_of,
    subgraph_calls,
    task_writes,
    tasks_by_id,
)
from tests.kit.cases import cases

ID = "1f1e5fb1-d49f-650c-8000-82528a6163b8"
KEY = CheckpointKey("t", "", ID)
OLD, NEW, LATER = "00000001.0.5", "00000002.0.5", "00000003.0.5"
T = TypeVar("T")


def body(
    values: Mapping[str, Any] | None = None,
    versions: Mapping[str, Version] | None = None,
    seen: Mapping[str, Mapping[str, Version]] | None = None,
    *,
    v: int = 4,
    sends: Any = (),
    ts: str | None = None,
) -> Body:
    """A body; the versions of stored channels default to a new one."""
    stored: Mapping[str, Any] = values or {}
    known = {**dict.fromkeys(stored, NEW), **(versions or {})}
    inline: Any = sends if sends is None or isinstance(sends, Cut) else list(sends)
    return Body(v=v, ts=ts, values=stored, versions=known, seen=seen or {}, pending_sends=inline)


def write(
    task_id: str, channel: str = "items", value: Any = 1, path: str = "", idx: int = 0
) -> Write:
    data = json.dumps(value).encode()
    return Write(KEY, task_id, path, idx, channel, len(data), TypedBytes("json", data))


def packed(task_id: str, channel: str, data: bytes, path: str = "") -> Write:
    return Write(KEY, task_id, path, 0, channel, len(data), TypedBytes("msgpack", data))


def interrupts(*fields: dict[str, Any]) -> bytes:
    found = [ormsgpack.packb(["langgraph.types", "Interrupt", one]) for one in fields]
    return ormsgpack.packb([ormsgpack.Ext(2, data) for data in found])


def pull(node: str) -> str:
    return tasks.pull_path(node)


def origin_at(ns: str = "", *, v: int = 4, step: int = 1) -> tasks.TaskIdBase:
    """What the ids of the tasks of a step are made of."""
    origin = tasks.origin_of(ID, ns, step, v, is_numeric=False)
    assert origin is not None
    return origin


def hashed(node: str, *triggers: str, ns: str = "", v: int = 4, step: int = 1) -> str:
    return next(iter(tasks.pull_ids(origin_at(ns, v=v, step=step), node, [triggers])))


@dataclass
class Sources:
    """What the callables give, and how often they were asked."""

    parent: Sequence[Write] = ()
    own: Sequence[Write] = ()
    thread: Readers = field(default_factory=dict)
    store: Readers = field(default_factory=dict)
    namespaces: Collection[str] = ()
    asked: Counter[str] = field(default_factory=Counter)

    def give(self, name: str, value: T) -> Callable[[], T]:
        def answer() -> T:
            self.asked[name] += 1
            return value

        return answer


def plan(
    body: Body,
    writes: Sequence[Write] = (),
    sources: Sources | None = None,
    *,
    key: CheckpointKey = KEY,
    metadata: Mapping[str, Value] | None = None,
    delta: Collection[str] = (),
    followers: Mapping[str, Collection[str]] | None = None,
) -> Step:
    given = sources or Sources()
    return plan_step(
        key,
        body,
        {"source": "loop", "step": 0} if metadata is None else metadata,
        writes,
        Lookups(
            parent_sends=given.give("parent", given.parent),
            own_sends=given.give("own", given.own),
            learned_thread=given.give("thread", given.thread),
            learned_store=given.give("store", given.store),
            calls=given.give(
                "namespaces", subgraph_calls(given.namespaces).get(key.checkpoint_ns, {})
            ),
            followers=(followers or {}).get,
        ),
        delta_channels=delta,
    )


JAVASCRIPT = "2026-04-07T10:00:00.000Z"
TO_A, TO_B = "branch:to:a", "branch:to:b"
A = {"a": "a"}
"""What a node with a plain edge leaves: its name, in the channel of its name."""
STARTED: dict[str, Version] = {"__start__": OLD}
FIRST: dict[str, dict[str, Version]] = {"__input__": {}}
SEND: Value = {"node": "w", "args": 1}
SENT = Tagged("langgraph.constants.Send", {"node": "w", "arg": 1})
BOTH = Tagged("builtins.set", ["x", "y"])
THEN = "branch:a:route::then"
SORTED = {"__pregel_tasks": [Tagged("x.Send", ["z", 1]), SEND], TO_B: None, "branch:to:a": None}
ALONE: dict[str, tuple[Body, str | None]] = {
    "a channel that its node has not seen": (body({TO_B: None}, seen={"b": {TO_B: OLD}}), "b"),
    "a channel that was seen": (body({TO_B: None}, seen={"b": {TO_B: NEW}}), ""),
    "a node that never ran": (body({TO_B: None}), "b"),
    "a state channel": (body({"items": [1]}, {TO_B: NEW}, {"b": {TO_B: NEW}}), ""),
    "versions are numbers": (body({TO_B: None}, {TO_B: 10}, {"b": {TO_B: 9}}), "b"),
    "a text and an older number": (body({TO_B: None}, {TO_B: NEW}, {"b": {TO_B: 1}}), "b"),
    "a branch with then waits": (body({THEN: [BOTH, ["x"]]}, seen={"after": {THEN: OLD}}, v=1), ""),
    "nodes are sorted behind sends": (body(SORTED), "z w a b"),
    "sends of old bodies": (body(v=2, sends=[SENT, SENT]), "w w"),
    "sends past the limit": (body({"__pregel_tasks": Cut([], 10**9, "too long")}), None),
    "the stub that durability=exit writes first": (body(), ""),
    "a start again": (body({"__start__": 1}, seen={**FIRST, "__start__": STARTED}), "__start__"),
    "no version in JavaScript": (Body(4, JAVASCRIPT, {TO_B: None}, {"__start__": 1}, {}, None), ""),
}


@pytest.mark.parametrize("name", ALONE)
def test_what_is_next_is_told_by_the_body_alone(name: str) -> None:
    at, expected = ALONE[name]
    sources = Sources(parent=[write("p", "__pregel_tasks", {"node": "no", "args": 1})])
    assert plan(at, (), sources).next == (None if expected is None else tuple(expected.split()))
    assert not sources.asked


@cases(
    "name value is_next",
    ("join:a+b:c", Tagged("builtins.set", ["a", "b"]), True),
    ("join:a+b:c", Tagged("builtins.set", ["b"]), False),
    ("join:x+y+z:c", Tagged("builtins.set", ["x+y", "z"]), True),
    ("join:a+b:c", [Tagged("builtins.set", ["a", "b"]), False], False),
    ("join:a+b:c", [Tagged("builtins.set", ["a"]), True], False),
    ("join:a+b:c", Opaque("pickle", 1, "", ""), False),
    ("branch:to:c", [None, False], False),
    ("branch:to:c", [None, True], True),
    ("branch:a:route:c", "a", True),
    ("branch:a:route::c", [BOTH, BOTH], True),
)
def test_what_makes_a_channel_available(name: str, value: Value, is_next: bool) -> None:
    assert plan(body({name: value})).next == (("c",) if is_next else ())


def test_sends_that_are_not_inline_are_the_parents_writes_in_order() -> None:
    rows = [
        write("2", "__pregel_tasks", {"node": "third", "args": 1}, "~b", 0),
        write("1", "__pregel_tasks", {"node": "second", "args": 1}, "~a", 1),
        write("1", "__pregel_tasks", {"node": "first", "args": 1}, "~a", 0),
        write("1", "items", {"node": "no", "args": 1}, "~a", 2),
    ]
    sources = Sources(parent=rows)
    assert plan(body(v=3, sends=None), (), sources).next == ("first", "second", "third")
    assert sources.asked == {"parent": 1}
    unread = Write(KEY, "1", "", 0, "__pregel_tasks", 9, None)
    assert plan(body(v=2, sends=None), (), Sources(parent=[unread])).next is None
    found = plan(body({"__pregel_tasks": [7, SEND]})).tasks
    assert [(task.node, task.path) for task in found] == [("w", tasks.send_path(1, 4))]


def test_a_body_that_cannot_be_read_leaves_next_unknown() -> None:
    found = plan(body(v=0), [write("x", path=pull("a"))])
    assert (found.next, found.waiting, found.tasks) == (None, None, ())
    assert [other.node for other in found.others] == ["a"]
    assert status_of(found) is Status.UNKNOWN
    assert conditions_of(None) == (status_of(None),) == (Status.EMPTY,)


CALLED = hashed("child", "a", v=2)
STRANGER = write("11111111-2222-3333-4444-555555555555")
CALL_ASKED = write(CALLED, "__interrupt__", [{"value": 1, "id": "q"}])
CALLS = ["", f"child:{CALLED}", f"child:{CALLED}|deep:1", "other:2"]
ELSEWHERE = [f"child:{hashed('child', 'a', v=2, step=9)}"]
FLOW = "~__pregel_push, ~__pregel_pull, flow, 0000000000, 0000000001"
INPUT: dict[str, Value] = {"source": "input", "step": -1}
BEGUN, PLAIN, AT_2 = (
    body({"__start__": {}}, seen=FIRST),
    body(A, STARTED, v=1),
    body(A, STARTED, v=2),
)
BARE = body({"log": "x", "b": 1}, {"c": OLD}, {"two": {"b": OLD}})
DELTA = body({}, {"log": NEW}, {"watch": {"log": OLD}})
BESIDE = body({"a": "a", "branch:to:c": "a"}, STARTED, v=2)
FLOWS = {"__start__": {"flow", "__start__"}}
READERS_OF_BARE = {"b": {"two", "three"}, "log": {"watch"}}
Case = tuple[Body, str | None, tuple[Write, ...], dict[str, Any]]


def case(at: Body, expected: str | None, *rows: Write, **more: Any) -> Case:
    """What is next; `?` stands behind what is assumed, and None for what is not known."""
    return at, expected, rows, more


CASES: dict[str, Case] = {
    "an entrypoint by the path of what ran": case(BEGUN, "flow", write("x", path=pull("flow"))),
    "an entrypoint by its call": case(BEGUN, "flow", write("x", "__return__", path=FLOW)),
    "a start by its id": case(BEGUN, "__start__", write(hashed("__start__", "__start__"))),
    "one of other threads, by its id": case(
        BEGUN, "flow", write(hashed("flow", "__start__")), store=FLOWS
    ),
    "one of other threads, which does not prove itself": case(BEGUN, None, STRANGER, store=FLOWS),
    "an input is assumed to be a graph's": case(BEGUN, "__start__ ?", metadata=INPUT),
    "a plain edge of the thread": case(PLAIN, "b", thread={"a": {"b"}}),
    "a subgraph call tells its node": case(AT_2, "child", CALL_ASKED, namespaces=CALLS),
    "a subgraph call of another step": case(AT_2, None, namespaces=ELSEWHERE),
    "nobody reads its channel": case(PLAIN, None),
    "a graph that ended there elsewhere": case(PLAIN, "", followers={"a": ()}),
    "a node that follows elsewhere": case(PLAIN, "b ?", followers={"a": {"b"}}),
    "a known node beside one that may be": case(BESIDE, "c ?"),
    "bare nodes by what they have seen": case(BARE, "three two watch", thread=READERS_OF_BARE),
    "a DeltaChannel between snapshots": case(DELTA, "watch", delta=["log", "other"]),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_next_is_told_by_others(name: str) -> None:
    at, expected, rows, more = CASES[name]
    known = {key: one for key, one in more.items() if key in Sources.__annotations__}
    sources = Sources(**known)
    found = plan(at, rows, sources, **{key: more[key] for key in more.keys() - known})
    nodes = None if expected is None else tuple(expected.removesuffix("?").split())
    assert (found.next, found.assumed) == (nodes, (expected or "").endswith("?"))
    assert found.waiting is None or {*found.waiting} <= {*(nodes or ())}
    if not rows:
        told: dict[Any, Status] = {None: Status.UNKNOWN, (): Status.DONE}
        assert status_of(found) is told.get(found.next, Status.PENDING)
    # Other threads are not asked where a path, an id or the thread itself tells.
    assert sources.asked["store"] == 0 or "store" in known or "thread" not in known
    assert not sources.asked or at is not BEGUN or known or not rows


AT_A, AT_AB = body({"branch:to:a": None}), body({"branch:to:a": None, "branch:to:b": None})
AT_C, WITH_JOIN = body({"branch:to:c": None}), write(hashed("c", "branch:to:c", "join:a+b:c"))
JOINED = body({"branch:to:c": None}, {"join:a+b:c": OLD})


def test_writes_belong_to_tasks_by_path() -> None:
    at = body({"branch:to:a": None, "__pregel_tasks": [SEND] * 2})
    elsewhere = write("3", path="~__pregel_push, 0000000009, 0000000000")
    sent = write("2", path=tasks.send_path(1, 4))
    found = plan(at, [write("1", path=pull("a")), sent, elsewhere])
    ran = [(task.node, task.id, task.finished) for task in found.tasks]
    assert ran == [("w", None, False), ("w", "2", True), ("a", "1", True)]
    assert found.waiting == ("w",)
    assert [(other.id, other.node) for other in found.others] == [("3", None)]


def test_writes_belong_to_tasks_by_hash() -> None:
    sources = Sources()
    assert plan(JOINED, [WITH_JOIN], sources).waiting == ()
    assert not sources.asked
    # A join that was never written is known from the thread.
    sources = Sources(thread=learn([body({}, {"join:a+b:c": OLD})]))
    assert plan(AT_C, [WITH_JOIN], sources).waiting == ()
    assert sources.asked["thread"] == 1
    (task_id,) = tasks.send_ids(origin_at(), "w", 1)
    sent = plan(body({"__pregel_tasks": [SEND] * 3}), [write(task_id)])
    assert [task.id for task in sent.tasks] == [None, task_id, None]
    # The namespace is part of the hash.
    key, task_id = CheckpointKey("t", "child:1", ID), hashed("a", "branch:to:a", ns="child:1")
    inside = Sources(namespaces=["child:1", f"child:1|a:{task_id}"])
    assert plan(AT_A, [write(task_id)], inside, key=key).waiting == ()


def test_a_subgraph_call_tells_whose_write_it_is() -> None:
    sources = Sources(namespaces=["child:11"])
    assert plan(body({"branch:to:child": None}), [write("11")], sources).waiting == ()
    assert sources.asked == {"namespaces": 1}
    assert subgraph_calls(["", "memory", "a:1|b:2", "a:1|b:2|3|c:d:4", "x|y:5"]) == {
        "": {"1": "a"},
        "a:1": {"2": "b"},
        "a:1|b:2|3": {"4": "c:d"},
        "x": {"5": "y"},
    }
    # One of very many calls inside each other is not looked at to its end.
    assert len(subgraph_calls(["a:b|" * 50_000])) < 100


def test_owners_leave_out_the_null_task_and_writes_are_in_the_order_of_paths() -> None:
    rows = [write("1", path=pull("a")), write(NULL_TASK_ID), write("2", path="~x")]
    found = tasks_by_id(plan(AT_A, rows))
    assert {task_id: task.node for task_id, task in found.items()} == {"1": "a", "2": None}
    first, second = hashed("a", "branch:to:a"), hashed("b", TO_B)
    rows = [write(second, "x", idx=1), write(second, "items"), write(first), write(NULL_TASK_ID)]
    ordered = [one.write for one in task_writes(rows, plan(AT_AB, rows))]
    expected = [(NULL_TASK_ID, 0), (first, 0), (second, 0), (second, 1)]
    assert [(one.task_id, one.idx) for one in ordered] == expected


FAILED = write("1", "__error__", "ValueError()", pull("a"))
DONE = write("1", path=pull("a"))


def asked(*fields: dict[str, Any], data: bytes = b"") -> Write:
    """A question of task 1, which runs node `a`."""
    return packed("1", "__interrupt__", data or interrupts(*fields), pull("a"))


def test_a_question_waits_until_its_task_finished() -> None:
    rows = [asked({"value": "go?", "id": "q"}), write("1", "__resume__", ["yes"], pull("a"))]
    found = plan(AT_A, rows)
    (question,) = found.tasks[0].questions
    assert (question.interrupt_id, question.value, question.answered) == ("q", "go?", False)
    assert (question.task_id, question.node) == ("1", "a")
    assert found.waiting == ("a",)
    assert status_of(found) is Status.INTERRUPTED
    found = plan(AT_A, [*rows, DONE])
    assert [question.answered for question in found.tasks[0].questions] == [True]
    assert status_of(found) is Status.PENDING
    several = plan(AT_A, [asked({"value": 1, "id": "p"}, {"value": 2, "id": "q"})])
    assert [question.interrupt_id for question in several.tasks[0].questions] == ["p", "q"]


NAMESPACE = ["child:1", "deep:2"]


@cases(
    "fields interrupt_id",
    ({"id": "q", "response_schema": None}, "q"),
    ({"resumable": True, "ns": NAMESPACE, "when": "during"}, tasks.interrupt_id(NAMESPACE)),
    ({"id": "placeholder-id"}, None),
    ({"id": 7, "ns": [7]}, None),
)
def test_the_forms_of_interrupts(fields: dict[str, Any], interrupt_id: str | None) -> None:
    value = {"value": 1, **fields}
    for data in (interrupts(value), ormsgpack.packb([value]), ormsgpack.packb(value)):
        (question,) = plan(AT_A, [asked(data=data)]).tasks[0].questions
        assert (question.interrupt_id, question.value) == (interrupt_id, 1)


def test_a_question_of_another_kind_is_shown_as_it_is_and_one_past_the_limit_keeps_its_id() -> None:
    found = plan(AT_A, [write("1", "__interrupt__", ["?"], pull("a"))])
    assert [(q.interrupt_id, q.value) for q in found.tasks[0].questions] == [(None, "?")]
    unread = Write(KEY, "1", pull("a"), 0, "__interrupt__", 9, None)
    assert status_of(plan(AT_A, [unread])) is Status.INTERRUPTED
    data = ormsgpack.packb([{"id": "q", "value": "x" * 20_000_000}])
    (question,) = plan(AT_A, [asked(data=data)]).tasks[0].questions
    assert question.interrupt_id == "q"
    assert isinstance(question.value, Cut)


OF_A_CLASS = {"lc": 2, "type": "constructor", "id": ["builtins", "ValueError"], "kwargs": {}}


@cases(
    "value text",
    ("ValueError('x')", "ValueError('x')"),
    ({"name": "TypeError", "message": "x"}, "TypeError: x"),
    (OF_A_CLASS, "builtins.ValueError"),
    (7, "unreadable"),
)
def test_the_forms_of_errors(value: Any, text: str) -> None:
    found = plan(AT_A, [write("1", "__error__", value, pull("a"))])
    assert (found.tasks[0].error, found.waiting) == (text, ("a",))
    assert status_of(found) is Status.ERROR


ASKED = write("1", "__interrupt__", [{"value": 1, "id": "q"}], pull("a"))
FAILED_B = write("2", "__error__", "ValueError()", pull("b"))
CALL = "~__pregel_push, ~__pregel_pull, __start__, 0000000000, 0000000001"
CONDITIONS: dict[str, tuple[Body, list[Write], list[Status]]] = {
    "a failed task with output reads as finished": (AT_A, [FAILED, DONE], [Status.PENDING]),
    "a question hides no failure": (AT_AB, [ASKED, FAILED_B], [Status.ERROR, Status.INTERRUPTED]),
    "the error of a called task is its caller's business": (
        body({"__start__": 1}, {"branch:to:x": OLD}),
        [write("2", "__error__", "ValueError()", CALL)],
        [Status.PENDING],
    ),
    "nothing left": (body({}, {"branch:to:a": OLD}), [], [Status.DONE]),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_the_conditions_of_a_checkpoint(name: str) -> None:
    at, rows, expected = CONDITIONS[name]
    found = plan(at, rows)
    assert conditions_of(found) == tuple(expected)
    assert status_of(found) is expected[0]


@cases(
    "channel value known expected",
    ("join:a+b:n", ["a"], [], [("n", ("b",), ("a",))]),
    ("join:a+b:n", [["a"], False], [], [("n", ("b",), ("a",))]),
    ("join:a+b+c:n", ["a+b"], [], [("n", ("c",), ("a+b",))]),
    ("join:a+b+c:n", ["b"], [], [("n", ("a", "c"), ("b",))]),
    ("join:a+b+c:n", ["a"], ["b+c"], [("n", ("b+c",), ("a",))]),
    ("join:a+a+b:n", ["a+b"], [], [("n", ("a",), ("a+b",))]),
    ("branch:to:n", ["a"], [], []),
)
def test_a_join_waits_for_the_members_that_did_not_arrive(
    channel: str, value: Any, known: list[str], expected: list[Any]
) -> None:
    assert [
        tuple(one) for one in half_filled(body({channel: value}), lambda: known, {})
    ] == expected


def test_what_a_node_of_a_plain_graph_returned_is_read_by_the_next() -> None:
    at = body({"read": "a text"}, {"__start__": OLD}, {"read": {"__start__": OLD}}, v=1)
    assert plan(at).next is None
    assert plan(at, followers={"read": {"check"}}).next == ("check",)
    ended = at._replace(values={**at.values, "__end__": "a text"})
    old, new = {**at.versions, "__end__": OLD}, {**at.versions, "__end__": NEW}
    assert plan(ended._replace(versions=old)).next is None
    assert plan(ended._replace(versions=new)).next == ()
    beside = {**new, "__end__": NEW.replace(".0.5", ".0.7")}  # the rest of a version is random
    assert plan(ended._replace(versions=beside)).next == ()


def test_long_names_are_not_searched_for() -> None:
    seen = {f"{n}": {f"{c}{'x' * 80_000}": OLD for c in "abcdefgh"} for n in range(150)}
    assert len(plan(body(dict.fromkeys(seen["0"]), seen=seen, v=1), [write("1")]).tasks) == 150


def test_names_of_other_nodes_are_asked_for_only_if_they_decide() -> None:
    at = body({"join:a+b:n": ["a"], "join:c+d+e:n": ["c"]}, seen={"d": {}, "e": {}})
    assert len(half_filled(at, lambda: pytest.fail("not needed"), {})) == 2


TWO = {"branch:to:a": None, "branch:to:b": None}


def after(
    at: Body,
    *rows: Write,
    sent: tuple[Write, ...] = (),
    learned: Readers | None = None,
    deferred: dict[str, bool] | None = None,
) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    return following(
        at,
        plan(at, rows).tasks,
        sends=lambda: sent,
        learned=lambda: learned or {},
        deferred=lambda _: deferred or {},
    )


def test_edges_name_the_nodes_that_follow() -> None:
    at = body({"branch:to:a": None})
    assert after(at, write("1", "branch:to:b", path=pull("a"))) == (("b",), ())
    # Two nodes follow, and nothing stored tells whether one of them waits for the other.
    rows = [write("1", f"branch:to:{node}", path=pull("a"), idx=n) for n, node in enumerate("cb")]
    assert after(at, *rows) == (None, ("b", "c"))
    plain = {"branch:to:b": False, "branch:to:c": False}
    assert after(at, *rows, deferred=plain) == (("b", "c"), ())
    assert after(at, *rows, deferred={"branch:to:b": False, "branch:to:c": True}) == (("b",), ())
    assert after(at, write("1", "log", path=pull("a"))) == ((), ())


def test_a_join_follows_when_all_have_arrived() -> None:
    both = body(TWO)
    arrive = [write(node, "join:a+b:total", node, pull(node)) for node in "ab"]
    assert after(both, *arrive) == (("total",), ())
    one = body({"branch:to:a": None, "join:a+b:total": ["b"]})
    assert after(one, arrive[0]) == (("total",), ())
    assert after(body({"branch:to:a": None}), arrive[0]) == ((), ())
    # It was complete, so that its node ran in this step, and one arrives anew.
    over = body({"branch:to:a": None, "join:a+b:total": ["a", "b"]})
    assert after(over, arrive[0], write("t", "log", path=pull("total"))) == ((), ())


@pytest.mark.parametrize("value", [[None, False], [["a", "b"], False]])
def test_a_deferred_node_follows_when_nothing_else_does(value: object) -> None:
    channel = "branch:to:late" if value == [None, False] else "join:a+b:late"
    at = body({"branch:to:x": None, channel: value})
    assert after(at, write("1", "log", path=pull("x"))) == (("late",), ())
    more = write("1", "branch:to:y", path=pull("x"))
    assert after(at, more) == (None, ("late", "y"))
    assert after(at, more, deferred={"branch:to:y": False}) == (("y",), ())
    assert after(at, more, deferred={"branch:to:y": True}) == (("late", "y"), ())
    # It has had its turn, and is the one that finished.
    assert after(body({"branch:to:x": [None, True]}), write("1", "log", path=pull("x"))) == ((), ())
    half = body({"branch:to:x": None, "join:a+b:late": [["a"], False]})
    assert after(half, write("1", "log", path=pull("x"))) == ((), ())


def test_sends_follow_in_their_order_and_before_format_4_who_reads_the_channel_of_a_node() -> None:
    at = body({"branch:to:a": None})
    first = write("1", "__pregel_tasks", {"node": "w", "args": 1}, pull("a"), 0)
    second = write("1", "__pregel_tasks", {"node": "v", "args": 2}, pull("a"), 1)
    assert after(at, first, second, sent=(first, second)) == (("w", "v"), ())
    assert after(at, first, sent=(first._replace(value=None),))[0] is None
    at = body({"start:a": "__start__"}, v=2)
    rows = [write("1", "a", "a", pull("a")), write("1", "log", path=pull("a"), idx=1)]
    assert after(at, *rows, learned={"a": {"b"}}) == (("b",), ())
    assert after(at, *rows)[0] is None


def test_a_callers_command_starts_nodes_beside_those_that_wait_and_replaces_sends() -> None:
    at = body({"branch:to:a": None})
    rows = [write(NULL_TASK_ID, "branch:to:b"), write(NULL_TASK_ID, "__resume__", "yes")]
    assert goto_tasks(at, rows, tuple) == [("b", pull("b"))]
    level = resume_level(at, rows, plan(at, rows), [("b", pull("b")), ("a", pull("a"))])
    assert ([task.node for task in level.runs], level.started) == (["a"], ("b",))
    at = body({"__pregel_tasks": [{"node": "w", "args": 1}]})
    rows = [write(NULL_TASK_ID, "__pregel_tasks", {"node": "v", "args": 2})]
    path, by_task = send_path(0, 4), write("1", "__pregel_tasks", {"node": "w", "args": 1})
    assert goto_tasks(at, rows, lambda: [by_task, *rows]) == [("v", path)]
    level = resume_level(at, rows, plan(at, rows), [("v", path)])
    assert (level.runs, level.started) == ((), ("v",))


def test_a_resume_looks_at_sends_and_at_what_the_last_step_or_the_caller_wrote_to() -> None:
    held = {**TWO, "__pregel_tasks": [{"node": "w", "args": 1}]}
    at = body(held)._replace(updated=frozenset({"branch:to:a"}))

    def running(*rows: Write) -> list[str | None]:
        return [task.node for task in resume_level(at, rows, plan(at, rows), ()).runs]

    assert running() == running(write("1", "branch:to:b")) == ["w", "a"]
    assert running(write(NULL_TASK_ID, "branch:to:b")) == ["w", "a", "b"]


def routed(task_id: str, node: str) -> list[Write]:
    return [
        write(task_id, "__error__", "ValueError()", pull(node)),
        write(task_id, "__error_source_node__", node, pull(node), 1),
    ]


def test_a_handler_runs_again_and_its_node_does_not() -> None:
    failed, at = routed("1", "a"), body(TWO)
    level = resume_level(at, failed, plan(at, failed), ())
    assert [task.node for task in level.runs] == ["b"]
    assert (level.handlers, level.assumed) == ((("__error_handler__a", None),), True)
    rows = [*failed, write("2", path=handler_path(pull("a")))]
    ((name, run),) = resume_level(at, rows, plan(at, rows), ()).handlers
    assert name == "__error_handler__a"
    assert run is not None
    assert run.finished
    rows = [*failed, *routed("3", "b"), write("2", path=handler_path(pull("b")))]
    found = resume_level(at, rows, plan(at, rows), ()).handlers
    assert [(name, run is None) for name, run in found] == [
        ("__error_handler__a", True),
        ("__error_handler__b", False),
    ]
    # The handler of all nodes is known from another run.
    seen = at._replace(seen={"__default_error_handler__": {}})
    ((name, _),) = resume_level(seen, failed, plan(seen, failed), ()).handlers
    assert name == "__default_error_handler__"


def test_an_answer_that_a_task_of_a_subgraph_has_used_is_given_again() -> None:
    answer = write(NULL_TASK_ID, "__resume__", "yes")
    step = plan(body({"branch:to:a": None}), [answer])
    assert stored_answer([answer], step, lambda: ()) == "next"
    used, other = ([write("inner", "__resume__", [word])] for word in ("yes", "no"))
    assert stored_answer([answer], step, lambda: [used]) == "again"
    assert stored_answer([answer], step, lambda: [other]) == "next"


def test_updates_are_no_tasks_of_the_step_and_finish_one_that_they_took_over() -> None:
    found = plan(AT_A, [write(hashed("a", "branch:to:a"), path="~__interrupt__, 0000000000")])
    assert (found.next, found.waiting, found.tasks[0].path) == (("a",), (), pull("a"))
    sources = Sources()
    found = plan(AT_A, [write(one) for one in tasks.update_ids(origin_at(), 1)], sources)
    assert found.waiting == ("a",)
    assert {other.path for other in found.others} == {"", "~__interrupt__, 0000000000"}
    assert not sources.asked


def test_what_ran_is_told_by_stored_output_and_by_what_nodes_have_read() -> None:
    before = plan(AT_AB, [write("1", path=pull("a"))])
    seen = {"__start__": {"__start__": OLD}, "b": {TO_B: OLD}}
    assert tasks.ran(before, seen, {**seen, "b": {TO_B: NEW}}) == ("a", "b")
    # An input came in between: it drops what is stored, and notes what the tasks would have read.
    begun = {**seen, "__start__": {"__start__": NEW}, "b": {TO_B: NEW}, "c": {TO_B: LATER}}
    assert tasks.ran(before, seen, begun) == ("__start__", "c")


def test_what_is_no_node_and_what_is_no_state_is_left_out() -> None:
    seen: dict[str, dict[str, Version]] = {
        "a": {"x": 1},
        "b": {"x": 1, "branch:to:b": 1},
        "__input__": {"x": 1},
        "__interrupt__": {"y": 1},
        "__snapshot_bumps__": {"z": 1},
    }
    found = learn([body({"x": 0}, {"join:a+b:c": 1}, seen), body({}, {"__start__": 1})])
    assert found == {"x": {"a", "b"}, "branch:to:b": {"b"}, "join:a+b:c": {"c"}, "__start__": set()}
    stored, versions = {"a": "a", "empty": None, "count": 0}, {"__start__:a": 2, "a": 3}
    assert state_values(body(stored, versions, v=1, ts=JAVASCRIPT)) == {"count": 0}
    newer = body({"empty": None}, {"branch:to:a": 2}, v=1, ts=JAVASCRIPT)
    assert state_values(newer) == {"empty": None}


def handled(*handler: Write) -> Step:
    failed = pull("boom")
    rows = [
        write("1", "__error__", "ValueError()", failed),
        write("1", "__error_source_node__", "boom", failed, 1),
        *handler,
    ]
    return plan(body({"branch:to:boom": None}), rows)


def test_an_error_that_a_handler_took_is_none() -> None:
    """As stored by LangGraph 1.2.22 with `add_node(error_handler=...)`."""
    path = tasks.handler_path(pull("boom"))
    assert status_of(handled()) is Status.ERROR  # the handler has not begun, or has died
    assert not handled().tasks[0].handled
    assert status_of(handled(write("2", path=path))) is Status.PENDING
    assert handled(write("2", path=path)).tasks[0].handled
    assert status_of(handled(write("2", "__error__", "KeyError()", path))) is Status.ERROR
    question = write("2", "__interrupt__", [{"value": 1, "id": "q"}], path)
    assert status_of(handled(question)) is Status.INTERRUPTED
    for name in ("__error_handler__boom", "__default_error_handler__"):
        handler_id = next(tasks.handler_ids(origin_at(), name, "boom", "1"))
        (other,) = handled(write(handler_id)).others
        assert (other.node, other.path) == (name, path)
