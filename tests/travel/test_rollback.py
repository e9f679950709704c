"""After `ckpt rollback` the official graph stands and goes on as after its own time travel.

`ckpt undo` takes it back: whole while nothing was built on it, else as a rollback.
"""

import pytest

from ckpt_backends.testing.chance import Chance
from ckpt_backends.testing.official import (
    ScenarioStore,
    ScenarioThread,
    config_of,
    state,
    stored_ids,
)
from ckpt_backends.testing.trials import FEW, NAMES, PLAIN, check_clone, check_rollback
from tests.kit.command import ckpt
from tests.kit.generated import GENERATED, generate, other
from tests.kit.travelling import tiered

WHOLE = {*FEW, "chat", "interrupt-answered", "update-mid"}
"""The threads of which every checkpoint is tried by default. Of the others, one is tried with
`-m engines`, and every one in slow runs."""


@pytest.mark.in_ci("linear", "fanout", "interrupt", "subgraph")
@pytest.mark.parametrize("name", tiered(NAMES, WHOLE, ()))
def test_every_checkpoint_of_a_sqlite_thread(filled: ScenarioStore, name: str) -> None:
    for target in filled.ids(name):
        check_rollback(filled, filled.thread(name), target)


@pytest.mark.engines
@pytest.mark.parametrize("name", [name for name in NAMES if name not in WHOLE | PLAIN])
def test_a_checkpoint_of_a_sqlite_thread(filled: ScenarioStore, name: str) -> None:
    ids = filled.ids(name)
    check_rollback(filled, filled.thread(name), ids[len(ids) // 2])


@pytest.mark.parametrize(("name", "seed"), GENERATED)
def test_every_checkpoint_of_a_thread_of_random_calls(
    filled: ScenarioStore, name: str, seed: int
) -> None:
    check_every_checkpoint(filled, generate(filled, name, seed))


@pytest.mark.nightly
def test_every_checkpoint_of_other_threads_of_random_calls(
    filled: ScenarioStore, chance: Chance
) -> None:
    for dice in chance.rounds(30):
        check_every_checkpoint(filled, other(filled, dice))


def check_every_checkpoint(filled: ScenarioStore, thread: ScenarioThread) -> None:
    for place, target in enumerate(stored_ids(filled.saver, thread.thread_id)):
        check_rollback(filled, thread, target)
        check_clone(filled, thread, target, is_head=place == 0)


def test_undoing_what_was_resumed_goes_back_to_the_head_before(filled: ScenarioStore) -> None:
    place, graph = filled.harness, filled.thread("interrupt-answered").graph(filled.saver)
    place.copy("interrupt-answered", "ours")
    head, *_, first = stored_ids(filled.saver, "ours")
    expected = state(graph, config_of("ours", head))
    back = ckpt("-s", place.url, "rollback", "ours", first, "--yes", "-o", "json").json
    graph.invoke(None, {"configurable": back["configurable"]})
    before = place.rows("ours")
    undone = ckpt("-s", place.url, "undo", "ours", "--yes", "-o", "json").json
    assert undone["forked_from"] == head
    assert "is kept" in undone["notes"][0]
    assert all(row in place.rows("ours")["checkpoints"] for row in before["checkpoints"])
    assert state(graph, config_of("ours")) == expected
    # What the undo itself added can be taken back too.
    ckpt("-s", place.url, "undo", "ours", "--yes")
    assert place.rows("ours") == before


def test_a_rollback_whose_tasks_stored_writes_is_kept(filled: ScenarioStore) -> None:
    place, (head, *_, first) = filled.harness, filled.ids("linear")
    place.copy("linear", "ours")
    back = ckpt("-s", place.url, "rollback", "ours", first, "--yes", "-o", "json").json
    filled.saver.put_writes({"configurable": back["configurable"]}, [("__error__", "e")], "task")
    undone = ckpt("-s", place.url, "undo", "ours", "--yes", "-o", "json").json
    assert undone["forked_from"] == head
    assert "its tasks have stored writes" in undone["notes"][0]
