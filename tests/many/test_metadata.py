"""A resume with what is printed stores the metadata of the thread again, such as its user."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.types import Command, interrupt

from tests.kit.agents.small import chain, running
from tests.kit.command import ckpt

USER = 'anna "a" \\ ü'
KEPT = {"user_id": USER, "plan": 3, "beta": True, "score": 0.5, "tenant": "acme"}
THREADS = ("broken-0", "broken-1", "asks")
WAYS = [
    ("rollback", "--match", "broken-*", "--last-good"),
    ("rollback", "broken-0", "broken-1", "--steps", "1"),
    ("copy", "--where", "status = error", "--at", "head", "--as", "{thread}-again"),
    ("copy", "--where", "status = error", "--at", "~1", "--as", "{thread}-again"),
]


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
        for thread_id in THREADS:
            config: Any = {
                "configurable": {"thread_id": thread_id, "tenant": "acme"},
                "metadata": {name: one for name, one in KEPT.items() if name != "tenant"},
            }
            with suppress(ConnectionError):
                graph.invoke({"kind": thread_id}, config)
    return path


def kept(graph: Any, thread_id: str) -> list[dict[str, Any]]:
    """Return what the checkpoints of a thread in all namespaces have of the user's metadata."""
    found = graph.checkpointer.list({"configurable": {"thread_id": thread_id}})
    return [{name: one.metadata.get(name) for name in KEPT} for one in found]


@pytest.mark.parametrize("words", WAYS)
def test_a_list_to_resume_carries_the_metadata(path: Path, words: tuple[str, ...]) -> None:
    for _ in range(2):  # The second time, some threads are ready as they are.
        lines = ckpt("-s", path, *words, "--yes", "-o", "ndjson").out.splitlines()
        done = [json.loads(one) for one in lines]
        assert len(done) == 2
        assert all(one["metadata"] == KEPT for one in done)
    with graph_of(path) as graph:
        for one in done:
            config = {"configurable": one["configurable"], "metadata": one["metadata"]}
            before = len(kept(graph, one["thread_id"]))
            assert graph.invoke(one["input"], config)["done"] is True
            after = kept(graph, one["thread_id"])
            assert len(after) > before
            assert all(each == KEPT for each in after)


@pytest.mark.parametrize(
    "words",
    [
        ("rollback", "broken-0", "--steps", "1", "--yes"),
        ("copy", "broken-0", "--at", "head", "--as", "new", "--yes"),
        ("show", "broken-0"),
        ("show", "asks"),
        ("show", "--long", "broken-1"),
        ("errors", "broken-1"),
    ],
)
def test_a_printed_call_carries_the_metadata(path: Path, words: tuple[str, ...]) -> None:
    answer = ckpt("-s", path, *words, "-o", "json").json
    first = answer[0] if isinstance(answer, list) else answer
    found = first["resume"] if words[0] in {"show", "threads", "errors"} else first
    config: Any = {"configurable": found["configurable"], "metadata": found["metadata"]}
    with graph_of(path) as graph:
        names = {"graph": graph, "config": config, "Command": Command}
        if words[0] == "errors":
            graph.invoke(found["input"], config)
        else:
            call = found["call"] if "call" in found else found["resume"]
            exec(call.replace("...", "True"), names)
        after = kept(graph, config["configurable"]["thread_id"])
        assert all(each == KEPT for each in after)


def test_the_printed_text_is_python(path: Path) -> None:
    shown = ckpt("-s", path, "show", "--long", "broken-0").out
    (line,) = (one for one in shown.splitlines() if one.startswith("config"))
    want = {"configurable": {"thread_id": "broken-0"}, "metadata": KEPT}
    assert eval(line.removeprefix("config")) == want
    table = ckpt(
        "-s", path, "rollback", "--where", "status = error", "--last-good", "--yes", "-o", "table"
    ).out
    configs = [eval(one) for one in table.splitlines() if one.startswith("  {")]
    assert [one["metadata"] for one in configs] == [KEPT, KEPT]


def test_hidden_values_are_not_printed_and_marks_are_not_carried(path: Path) -> None:
    for words in (
        ("rollback", "broken-0", "--steps", "1", "--yes", "--reason", "why"),
        ("rollback", "--where", "status = error", "--last-good", "--yes"),
        ("show", "--long", "broken-0"),
        ("errors", "broken-1"),
    ):
        for form in ("json", "table"):
            shown = ckpt("-s", path, "--redact", *words, "-o", form).out
            assert "acme" not in shown
            assert "anna" not in shown
    again = ckpt("-s", path, "rollback", "broken-0", "--at", "head", "--yes", "-o", "json").json
    assert again["metadata"] == KEPT
