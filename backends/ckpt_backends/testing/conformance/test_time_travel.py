"""A rollback and a fork leave a thread as LangGraph's own time travel would."""

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
    "test_a_change_below_the_head_is_undone_and_made_again": UNDONE[1:2],
}
"""The scenarios of each test."""


def test_some_checkpoints_of_a_thread(travelled: Travelled) -> None:
    filled, name = travelled
    thread, ids = filled.thread(name), filled.ids(name)
    check_rollback(filled, thread, ids[len(ids) // 2])
    check_clone(filled, thread, ids[0], is_head=True)


@pytest.mark.nightly
def test_every_checkpoint_of_a_thread(travelled: Travelled) -> None:
    filled, name = travelled
    thread = filled.thread(name)
    for place, target in enumerate(filled.ids(name)):
        check_rollback(filled, thread, target)
        check_clone(filled, thread, target, is_head=place == 0)


def test_an_undone_change_leaves_every_row_as_it_was(travelled: Travelled) -> None:
    filled, name = travelled
    harness, ids = filled.harness, filled.ids(name)
    for copy in ("ours", "theirs"):
        harness.copy(name, copy)
    before = {one: harness.rows(one) for one in ("ours", "theirs")}
    try:
        for target in (ids[0], ids[len(ids) // 2]):
            _done(harness.url, "rollback", "ours", target)
            assert harness.rows("ours") != before["ours"], "a rollback must add a checkpoint"
            _done(harness.url, "undo", "ours")
            assert harness.rows("ours") == before["ours"], "undo must remove what was added"
        # Of several threads, what is added is stored together where the engine can do so.
        _done(harness.url, "rollback", "ours", "theirs", "--steps", "1")
        assert all(harness.rows(one) != was for one, was in before.items())
        _done(harness.url, "undo")
        assert {one: harness.rows(one) for one in before} == before
    finally:
        harness.forget("ours")
        harness.forget("theirs")


def test_a_change_below_the_head_is_undone_and_made_again(travelled: Travelled) -> None:
    """The head stays where the newest change has put it."""
    filled, name = travelled
    harness = filled.harness
    ids = filled.ids(name)
    harness.copy(name, "ours")
    before = harness.rows("ours")
    try:
        heads = []
        for target in (ids[-1], ids[len(ids) // 2]):
            words = ("rollback", "ours", target, "--yes", "-o", "json")
            heads.append(ckpt("-s", harness.url, *words).json["checkpoint_id"])
        both = harness.rows("ours")
        second, first = (one["op"] for one in _operations(harness.url)[:2])
        _done(harness.url, "undo", first)
        assert harness.rows("ours") != both, "undo must remove what the first rollback added"
        assert _head(harness.url) == heads[1]
        _done(harness.url, "redo")
        assert harness.rows("ours") == both, "redo must add the same rows again"
        assert _head(harness.url) == heads[1]
        _done(harness.url, "undo", second)
        assert _head(harness.url) == heads[0]
        _done(harness.url, "undo", first)
        assert harness.rows("ours") == before
    finally:
        harness.forget("ours")


def _operations(url: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = ckpt("-s", url, "ops", "list", "-o", "json").json
    return found


def _done(url: str, *words: str) -> None:
    ckpt("-s", url, *words, "--yes", code=0)


def _head(url: str) -> str:
    return str(ckpt("-s", url, "show", "ours", "-o", "json").json["checkpoint_id"])
