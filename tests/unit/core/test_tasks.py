"""What comes after a checkpoint, rule by rule, on bodies made by hand."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_backends.model import NULL_TASK_ID, CheckpointKey, Status, TypedBytes, Write
from ckpt_cli.core import tasks
from ckpt_cli.core.replay import SortedWrites, possible_orders
from ckpt_cli.core.state import Body, Readers, Version, find_ready, half_filled, learn, state_values
from ckpt_cli.core.tasks import (
    Lookups,
    Step,
    TaskWrite,
    conditions_of,
    plan_step,
    status_of,
    subgraph_calls,
    task_writes,
    tasks_by_id,
)

ID = "1f1e5fb1-d49f-650c-8000-82528a6163b8"
KEY = CheckpointKey("t", "", ID)
OLD, NEW = "00000001.0.5", "00000002.0.5"
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


def hashed(node: str, *triggers: str, v: int = 4, step: int = 1) -> str:
    origin = tasks.origin_of(ID, "", step, v, is_numeric=False)
    assert origin is not None
    return next(iter(tasks.pull_ids(origin, node, [triggers])))


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


# Which nodes are next


def test_a_branch_channel_that_its_node_has_not_seen_makes_it_next() -> None:
    at = body({"branch:to:b": None}, seen={"b": {"branch:to:b": OLD}})
    assert plan(at).next == ("b",)


def test_a_channel_that_was_seen_makes_nothing_next() -> None:
    assert plan(body({"branch:to:b": None}, seen={"b": {"branch:to:b": NEW}})).next == ()


def test_a_node_that_never_ran_is_next() -> None:
    assert plan(body({"branch:to:b": None})).next == ("b",)


def test_a_state_channel_makes_nothing_next() -> None:
    at = body({"items": [1]}, {"branch:to:b": NEW}, {"b": {"branch:to:b": NEW}})
    assert plan(at).next == ()


def test_number_versions_are_compared_as_numbers() -> None:
    at = body({"branch:to:b": None}, {"branch:to:b": 10}, {"b": {"branch:to:b": 9}})
    assert plan(at).next == ("b",)


def test_text_and_number_versions_can_meet() -> None:
    at = body({"branch:to:b": None}, {"branch:to:b": NEW}, {"b": {"branch:to:b": 1}})
    assert plan(at).next == ("b",)
    at = body({"branch:to:b": None}, {"branch:to:b": NEW}, {"b": {"branch:to:b": 2}})
    assert plan(at).next == ()


@pytest.mark.parametrize(
    ("name", "value", "is_next"),
    [
        ("join:a+b:c", Tagged("builtins.set", ["a", "b"]), True),
        ("join:a+b:c", Tagged("builtins.set", ["b"]), False),
        ("join:a+b:c", Tagged("builtins.set", []), False),
        ("join:x+y+z:c", Tagged("builtins.set", ["x+y", "z"]), True),
        ("join:a+b:c", ["b", "a"], True),
        ("join:a+b:c", [Tagged("builtins.set", ["a", "b"]), True], True),
        ("join:a+b:c", [Tagged("builtins.set", ["a", "b"]), False], False),
        ("join:a+b:c", [Tagged("builtins.set", ["a"]), True], False),
        ("join:a+b:c", Opaque("pickle", 1, "", ""), False),
        ("branch:to:c", [None, False], False),
        ("branch:to:c", [None, True], True),
        ("start:c", "x", True),
        ("branch:a:route:c", "a", True),
    ],
)
def test_what_makes_a_channel_available(name: str, value: Value, is_next: bool) -> None:
    assert plan(body({name: value})).next == (("c",) if is_next else ())


def test_a_branch_with_then_waits_for_all_its_ends() -> None:
    name = "branch:a:route::then"
    ends = Tagged("builtins.set", ["x", "y"])
    seen = {"after": {name: OLD}}
    assert plan(body({name: [ends, Tagged("builtins.set", ["x"])]}, seen=seen, v=1)).next == ()
    assert plan(body({name: [ends, ends]}, seen=seen, v=1)).next == ("after",)


def test_nodes_are_sorted_behind_sends() -> None:
    sends: Value = [Tagged("langgraph.types.Send", ["z", 1]), {"node": "y", "args": {}}]
    at = body({"__pregel_tasks": sends, "branch:to:b": None, "branch:to:a": None})
    assert plan(at).next == ("z", "y", "a", "b")


def test_sends_of_old_bodies_are_inline() -> None:
    send = Tagged("langgraph.constants.Send", {"node": "w", "arg": 1})
    sources = Sources(parent=[write("p", "__pregel_tasks", {"node": "no", "args": 1})])
    assert plan(body(v=2, sends=[send, send]), (), sources).next == ("w", "w")
    assert plan(body(v=2, sends=[]), (), sources).next == ()
    assert not sources.asked


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


JAVASCRIPT = "2026-04-07T10:00:00.000Z"


@pytest.mark.parametrize("v", [1, 4])
def test_langgraph_js_counts_what_the_caller_wrote(v: int) -> None:
    versions: dict[str, Version] = {"branch:to:a": 4, "branch:to:b": 4, "branch:to:new": 4}
    seen: dict[str, dict[str, Version]] = {"a": {"branch:to:a": 3}, "b": {"branch:to:b": 4}}
    wrote = [
        write(NULL_TASK_ID, f"branch:to:{node}", "__start__") for node in ("a", "b", "new", "none")
    ]
    wrote.append(write(NULL_TASK_ID, "__pregel_tasks", {"node": "sent", "args": 1}, idx=4))
    sources = Sources(own=wrote)
    at = body({}, versions, seen, v=v, sends=None, ts=JAVASCRIPT)
    assert plan(at, wrote, sources).next == ("sent", "a", "new")
    assert sources.asked["own"] == 1
    assert plan(body({}, versions, seen), wrote, sources).next == ()
    assert sources.asked["own"] == 1


def test_sends_of_the_caller_replace_those_of_a_channel_and_follow_those_of_the_parent() -> None:
    own = [write(NULL_TASK_ID, "__pregel_tasks", {"node": "mine", "args": 1})]
    pending = {"node": "theirs", "args": 1}
    sources = Sources(own=own, parent=[write("p", "__pregel_tasks", pending)])
    new = body({"__pregel_tasks": [pending]}, {"__pregel_tasks": 1}, ts=JAVASCRIPT)
    assert plan(new, own, sources).next == ("mine",)
    old = body({}, {"items": 1}, v=1, sends=None, ts=JAVASCRIPT)
    assert plan(old, own, sources).next == ("theirs", "mine")
    task = write("1", "__pregel_tasks", {"node": "later", "args": 1}, pull("a"))
    assert plan(new, own, Sources(own=[*own, task])).next == ("mine",)


def test_a_channel_without_a_version_makes_nothing_next_in_langgraph_js() -> None:
    stored = {"branch:to:a": None}
    at = Body(4, JAVASCRIPT, stored, {"__start__": 1}, {}, None)
    assert plan(at).next == ()


@pytest.mark.parametrize(
    ("v", "ts", "is_known"), [(1, None, False), (2, None, True), (1, JAVASCRIPT, True)]
)
def test_tasks_are_in_order_from_format_2_and_in_langgraph_js(
    v: int, ts: str | None, is_known: bool
) -> None:
    at, rows = body(v=v, ts=ts), SortedWrites((), (TaskWrite(write("1"), None, "~a"),), (), ())
    given = {"again": False, "skipped": False, "takes_input": False}
    assert possible_orders("loop", rows, plan(at), at, at, **given).ordered is is_known


def test_a_value_that_is_the_name_of_its_channel_may_be_a_node_in_old_formats_of_python() -> None:
    for v, ts, unread in ((3, None, ["word"]), (4, None, []), (1, JAVASCRIPT, [])):
        at = body({"word": "word"}, {"__start__": 1}, v=v, ts=ts)
        assert find_ready(at, {}, dict, ()).unread == unread, (v, ts)


def test_what_is_no_send_keeps_its_place() -> None:
    found = plan(body({"__pregel_tasks": [7, {"node": "w", "args": 1}]})).tasks
    assert [(task.node, task.path) for task in found] == [("w", tasks.send_path(1, 4))]


def test_sends_that_cannot_be_read_leave_next_unknown() -> None:
    assert plan(body({"__pregel_tasks": Cut([], 10**9, "too long")})).next is None
    assert plan(body(v=2, sends=Cut([], 10**9, "too long"))).next is None
    unread = Write(KEY, "1", "", 0, "__pregel_tasks", 9, None)
    assert plan(body(v=2, sends=None), (), Sources(parent=[unread])).next is None


def test_a_body_that_cannot_be_read_leaves_next_unknown() -> None:
    found = plan(body(v=0), [write("x", path=pull("a"))])
    assert (found.next, found.waiting, found.tasks) == (None, None, ())
    assert [other.node for other in found.others] == ["a"]
    assert status_of(found) is Status.UNKNOWN


def test_an_empty_checkpoint_has_nothing_next() -> None:
    """The stub that `durability="exit"` writes first."""
    found = plan(body(), metadata={"step": -2})
    assert (found.next, found.assumed) == ((), False)
    assert status_of(found) is Status.DONE


# The start, and channels that nobody is known to read


def test_the_start_of_a_known_graph_needs_no_other_body() -> None:
    sources = Sources()
    at = body({"__start__": {}}, seen={"__input__": {}, "__start__": {"__start__": OLD}})
    assert plan(at, (), sources).next == ("__start__",)
    at = body({"__start__": {}}, {"branch:to:a": OLD})
    assert plan(at, (), sources).next == ("__start__",)
    assert not sources.asked


def test_a_first_input_tells_by_the_path_of_what_ran() -> None:
    sources = Sources()
    at = body({"__start__": {}}, seen={"__input__": {}})
    assert plan(at, [write("x", path=pull("__start__"))], sources).next == ("__start__",)
    assert plan(at, [write("x", path=pull("flow"))], sources).next == ("flow",)
    call = "~__pregel_push, ~__pregel_pull, flow, 0000000000, 0000000001"
    assert plan(at, [write("x", "__return__", path=call)], sources).next == ("flow",)
    assert not sources.asked


def test_a_first_input_tells_by_the_id_of_what_ran() -> None:
    sources = Sources()
    found = plan(body({"__start__": {}}), [write(hashed("__start__", "__start__"))], sources)
    assert (found.next, found.waiting, found.assumed) == (("__start__",), (), False)
    assert not sources.asked


def test_an_entrypoint_is_known_from_other_bodies_of_the_thread() -> None:
    sources = Sources(thread={"__start__": {"flow"}})
    assert plan(body({"__start__": {}}), [write("call", "__return__")], sources).next == ("flow",)
    assert sources.asked["store"] == 0


def test_a_node_known_elsewhere_must_prove_itself_by_its_id() -> None:
    sources = Sources(store={"__start__": {"flow", "__start__"}})
    at = body({"__start__": {}})
    assert plan(at, [write(hashed("flow", "__start__"))], sources).next == ("flow",)
    found = plan(at, [write("11111111-2222-3333-4444-555555555555")], sources)
    assert (found.next, found.waiting) == (None, None)


def test_an_input_where_nothing_ran_is_assumed_to_be_a_state_graphs() -> None:
    found = plan(body({"__start__": {}}), metadata={"source": "input", "step": -1})
    assert (found.next, found.assumed) == (("__start__",), True)


def test_a_node_that_follows_by_a_plain_edge_is_known_from_the_thread() -> None:
    sources = Sources(thread={"a": {"b"}})
    at = body({"a": "a"}, {"__start__": OLD}, v=1)
    assert plan(at, (), sources).next == ("b",)


def test_a_subgraph_call_tells_its_node() -> None:
    at = body({"a": "a"}, {"__start__": OLD}, v=2)
    task_id = hashed("child", "a", v=2)
    sources = Sources(namespaces=["", f"child:{task_id}", f"child:{task_id}|deep:1", "other:2"])
    found = plan(at, [write(task_id, "__interrupt__", [{"value": 1, "id": "q"}])], sources)
    assert (found.next, found.waiting) == (("child",), ("child",))
    assert plan(at, (), sources).next == ("child",)


def test_a_subgraph_call_of_another_step_tells_nothing() -> None:
    at = body({"a": "a"}, {"__start__": OLD}, v=2)
    found = plan(at, (), Sources(namespaces=[f"child:{hashed('child', 'a', v=2, step=9)}"]))
    assert found.next is None


def test_what_follows_a_node_is_unknown_where_nobody_reads_its_channel() -> None:
    found = plan(body({"end": "end"}, {"__start__": OLD}, v=1))
    assert (found.next, found.waiting, found.assumed) == (None, None, False)
    assert status_of(found) is Status.UNKNOWN


def test_a_graph_that_ended_after_a_node_elsewhere_ends_there() -> None:
    found = plan(body({"end": "end"}, {"__start__": OLD}, v=1), followers={"end": ()})
    assert (found.next, found.assumed) == ((), False)
    assert status_of(found) is Status.DONE


def test_a_node_that_follows_elsewhere_is_next() -> None:
    found = plan(body({"a": "a"}, {"__start__": OLD}, v=1), followers={"a": {"b"}})
    assert (found.next, found.assumed) == (("b",), True)
    assert status_of(found) is Status.PENDING


def test_a_node_that_is_known_is_next_beside_one_that_may_be() -> None:
    at = body({"a": "a", "branch:to:c": "a"}, {"__start__": OLD}, v=2)
    found = plan(at)
    assert (found.next, found.assumed) == (("c",), True)


def test_a_channel_that_is_read_elsewhere_leaves_next_unknown() -> None:
    found = plan(body({"a": "a"}, {"__start__": OLD}, v=1), (), Sources(store={"a": {"b"}}))
    assert (found.next, found.waiting, found.assumed) == (None, None, False)
    assert status_of(found) is Status.UNKNOWN


def test_an_update_as_a_node_that_never_ran_leaves_next_unknown() -> None:
    at = body({"a": "a"}, {"__start__": OLD}, v=1)
    update: dict[str, Value] = {"source": "update", "step": 0}
    assert plan(at, metadata=update).next is None
    assert plan(at, metadata=update, followers={"a": ()}).next == ()


def test_a_step_that_ran_shows_that_nobody_else_reads() -> None:
    at = body({"start:b": "", "a": "a"}, v=1)
    found = plan(at, [write("x", path=pull("b"))], Sources(store={"a": {"c"}}))
    assert (found.next, found.assumed) == (("b",), True)


def test_a_strangers_write_leaves_next_unknown() -> None:
    at = body({"a": "a"}, {"__start__": OLD}, v=1)
    found = plan(at, [write("x", "__error__", "ValueError()")])
    assert found.next is None
    assert status_of(found) is Status.ERROR


def test_bare_pregel_nodes_are_known_by_what_they_have_seen() -> None:
    at = body({"log": "x", "b": 1}, {"c": OLD}, {"two": {"b": OLD}})
    sources = Sources(thread={"b": {"two", "three"}, "log": {"watch"}})
    assert plan(at, (), sources).next == ("three", "two", "watch")


def test_a_delta_channel_between_snapshots_can_trigger_a_bare_node() -> None:
    at = body({}, {"log": NEW}, {"watch": {"log": OLD}})
    assert plan(at, delta=["log", "other"]).next == ("watch",)
    assert plan(at).next == ()


def test_an_input_that_starts_nothing_known_is_unknown() -> None:
    at = body({"a": 1}, seen={"__input__": {}})
    assert plan(at, metadata={"source": "input", "step": -1}).next is None


def test_absurdly_many_unread_channels_leave_next_unknown() -> None:
    names = {f"c{i}": f"c{i}" for i in range(1000)}
    assert plan(body(names, {"__start__": OLD}, v=1)).next is None


# Which writes belong to which task


def test_writes_belong_to_tasks_by_path() -> None:
    at = body({"branch:to:a": None, "__pregel_tasks": [{"node": "w", "args": 0}] * 2})
    rows = [
        write("1", path=pull("a")),
        write("2", path=tasks.send_path(1, 4)),
        write("3", path="~__pregel_push, 0000000009, 0000000000"),
    ]
    found = plan(at, rows)
    assert [(task.node, task.id, task.finished) for task in found.tasks] == [
        ("w", None, False),
        ("w", "2", True),
        ("a", "1", True),
    ]
    assert found.waiting == ("w",)
    assert [(other.id, other.node) for other in found.others] == [("3", None)]


def test_writes_belong_to_tasks_by_hash() -> None:
    sources = Sources()
    at = body({"branch:to:c": None}, {"join:a+b:c": OLD})
    with_join = write(hashed("c", "branch:to:c", "join:a+b:c"))
    assert plan(at, [with_join], sources).waiting == ()
    assert not sources.asked


def test_a_join_that_was_never_written_is_known_from_the_thread() -> None:
    sources = Sources(thread=learn([body({}, {"join:a+b:c": OLD})]))
    with_join = write(hashed("c", "branch:to:c", "join:a+b:c"))
    assert plan(body({"branch:to:c": None}), [with_join], sources).waiting == ()
    assert sources.asked["thread"] == 1


def test_sends_are_matched_by_hash() -> None:
    origin = tasks.origin_of(ID, "", 1, 4, is_numeric=False)
    assert origin is not None
    (task_id,) = tasks.send_ids(origin, "w", 1)
    at = body({"__pregel_tasks": [{"node": "w", "args": 0}] * 3})
    assert [task.id for task in plan(at, [write(task_id)]).tasks] == [None, task_id, None]


def test_the_namespace_is_part_of_the_hash() -> None:
    key = CheckpointKey("t", "child:1", ID)
    origin = tasks.origin_of(ID, "child:1", 1, 4, is_numeric=False)
    assert origin is not None
    task_id = next(tasks.pull_ids(origin, "a", [["branch:to:a"]]))
    sources = Sources(namespaces=["child:1", f"child:1|a:{task_id}"])
    assert plan(body({"branch:to:a": None}), [write(task_id)], sources, key=key).waiting == ()


def test_a_subgraph_call_tells_whose_write_it_is() -> None:
    sources = Sources(namespaces=["child:11"])
    found = plan(body({"branch:to:child": None}), [write("11")], sources)
    assert found.waiting == ()
    assert sources.asked == {"namespaces": 1}


def test_calls_are_told_apart_by_the_namespace_that_made_them() -> None:
    assert subgraph_calls(["", "memory", "a:1|b:2", "a:1|b:2|3|c:d:4", "x|y:5"]) == {
        "": {"1": "a"},
        "a:1": {"2": "b"},
        "a:1|b:2|3": {"4": "c:d"},
        "x": {"5": "y"},
    }


def test_thousands_of_calls_cost_a_checkpoint_nothing() -> None:
    calls = subgraph_calls([f"child:{n}" for n in range(6_000)])[""]
    at = body({"branch:to:child": None})
    sources = Sources()
    for n in range(6_000):
        found = plan_step(
            KEY,
            at,
            {"source": "loop", "step": 0},
            [write(str(n))],
            Lookups(
                parent_sends=sources.give("parent", []),
                own_sends=sources.give("own", []),
                learned_thread=sources.give("thread", {}),
                learned_store=sources.give("store", {}),
                calls=lambda: calls,
            ),
        )
        assert found.waiting == ()


def test_a_namespace_of_very_many_calls_is_not_looked_at_to_its_end() -> None:
    calls = subgraph_calls(["a:b|" * 50_000])
    assert calls["a:b|a:b"] == {"b": "a"}
    assert len(calls) < 100


def test_long_names_are_not_searched_for() -> None:
    names = [f"{n}{'x' * 80_000}" for n in range(150)]
    seen = {name: dict.fromkeys("abcdefgh", OLD) for name in names}
    at = body(dict.fromkeys("abcdefgh"), seen=seen, v=1)
    assert len(plan(at, [write("1")]).tasks) == 150
    seen = {f"{n}": {f"{c}{'x' * 80_000}": OLD for c in "abcdefgh"} for n in range(150)}
    at = body(dict.fromkeys(seen["0"]), seen=seen, v=1)
    assert len(plan(at, [write("1")]).tasks) == 150


def test_a_task_that_updates_took_over_is_finished() -> None:
    task_id = hashed("a", "branch:to:a")
    at = body({"branch:to:a": None})
    found = plan(at, [write(task_id, path="~__interrupt__, 0000000000")])
    assert (found.next, found.waiting) == (("a",), ())
    assert found.tasks[0].path == pull("a")


def test_updates_are_no_tasks_of_the_step() -> None:
    origin = tasks.origin_of(ID, "", 1, 4, is_numeric=False)
    assert origin is not None
    ids = tasks.update_ids(origin, 1)
    sources = Sources()
    found = plan(body({"branch:to:a": None}), [write(one) for one in ids], sources)
    assert found.waiting == ("a",)
    assert {other.path for other in found.others} == {"", "~__interrupt__, 0000000000"}
    assert not sources.asked


def test_a_node_that_the_caller_chose_is_told_by_its_hash() -> None:
    rows = [write(NULL_TASK_ID, "branch:to:b"), write(hashed("b", "branch:to:b"))]
    found = plan(body({}, {"branch:to:a": OLD}, {"a": {"branch:to:a": OLD}}), rows)
    assert found.next == ()
    assert [(other.node, other.path) for other in found.others] == [("b", pull("b"))]


def test_writes_that_durability_exit_moved_tell_their_node() -> None:
    found = plan(body(), [write("0000", path="~~0000000003~__pregel_pull, p1")])
    assert [other.node for other in found.others] == ["p1"]


def test_owners_leave_out_the_null_task() -> None:
    rows = [write("1", path=pull("a")), write(NULL_TASK_ID), write("2", path="~x")]
    found = tasks_by_id(plan(body({"branch:to:a": None}), rows))
    assert {task_id: task.node for task_id, task in found.items()} == {"1": "a", "2": None}


def test_writes_are_ordered_by_path_that_the_hash_gives() -> None:
    at = body({"branch:to:a": None, "branch:to:b": None})
    first, second = hashed("a", "branch:to:a"), hashed("b", "branch:to:b")
    rows = [
        write(second, "x", idx=1),
        write(second, "items", idx=0),
        write(first),
        write(NULL_TASK_ID),
    ]
    ordered = [one.write for one in task_writes(rows, plan(at, rows))]
    assert [(w.task_id, w.idx) for w in ordered] == [
        (NULL_TASK_ID, 0),
        (first, 0),
        (second, 0),
        (second, 1),
    ]


# Questions, errors, status


def test_a_question_waits_until_its_task_finished() -> None:
    at = body({"branch:to:a": None})
    asked = packed("1", "__interrupt__", interrupts({"value": "go?", "id": "q"}), pull("a"))
    resumed = write("1", "__resume__", ["yes"], pull("a"))
    found = plan(at, [asked, resumed])
    (question,) = found.tasks[0].questions
    assert (question.interrupt_id, question.value, question.answered) == ("q", "go?", False)
    assert (question.task_id, question.node) == ("1", "a")
    assert found.waiting == ("a",)
    assert status_of(found) is Status.INTERRUPTED
    found = plan(at, [asked, resumed, write("1", path=pull("a"))])
    assert [question.answered for question in found.tasks[0].questions] == [True]
    assert status_of(found) is Status.PENDING


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"value": 1, "id": "q", "response_schema": None}, ("q", 1)),
        ({"value": 1, "interrupt_id": "q", "ns": ["a"]}, ("q", 1)),
        ({"value": 1, "when": "during"}, (None, 1)),
        (
            {"value": 1, "resumable": True, "ns": ["child:1", "deep:2"], "when": "during"},
            (tasks.interrupt_id(["child:1", "deep:2"]), 1),
        ),
        ({"value": 1, "id": "placeholder-id"}, (None, 1)),
        ({"value": 1, "id": 7, "ns": [7]}, (None, 1)),
    ],
)
def test_the_forms_of_interrupts(value: dict[str, Any], expected: tuple[str | None, Value]) -> None:
    for data in (interrupts(value), ormsgpack.packb([value]), ormsgpack.packb(value)):
        found = plan(body({"branch:to:a": None}), [packed("1", "__interrupt__", data, pull("a"))])
        (question,) = found.tasks[0].questions
        assert (question.interrupt_id, question.value) == expected


def test_a_question_of_another_kind_is_shown_as_it_is() -> None:
    found = plan(body({"branch:to:a": None}), [write("1", "__interrupt__", ["?"], pull("a"))])
    assert [(q.interrupt_id, q.value) for q in found.tasks[0].questions] == [(None, "?")]
    unread = Write(KEY, "1", pull("a"), 0, "__interrupt__", 9, None)
    found = plan(body({"branch:to:a": None}), [unread])
    assert status_of(found) is Status.INTERRUPTED


def test_a_question_past_the_limit_keeps_its_id() -> None:
    data = ormsgpack.packb([{"id": "q", "value": "x" * 20_000_000}])
    found = plan(body({"branch:to:a": None}), [packed("1", "__interrupt__", data, pull("a"))])
    (question,) = found.tasks[0].questions
    assert question.interrupt_id == "q"
    assert isinstance(question.value, Cut)


def test_several_questions_of_one_task() -> None:
    data = interrupts({"value": 1, "id": "p"}, {"value": 2, "id": "q"})
    found = plan(body({"branch:to:a": None}), [packed("1", "__interrupt__", data, pull("a"))])
    assert [question.interrupt_id for question in found.tasks[0].questions] == ["p", "q"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("ValueError('x')", "ValueError('x')"),
        ({"name": "TypeError", "message": "x"}, "TypeError: x"),
        ({"message": "x"}, "x"),
        (
            {"lc": 2, "type": "constructor", "id": ["builtins", "ValueError"], "kwargs": {}},
            "builtins.ValueError",
        ),
        ({"lc": 2, "type": "constructor", "id": "ValueError"}, "unreadable"),
        (7, "unreadable"),
    ],
)
def test_the_forms_of_errors(value: Any, text: str) -> None:
    found = plan(body({"branch:to:a": None}), [write("1", "__error__", value, pull("a"))])
    assert found.tasks[0].error == text
    assert found.waiting == ("a",)
    assert status_of(found) is Status.ERROR


def test_a_failed_task_with_output_reads_as_finished() -> None:
    rows = [write("1", "__error__", "ValueError()", pull("a")), write("1", path=pull("a"))]
    found = plan(body({"branch:to:a": None}), rows)
    assert (found.waiting, found.tasks[0].error) == ((), "ValueError()")
    assert status_of(found) is Status.PENDING


def test_a_question_does_not_hide_a_failure() -> None:
    at = body({"branch:to:a": None, "branch:to:b": None})
    question = [{"value": 1, "id": "q"}]
    rows = [
        write("1", "__interrupt__", question, pull("a")),
        write("2", "__error__", "ValueError()", pull("b")),
    ]
    found = plan(at, rows)
    assert conditions_of(found) == (Status.ERROR, Status.INTERRUPTED)
    assert status_of(found) is Status.ERROR
    # The task that failed was run again and finished: only the question is left.
    found = plan(at, [*rows, write("2", path=pull("b"))])
    assert conditions_of(found) == (Status.INTERRUPTED,)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], Status.PENDING),
        ([write("1", "__error__", "ValueError()", pull("a"))], Status.ERROR),
        ([write("1", "__interrupt__", ["?"], pull("a"))], Status.INTERRUPTED),
    ],
)
def test_one_thing_is_one_condition(rows: list[Write], expected: Status) -> None:
    assert conditions_of(plan(body({"branch:to:a": None}), rows)) == (expected,)
    assert conditions_of(None) == (Status.EMPTY,)


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
    question = [{"value": 1, "id": "q"}]
    assert status_of(handled(write("2", "__interrupt__", question, path))) is Status.INTERRUPTED


@pytest.mark.parametrize("name", ["__error_handler__boom", "__default_error_handler__"])
def test_a_handler_is_told_by_its_hash(name: str) -> None:
    origin = tasks.origin_of(ID, "", 1, 4, is_numeric=False)
    assert origin is not None
    handler_id = next(tasks.handler_ids(origin, name, "boom", "1"))
    (other,) = handled(write(handler_id)).others
    assert (other.node, other.path) == (name, tasks.handler_path(pull("boom")))


def test_the_error_of_a_called_task_is_its_callers_business() -> None:
    at = body({"__start__": 1}, {"branch:to:x": OLD})
    call = "~__pregel_push, ~__pregel_pull, __start__, 0000000000, 0000000001"
    found = plan(at, [write("2", "__error__", "ValueError()", call)])
    assert status_of(found) is Status.PENDING


def test_the_order_of_the_status() -> None:
    at = body({"branch:to:a": None, "branch:to:b": None})
    error = write("1", "__error__", "ValueError()", pull("a"))
    question = write("2", "__interrupt__", [{"value": 1}], pull("b"))
    assert status_of(plan(at, [error, question])) is Status.ERROR
    assert status_of(plan(at, [question])) is Status.INTERRUPTED
    assert status_of(plan(at)) is Status.PENDING
    assert status_of(plan(body({}, {"branch:to:a": OLD}))) is Status.DONE
    assert status_of(None) is Status.EMPTY


# What the bodies of others teach


def test_learning_leaves_out_what_is_no_node() -> None:
    seen: dict[str, dict[str, Version]] = {
        "a": {"x": 1},
        "b": {"x": 1, "branch:to:b": 1},
        "__input__": {"x": 1},
        "__interrupt__": {"y": 1},
        "__snapshot_bumps__": {"z": 1},
    }
    found = learn([body({"x": 0}, {"join:a+b:c": 1}, seen), body({}, {"__start__": 1})])
    assert found == {"x": {"a", "b"}, "branch:to:b": {"b"}, "join:a+b:c": {"c"}, "__start__": set()}


# Properties

NAMES = st.one_of(
    st.sampled_from(
        [
            "__start__",
            "__pregel_tasks",
            "branch:to:a",
            "branch:to:",
            "join:a+b:c",
            "join::",
            "start:a",
            "branch:a:b:c",
            "branch:a:b::then",
            "a",
            "b",
            "__interrupt__",
            "__input__",
        ]
    ),
    st.text(max_size=5),
)
LEAVES: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    NAMES,
    st.binary(max_size=3),
    st.just(Opaque("pickle", 1, "", "")),
    st.just(Cut(None, 1, "")),
    st.just(Cut(["a"], 1, "")),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["node", "args", "value", "id", "ns"]), inner, max_size=3),
        st.builds(
            Tagged, st.sampled_from(["builtins.set", "langgraph.types.Send", "x.Interrupt"]), inner
        ),
    ),
    max_leaves=5,
)
VERSIONS = st.one_of(st.text(max_size=3), st.integers(), st.floats(), st.sampled_from([OLD, NEW]))
BODIES = st.builds(
    body,
    st.dictionaries(NAMES, VALUES, max_size=5),
    st.dictionaries(NAMES, VERSIONS, max_size=5),
    st.dictionaries(NAMES, st.dictionaries(NAMES, VERSIONS, max_size=4), max_size=4),
    v=st.integers(-1, 6),
    sends=st.one_of(st.none(), st.lists(VALUES, max_size=3)),
)
PATHS = st.sampled_from(
    [
        "",
        "~",
        pull("a"),
        pull("b"),
        "~__pregel_push, 0000000000, 0000000000",
        "~__pregel_push, ~__pregel_pull, a, 0000000000, 0000000001",
        "~__interrupt__, 0000000000",
        "~~0000000003~__pregel_pull, a",
        "~__pregel_pull, a, node_error_handler, 0000000000",
    ]
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from(["value", "id", "ns", "node", "lc"]), inner, max_size=2),
    ),
    max_leaves=4,
)
WRITES = st.lists(
    st.builds(
        write,
        st.one_of(
            st.sampled_from(["1", "2", NULL_TASK_ID, hashed("a", "branch:to:a")]),
            st.text(max_size=3),
        ),
        st.one_of(
            NAMES,
            st.sampled_from(["__error__", "__error_source_node__", "__resume__", "__return__"]),
        ),
        JSON,
        PATHS,
        st.integers(-4, 3),
    ),
    max_size=6,
)
READERS = st.dictionaries(NAMES, st.sets(NAMES, max_size=3), max_size=4)
SOURCES = st.builds(
    Sources,
    WRITES,
    WRITES,
    READERS,
    READERS,
    st.lists(st.one_of(st.sampled_from(["a:1", "b:2|1", "child:1|a:2", ":", "|"]), NAMES)),
)
METADATA = st.dictionaries(
    st.sampled_from(["source", "step"]),
    st.one_of(st.sampled_from(["input", "loop", "update"]), st.integers(-2, 3), VALUES),
)
KEYS = st.builds(
    CheckpointKey,
    st.just("t"),
    st.sampled_from(["", "child:1", "|"]),
    st.one_of(st.just(ID), st.text(max_size=40)),
)


@given(BODIES, WRITES, SOURCES, METADATA, KEYS, st.lists(NAMES, max_size=3))
def test_whatever_is_stored_has_an_answer(
    at: Body,
    rows: list[Write],
    sources: Sources,
    metadata: dict[str, Value],
    key: CheckpointKey,
    delta: list[str],
) -> None:
    found = plan(at, rows, sources, key=key, metadata=metadata, delta=delta)
    runs = (*found.tasks, *found.others)
    kept = [w for run in runs for w in run.writes]
    assert Counter(map(id, kept)) == Counter(id(w) for w in rows if w.task_id != NULL_TASK_ID)
    ordered = [one.write for one in task_writes(rows, found)]
    assert sorted(map(id, ordered)) == sorted(map(id, rows))
    assert status_of(found) in Status
    assert all(question.answered == run.finished for run in runs for question in run.questions)
    if found.next is None:
        assert found.waiting is None
        assert not found.assumed
    else:
        assert found.waiting is not None
        assert not Counter(found.waiting) - Counter(found.next)
        assert Counter(found.next) == Counter(task.node for task in found.tasks)


@given(st.dictionaries(NAMES, VALUES, max_size=6), st.dictionaries(NAMES, VERSIONS, max_size=4))
def test_a_state_graphs_checkpoint_without_writes_asks_nobody(
    values: dict[str, Any], versions: dict[str, Version]
) -> None:
    sources = Sources()
    plan(body(values, {**versions, "branch:to:a": NEW}), (), sources)
    assert not sources.asked


@given(BODIES, WRITES)
def test_the_order_of_the_rows_changes_nothing(at: Body, rows: list[Write]) -> None:
    one, two = plan(at, rows), plan(at, rows[::-1])
    assert (one.next, one.waiting) == (two.next, two.waiting)
    assert status_of(one) is status_of(two)


@pytest.mark.parametrize(
    ("channel", "value", "known", "expected"),
    [
        ("join:a+b:n", ["a"], [], [("n", ("b",), ("a",))]),
        ("join:a+b:n", ["a", "b"], [], []),
        ("join:a+b:n", [], [], []),
        ("join:a+b:n", [["a"], False], [], [("n", ("b",), ("a",))]),
        ("join:a+b:n", [["a", "b"], False], [], []),
        ("join:a+b+c:n", ["a+b"], [], [("n", ("c",), ("a+b",))]),
        ("join:a+b+c:n", ["b"], [], [("n", ("a", "c"), ("b",))]),
        ("join:a+b+c:n", ["a"], ["b+c"], [("n", ("b+c",), ("a",))]),
        ("join:a+b+c:n", ["a"], ["b"], [("n", ("b", "c"), ("a",))]),
        ("join:a+a+b:n", ["a+b"], [], [("n", ("a",), ("a+b",))]),
        ("branch:to:n", ["a"], [], []),
    ],
)
def test_a_join_waits_for_the_members_that_did_not_arrive(
    channel: str, value: Any, known: list[str], expected: list[Any]
) -> None:
    assert [tuple(one) for one in half_filled(body({channel: value}), lambda: known)] == expected


def test_names_of_other_nodes_are_asked_for_only_if_they_decide() -> None:
    at = body({"join:a+b:n": ["a"], "join:c+d+e:n": ["c"]}, seen={"d": {}, "e": {}})
    assert len(half_filled(at, lambda: pytest.fail("not needed"))) == 2


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


@pytest.mark.parametrize(
    ("edge", "unread"),
    [("__start__:a", ["a"]), ("branch:__start__:pick:a", ["a"]), ("branch:to:a", [])],
)
def test_nodes_of_langgraph_js_had_channels_before_0_2_74(edge: str, unread: list[str]) -> None:
    at = body({"a": "a"}, {"__start__": 1, edge: 2, "a": 3}, v=1, ts=JAVASCRIPT)
    assert find_ready(at, {}, dict, ()).unread == unread
    assert plan(body({edge: "__start__"}, {"__start__": 1, edge: 2}, v=1, ts=JAVASCRIPT)).next == (
        "a",
    )


def test_nodes_and_nulls_of_old_langgraph_js_are_no_state() -> None:
    stored, versions = {"a": "a", "empty": None, "count": 0}, {"__start__:a": 2, "a": 3}
    assert state_values(body(stored, versions, v=1, ts=JAVASCRIPT)) == {"count": 0}
    newer = body({"empty": None}, {"branch:to:a": 2}, v=1, ts=JAVASCRIPT)
    assert state_values(newer) == {"empty": None}
