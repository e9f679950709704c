"""`questions_by_path` says nothing else than `plan_step` says of the same checkpoint."""

from __future__ import annotations

import random

import ormsgpack

from ckpt_backends.model import NULL_TASK_ID, TypedBytes, Write
from ckpt_cli.core.state import read_body, read_metadata
from ckpt_cli.core.tasks import (
    Lookups,
    Question,
    call_path,
    handler_path,
    plan_step,
    pull_path,
    questions_by_path,
    send_path,
)
from tests.unit.core.test_surely_done import KEY, some_checkpoint

PULLED = tuple(map(pull_path, ("a", "b", "c")))
ODD = (
    "",
    send_path(0, 4),
    call_path(PULLED[0], 0),
    handler_path(PULLED[0]),
    f"~~0000000001{PULLED[0]}",
    "~__interrupt__, 0000000000",
)
CHANNELS = ("items", "__interrupt__", "__interrupt__", "__resume__", "__error__")
LEARNED = {"items": ["a"], "a": ["b"], "__start__": ["__start__"]}
ASKED = TypedBytes(
    "msgpack",
    ormsgpack.packb([{"value": "who?", "id": "1"}, {"value": {"tool": ["x"]}, "ns": ["a:1"]}]),
)


def some_writes(chance: random.Random) -> list[Write]:
    """Writes of a few tasks, of which most have the path of a node."""
    odd = chance.choice([(), (), ODD])
    channels = (*CHANNELS, *chance.choice([(), (), ("__error_source_node__",)]))
    node = chance.choice([None, None, None, "a"])
    found = []
    for task in range(chance.choice([1, 1, 2, 3])):
        path = chance.choice((*PULLED, *odd))
        task_id = chance.choice([f"task-{task}"] * 7 + [NULL_TASK_ID])
        for idx in range(chance.choice([1, 1, 2, 3])):
            own = chance.choice([path] * 9 + [""])
            channel = chance.choice(channels)
            found.append(Write(KEY, task_id, own, idx, channel, 1, ASKED, node))
    return found


def planned(writes: list[Write], chance: random.Random) -> tuple[Question, ...]:
    one = some_checkpoint(chance)
    step = plan_step(
        KEY,
        read_body(one),
        read_metadata(one),
        writes,
        Lookups(
            parent_sends=tuple,
            own_sends=tuple,
            learned_thread=lambda: LEARNED,
            learned_store=lambda: LEARNED,
            calls=dict,
        ),
    )
    return tuple(found for run in (*step.tasks, *step.others) for found in run.questions)


def test_questions_by_path_are_those_of_the_step() -> None:
    chance = random.Random(32)
    told = open_ = 0
    for _ in range(3000):
        writes = some_writes(chance)
        found = questions_by_path(writes)
        if found is not None:
            told += 1
            open_ += any(not one.answered for one in found)
            assert found == planned(writes, chance), writes
    assert told > 500
    assert open_ > 250


def test_several_tasks_that_ask_are_left_to_the_step() -> None:
    first, second = (
        Write(KEY, name, pull_path(name), 0, "__interrupt__", 1, ASKED) for name in ("a", "b")
    )
    assert questions_by_path([first]) is not None
    assert questions_by_path([first, second]) is None
    assert questions_by_path([first, second._replace(channel="items")]) is not None
