"""`ckpt fork --to` makes a thread of its own that goes on as the one it comes from."""

from __future__ import annotations

import pytest

from ckpt_backends.testing.trials import check_clone
from tests.support import ckpt
from tests.travel.conftest import FEW, NAMES, SAMPLE, Filled, tiered


@pytest.mark.parametrize("name", tiered(SAMPLE, FEW))
def test_some_checkpoints_of_a_sqlite_thread(sqlite_filled: Filled, name: str) -> None:
    thread, ids = sqlite_filled.thread(name), sqlite_filled.ids(name)
    check_clone(sqlite_filled, thread, ids[0], is_head=True)
    check_clone(sqlite_filled, thread, ids[1], is_head=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_checkpoint_of_a_sqlite_thread(sqlite_filled: Filled, name: str) -> None:
    for place, target in enumerate(sqlite_filled.ids(name)):
        check_clone(sqlite_filled, sqlite_filled.thread(name), target, is_head=place == 0)


def test_a_copy_that_was_not_used_can_be_removed(sqlite_filled: Filled) -> None:
    place = sqlite_filled.harness
    for name in ("interrupt-nested", "subgraph-stateful", "delta-rarely"):
        sqlite_filled.thread(name)
        ckpt("-s", place.url, "fork", name, "head", "--to", "ours", "--yes")
        assert any(place.rows("ours").values())
        undone = ckpt("-s", place.url, "undo", "ours", "--yes", "-o", "json").json
        assert undone["head"] is None
        assert not any(place.rows("ours").values())


def test_calls_from_the_target_itself_are_not_copied(sqlite_filled: Filled) -> None:
    """They come after the target; only calls on the way to it are copied."""
    place, saver, name = sqlite_filled.harness, sqlite_filled.saver, "subgraph-twice"

    def callers(thread_id: str) -> set[str]:
        found = saver.list({"configurable": {"thread_id": thread_id}})
        return {one.metadata["parents"][""] for one in found if one.metadata.get("parents")}

    targets = sqlite_filled.ids(name)[1:]
    known = callers(name)
    assert known & {*targets}
    for target in targets:
        try:
            assert ckpt("-s", place.url, "fork", name, target, "--to", "ours", "--yes").code == 0
            assert callers("ours") == {one for one in known if one < target}
        finally:
            place.forget("ours")


def test_a_copy_that_was_used_is_a_thread_of_its_own(sqlite_filled: Filled) -> None:
    place, thread = sqlite_filled.harness, sqlite_filled.thread("linear")
    ckpt("-s", place.url, "fork", "linear", "head", "--to", "ours", "--yes")
    try:
        graph = thread.graph(sqlite_filled.saver)
        graph.invoke(thread.first_input, {"configurable": {"thread_id": "ours"}})
        answer = ckpt("-s", place.url, "undo", "ours", "--yes")
        assert answer.code == 5
        assert "has been used since" in answer.err
    finally:
        place.forget("ours")


def test_a_thread_that_is_there_is_not_overwritten(sqlite_filled: Filled) -> None:
    for name in ("linear", "loop"):
        sqlite_filled.thread(name)
    before = sqlite_filled.harness.rows("loop")
    answer = ckpt(
        "-s", sqlite_filled.harness.url, "fork", "linear", "head", "--to", "loop", "--yes"
    )
    assert answer.code == 5
    assert "already exists" in answer.err
    assert sqlite_filled.harness.rows("loop") == before
