"""`--as-of` shows the store as it was: each command answers as it did at that time."""

import operator
import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict

import pytest
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt

from tests.kit.agents.small import chain, run, running
from tests.kit.command import ckpt

QUESTIONS: list[list[str]] = [
    ["threads", "list", "--all", "--long"],
    ["threads", "list", "--status", "interrupted"],
    ["threads", "list", "--where", "any.metadata.step > 3"],
    ["show", "asked"],
    ["show", "asked", "--tree"],
    ["history", "asked", "--all-ns"],
    ["diff", "asked"],
    ["messages", "asked"],
    ["grep", "sure"],
    ["interrupts"],
    ["errors"],
    ["blame", "asked", "log"],
    ["bisect", "asked", "values.log[-1] = acted"],
    ["stats"],
    ["timeline", "asked"],
    ["sql", "select thread_id, count(*) from checkpoints group by all order by all"],
    ["export", "--all", "--format", "jsonl"],
]


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    messages: Annotated[list[Any], add_messages]


GRAPH = chain(
    State,
    {
        "ask": lambda _: {"log": [interrupt("sure?")]},
        "act": lambda _: {"log": ["acted"], "messages": ["acted"]},
    },
)
FAILING = chain(State, {"charge": lambda _: {"log": [str(1 / 0)]}})


def answers(store: Path, *words: str) -> list[str]:
    """What the commands answer in JSON, without sizes, which tell nothing of the past."""
    found = [ckpt("-s", store, *one, *words, "-o", "json").out for one in QUESTIONS]
    return [re.sub(r'"(bytes|age)": ?[\d.]+,?', "", text) for text in found]


class Past(NamedTuple):
    store: Path
    moment: datetime
    answers: list[str]
    """Those of then."""


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Past:
    """A store in which a question was answered, a failure mended, and threads began since."""
    store = tmp_path_factory.mktemp("past") / "store.db"
    run(store, chain(State, {"act": lambda _: {"log": ["acted"]}}), {"log": ["go"]}, thread="early")
    run(
        store, GRAPH, {"log": ["go"]}, Command(update={"log": ["more"]}, goto="ask"), thread="asked"
    )
    with running(store, FAILING) as agent, pytest.raises(ZeroDivisionError):
        agent.invoke({"log": ["go"]}, {"configurable": {"thread_id": "failed"}})
    moment, then = datetime.now(UTC), answers(store)
    run(store, GRAPH, Command(resume="yes"), thread="asked")
    run(store, chain(State, {"charge": lambda _: {"log": ["charged"]}}), None, thread="failed")
    run(store, GRAPH, {"log": ["go"]}, thread="late")
    run(store, chain(State, {"act": lambda _: {"log": ["acted"]}}), {"log": ["on"]}, thread="early")
    return Past(store, moment, then)


def test_each_command_answers_as_it_did_then(past: Past) -> None:
    found = answers(past.store, "--as-of", past.moment.isoformat())
    since = answers(past.store)
    for words, seen, then, now in zip(QUESTIONS, found, past.answers, since, strict=True):
        assert seen == then, words
        assert now != then, words


def test_changes_between_two_times_and_what_is_gone_are_told(past: Past, tmp_path: Path) -> None:
    """The threads that changed since the moment, and one as it was and as it is."""
    then = past.moment.isoformat()
    words = ("-s", past.store, "threads", "list", "--as-of", "now", "--changed-since", then)
    changed = {one["thread_id"] for one in ckpt(*words, "-o", "json").json}
    assert changed == {"asked", "failed", "late", "early"}
    found = ckpt("-s", past.store, "diff", "asked", then, "now", "-o", "json").json
    assert found["channels"]["log"]["after"] == ["go", "more", "yes", "acted"]
    # A thread that began later is said to be not there.
    found = ckpt("-s", past.store, "show", "late", "--as-of", then, code=3, out="")
    assert "thread 'late' had no checkpoint then\nhint: its first checkpoint is" in found.err
    found = ckpt("-s", past.store, "threads", "list", "--as-of", "2020-01-01")
    assert (found.code, found.err) == (0, "note: there was no thread then\n")
    # What was removed since is named.
    store = tmp_path / "store.db"
    shutil.copyfile(past.store, store)
    ckpt("-s", store, "threads", "delete", "early", "--yes")
    (operation,) = ckpt("-s", store, "ops", "list", "-o", "json").json
    words = ("-s", store, "threads", "list", "--as-of", past.moment.isoformat(), "-o", "json")
    found = ckpt(*words)
    assert {one["thread_id"] for one in found.json} == {"asked", "failed"}
    assert "what a run of ckpt (threads delete) removed of 1 thread on" in found.err
    assert f", operation {operation['op']}\n" in found.err
    before = datetime.fromisoformat(operation["at"]) + timedelta(seconds=60)
    words = ("-s", store, "threads", "list", "--as-of", before.isoformat(), "-o", "json")
    assert ckpt(*words).err == ""
