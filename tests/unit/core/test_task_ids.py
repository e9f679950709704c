"""Ids and paths of tasks, names of nodes and errors, and what is told without planning a step."""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import ormsgpack
import pytest

from ckpt_backends.model import NULL_TASK_ID, Status, TypedBytes, Write
from ckpt_cli.core import tasks
from ckpt_cli.core.state import Body, read_body, read_metadata
from ckpt_cli.core.tasks import (
    Lookups,
    Question,
    Step,
    TaskIdBase,
    conditions_of,
    error_kind,
    error_start,
    first_line,
    is_surely_done,
    plan_step,
    pull_path,
    questions_by_path,
    send_path,
)
from tests.kit.cases import cases
from tests.kit.heads import KEY, some_checkpoint, stored_as


def origin(
    checkpoint_id: str, step: int, v: int, ns: str = "", *, is_numeric: bool = False
) -> TaskIdBase:
    found = tasks.origin_of(checkpoint_id, ns, step, v, is_numeric=is_numeric)
    assert found is not None
    return found


def is_among(task_id: str, ids: Iterator[str]) -> bool:
    return task_id in set(ids)


DEEP = "child:1ee24b90-e698-d891-09ec-eb257c51abc3"
BEFORE = "1f1e5fb2-8c00-615b-8000-307e2c6c3495"
FIRST = "1f1e5fb2-c2d0-602a-8000-3a04f8e746b9"


@cases(
    "where step v ns node triggers task_id",
    (
        *("1f1e5fb1-dbde-69a2-8001-af738c0e2c61", 2, 4, DEEP, "deep", "branch:to:deep"),
        "f593821e-3c68-e20f-b91a-37f72e88c5cc",
    ),
    (BEFORE, 1, 2, "", "plan", "start:plan", "2f6a6f9b-2388-d136-859c-2603d8c35e63"),
    (FIRST, 1, 1, "", "plan", "start:plan", "3f2607ca-c227-5b9c-b90a-06e993f77152"),
    ids=["in a subgraph", "lg 0.2.70", "lg 0.2.14"],
)
def test_ids_of_nodes(
    where: str, step: int, v: int, ns: str, node: str, triggers: str, task_id: str
) -> None:
    made_in = origin(where, step, v, ns)
    assert is_among(task_id, tasks.pull_ids(made_in, node, [[triggers]]))
    assert not is_among(task_id, tasks.pull_ids(made_in, node, [[triggers, "other"]]))
    assert not is_among(task_id, tasks.pull_ids(made_in, "other", [[triggers]]))


@cases(
    "where v task_id",
    ("1f1e5fb2-8c0f-677d-8001-f89039edd67a", 2, "1b2ec7ae-c0da-24c3-7dfa-03963cd3e328"),
    ("1f1e5fb2-c2e6-6fd7-8001-a7774e81a573", 1, "312fddeb-92c6-5825-ae68-fc3d82ef07a6"),
    ids=["lg 0.2.70", "lg 0.2.14"],
)
def test_ids_of_sends(where: str, v: int, task_id: str) -> None:
    assert is_among(task_id, tasks.send_ids(origin(where, 2, v), "worker", 2))
    assert not is_among(task_id, tasks.send_ids(origin(where, 2, v), "worker", 3))


def test_the_ids_of_error_handlers_of_updates_and_of_the_oldest_library() -> None:
    made_in = origin("1f1e5fd7-ec95-6c8e-8001-3d94dad77a44", 2, 4)
    failed = "1a6f18f3-6b62-50e5-6ab3-2ce1654ff731"
    ids = tasks.handler_ids(made_in, "__error_handler__boom", "boom", failed)
    assert is_among("4ad028dc-7919-ebba-df96-b3ec54e1835c", ids)
    found = tasks.update_ids(origin("1f1e5fb1-e164-6590-8002-1ad141da4892", 3, 4), 2)
    assert found["442b98bd-9d2c-58fc-be2d-3a2c9a8f3f22"] == "~__interrupt__, 0000000000"
    assert "~__interrupt__, 0000000001" in found.values()
    assert "" in found.values()
    # It holds the place in the list of tasks.
    made_in = origin("1f1e5fb2-c2e6-6fd7-8001-a7774e81a573", 2, 1)
    after_three_sends = "890d4d12-fef7-5d13-b737-242efeeef21a"
    assert is_among(after_three_sends, tasks.pull_ids(made_in, "audit", [["plan"]], 3))
    assert not is_among(after_three_sends, tasks.pull_ids(made_in, "audit", [["plan"]], 4))


@cases("checkpoint_id step", ("42", 1), ("", 1), pytest.param("0" * 32, 10**5000, id="huge step"))
def test_no_id_can_be_hashed_from_a_foreign_checkpoint(checkpoint_id: str, step: int) -> None:
    assert tasks.origin_of(checkpoint_id, "", step, 4, is_numeric=False) is None


