"""After `ckpt rollback` the official graph stands and goes on as after its own time travel, and a
copy of a checkpoint as the thread that it comes from.

`ckpt undo` takes it back: whole while nothing was built on it, else as a rollback.
"""

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Overwrite

from ckpt_backends.registry import open_store
from ckpt_backends.testing.chance import Chance
from ckpt_backends.testing.official import (
    ScenarioStore,
    ScenarioThread,
    config_of,
    drive,
    ending,
    outcome,
    state,
    stored_ids,
)
from ckpt_backends.testing.scenarios import channel_graphs
from ckpt_backends.testing.scenarios.catalog import Unserializable, keep_each
from ckpt_backends.testing.scenarios.running import Scenario
from ckpt_backends.testing.trials import NAMES, PLAIN, check_clone, check_rollback
from tests.kit.command import CommandResult, ckpt
from tests.kit.generated import GENERATED, generate, other
from tests.kit.harness.sqlite import SqliteHarness

CHOSEN = ("linear", "fanout-send", "interrupt-nested", "interrupt-answered", "subgraph-stateful")
"""The threads of which every second checkpoint is tried by default. Of the others, two are tried
with `-m engines`, and of all of them every one at night."""


@pytest.mark.parametrize(
    ("name", "step"),
    [
        *((one, 2) for one in CHOSEN),
        *(pytest.param(one, 1, marks=pytest.mark.nightly) for one in NAMES),
    ],
)
def test_every_checkpoint_of_a_sqlite_thread(filled: ScenarioStore, name: str, step: int) -> None:
    check_every_checkpoint(filled, filled.thread(name), step)


