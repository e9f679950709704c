"""What is read to find where a channel changed, if values are stored apart from the bodies."""

import json
from collections.abc import Collection, Iterator
from typing import Any, cast

from ckpt_backends.model import Blob, Checkpoint, CheckpointKey, TypedBytes
from ckpt_backends.protocol import Store
from ckpt_cli.queries.diff import ChannelChanges, Step

_VALUES = ["[1]", "[1]", "[2]", "[2, 3]", "[2, 3]"]


class _Apart:
    """Five checkpoints; each step but the last one wrote `a`."""

    def __init__(self) -> None:
        self.asked: list[tuple[set[str], Collection[str]]] = []

    def checkpoints(
        self, thread_id: str, *, checkpoint_ids: set[str], values: Collection[str], **_: Any
    ) -> Iterator[Checkpoint]:
        self.asked.append((checkpoint_ids, values))
        for number, text in enumerate(_VALUES):
            name, version = f"c{number}", min(number, 3)
            if name in checkpoint_ids:
                body = json.dumps({"v": 4, "channel_versions": {"a": version}}).encode()
                value = TypedBytes("json", text.encode()) if "a" in values else None
                yield Checkpoint(
                    CheckpointKey(thread_id, "", name),
                    None,
                    TypedBytes("json", body),
                    blobs={"a": Blob("json", len(text), value)},
                )


def test_only_values_of_equal_size_and_another_version_are_read() -> None:
    store, changes = _Apart(), ChannelChanges("t", "", "a")
    steps: list[Step] = [(f"c{n}", f"c{n - 1}" if n else None) for n in (4, 3, 2, 1, 0)]
    changes.read(cast("Store", store), steps)
    assert [changes.known(one) for one in steps] == [False, True, True, False, True]
    everything, unsure = store.asked
    assert everything == ({"c0", "c1", "c2", "c3", "c4"}, ())
    assert unsure == ({"c0", "c1", "c2"}, ["a"])


def test_a_step_that_was_removed_or_not_read() -> None:
    store, changes = _Apart(), ChannelChanges("t", "", "a")
    changes.read(cast("Store", store), [("gone", "c1")])
    assert changes.known(("gone", "c1")) is False
    assert changes.known(("c1", "c0")) is None
