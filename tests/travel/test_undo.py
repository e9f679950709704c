"""`ckpt undo` takes a rollback back: whole while nothing was built on it, else as a rollback."""

from __future__ import annotations

import pytest

from ckpt_backends.testing.official import config_of, state, stored_ids
from tests.kit.command import ckpt
from tests.travel.conftest import FEW, NAMES, SAMPLE, Filled, tiered


def check_undo(filled: Filled, name: str) -> None:
    place, ids = filled.harness, filled.ids(name)
    place.copy(name, "ours")
    before = place.rows("ours")
    try:
        for target in {ids[0], ids[len(ids) // 2], ids[-1]}:
            back = ckpt("-s", place.url, "rollback", "ours", target, "--yes", "-o", "json")
            assert back.code == 0, back.err
            assert place.rows("ours") != before
            undone = ckpt("-s", place.url, "undo", "ours", "--yes", "-o", "json").json
            assert undone["form"] == "removal"
            assert undone["head"] == ids[0]
            assert place.rows("ours") == before
    finally:
        place.forget("ours")


@pytest.mark.parametrize("name", tiered(SAMPLE, FEW))
def test_an_undone_rollback_leaves_every_row_as_it_was(sqlite_filled: Filled, name: str) -> None:
    check_undo(sqlite_filled, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(NAMES) - set(SAMPLE)))
def test_the_same_of_all_other_threads(sqlite_filled: Filled, name: str) -> None:
    check_undo(sqlite_filled, name)


def test_undoing_what_was_resumed_goes_back_to_the_head_before(sqlite_filled: Filled) -> None:
    place, thread = sqlite_filled.harness, sqlite_filled.thread("interrupt-answered")
    graph = thread.graph(sqlite_filled.saver)
    place.copy("interrupt-answered", "ours")
    try:
        head, *_, first = stored_ids(sqlite_filled.saver, "ours")
        expected = state(graph, config_of("ours", head))
        config = ckpt("-s", place.url, "rollback", "ours", first, "--yes", "-o", "json").json
        graph.invoke(None, {"configurable": config["configurable"]})
        before = place.rows("ours")
        undone = ckpt("-s", place.url, "undo", "ours", "--yes", "-o", "json").json
        assert undone["forked_from"] == head
        assert "is kept" in undone["notes"][0]
        assert all(row in place.rows("ours")["checkpoints"] for row in before["checkpoints"])
        assert state(graph, config_of("ours")) == expected
        # What the undo itself added can be taken back too.
        ckpt("-s", place.url, "undo", "ours", "--yes")
        assert place.rows("ours") == before
    finally:
        place.forget("ours")


def test_a_rollback_whose_tasks_stored_writes_is_kept(sqlite_filled: Filled) -> None:
    place, saver = sqlite_filled.harness, sqlite_filled.saver
    head, *_, first = sqlite_filled.ids("linear")
    place.copy("linear", "ours")
    try:
        back = ckpt("-s", place.url, "rollback", "ours", first, "--yes", "-o", "json").json
        saver.put_writes({"configurable": back["configurable"]}, [("__error__", "e")], "task")
        undone = ckpt("-s", place.url, "undo", "ours", "--yes", "-o", "json").json
        assert undone["forked_from"] == head
        assert "its tasks have stored writes" in undone["notes"][0]
    finally:
        place.forget("ours")


def test_a_thread_without_a_rollback_has_nothing_to_undo(sqlite_filled: Filled) -> None:
    sqlite_filled.thread("linear")
    answer = ckpt("-s", sqlite_filled.harness.url, "undo", "linear", "--yes")
    assert answer.code == 3
    assert "nothing to undo" in answer.err
