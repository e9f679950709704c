"""`ckpt errors` lists the failed tasks of official graphs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import entrypoint, task
from langgraph.types import interrupt

import ckpt_cli
from tests.kit.agents import failing as agents
from tests.kit.command import ckpt


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Threads that failed in known ways, and one that asks."""
    path = tmp_path_factory.mktemp("errors") / "agent.db"
    agents.fill(path, agents.crashed, "one")
    agents.fill(path, agents.two_failed, "two", marks=2)
    agents.fill(path, agents.error_and_question, "both", marks=2)
    agents.fill(path, agents.inner_crash, "inner")
    agents.fill(path, agents.question, "asks")
    world = agents.fill(path, agents.inner_crash, "retried")
    world.is_down = False
    with agents.running(path, agents.inner_crash, world) as graph:
        graph.invoke(None, {"configurable": {"thread_id": "retried"}})
    world = agents.fill(path, agents.crashed, "left")
    world.is_down = False
    with agents.running(path, agents.crashed, world) as graph:
        graph.invoke(agents.INPUT, {"configurable": {"thread_id": "left"}})
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
    assert inner["node"] == "crash"
    assert inner["checkpoint_ns"].count("|") == 1
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


def test_what_is_printed_retries_the_task(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
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
    assert ckpt("-s", store, "errors", "--by", "when").code == 2


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


def test_python_gets_the_same(store: Path) -> None:
    with ckpt_cli.open(store) as opened:
        assert [one.to_dict() for one in opened.errors()] == _errors(store)
        assert [one.to_dict() for one in opened["left"].errors(history=True)] == _errors(
            store, "left", "--history"
        )
        assert opened.errors_by("node").to_list() == _errors(store, "--by", "node")


def test_a_function_that_failed_at_once_is_named(tmp_path: Path) -> None:
    """Its name comes from the error or from another thread, and only if the task's id proves it."""
    path = tmp_path / "agent.db"

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

    with SqliteSaver.from_conn_string(str(path)) as saver:

        @entrypoint(checkpointer=saver)
        def flow(page: str) -> Any:
            if page == "alone":
                return count_words(page).result()  # type: ignore[call-arg]
            return fetch_page(page).result()

        def run(page: str) -> None:
            with suppress(ValueError, TypeError):
                flow.invoke(page, {"configurable": {"thread_id": page}})

        def writers(thread: str) -> list[str | None]:
            found = ckpt("-s", path, "show", thread, "--writes", "-o", "json").json
            return sorted((one["node"] for one in found["writes"]), key=str)

        for page in ("alone", "bad", "ask"):
            run(page)
        assert writers("alone") == ["count_words", "flow"]
        assert writers("bad") == writers("ask") == [None, "flow"]
        run("good")
        assert writers("bad") == writers("ask") == ["fetch_page", "flow"]


def _with_handlers(saver: Any) -> Any:
    """A subgraph fails, and the error handler of the node that calls it takes the failure; then a
    node fails whose handler fails, asks, or works, as the input says."""
    from langgraph.errors import NodeError
    from langgraph.graph import START, StateGraph
    from langgraph.types import Command, interrupt

    def fail(_: agents.Log) -> Any:
        raise ValueError("card declined")

    def take(_: agents.Log, error: NodeError) -> Any:
        return Command(update={"log": [f"took {error.node}"]}, goto="pay")

    def refund(state: agents.Log, error: NodeError) -> Any:
        if state["log"][0] == "fails":
            raise ConnectionError("bank down")
        if state["log"][0] == "asks":
            interrupt("refund by hand?")
        return {"log": [f"refunded {error.node}"]}

    inner: Any = StateGraph(agents.Log)
    inner.add_node("j", fail).add_edge(START, "j")
    graph: Any = StateGraph(agents.Log)
    graph.add_node("sub", inner.compile(), error_handler=take)
    graph.add_node("pay", fail, error_handler=refund)
    graph.add_edge(START, "sub")
    return graph.compile(checkpointer=saver)


@pytest.mark.parametrize(
    ("how", "pay", "conditions"),
    [
        ("works", "handled", ["done"]),
        ("asks", "handled", ["interrupted"]),
        ("fails", "failed", ["error"]),
    ],
)
def test_a_failure_is_handled_once_its_handler_ran(
    tmp_path: Path, how: str, pay: str, conditions: list[str]
) -> None:
    from langgraph.checkpoint.sqlite import SqliteSaver

    path = tmp_path / "agent.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        config: Any = {"configurable": {"thread_id": how}}
        try:
            _with_handlers(saver).invoke({"log": [how]}, config)
        except ConnectionError:
            assert how == "fails"
    found = {(one["node"], one["state"]) for one in _errors(path, "--history")}
    if how == "fails":
        assert ("__error_handler__pay", "failed") in found
    assert found - {("__error_handler__pay", "failed")} == {("j", "handled"), ("pay", pay)}
    (row,) = ckpt("-s", path, "threads", "list", "-o", "json").json
    assert row["conditions"] == conditions
    assert {one["node"] for one in _errors(path)} == {"fails": {"pay", "__error_handler__pay"}}.get(
        how, set()
    )
