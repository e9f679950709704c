"""The same on MySQL: a part of the checkpoints by default, all of them with `-m slow`."""

from __future__ import annotations

import pytest

from tests.support import ckpt
from tests.travel.conftest import NAMES, SAMPLE, UNSTORABLE, Filled
from tests.travel.trials import check_clone, check_rollback


@pytest.mark.parametrize("name", SAMPLE)
def test_some_checkpoints_of_a_thread(mysql_filled: Filled, name: str) -> None:
    thread, ids = mysql_filled.thread(name), mysql_filled.ids(name)
    check_rollback(mysql_filled, thread, ids[len(ids) // 2])
    check_clone(mysql_filled, thread, ids[0], is_head=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name not in UNSTORABLE])
def test_every_checkpoint_of_a_thread(mysql_filled: Filled, name: str) -> None:
    thread = mysql_filled.thread(name)
    for place, target in enumerate(mysql_filled.ids(name)):
        check_rollback(mysql_filled, thread, target)
        check_clone(mysql_filled, thread, target, is_head=place == 0)


@pytest.mark.parametrize("name", ["linear", "subgraph-stateful", "command-input"])
def test_an_undone_change_leaves_every_row_as_it_was(mysql_filled: Filled, name: str) -> None:
    place = mysql_filled.place
    mysql_filled.thread(name)
    place.copy(name, "ours")
    before = place.rows("ours")
    try:
        for target in mysql_filled.ids(name)[::3]:
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
