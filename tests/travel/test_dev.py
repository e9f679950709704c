"""The same in the files of `langgraph dev`: some checkpoints, and all of them with `-m slow`."""

from __future__ import annotations

import pytest

from tests.support import ckpt
from tests.travel.conftest import NAMES, SAMPLE, Filled
from tests.travel.trials import check_clone, check_rollback


@pytest.mark.parametrize("name", SAMPLE)
def test_some_checkpoints_of_a_thread(dev_filled: Filled, name: str) -> None:
    thread, ids = dev_filled.thread(name), dev_filled.ids(name)
    check_rollback(dev_filled, thread, ids[len(ids) // 2])
    check_clone(dev_filled, thread, ids[0], is_head=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_checkpoint_of_a_thread(dev_filled: Filled, name: str) -> None:
    thread = dev_filled.thread(name)
    for place, target in enumerate(dev_filled.ids(name)):
        check_rollback(dev_filled, thread, target)
        check_clone(dev_filled, thread, target, is_head=place == 0)


@pytest.mark.parametrize("name", ["linear", "subgraph-stateful", "command-input"])
def test_an_undone_change_leaves_every_row_as_it_was(dev_filled: Filled, name: str) -> None:
    place = dev_filled.place
    dev_filled.thread(name)
    place.copy(name, "ours")
    before = place.rows("ours")
    try:
        for target in dev_filled.ids(name)[::3]:
            back = ckpt("-s", place.url, "rollback", "ours", target, "--yes", "-o", "json")
            assert back.code == 0, back.err
            assert place.rows("ours") != before
            assert ckpt("-s", place.url, "undo", "ours", "--yes").code == 0
            assert place.rows("ours") == before
        assert ckpt("-s", place.url, "fork", name, "head", "--to", "copy", "--yes").code == 0
        assert any(place.rows("copy").values())
        assert ckpt("-s", place.url, "undo", "copy", "--yes").code == 0
        assert not any(place.rows("copy").values())
    finally:
        place.forget("ours")
