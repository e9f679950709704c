"""`errors` lists the failed tasks of official graphs."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langgraph.errors import NodeError
from langgraph.func import entrypoint, task
from langgraph.types import Command, interrupt

import ckpt_cli
from tests.commands.words import refusals
from tests.kit.agents import failing as agents
from tests.kit.agents.small import Log, chain, nested, run, saver_of
from tests.kit.command import ckpt, copy_store, eras


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


def test_each_task_for_which_a_thread_waits_is_listed_at_its_innermost_place(store: Path) -> None:
    found = _errors(store)
    assert _places(found) == {
        ("one", "crash", "failed"),
        ("two", "first", "failed"),
        ("two", "second", "failed"),
        ("both", "crash", "failed"),
        ("inner", "research > inner > crash", "failed"),
    }
    assert len(found) == 5
    (inner,) = (one for one in found if one["thread_id"] == "inner")
    assert (inner["node"], inner["checkpoint_ns"].count("|")) == ("crash", 1)
    assert inner["error"] == "TimeoutError('crash: no answer after 1 s')"
    # Outside of the root, LangGraph finds the place by itself.
    assert inner["resume"] == {
        "configurable": {"thread_id": "inner"},
        "metadata": {},
        "input": None,
    }
    assert inner["retried"] is inner["handled"] is False


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


def test_what_is_printed_retries_the_task(path: Path) -> None:
    world = agents.fill(path, agents.inner_crash, "inner")
    (found,) = _errors(path)
    world.is_down = False
    with agents.running(path, agents.inner_crash, world) as graph:
        graph.invoke(found["resume"]["input"], {"configurable": found["resume"]["configurable"]})
    assert ckpt("-s", path, "errors", "--exit-code").code == 0


def test_errors_are_counted_by_kind_and_by_node(store: Path) -> None:
    kinds = _errors(store, "--by", "error", "--history")
    assert [(one["error"], one["failures"], one["threads"]) for one in kinds] == [
        ("TimeoutError('crash: no answer after … s')", 5, 5),
        ("TimeoutError('first: no answer after … s')", 1, 1),
        ("TimeoutError('second: no answer after … s')", 1, 1),
    ]
    assert kinds[0]["nodes"] == {"crash": 3, "research > inner > crash": 2}
    assert kinds[0]["first_at"] < kinds[0]["last_at"]
    nodes = _errors(store, "--by", "node", "-n", "1")
    assert [(one["node"], one["failures"]) for one in nodes] == [("crash", 2)]


def test_threads_and_times_choose_what_is_listed(store: Path) -> None:
    assert {one["thread_id"] for one in _errors(store, "one", "asks")} == {"one"}
    assert {one["thread_id"] for one in _errors(store, "--match", "i*")} == {"inner"}
    asking = _errors(store, "--where", "status = interrupted")
    assert {one["thread_id"] for one in asking} == {"both"}
    everything = _errors(store)
    since = everything[0]["at"]
    later = _errors(store, "--since", since)
    assert later == [one for one in everything if one["at"] >= since]
    assert 0 < len(later) < len(everything)
    assert _errors(store, "--since", "2100-01-01") == []
    assert len(_errors(store, "-n", "2")) == 2


def test_the_exit_code_tells_whether_a_task_failed(store: Path) -> None:
    assert ckpt("-s", store, "errors", "--exit-code").code == 1
    ended = ckpt("-s", store, "errors", "asks", "--exit-code")
    assert (ended.code, ended.err) == (0, "note: no task of the chosen threads failed\n")


def test_a_function_that_failed_at_once_is_named(path: Path) -> None:
    """Its name comes from the error or from another thread, and only if the task's id proves it."""

    @task
    def fetch_page(page: str) -> str:
        if page == "ask":
            interrupt("which page?")
        if page != "good":
            raise ValueError("no such page")
        return page

    @task
    def count_words(page: str, least: int) -> int:
        return max(len(page), least)

    with saver_of(path) as saver:

        @entrypoint(checkpointer=saver)
        def flow(page: str) -> Any:
            if page == "alone":
                return count_words(page).result()  # type: ignore[call-arg]
            return fetch_page(page).result()

        def writers(thread: str) -> list[str | None]:
            found = ckpt("-s", path, "show", thread, "--writes", "-o", "json").json
            return sorted((one["node"] for one in found["writes"]), key=str)

        for page in ("alone", "bad", "ask", "good"):
            if page == "good":
                assert writers("bad") == writers("ask") == [None, "flow"]
            with suppress(ValueError, TypeError):
                flow.invoke(page, {"configurable": {"thread_id": page}})
        assert writers("alone") == ["count_words", "flow"]
        assert writers("bad") == writers("ask") == ["fetch_page", "flow"]


