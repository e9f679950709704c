"""What is told of a head without planning its step is what the step says."""

import json
import random
from collections.abc import Mapping, Sequence
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
    conditions_of,
    is_surely_done,
    plan_step,
    pull_path,
    questions_by_path,
    send_path,
)
from tests.kit.cases import cases
from tests.kit.heads import KEY, some_checkpoint, stored_as

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
    ({"versions_seen": {"a": 1}}, {"source": "loop"}),
    ({"versions_seen": {"a": {"lc": 1, "type": "constructor", "id": ["x"]}}}, {}),
    ids=["metadata of a class", "too deep", "seen null", "seen a number", "seen of a class"],
)
def test_nothing_is_sure_where_a_map_is_none(body: Any, metadata: Any) -> None:
    assert not is_surely_done(stored_as({**ENDED, "channel_values": {"x": 1}, **body}, metadata))


@cases(
    "values source is_done",
    ({"items": 1}, "loop", True),
    ({"items": 1}, "input", False),
    ({"items": 1, "branch:to:a": None}, "loop", False),
    ({"items": 1, "__pregel_tasks": []}, "loop", True),
    ({"items": 1, "__pregel_tasks": [{"node": "a"}]}, "loop", False),
)
def test_the_end_of_a_run(values: dict[str, Any], source: str, is_done: bool) -> None:
    versions = {"items": 3, "__start__": 2, "branch:to:a": 3}
    seen = {"__input__": {}, "__start__": {"__start__": 1}, "a": {"branch:to:a": 2}}
    body = {"v": 4, "channel_values": values, "channel_versions": versions, "versions_seen": seen}
    assert is_surely_done(stored_as(body, {"source": source})) is is_done


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


def test_several_tasks_that_ask_are_left_to_the_step() -> None:
    asked = TypedBytes("msgpack", ormsgpack.packb([{"value": "who?", "id": "1"}]))
    one, two = (Write(KEY, name, pull_path(name), 0, "__interrupt__", 1, asked) for name in "ab")
    assert questions_by_path([one]) is not None
    assert questions_by_path([one, two]) is None
    assert questions_by_path([one, two._replace(channel="items")]) is not None


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
