"""A resume with what is printed stores the metadata of the thread again, such as its user."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.types import Command, interrupt

from tests.kit.agents.small import chain, running
from tests.kit.cases import cases
from tests.kit.command import ckpt

USER = 'anna "a" \\ ü'
KEPT = {"user_id": USER, "plan": 3, "beta": True, "score": 0.5, "tenant": "acme"}
LAST_GOOD = "rollback --match broken-* --last-good"


class State(TypedDict, total=False):
    kind: str
    done: bool


@contextmanager
def graph_of(path: Path, *, is_mended: bool = True) -> Iterator[Any]:
    """Yield a graph whose subgraph fails, or asks, in the second step."""

    def work(state: State) -> State:
        if state["kind"] == "asks":
            interrupt("go on?")
        elif not is_mended:
            raise ConnectionError(state["kind"])
        return {"done": True}

    inner = chain(State, {"work": work}).compile()
    with running(path, chain(State, {"plan": lambda _: {}, "act": inner})) as graph:
        yield graph


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with threads of one user that failed or ask, each with metadata of every kind."""
    path = tmp_path / "agent.db"
    with graph_of(path, is_mended=False) as graph:
        for thread_id in ("broken-0", "broken-1", "asks"):
            config: Any = {
                "configurable": {"thread_id": thread_id, "tenant": "acme"},
                "metadata": {name: one for name, one in KEPT.items() if name != "tenant"},
            }
            with suppress(ConnectionError):
                graph.invoke({"kind": thread_id}, config)
    return path


def check_kept(graph: Any, thread_id: str) -> None:
    found = list(graph.checkpointer.list({"configurable": {"thread_id": thread_id}}))
    assert len(found) > 3
    assert all({name: one.metadata.get(name) for name in KEPT} == KEPT for one in found)


@cases("words", LAST_GOOD, "copy --match broken-* --at ~1 --as {thread}-again")
def test_a_list_to_resume_carries_the_metadata(path: Path, words: str) -> None:
    for _ in range(2):  # The second time, some threads are ready as they are.
        listed = ckpt("-s", path, *words.split(), "--yes", "-o", "ndjson").out
        done = [json.loads(one) for one in listed.splitlines()]
        assert [one["metadata"] for one in done] == [KEPT, KEPT]
    with graph_of(path) as graph:
        for one in done:
            config = {"configurable": one["configurable"], "metadata": one["metadata"]}
            assert graph.invoke(one["input"], config)["done"] is True
            check_kept(graph, one["thread_id"])


@cases(
    "words",
    "rollback broken-0 --steps 1 --yes",
    "copy broken-0 --at head --as new --yes",
    "show asks",
)
def test_a_printed_call_carries_the_metadata(path: Path, words: str) -> None:
    answer = ckpt("-s", path, *words.split(), "-o", "json").json
    found = answer["resume"] if words.startswith("show") else answer
    call = found["call"] if "call" in found else found["resume"]
    config: Any = {"configurable": found["configurable"], "metadata": found["metadata"]}
    with graph_of(path) as graph:
        exec(call.replace("...", "True"), {"graph": graph, "config": config, "Command": Command})
        check_kept(graph, config["configurable"]["thread_id"])


def test_the_printed_text_is_python(path: Path) -> None:
    shown = ckpt("-s", path, "show", "--long", "broken-0").out
    (line,) = (one for one in shown.splitlines() if one.startswith("config"))
    want = {"configurable": {"thread_id": "broken-0"}, "metadata": KEPT}
    assert eval(line.removeprefix("config")) == want
    (failed, *_) = ckpt("-s", path, "errors", "broken-1", "-o", "json").json
    assert failed["resume"]["metadata"] == KEPT
    table = ckpt("-s", path, *LAST_GOOD.split(), "--yes", "-o", "table").out
    configs = [eval(one) for one in table.splitlines() if one.startswith("  {")]
    assert [one["metadata"] for one in configs] == [KEPT, KEPT]


def test_hidden_values_are_not_printed_and_marks_are_not_carried(path: Path) -> None:
    rollback = "rollback broken-0 --steps 1 --yes --reason why"
    for words in (rollback, f"{LAST_GOOD} --yes", "show --long broken-0", "errors broken-1"):
        for form in ("json", "table"):
            shown = ckpt("-s", path, "--redact", *words.split(), "-o", form).out
            assert ("acme" in shown, "anna" in shown) == (False, False)
    again = ckpt("-s", path, "rollback", "broken-0", "--at", "head", "--yes", "-o", "json").json
    assert again["metadata"] == KEPT
