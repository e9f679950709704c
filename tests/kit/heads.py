"""Checkpoints of any kind, as the heads of threads."""

import json
import random
from collections.abc import Sequence
from typing import Any

from ckpt_backends.model import Checkpoint, CheckpointKey, TypedBytes

KEY = CheckpointKey("t", "", "1f1e8188-c5c9-67ba-8002-556aa7a743b8")
CHANNELS = ("items", "__start__", "branch:to:a", "join:a+b:b", "__pregel_tasks", "a")
NODES = ("a", "b", "__start__", "__input__", "__interrupt__")


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
    return stored_as(body, {"source": chance.choice(["input", "loop", "update", "fork"])})


def stored_as(body: Any, metadata: Any) -> Checkpoint:
    stored, about = (TypedBytes("json", json.dumps(one).encode()) for one in (body, metadata))
    return Checkpoint(KEY, None, stored, about)
