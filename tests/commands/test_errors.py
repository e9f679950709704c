"""`errors` lists the failed tasks of official graphs."""

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph

import ckpt_cli
from ckpt_backends.model import CheckpointKey
from ckpt_cli.queries.incidents import Failure, group_failures
from tests.commands.words import refusals
from tests.kit.agents import failing as agents
from tests.kit.agents.small import Log, chain, run, saver_of
from tests.kit.command import FIXTURES, ckpt, copy_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Threads that failed in known ways, and one that asks."""
    path = tmp_path_factory.mktemp("errors") / "agent.db"
    agents.fill(path, agents.crashed, "one")
    agents.fill(path, agents.two_failed, "two", marks=2)
    agents.fill(path, agents.error_and_question, "both", marks=2)
    agents.fill(path, agents.inner_crash, "inner")
    agents.fill(path, agents.question, "asks")
    for thread, build, value in (
        ("retried", agents.inner_crash, None),
        ("left", agents.crashed, agents.INPUT),
    ):
        world = agents.fill(path, build, thread)
        world.is_down = False
        run(path, build(world), value, thread=thread)
    return path


def _errors(store: Path, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ckpt("-s", store, "errors", *words, "-o", "json").json
    return found


def _places(found: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
    return {(one["thread_id"], " > ".join(one["path"]), one["state"]) for one in found}


def test_each_task_for_which_a_thread_waits_is_listed_and_counted(store: Path) -> None:
    found = _errors(store)
    assert _places(found) == {
        ("one", "crash", "failed"),
        ("two", "first", "failed"),
        ("two", "second", "failed"),
        ("both", "crash", "failed"),
        ("inner", "research > inner > crash", "failed"),
    }
    (inner,) = (one for one in found if one["thread_id"] == "inner")
    assert (inner["node"], inner["checkpoint_ns"].count("|")) == ("crash", 1)
    assert inner["error"] == "TimeoutError('crash: no answer after 1 s')"
    # Outside of the root, LangGraph finds the place by itself.
    assert inner["resume"]["configurable"] == {"thread_id": "inner"}
    (task_,) = ckpt("-s", store, "show", "inner", "-o", "json").json["tasks"]
    assert task_["failed_in"] == ["research", "inner", "crash"]
    shown = ckpt("-s", store, "show", "inner", "-o", "table").out
    assert "research > inner > crash: TimeoutError('crash: no answer after 1 s')\n" in shown
    # Errors are counted by kind and by node.
    kinds = _errors(store, "--by", "error", "--history")
    assert [(one["error"], one["failures"], one["threads"]) for one in kinds] == [
        ("TimeoutError('crash: no answer after … s')", 5, 5),
        ("TimeoutError('first: no answer after … s')", 1, 1),
        ("TimeoutError('second: no answer after … s')", 1, 1),
    ]
    assert kinds[0]["nodes"] == {"crash": 3, "research > inner > crash": 2}
    nodes = _errors(store, "--by", "node", "-n", "1")
    assert [(one["node"], one["failures"]) for one in nodes] == [("crash", 2)]
    # Threads and times choose what is listed.
    assert {one["thread_id"] for one in _errors(store, "one", "asks")} == {"one"}
    assert {one["thread_id"] for one in _errors(store, "--match", "i*")} == {"inner"}
    everything = _errors(store)
    since = everything[0]["at"]
    later = _errors(store, "--since", since)
    assert later == [one for one in everything if one["at"] >= since]
    assert 0 < len(later) < len(everything)
    assert _errors(store, "--since", "2100-01-01") == []
    assert len(_errors(store, "-n", "2")) == 2
    ckpt("-s", store, "errors", "--exit-code", code=1)
    ended = ckpt("-s", store, "errors", "asks", "--exit-code")
    assert (ended.code, ended.err) == (0, "note: no task of the chosen threads failed\n")


def test_the_history_tells_what_became_of_each_failure(store: Path) -> None:
    found = _errors(store, "--history")
    assert len(found) == 7
    assert _places(found) - _places(_errors(store)) == {
        ("retried", "research > inner > crash", "retried"),
        ("left", "crash", "left"),
    }
    assert [one["resume"] for one in found if one["state"] != "failed"] == [None, None]
    left = _errors(store, "left", "--history")
    with ckpt_cli.open(store) as opened:
        assert [one.to_dict() for one in opened["left"].errors(history=True)] == left


def test_a_function_that_failed_is_named_by_its_error_or_another_thread(path: Path) -> None:
    """That it is this one, the task's id proves."""

    @task
    def fetch_page(page: str) -> str:
        return page[{"good": 0, "bad": 9}[page]]

    @task
    def count_words(page: str, least: int) -> int:
        return max(len(page), least)

    with saver_of(path) as saver:

        @entrypoint(checkpointer=saver)
        def flow(page: str) -> Any:
            if page == "alone":
                return count_words(page).result()  # type: ignore[call-arg]
            return fetch_page(page).result()

        for page in ("alone", "bad", "good"):
            with suppress(TypeError, IndexError):
                flow.invoke(page, {"configurable": {"thread_id": page}})
    for page, function in (("alone", "count_words"), ("bad", "fetch_page")):
        found = ckpt("-s", path, "show", page, "--writes", "-o", "json").json["writes"]
        assert sorted(one["node"] for one in found) == [function, "flow"]


