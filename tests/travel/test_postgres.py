"""The same on PostgreSQL: a part of the checkpoints by default, all of them with `-m slow`."""

from __future__ import annotations

import pytest

from tests.support import ckpt
from tests.travel.conftest import UNSTORABLE, Filled
from tests.travel.official import scenarios, stored_ids
from tests.travel.trials import check_clone, check_rollback

SAMPLE = [
    *("linear", "chat", "fanout-send", "fanout-join", "interrupt-answered", "interrupt-nested"),
    *("command-input", "update-mid", "subgraph-stateful", "delta-rarely", "durability-exit"),
    *('o\'brien "x"', "会话-四十二"),
]
NAMES = [
    name for name, one in scenarios.SCENARIOS.items() if not one.is_async and name not in UNSTORABLE
]


@pytest.mark.parametrize("name", SAMPLE)
def test_some_checkpoints_of_a_thread(postgres_filled: Filled, name: str) -> None:
    thread = postgres_filled.threads[name]
    ids = stored_ids(postgres_filled.saver, name)
    check_rollback(postgres_filled, thread, ids[len(ids) // 2])
    check_clone(postgres_filled, thread, ids[0], is_head=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_checkpoint_of_a_thread(postgres_filled: Filled, name: str) -> None:
    thread = postgres_filled.threads[name]
    for place, target in enumerate(stored_ids(postgres_filled.saver, name)):
        check_rollback(postgres_filled, thread, target)
        check_clone(postgres_filled, thread, target, is_head=place == 0)


@pytest.mark.parametrize("name", ["linear", "subgraph-stateful", "command-input"])
def test_an_undone_change_leaves_every_row_as_it_was(postgres_filled: Filled, name: str) -> None:
    place = postgres_filled.place
    place.copy(name, "ours")
    before = place.rows("ours")
    try:
        for target in stored_ids(postgres_filled.saver, name)[::3]:
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
