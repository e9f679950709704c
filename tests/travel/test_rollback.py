"""After `ckpt rollback` the official graph stands and goes on as after its own time travel."""

from __future__ import annotations

import pytest

from ckpt_backends.checkpoint_ids import ticks_of
from ckpt_backends.registry import open_store
from tests.support import ckpt
from tests.travel.conftest import NAMES, SAMPLE, Filled, tiered
from tests.travel.trials import check_rollback


@pytest.mark.parametrize("name", tiered(NAMES, SAMPLE))
def test_every_checkpoint_of_a_sqlite_thread(sqlite_filled: Filled, name: str) -> None:
    for target in sqlite_filled.ids(name):
        check_rollback(sqlite_filled, sqlite_filled.thread(name), target)


def test_the_copy_of_the_root_is_newer_than_those_of_its_subgraphs(sqlite_filled: Filled) -> None:
    place, ids = sqlite_filled.harness, sqlite_filled.ids("subgraph-stateful")
    place.copy("subgraph-stateful", "ours")
    try:
        with open_store(place.url) as store:
            before = {one.key for one in store.checkpoints("ours")}
            assert ckpt("-s", place.url, "rollback", "ours", ids[-1], "--yes").code == 0
            store.refresh()
            added = {one.key for one in store.checkpoints("ours")} - before
        times = {key.checkpoint_ns: ticks_of(key.checkpoint_id) or 0 for key in added}
        root = times.pop("")
        assert times
        assert root > max(times.values())
    finally:
        place.forget("ours")
