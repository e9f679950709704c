"""`is_surely_done` says nothing that `plan_step` does not say of the same checkpoint."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ckpt_backends.model import CheckpointKey, Status
from ckpt_cli.core.state import Body
from ckpt_cli.core.tasks.status import conditions_of, is_surely_done
from ckpt_cli.core.tasks.tasks import plan_step

KEY = CheckpointKey("t", "", "1f1e8188-c5c9-67ba-8002-556aa7a743b8")
CHANNELS = ("items", "__start__", "branch:to:a", "join:a+b:b", "__pregel_tasks", "a")
NODES = ("a", "b", "__start__", "__input__", "__interrupt__")


def conditions(
    body: Body, metadata: Mapping[str, Any], learned: Mapping[str, Sequence[str]]
) -> tuple[Status, ...]:
    step = plan_step(
        KEY,
        body,
        metadata,
        (),
        parent_sends=tuple,
        own_sends=tuple,
        learned_thread=lambda: learned,
        learned_store=lambda: learned,
        calls=dict,
    )
    return conditions_of(step)


def some_body(chance: random.Random) -> Body:
    def some(names: Sequence[str]) -> list[str]:
        return [name for name in names if chance.random() < 0.4]

    stored: list[Any] = [None, 1, "a", ["a", "b"]]
    sends: list[Any] = [None, [], [{"node": "a", "args": 1}]]

    return Body(
        v=chance.choice([0, 1, 2, 3, 4, 4, 4, 4]),
        ts=chance.choice(["2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00.000Z"]),
        values={name: chance.choice(stored) for name in some(CHANNELS)},
        versions={name: chance.randint(1, 3) for name in some(CHANNELS)},
        seen={
            node: {name: chance.randint(1, 3) for name in some(CHANNELS)} for node in some(NODES)
        },
        pending_sends=chance.choice(sends),
    )


def test_only_a_checkpoint_with_nothing_to_run_is_surely_done() -> None:
    chance = random.Random(24)
    learned = {"items": ["a"], "a": ["b"], "__start__": ["__start__"]}
    told = 0
    for _ in range(4000):
        body = some_body(chance)
        metadata = {"source": chance.choice(["input", "loop", "update", "fork"])}
        if is_surely_done(body, metadata):
            told += 1
            assert conditions(body, metadata, learned) == (Status.DONE,), (body, metadata)
    assert told > 50


@pytest.mark.parametrize(
    ("values", "source", "is_done"),
    [
        ({"items": 1}, "loop", True),
        ({"items": 1}, "input", False),
        ({"items": 1, "branch:to:a": None}, "loop", False),
        ({"items": 1, "__pregel_tasks": []}, "loop", False),
    ],
)
def test_the_end_of_a_run(values: dict[str, Any], source: str, is_done: bool) -> None:
    versions = {"items": 3, "__start__": 2, "branch:to:a": 3}
    seen = {"__input__": {}, "__start__": {"__start__": 1}, "a": {"branch:to:a": 2}}
    body = Body(4, None, values, versions, seen, None)
    assert is_surely_done(body, {"source": source}) is is_done
