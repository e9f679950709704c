"""What `show` prints to resume a thread works with the official graph."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command

from tests.kit.agents import failing as agents
from tests.kit.command import ckpt

THREAD = "the 'first' \"thread\" \\ of\nanna"


def _printed(store: Path, thread: str = THREAD) -> dict[str, str]:
    """The labels of `show`, with the text of each."""
    lines = ckpt("-s", store, "show", thread).out.splitlines()
    return {line[:9].strip(): line[9:] for line in reversed(lines) if line[:9].strip()}


def _resumed(graph: Any, printed: dict[str, str]) -> dict[str, Any]:
    """Run the printed call as somebody would who pastes it; each `...` becomes an answer."""
    call = printed["resume"].replace(": ...", ": 'yes'").replace("=...", "='yes'")
    names = {"graph": graph, "Command": Command, "config": eval(printed["config"], {})}
    result: dict[str, Any] = eval(call, names)
    return result


@pytest.mark.parametrize(
    ("build", "marks", "does", "log"),
    [
        (agents.crashed, 1, "runs crash again", ["crash"]),
        (agents.two_failed, 2, "runs first, second again", ["first", "second"]),
        (agents.question, 1, "answers the question", ["yes"]),
        (agents.two_questions, 2, "answers the 2 questions", ["yes", "yes"]),
        (agents.inner_question, 1, "answers the question", ["yes"]),
        (agents.inner_crash, 1, "runs research > inner > crash again", ["crash"]),
        (agents.error_and_question, 2, "runs ask, crash again", ["yes", "crash"]),
    ],
    ids=lambda one: one.__name__ if callable(one) else "",
)
def test_the_printed_call_resumes_the_thread(
    tmp_path: Path, build: agents.Build, marks: int, does: str, log: list[str]
) -> None:
    path = tmp_path / "agent.db"
    world = agents.fill(path, build, THREAD, marks=marks)
    lines = ckpt("-s", path, "show", THREAD).out
    assert does in lines
    world.is_down, world.others = False, 0
    with agents.running(path, build, world) as graph:
        result = _resumed(graph, _printed(path))
    assert sorted(result["log"]) == sorted(log)
    (row,) = ckpt("-s", path, "threads", "list", "-o", "json").json
    assert row["status"] == "done"


def test_the_printed_command_goes_back_to_before_the_failed_step(tmp_path: Path) -> None:
    path, thread = tmp_path / "agent.db", "the 'first' thread"
    world = agents.fill(path, agents.error_and_question, thread, marks=2)
    program, *words = shlex.split(_printed(path, thread)["or"])
    assert program == "ckpt"
    assert ckpt(*words, "--yes").code == 0
    (row,) = ckpt("-s", path, "threads", "list", "-o", "json").json
    assert (row["status"], sorted(row["next"])) == ("pending", ["ask", "crash"])
    world.is_down, world.others = False, 0
    with agents.running(path, agents.error_and_question, world) as graph:
        asked = graph.invoke(None, {"configurable": {"thread_id": thread}})
        assert len(asked["__interrupt__"]) == 1
        assert sorted(_resumed(graph, _printed(path, thread))["log"]) == ["crash", "yes"]


def test_a_hostile_interrupt_id_is_only_text_in_the_printed_call() -> None:
    from ckpt_cli.render.show import literal

    for text in ('": __import__("os").abort(), "', "\\", "'", "a\nb", "\u202e", "\ud800", "é😀"):
        assert eval(literal(text, is_javascript=False), {"__builtins__": {}}) == text


def test_json_has_the_same_call(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    agents.fill(path, agents.crashed, THREAD)
    assert ckpt("-s", path, "show", THREAD, "-o", "json").json["resume"] == {
        "configurable": {"thread_id": THREAD},
        "metadata": {},
        "call": "graph.invoke(None, config)",
        "does": "runs crash again",
        "runs": ["crash"],
        "applies": [],
        "asks": [],
        "handlers": [],
        "repeats": ["crash"],
    }