@pytest.mark.engines
@pytest.mark.parametrize("name", [one for one in NAMES if one not in PLAIN.union(CHOSEN)])
def test_some_checkpoints_of_a_sqlite_thread(filled: ScenarioStore, name: str) -> None:
    ids = filled.ids(name)
    check_rollback(filled, filled.thread(name), ids[len(ids) // 2])
    check_clone(filled, filled.thread(name), ids[0], is_head=True)


@pytest.mark.parametrize(("name", "seed"), GENERATED)
def test_every_checkpoint_of_random_calls(filled: ScenarioStore, name: str, seed: int) -> None:
    check_every_checkpoint(filled, generate(filled, name, seed))


@pytest.mark.nightly
def test_every_checkpoint_of_more_random_calls(filled: ScenarioStore, chance: Chance) -> None:
    for dice in chance.rounds(30):
        check_every_checkpoint(filled, other(filled, dice))


def check_every_checkpoint(filled: ScenarioStore, thread: ScenarioThread, step: int = 1) -> None:
    """Go back to each checkpoint, or to every second one, and copy the thread at it."""
    for place, target in enumerate(stored_ids(filled.saver, thread.thread_id)[::step]):
        check_rollback(filled, thread, target)
        check_clone(filled, thread, target, is_head=place == 0)


class PickledSqlite(SqliteHarness):
    """A SQLite file whose saver pickles what nothing else can store."""

    @cached_property
    def kept_saver(self) -> Any:
        return SqliteSaver(self.connection, serde=JsonPlusSerializer(pickle_fallback=True))


def test_checkpoints_that_are_one_pickle_are_gone_back_to_and_not_edited(tmp_path: Path) -> None:
    name, drives = "pickled", keep_each([Unserializable("by hand", [1, 2]), {"complex": 1 + 2j}])
    with PickledSqlite(tmp_path) as harness:
        pickled = ScenarioStore(harness)
        thread = drive(pickled.saver, Scenario(name, name, channel_graphs.holder, drives))
        with open_store(harness.url) as store:
            kinds = [one.body.type for one in store.checkpoints(name, body=True) if one.body]
        assert kinds.count("pickle") == len(stored_ids(pickled.saver, name)) == 6
        check_every_checkpoint(pickled, thread)
        before = harness.rows(name)
        for edit in (["--set", "seen=[1]"], ["--as-node", "keep"]):
            answer = ckpt("-s", harness.url, "fork", name, "head", *edit, "--yes")
            assert (answer.code, answer.out, "is pickled" in answer.err) == (4, "", True)
            assert "hint: " in answer.err
        assert harness.rows(name) == before


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
    # What the undo itself added is taken back by a redo.
    redo = ckpt("-s", place.url, "redo", "--yes", "-o", "json").json
    newest, undo, *_ = ckpt("-s", place.url, "ops", "list", "-o", "json").json
    assert redo["action"] == newest["action"] == "redo"
    assert redo["undoes"] == newest["undoes"] == undo["op"]
    assert place.rows("ours") == before


def test_a_rollback_whose_tasks_stored_writes_is_kept(filled: ScenarioStore) -> None:
    place, (head, *_, first) = filled.harness, filled.ids("linear")
    place.copy("linear", "ours")
    back = ckpt("-s", place.url, "rollback", "ours", first, "--yes", "-o", "json").json
    filled.saver.put_writes({"configurable": back["configurable"]}, [("__error__", "e")], "task")
    undone = ckpt("-s", place.url, "undo", "ours", "--yes", "-o", "json").json
    assert undone["forked_from"] == head
    assert "its tasks have stored writes" in undone["notes"][0]


def at_step(filled: ScenarioStore, name: str, step: int) -> str:
    filled.thread(name)
    rows = filled.saver.list(config_of(name))
    found: str = next(one.checkpoint["id"] for one in rows if one.metadata["step"] == step)
    return found


def fork(filled: ScenarioStore, name: str, target: str, *words: str) -> CommandResult:
    return ckpt("-s", filled.harness.url, "fork", name, target, *words, "--yes", "-o", "json")


def check(
    filled: ScenarioStore,
    name: str,
    step: int,
    words: list[str],
    values: Any,
    as_node: str | None = None,
) -> None:
    """`ckpt fork` with these words is as `update_state` with these values, now and when resumed,
    and is taken back and made again whole.
    """
    target = at_step(filled, name, step)
    filled.harness.copy(name, "ours")
    filled.harness.copy(name, "theirs")
    copied = filled.harness.rows("ours")
    answer = fork(filled, "ours", target, *words)
    assert answer.code == 0, answer.err
    graph = filled.thread(name).graph(filled.saver)
    graph.update_state(config_of("theirs", target), values, as_node=as_node)
    assert state(graph, config_of("ours")) == state(graph, config_of("theirs"))
    assert sorted(answer.json["next"]) == state(graph, config_of("theirs"))["next"]
    made = filled.harness.rows("ours")
    for word, rows in (("undo", copied), ("redo", made)):
        ckpt("-s", filled.harness.url, word, "--yes", code=0)
        assert filled.harness.rows("ours") == rows
    ended = []
    for copy in ("ours", "theirs"):
        graph = filled.thread(name).graph(filled.saver)
        ended.append((outcome(graph, None, config_of(copy)), ending(graph, copy)))
    assert ended[0] == ended[1]
    after = filled.harness.rows("ours")
    assert all(row in after[table] for table, rows in made.items() for row in rows)


USER = {"role": "user", "content": "And now?", "id": "new"}
CASES: list[Any] = [
    ("linear", 1, ["--set", 'items=["edited"]'], {"items": ["edited"]}),
    ("linear", 3, ["--set", 'items=["edited"]'], {"items": ["edited"]}),
    ("linear", 1, ["--append", 'items={"a": [1, null]}'], {"items": [{"a": [1, None]}]}),
    ("linear", 2, ["--replace", 'items=["only"]'], {"items": Overwrite(["only"])}),
    (
        "loop",
        2,
        ["--set", "count=2", "--append", 'items="x"'],
        {"count": 2, "items": ["x"]},
        "work",
    ),
    ("chat", 2, ["--set", f"messages=[{json.dumps(USER)}]"], {"messages": [USER]}, "tools"),
    (
        *("delta-rarely", 1, ["--set", 'items=["x"]', "--set", 'items_plain=["x"]']),
        *({"items": ["x"], "items_plain": ["x"]}, "reply"),
    ),
    (
        *("reducers", 1, ["--set", "total=4", "--set", 'last="set"']),
        *({"total": 4, "last": "set"}, "two"),
    ),
    ("linear", 1, ["--set", 'items=["x"]', "--as-node", "think"], {"items": ["x"]}, "think"),
    ("linear", 3, ["--append", 'items="x"', "--as-node", "read"], {"items": ["x"]}, "read"),
    ("linear", 1, ["--set", 'items=["x"]', "--as-node", "write"], {"items": ["x"]}, "write"),
    (
        *("interrupt-answered", 1, ["--set", 'items=["by hand"]', "--as-node", "ask"]),
        *({"items": ["by hand"]}, "ask"),
    ),
]
"""The thread, the step, the options, and the values and the node of `update_state`."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {' '.join(case[2])}")
def test_an_edit_is_what_update_state_makes(filled: ScenarioStore, case: Any) -> None:
    check(filled, *case)


def test_a_value_that_is_replaced_replaces_what_the_caller_wrote(filled: ScenarioStore) -> None:
    target = at_step(filled, "linear", 1)
    filled.harness.copy("linear", "ours")
    fork(filled, "ours", target, "--set", 'items=["edited"]')
    made = fork(filled, "ours", "head", "--replace", 'items=["only"]').json
    found = filled.thread("linear").graph(filled.saver).get_state(config_of("ours"))
    assert (found.config["configurable"], found.metadata["step"]) == (made["configurable"], 3)
    assert found.values["items"] == ["only"]


def test_a_message_without_an_id_gets_one_that_stays(filled: ScenarioStore) -> None:
    target = at_step(filled, "chat", 1)
    filled.harness.copy("chat", "ours")
    fork(filled, "ours", target, "--set", 'messages=[{"role": "user", "content": "?"}]')
    graph = filled.thread("chat").graph(filled.saver)
    assert len({graph.get_state(config_of("ours")).values["messages"][-1].id for _ in "abc"}) == 1


REFUSED = [
    (2, ["--set", "items=x"], "is not JSON"),
    (2, ["--set", "items=1", "--append", "items=2"], "edited twice"),
    (2, ["--set", 'items={"$type": "a.B"}'], "an object of a class"),
    (3, ["--set", "gone=1"], "its channels: items"),
    (3, ["--as-node", "gone"], "finished nodes:"),
    (4, ["--as-node", "plan"], "cannot continue after"),
    (5, ["--append", "note=1"], "does not hold a list"),
]


@pytest.mark.parametrize(("code", "words", "says"), REFUSED, ids=str)
def test_an_edit_that_cannot_be_made_writes_nothing(
    filled: ScenarioStore, code: int, words: list[str], says: str
) -> None:
    name = "fanout-send" if "plan" in words else "conditional"
    filled.thread(name)
    before = filled.harness.rows(name)
    ref = "step:1" if "plan" in words else "head"
    ckpt("-s", filled.harness.url, "fork", name, ref, *words, "--yes", code=code, out="", says=says)
    assert filled.harness.rows(name) == before