def test_channels_that_fired_are_sure_and_a_few_of_the_others_are_tried() -> None:
    found = list(tasks.trigger_sets({"a", "b", "c"}, {"a"}))
    assert len(found) == len(set(found)) == 7
    assert {frozenset("abc"), frozenset("c")} <= {*found}
    known = {f"c{i:02}" for i in range(40)}
    found = list(tasks.trigger_sets(known, {"c30"}))
    assert len(found) == 2**tasks.SEARCHED + 1
    assert {frozenset(known), frozenset({"c30"})} <= {*found}
    assert all("c30" in names for names in found)
    # Of absurdly many nothing is searched.
    assert len(list(tasks.trigger_sets({f"c{i}" for i in range(5000)}, {"c1", "c2"}))) == 2


def test_paths_of_nodes_and_sends() -> None:
    inner, call = (
        "~~0000000003~__pregel_pull, p1",
        "~__pregel_push, ~__pregel_pull, flow, 0000000002, 0000000001",
    )
    assert tasks.pull_path("a, b") == "~__pregel_pull, a, b"
    assert [*map(tasks.pulled_node, ("~__pregel_pull, a, b", inner))] == ["a, b", "p1"]
    running = [*map(tasks.running_node, ("~__pregel_pull, a, b", inner, call))]
    assert running == ["a, b", None, "flow"]
    assert tasks.is_call(call)
    assert tasks.send_path(7, 4) == "~__pregel_push, 0000000007, 0000000000"
    assert tasks.send_path(7, 2) == "~__pregel_push, 0000000007"
    assert [tasks.sent_index(tasks.send_path(7, v)) for v in (2, 4)] == [7, 7]
    assert len(error_kind("x " * 1_000_000)) == 200
    assert first_line("  one\ntwo") == "one …"
    assert first_line("E('one\\\\nstill one')") == "E('one\\\\nstill one')"


@cases(
    "path",
    "",
    "~__pregel_push, x",
    "~__pregel_push, 9999999999999999999999",
    "~__pregel_push, ~__pregel_pull, flow, 0000000002, 0000000001",
    tasks.handler_path(tasks.pull_path("boom")),
    tasks.handler_path(tasks.send_path(0, 4)),
)
def test_other_paths_are_no_sends(path: str) -> None:
    assert tasks.sent_index(path) is None
    assert tasks.pulled_node(path) is None
    assert tasks.is_handler(path) == ("node_error_handler" in path)


@cases(
    "text kind",
    ("TimeoutError('no answer after 31.5 s')", "TimeoutError('no answer after … s')"),
    ("ValueError('<Order object at 0x7f3a2c>')", "ValueError('<Order object at …>')"),
    ("OSError('cannot reach 10.0.0.3:5432')", "OSError('cannot reach …')"),
    ("Error: deadbeef and added facade", "Error: deadbeef and added facade"),
    ("RuntimeError('first\\nsecond 2')", "RuntimeError('first …"),
    ("", ""),
)
def test_numbers_and_ids_are_left_out(text: str, kind: str) -> None:
    assert error_kind(text) == kind


@cases(
    "text start",
    ("ValueError('\\n  no route to Kyoto')", "ValueError(' ⏎ no route to Kyoto')"),
    (
        "1 validation error for Trip\ndays\n  Input should be a valid integer\n    More",
        "1 validation error for Trip ⏎ days ⏎ Input should be a valid integer …",
    ),
    ("E: " + "x" * 40 + "\nmore", "E: " + "x" * 40 + " …"),
    ("", ""),
)
def test_a_short_first_line_is_shown_with_the_next(text: str, start: str) -> None:
    assert error_start(text) == start


LEARNED = {"items": ["a"], "a": ["b"], "__start__": ["__start__"]}
PULLED = tuple(map(pull_path, "abc"))


def planned(body: Body, metadata: Mapping[str, Any], writes: Sequence[Write] = ()) -> Step:
    around = Lookups(
        parent_sends=tuple,
        own_sends=tuple,
        learned_thread=lambda: LEARNED,
        learned_store=lambda: LEARNED,
        calls=dict,
    )
    return plan_step(KEY, body, metadata, writes, around)


def test_only_a_checkpoint_with_nothing_to_run_is_surely_done() -> None:
    chance = random.Random(24)
    told = [one for one in (some_checkpoint(chance) for _ in range(3000)) if is_surely_done(one)]
    assert len(told) > 20
    for one in told:
        assert conditions_of(planned(read_body(one), read_metadata(one))) == (Status.DONE,), one


ENDED = {"v": 4, "channel_versions": {"__start__": 2}, "versions_seen": {}}


def test_a_source_may_be_written_with_escapes() -> None:
    one = stored_as(ENDED, {"source": "loop"})
    assert is_surely_done(one)
    escaped = TypedBytes("json", b'{"source": "\\u0069nput"}')
    assert not is_surely_done(one._replace(metadata=escaped))
    assert is_surely_done(one._replace(metadata=TypedBytes("json", b'{"writes": "input"}')))


