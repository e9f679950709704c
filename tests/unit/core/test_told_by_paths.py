"""A step that its paths tell is the step that is found without looking at paths first."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from ckpt_backends.model import NULL_TASK_ID, CheckpointKey, TypedBytes, Write
from ckpt_cli.core import tasks
from ckpt_cli.core.state import Body
from ckpt_cli.core.tasks import Lookups, Step, plan_step, pull_path, send_path

KEY = CheckpointKey("t", "", "1f1e8188-c5c9-67ba-8002-556aa7a743b8")
CHANNELS = ("items", "__start__", "branch:to:a", "branch:to:b", "join:a+b:c", "__pregel_tasks")
NODES = ("a", "b", "c", "__start__", "__input__")


def planned(body: Body, source: str, writes: Sequence[Write]) -> Step:
    learned = {"items": ["a"]}
    return plan_step(
        KEY,
        body,
        {"source": source, "step": 1},
        writes,
        Lookups(
            parent_sends=tuple,
            own_sends=tuple,
            learned_thread=lambda: learned,
            learned_store=lambda: learned,
            calls=dict,
        ),
    )


def some_body(chance: random.Random) -> Body:
    versions = {"__start__": 1, **{name: chance.choice([1, 2, 3]) for name in CHANNELS}}
    sends: Any = [
        {"node": chance.choice(["a", "b", None])} for _ in range(chance.choice([0, 0, 1, 2]))
    ]
    stored: dict[str, Any] = {"items": 1, "join:a+b:c": ["a", "b"], "__pregel_tasks": sends}
    values = {name: stored.get(name) for name in CHANNELS if chance.random() < 0.5}
    seen = {
        node: {name: chance.choice([1, 2, 3]) for name in CHANNELS if chance.random() < 0.3}
        for node in NODES
        if chance.random() < 0.7
    }
    v = chance.choice([1, 3, 4, 4, 4, 4])
    ts = chance.choice(["2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00.000Z"])
    return Body(v, ts, values, versions, seen, sends if v < 4 else None)


def some_writes(chance: random.Random, v: int) -> list[Write]:
    paths = [pull_path("a"), pull_path("b"), pull_path("c"), send_path(0, v), send_path(1, v)]
    if chance.random() < 0.3:
        paths += ["", pull_path("unknown"), "~__interrupt__, 0000000000", send_path(0, 5 - v)]
    channels = ["items", "branch:to:b"]
    if chance.random() < 0.3:
        channels += ["__error__", "__interrupt__", "__resume__", "__error_source_node__"]
    ids = ["1", "2", "3"] if chance.random() < 0.8 else ["1", "1", NULL_TASK_ID]
    value = TypedBytes("json", json.dumps("text").encode())
    found = []
    for task_id in ids[: chance.choice([0, 1, 1, 2, 3])]:
        path = chance.choice(paths)
        for idx in range(chance.choice([1, 1, 2, 3])):
            path = chance.choice(paths) if chance.random() < 0.05 else path
            found.append(Write(KEY, task_id, path, idx, chance.choice(channels), 6, value))
    return found


def test_paths_tell_what_is_found_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(31)
    told = 0
    by_paths = tasks._told_by_paths

    def untold(*asked: Any) -> None:
        nonlocal told
        told += by_paths(*asked) is not None

    for _ in range(1000):
        body = some_body(chance)
        given = body, chance.choice(["input", "loop", "update"]), some_writes(chance, body.v)
        found = planned(*given)
        with monkeypatch.context() as patched:
            patched.setattr(tasks, "_told_by_paths", untold)
            assert planned(*given) == found, given
    assert told > 50
