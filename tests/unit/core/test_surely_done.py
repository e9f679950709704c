"""`is_surely_done` says nothing that `plan_step` does not say of the same checkpoint."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ckpt_backends.model import Checkpoint, CheckpointKey, Status, TypedBytes
from ckpt_cli.core.state import Body, read_body, read_metadata
from ckpt_cli.core.tasks import Lookups, conditions_of, is_surely_done, plan_step

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
        Lookups(
            parent_sends=tuple,
            own_sends=tuple,
            learned_thread=lambda: learned,
            learned_store=lambda: learned,
            calls=dict,
        ),
    )
    return conditions_of(step)


def some_checkpoint(chance: random.Random) -> Checkpoint:
    def some(names: Sequence[str]) -> list[str]:
        return [name for name in names if chance.random() < 0.4]

    def some_versions() -> dict[str, Any]:
        return {name: chance.choice([1, 2, 3, "4", *odd]) for name in some(CHANNELS)}

    odd = chance.choice([[], [], [], [None]])
    sends: list[Any] = [None, [], [{"node": "a", "args": 1}]]
    stored: list[Any] = [None, 1, "a", [], ["a", "b"]]
    body = {
        "v": chance.choice([0, 1, 2, 3, 4, 4, 4, 4]),
        "ts": chance.choice(["2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00.000Z"]),
        "channel_values": {name: chance.choice(stored) for name in some(CHANNELS)},
        "channel_versions": some_versions(),
        "versions_seen": {node: some_versions() for node in some(NODES)},
        "pending_sends": chance.choice(sends),
    }
    for name in chance.choices(list(body), k=chance.choice([0, 0, 0, 1])):
        body[name] = None
    metadata = {"source": chance.choice(["input", "loop", "update", "fork"])}
    return stored_as(body, metadata)


def stored_as(body: Any, metadata: Any) -> Checkpoint:
    stored, about = (TypedBytes("json", json.dumps(one).encode()) for one in (body, metadata))
    return Checkpoint(KEY, None, stored, about)


def test_only_a_checkpoint_with_nothing_to_run_is_surely_done() -> None:
    chance = random.Random(24)
    learned = {"items": ["a"], "a": ["b"], "__start__": ["__start__"]}
    told = 0
    for _ in range(8000):
        one = some_checkpoint(chance)
        if is_surely_done(one):
            told += 1
            assert conditions(read_body(one), read_metadata(one), learned) == (Status.DONE,), one
    assert told > 50


def test_a_source_may_be_written_with_escapes() -> None:
    body = {"v": 4, "channel_versions": {"__start__": 2}, "versions_seen": {}}
    one = stored_as(body, {"source": "loop"})
    assert is_surely_done(one)
    escaped = TypedBytes("json", b'{"source": "\\u0069nput"}')
    assert not is_surely_done(one._replace(metadata=escaped))
    assert is_surely_done(one._replace(metadata=TypedBytes("json", b'{"writes": "input"}')))


@pytest.mark.parametrize(
    "metadata",
    [
        {"source": "input", "lc": 1, "type": "constructor", "id": ["a"], "kwargs": {}},
        {"source": "input", "deep": json.loads("[" * 300 + "]" * 300)},
    ],
)
def test_nothing_is_sure_where_metadata_is_no_map(metadata: Any) -> None:
    body = {"v": 4, "channel_versions": {"__start__": 2}, "versions_seen": {}}
    assert not is_surely_done(stored_as(body, metadata))


def test_nothing_is_sure_where_what_a_node_has_seen_is_no_map() -> None:
    body = {"v": 4, "channel_versions": {"__start__": 2}, "channel_values": {"items": 1}}
    for seen in (None, 1, {"items": 1, "lc": 1, "type": "constructor", "id": ["x"]}):
        assert not is_surely_done(
            stored_as({**body, "versions_seen": {"a": seen}}, {"source": "loop"})
        )


@pytest.mark.parametrize(
    ("values", "source", "is_done"),
    [
        ({"items": 1}, "loop", True),
        ({"items": 1}, "input", False),
        ({"items": 1, "branch:to:a": None}, "loop", False),
        ({"items": 1, "__pregel_tasks": []}, "loop", True),
        ({"items": 1, "__pregel_tasks": [{"node": "a"}]}, "loop", False),
    ],
)
def test_the_end_of_a_run(values: dict[str, Any], source: str, is_done: bool) -> None:
    versions = {"items": 3, "__start__": 2, "branch:to:a": 3}
    seen = {"__input__": {}, "__start__": {"__start__": 1}, "a": {"branch:to:a": 2}}
    body = {"v": 4, "channel_values": values, "channel_versions": versions, "versions_seen": seen}
    assert is_surely_done(stored_as(body, {"source": source})) is is_done
