"""`interrupts` lists the open questions, under the names that other commands give them, too."""

from pathlib import Path

import pytest
from langgraph.types import Command

from tests.commands.words import refusals
from tests.kit.agents import failing as agents
from tests.kit.agents.small import Log, nested, run
from tests.kit.command import ckpt

PATH = ["research", "dig", "ask"]
NESTED = nested(Log, agents.question(agents.World()), *PATH[:2])


@pytest.fixture
def deep(path: Path) -> Path:
    """A store with a thread that waits for an answer two subgraphs down."""
    run(path, NESTED, agents.INPUT)
    return path


def test_a_question_has_one_name_everywhere(deep: Path) -> None:
    (asked,) = ckpt("-s", deep, "interrupts", "-o", "json").json
    assert (asked["node"], asked["path"]) == ("ask", PATH)
    found = ckpt("-s", deep, "show", "t", "-o", "json").json
    assert [(one["node"], one["path"]) for one in found["interrupts"]] == [("ask", PATH)]
    assert (found["next"], found["next_paths"]) == (["research"], [PATH])
    assert ckpt("-s", deep, "history", "t", "-o", "json").json[0]["next_paths"] == [PATH]
    for words in ("interrupts", "show t", "history t", "show t --tree", "show t --tree --all-ns"):
        printed = ckpt("-s", deep, *words.split(), "-o", "table").out
        assert "research > dig > ask" in printed, words
    assert printed.count("ship it?") == 1


def test_an_answered_question_is_not_listed_and_keeps_its_name(deep: Path) -> None:
    run(deep, NESTED, Command(resume="yes"))
    assert ckpt("-s", deep, "interrupts", "-o", "json").json == []
    history = ckpt("-s", deep, "history", "t", "-o", "json").json
    (asked,) = [one for entry in history for one in entry["interrupts"]]
    assert (asked["answered"], asked["path"]) == (True, PATH)


def test_threads_and_ages_choose_questions(tmp_path: Path) -> None:
    store = tmp_path / "people.db"
    for thread_id in ("anna@example.com", "anna", "bob"):
        agents.fill(store, agents.question, thread_id)

    def threads(*words: str) -> list[str]:
        found = ckpt("-s", store, "interrupts", *words, "-o", "json").json
        return [one["thread_id"] for one in found]

    assert threads() == ["bob", "anna", "anna@example.com"]
    assert threads("anna", "bob", "anna") == ["anna", "bob"]
    assert threads("--match", "anna*") == ["anna", "anna@example.com"]
    assert (threads("--older-than", "2020-01-01"), threads("--older-than", "0s")) == ([], threads())
    # A thread with an at sign is found as it is.
    assert threads("anna@example.com") == ["anna@example.com"]
    history = ckpt("-s", store, "history", "anna@example.com", "-o", "json").json
    assert {one["thread_id"] for one in history} == {"anna@example.com"}


test_wrong_words_are_refused = refusals(
    ("interrupts --older-than soon", 2, "'soon' is not a time"),
    ("interrupts refund-4711 --match *", 2, "cannot be combined with --match"),
    ("interrupts refund-4711 nobody", 3, "no thread 'nobody'"),
)