@cases(
    "body metadata",
    ({}, {"source": "input", "lc": 1, "type": "constructor", "id": ["a"], "kwargs": {}}),
    ({}, {"source": "input", "deep": json.loads("[" * 300 + "]" * 300)}),
    ({"versions_seen": {"a": None}}, {"source": "loop"}),
    ({"versions_seen": {"a": {"lc": 1, "type": "constructor", "id": ["x"]}}}, {}),
    ids=["metadata of a class", "too deep", "seen null", "seen of a class"],
)
def test_nothing_is_sure_where_a_map_is_none(body: Any, metadata: Any) -> None:
    assert not is_surely_done(stored_as({**ENDED, "channel_values": {"x": 1}, **body}, metadata))


def some_writes(
    chance: random.Random, paths: Sequence[str], odd: Sequence[str], channels: Sequence[str]
) -> list[Write]:
    """Writes of a few tasks, of which most have the path of a node."""
    asked = [{"value": "who?", "id": "1"}, {"value": {"tool": ["x"]}, "ns": ["a:1"]}]
    value = TypedBytes("msgpack", ormsgpack.packb(asked))
    known = (*paths, *chance.choice([(), (), odd]))
    node, found = chance.choice([None, None, None, "a"]), []
    for task in range(chance.choice([0, 1, 1, 2, 3])):
        path = chance.choice(known)
        task_id = chance.choice([f"task-{task}"] * 7 + [NULL_TASK_ID, "task-0"])
        for idx in range(chance.choice([1, 1, 2, 3])):
            own = chance.choice([path] * 9 + [""])
            found.append(Write(KEY, task_id, own, idx, chance.choice(channels), 1, value, node))
    return found


def test_questions_by_path_are_those_of_the_step() -> None:
    chance = random.Random(32)
    odd = ["", send_path(0, 4), tasks.call_path(PULLED[0], 0), tasks.handler_path(PULLED[0])]
    odd += [f"~~0000000001{PULLED[0]}", "~__interrupt__, 0000000000"]
    channels = ("items", "__interrupt__", "__interrupt__", "__resume__", "__error__")
    told = open_ = 0
    for _ in range(1200):
        more = chance.choice([(), (), ("__error_source_node__",)])
        writes = some_writes(chance, PULLED, odd, (*channels, *more))
        found = questions_by_path(writes)
        if found is not None:
            told += 1
            open_ += any(not one.answered for one in found)
            one = some_checkpoint(chance)
            assert found == _questions(planned(read_body(one), read_metadata(one), writes)), writes
    assert told > 200
    assert open_ > 100


def _questions(step: Step) -> tuple[Question, ...]:
    return tuple(found for run in (*step.tasks, *step.others) for found in run.questions)


CHANNELS = ("items", "__start__", "branch:to:a", "branch:to:b", "join:a+b:c", "__pregel_tasks")


def some_body(chance: random.Random) -> Body:
    versions = {"__start__": 1, **{name: chance.choice([1, 2, 3]) for name in CHANNELS}}
    sends: Any = [
        {"node": chance.choice(["a", "b", None])} for _ in range(chance.choice([0, 0, 1, 2]))
    ]
    stored: dict[str, Any] = {"items": 1, "join:a+b:c": ["a", "b"], "__pregel_tasks": sends}
    values = {name: stored.get(name) for name in CHANNELS if chance.random() < 0.5}
    seen = {
        node: {name: chance.choice([1, 2, 3]) for name in CHANNELS if chance.random() < 0.3}
        for node in ("a", "b", "c", "__start__", "__input__")
        if chance.random() < 0.7
    }
    v = chance.choice([1, 3, 4, 4, 4, 4])
    ts = chance.choice(["2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00.000Z"])
    return Body(v, ts, values, versions, seen, sends if v < 4 else None)


def test_paths_tell_what_is_found_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(31)
    told = 0
    by_paths = tasks._told_by_paths

    def untold(*asked: Any) -> None:
        nonlocal told
        told += by_paths(*asked) is not None

    for _ in range(400):
        body = some_body(chance)
        paths = (*PULLED, send_path(0, body.v), send_path(1, body.v))
        odd = ("", pull_path("unknown"), "~__interrupt__, 0000000000", send_path(0, 5 - body.v))
        special = ("__error__", "__interrupt__", "__resume__", "__error_source_node__")
        channels = ("items", "branch:to:b", *(special if chance.random() < 0.3 else ()))
        metadata = {"source": chance.choice(["input", "loop", "update"]), "step": 1}
        given = body, metadata, some_writes(chance, paths, odd, channels)
        found = planned(*given)
        with monkeypatch.context() as patched:
            patched.setattr(tasks, "_told_by_paths", untold)
            assert planned(*given) == found, given
    assert told > 20
