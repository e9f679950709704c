"""The screen replays a thread once, and its steps look as after a replay of their own."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.registry import open_store
from ckpt_cli.queries import replay as kept_replay
from ckpt_cli.queries.replay import KeptReplay, Written, look_at, written
from ckpt_cli.reading.target import Target
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.render.replay import written_lines
from ckpt_cli.render.text import Ui

UI = Ui(datetime.now(UTC), width=80)


def _told(found: Written) -> Any:
    channels = {name: dataclasses.asdict(one) for name, one in found.channels.items()}
    return channels, found.stored, [one.text for one in written_lines(found, UI)]


def test_steps_look_as_after_a_replay_of_their_own(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replays = []

    def counted(*args: Any) -> Any:
        replays.append(args[1:3])
        return look_at(*args)

    monkeypatch.setattr(kept_replay, "look_at", counted)
    compared = namespaces = 0
    with open_store(str(sample)) as store:
        for thread in store.threads():
            reader = ThreadReader(store, thread)
            kept = KeptReplay()
            for ns in reader.namespaces:
                targets = [
                    Target(reader, ns, one.key.checkpoint_id, chosen=True)
                    for one in reader.index(ns)
                ]
                replays.clear()
                found = [_told(written(one, {}, kept=kept)) for one in targets]
                assert len(replays) == (1 if ns == reader.namespaces[0] else 0)
                assert found == [_told(written(one, {})) for one in targets]
                compared += len(found)
                namespaces += 1
    assert namespaces > 3
    assert compared > 20