def _with_handlers() -> Any:
    """A subgraph fails, and the error handler of the node that calls it takes the failure; then a
    node fails whose handler fails, asks, or works, as the input says."""

    def fail(_: Log) -> Any:
        raise ValueError("card declined")

    def take(_: Log, error: NodeError) -> Any:
        return Command(update={"log": [f"took {error.node}"]}, goto="pay")

    def refund(state: Log, error: NodeError) -> Any:
        if state["log"][0] == "fails":
            raise ConnectionError("bank down")
        if state["log"][0] == "asks":
            interrupt("refund by hand?")
        return {"log": [f"refunded {error.node}"]}

    graph = chain(Log, {})
    graph.add_node("sub", chain(Log, {"j": fail}).compile(), error_handler=take)
    graph.add_node("pay", fail, error_handler=refund)
    return graph.add_edge("__start__", "sub")


@pytest.mark.parametrize(
    ("how", "pay", "conditions", "open_"),
    [
        ("works", "handled", ["done"], set()),
        ("asks", "handled", ["interrupted"], set()),
        ("fails", "failed", ["error"], {"pay", "__error_handler__pay"}),
    ],
)
def test_a_failure_is_handled_once_its_handler_ran(
    path: Path, how: str, pay: str, conditions: list[str], open_: set[str]
) -> None:
    with suppress(ConnectionError):
        run(path, _with_handlers(), {"log": [how]}, thread=how)
    found = {(one["node"], one["state"]) for one in _errors(path, "--history")}
    assert found == {("j", "handled"), ("pay", pay), *((one, "failed") for one in open_)}
    (row,) = ckpt("-s", path, "threads", "list", "-o", "json").json
    assert row["conditions"] == conditions
    assert {one["node"] for one in _errors(path)} == open_


def test_the_innermost_node_is_named_by_show_with_its_error_on_one_line(path: Path) -> None:
    def crash(state: Log) -> Any:
        raise ValueError("no stock\nsee the log")

    with pytest.raises(ValueError, match="no stock"):
        run(path, nested(Log, chain(Log, {"crash": crash}), "research"), {"log": []})
    (task_,) = ckpt("-s", path, "show", "t", "-o", "json").json["tasks"]
    assert task_["failed_in"] == ["research", "crash"]
    shown = ckpt("-s", path, "show", "t", "-o", "table").out
    assert "research > crash: ValueError('no stock ⏎ see the log')\n" in shown
    assert "graph.invoke(None, config)" in shown


@pytest.mark.in_ci("lg-0.2.14-json", "lg-1.2.22", "js-1")
@pytest.mark.parametrize("era", [*eras()], ids=lambda path: path.name)
def test_errors_are_those_of_the_threads_with_this_status(era: Path, tmp_path: Path) -> None:
    """Also in stores of older versions and of LangGraph.js."""
    store = copy_store(era / "store.db", tmp_path)
    listed = ckpt("-s", store, "threads", "list", "--long", "--all", "-o", "json").json
    found, history = _errors(store), _errors(store, "--history")
    assert {one["thread_id"] for one in found} == {
        row["thread_id"] for row in listed if "error" in row["conditions"]
    }
    assert {one["state"] for one in found} == {"failed"}
    assert [one for one in history if one["state"] == "failed"] == found
    others = {(one["thread_id"], one["state"]) for one in history if one["state"] != "failed"}
    # These releases left no error behind when a task was retried with success.
    is_old = era.name in {"lg-0.2.14", "lg-0.2.14-json", "js-0.2.74"}
    expected = set() if is_old else {("error-retried", "retried"), ("error-handled", "handled")}
    names = {row["thread_id"] for row in listed}
    assert others == {one for one in expected if one[0] in names}


test_wrong_words_are_refused = refusals(
    ("errors --by channel", 2, "cannot count by 'channel'"),
    ("errors --since soon", 2, "'soon' is not a time"),
    ("errors nobody", 3, "no thread 'nobody'"),
)
