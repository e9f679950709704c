"""A state that is edited while it is forked is what `update_state` would have made of it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from langgraph.types import Overwrite

from ckpt_backends.testing.official import ScenarioStore, config_of, ending, outcome, state
from tests.kit.command import CommandResult, ckpt, first_now

ENGINES = first_now(["sqlite", "postgres", "mysql", "mongodb"])


def at_step(filled: ScenarioStore, name: str, step: int) -> str:
    filled.thread(name)
    rows = filled.saver.list(config_of(name))
    found: str = next(one.checkpoint["id"] for one in rows if one.metadata["step"] == step)
    return found


def fork(filled: ScenarioStore, name: str, target: str, *words: str) -> CommandResult:
    filled.harness.copy(name, "ours")
    filled.harness.copy(name, "theirs")
    return ckpt("-s", filled.harness.url, "fork", "ours", target, *words, "--yes", "-o", "json")


def check(
    filled: ScenarioStore,
    name: str,
    step: int,
    words: list[str],
    values: Any,
    as_node: str | None = None,
) -> None:
    """`ckpt fork` with these words is as `update_state` with these values, now and when resumed."""
    target = at_step(filled, name, step)
    before = filled.harness.rows(name)
    answer = fork(filled, name, target, *words)
    assert answer.code == 0, answer.err
    graph = filled.thread(name).graph(filled.saver)
    graph.update_state(config_of("theirs", target), values, as_node=as_node)
    assert state(graph, config_of("ours")) == state(graph, config_of("theirs"))
    assert sorted(answer.json["next"]) == state(graph, config_of("theirs"))["next"]
    ended = []
    for copy in ("ours", "theirs"):
        graph = filled.thread(name).graph(filled.saver)
        ended.append((outcome(graph, None, config_of(copy)), ending(graph, copy)))
    assert ended[0] == ended[1]
    after = filled.harness.rows("ours")
    assert all(row in after[table] for table, rows in before.items() for row in rows)


USER = {"role": "user", "content": "And now?", "id": "new"}
CASES: list[Any] = [
    ("linear", 1, ["--set", 'items=["edited"]'], {"items": ["edited"]}),
    ("linear", 3, ["--set", 'items=["edited"]'], {"items": ["edited"]}),
    ("linear", 1, ["--append", 'items={"a": [1, null]}'], {"items": [{"a": [1, None]}]}),
    ("linear", 2, ["--replace", 'items=["only"]'], {"items": Overwrite(["only"])}),
    ("loop", 2, ["--replace", "count=1"], {"count": 1}, "work"),
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


def on_servers() -> Iterator[Any]:
    """Some cases on each engine, a third of them with `-m engines`."""
    for engine in ("postgres", "mysql", "mongodb"):
        for at, case in enumerate(CASES[2:8]):
            mark = pytest.mark.nightly if at % 3 else pytest.mark.engines
            yield pytest.param(engine, case, id=f"{engine} {named(case)}", marks=mark)


def named(case: Any) -> str:
    return f"{case[0]} {' '.join(case[2])}"


@pytest.mark.parametrize(
    ("filled", "case"),
    [*(pytest.param("sqlite", one, id=named(one)) for one in CASES), *on_servers()],
    indirect=["filled"],
)
def test_an_edit_is_what_update_state_makes(filled: ScenarioStore, case: Any) -> None:
    check(filled, *case)


@pytest.mark.in_ci("postgres", "sqlite")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("reducers", ["--set", "total=1", "--replace", "facts={}"]),
        ("command-input", ["--replace", 'items=["x"]']),
    ],
)
@pytest.mark.parametrize("filled", ENGINES, indirect=True)
def test_an_edited_copy_can_be_taken_back(
    filled: ScenarioStore, name: str, words: list[str]
) -> None:
    ids = filled.ids(name)
    for target in ids if filled.harness.name == "sqlite" else ids[::3]:
        filled.harness.copy(name, "ours")
        before = filled.harness.rows("ours")
        filled.harness.forget("ours")
        if fork(filled, name, target, *words).code == 0:
            assert ckpt("-s", filled.harness.url, "undo", "ours", "--yes").code == 0
        assert filled.harness.rows("ours") == before
        filled.harness.forget("ours")
        filled.harness.forget("theirs")


@pytest.mark.in_ci("postgres", "sqlite")
@pytest.mark.parametrize("words", [["--set", 'items=["x"]'], ["--replace", 'items=["x"]']], ids=str)
@pytest.mark.parametrize("filled", ENGINES, indirect=True)
def test_a_thread_of_its_own_can_be_edited(filled: ScenarioStore, words: list[str]) -> None:
    store, name = filled.harness.url, "interrupt-alone"
    for target in filled.ids(name)[:2]:
        more = ("--as", "copy", *words, "--yes", "-o", "json")
        answer = ckpt("-s", store, "fork", name, target, *more)
        assert answer.code == 0, answer.err
        graph = filled.thread(name).graph(filled.saver)
        was = graph.get_state(config_of(name, target)).values["items"]
        now = graph.get_state(config_of("copy")).values["items"]
        assert now == (["x"] if words[0] == "--replace" else [*was, "x"])
        undone = ckpt("-s", store, "undo", "copy", "--yes")
        assert undone.code == 0, undone.err
        assert not any(filled.harness.rows("copy").values())


def test_a_message_without_an_id_gets_one_that_stays(filled: ScenarioStore) -> None:
    target = at_step(filled, "chat", 1)
    fork(filled, "chat", target, "--set", 'messages=[{"role": "user", "content": "?"}]')
    graph = filled.thread("chat").graph(filled.saver)
    assert len({graph.get_state(config_of("ours")).values["messages"][-1].id for _ in "abc"}) == 1


REFUSED = [
    (2, ["--set", "items"], "is not CHANNEL=JSON"),
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
    answer = ckpt("-s", filled.harness.url, "fork", name, ref, *words, "--yes")
    assert (answer.code, answer.out) == (code, "")
    assert says in answer.err
    assert filled.harness.rows(name) == before


def test_a_dry_run_shows_what_would_be_written(filled: ScenarioStore) -> None:
    filled.thread("linear")
    before = filled.harness.rows("linear")
    words = ["fork", "linear", "step:1", "--set", 'items=["x"]', "--dry-run", "-o", "json"]
    record = ckpt("-s", filled.harness.url, *words).json
    assert record["dry_run"]
    assert [one["channel"] for one in record["change"]["writes"]] == ["items"]
    assert record["changes"]["items"]["after"][-1] == "x"
    assert json.dumps(record["change"]["heads"])
    assert filled.harness.rows("linear") == before
