"""A rollback and a fork leave a thread as LangGraph's own time travel would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from ckpt_backends.testing.command_line import ckpt
from ckpt_backends.testing.official import ScenarioStore
from ckpt_backends.testing.trials import NAMES, SAMPLE, UNDONE, check_clone, check_rollback

Travelled = tuple[ScenarioStore, str]
THREADS: Mapping[str, Sequence[str]] = {
    "test_some_checkpoints_of_a_thread": SAMPLE,
    "test_every_checkpoint_of_a_thread": NAMES,
    "test_an_undone_change_leaves_every_row_as_it_was": UNDONE,
}
"""The scenarios of each test."""


def test_some_checkpoints_of_a_thread(travelled: Travelled) -> None:
    filled, name = travelled
    thread, ids = filled.thread(name), filled.ids(name)
    check_rollback(filled, thread, ids[len(ids) // 2])
    check_clone(filled, thread, ids[0], is_head=True)


@pytest.mark.slow
def test_every_checkpoint_of_a_thread(travelled: Travelled) -> None:
    filled, name = travelled
    thread = filled.thread(name)
    for place, target in enumerate(filled.ids(name)):
        check_rollback(filled, thread, target)
        check_clone(filled, thread, target, is_head=place == 0)


def test_an_undone_change_leaves_every_row_as_it_was(travelled: Travelled) -> None:
    filled, name = travelled
    harness = filled.harness
    filled.thread(name)
    harness.copy(name, "ours")
    before = harness.rows("ours")
    try:
        for target in filled.ids(name)[::3]:
            back = ckpt("-s", harness.url, "rollback", "ours", target, "--yes", "-o", "json")
            assert back.code == 0, back.err
            assert harness.rows("ours") != before, "a rollback must add a checkpoint"
            assert ckpt("-s", harness.url, "undo", "ours", "--yes").code == 0
            assert harness.rows("ours") == before, "undo must remove what the rollback added"
        assert ckpt("-s", harness.url, "fork", name, "head", "--to", "copy", "--yes").code == 0
        assert any(harness.rows("copy").values()), "fork --to must store a new thread"
        assert ckpt("-s", harness.url, "undo", "copy", "--yes").code == 0
        assert not any(harness.rows("copy").values()), "undo must remove the new thread"
    finally:
        harness.forget("ours")
