"""The same on every layout: a part of the checkpoints by default, all of them with `-m slow`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import ckpt
from tests.travel.conftest import NAMES, SAMPLE, UNSTORABLE, Filled
from tests.travel.trials import check_clone, check_rollback

MANGLED = {
    *("zoo-time", "zoo-pydantic", "zoo-times", "zoo-uuid-decimal", "zoo-path-regex", "zoo-numpy"),
}
"""Values that the official savers for Redis cannot store, or not whole."""
WITHOUT = {
    "postgres": UNSTORABLE,
    "mysql": UNSTORABLE,
    "mongodb": {"zoo-bytes"},
    "dev": set[str](),
    "redis": MANGLED,
    "plain_redis": MANGLED,
    "plain_redis_saver": MANGLED,
}
"""By place, the threads that its saver cannot store."""
ENGINES = {"postgres", "mysql", "mongodb", "dev", "redis"}
"""One layout of each engine, without SQLite, which has tests of its own."""
WITHOUT_PATHS = {"plain_redis", "plain_redis_saver"}
"""They store no task paths, and so give parallel writes in the order of their tasks' ids, which
differ in each copy."""


def _marks(place: str, name: str) -> Any:
    """By default one thread of each kind on one layout of each engine."""
    is_fast = place in ENGINES and name in {"linear", "subgraph-stateful"}
    return () if is_fast else pytest.mark.engines


@pytest.fixture
def filled(request: pytest.FixtureRequest) -> Filled:
    found: Filled = request.getfixturevalue(f"{request.param}_filled")
    return found


@pytest.mark.parametrize(
    ("filled", "name"),
    [
        pytest.param(place, name, marks=_marks(place, name))
        for place in WITHOUT
        for name in SAMPLE
        if not (name.startswith("delta") and place in WITHOUT_PATHS)
    ],
    indirect=["filled"],
)
def test_some_checkpoints_of_a_thread(filled: Filled, name: str) -> None:
    thread, ids = filled.thread(name), filled.ids(name)
    check_rollback(filled, thread, ids[len(ids) // 2])
    check_clone(filled, thread, ids[0], is_head=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("filled", "name"),
    [(place, name) for place, without in WITHOUT.items() for name in NAMES if name not in without],
    indirect=["filled"],
)
def test_every_checkpoint_of_a_thread(filled: Filled, name: str) -> None:
    thread = filled.thread(name)
    for place, target in enumerate(filled.ids(name)):
        check_rollback(filled, thread, target)
        check_clone(filled, thread, target, is_head=place == 0)


@pytest.mark.parametrize(
    ("filled", "name"),
    [
        pytest.param(place, name, marks=_marks(place, name))
        for place in WITHOUT
        for name in ("linear", "subgraph-stateful", "command-input")
    ],
    indirect=["filled"],
)
def test_an_undone_change_leaves_every_row_as_it_was(filled: Filled, name: str) -> None:
    place = filled.harness
    filled.thread(name)
    place.copy(name, "ours")
    before = place.rows("ours")
    try:
        for target in filled.ids(name)[::3]:
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