def test_a_failure_is_handled_once_its_handler_ran(tmp_path: Path) -> None:
    handled = copy_store(FIXTURES / "lg-1.2.22" / "store.db", tmp_path)
    (found,) = _errors(handled, "error-handled", "--history")
    assert (found["state"], _errors(handled, "error-handled")) == ("handled", [])
    ckpt("-s", handled, "errors", "error-handled", "--exit-code", code=0)
    # The handler of a node that calls a subgraph takes the failures in it.
    inner = chain(Log, {"fail": lambda _: {"log": [str(1 // 0)]}}).compile()
    graph: Any = StateGraph(Log)
    graph.add_node("call", inner, error_handler=lambda _: {"log": ["handled"]})
    run(handled, graph.add_edge(START, "call"), {"log": []})
    assert _places(_errors(handled, "t", "--history")) == {("t", "call > fail", "handled")}


def test_a_node_that_raises_another_error_than_its_subgraph_failed_itself(path: Path) -> None:
    inner = chain(Log, {"fail": lambda _: {"log": [str(1 // 0)]}}).compile()

    def call(state: Log) -> Any:
        try:
            return inner.invoke(state)
        except ZeroDivisionError:
            raise ValueError("its own") from None

    with suppress(ValueError):
        run(path, chain(Log, {"call": call}), {"log": []})
    (found,) = _errors(path)
    assert (found["path"], found["error"]) == (["call"], "ValueError('its own')")
    assert len(_errors(path, "--history")) == 2


def test_a_group_counts_its_failures_and_threads_and_knows_its_times() -> None:
    times = [datetime(2026, 4, 7, hour, tzinfo=UTC) for hour in (5, 1, 9)]
    one = Failure(CheckpointKey("a", "", "1"), None, ("n",), "E 1", times[0], False, False, True, 1)
    other = one._replace(key=CheckpointKey("b", "", "1"), at=times[2])
    (found,) = group_failures([one, one._replace(error="E 2", at=times[1]), other], "error")
    assert (found.failures, found.threads, found.newest) == (3, 2, "a")
    assert (found.first_at, found.last_at) == (times[1], times[2])


test_wrong_words_are_refused = refusals(
    ("errors --by channel", 2, "cannot count by 'channel'"),
    ("errors --since soon", 2, "'soon' is not a time"),
    ("errors nobody", 3, "no thread 'nobody'"),
    ("errors --summary --by node", 2, "--summary cannot be combined with --by"),
)
