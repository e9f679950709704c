"""`blame` names the step and the task that set a value, or the fork by which a person did."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.types import Command, interrupt

from tests.commands.words import refusals
from tests.kit.agents.small import chain, joined, run, running
from tests.kit.cases import cases
from tests.kit.command import ckpt

TRIP = "trip-to-kyoto"


def fork(store: Path, *words: str) -> str:
    answer = ckpt("-s", store, "fork", TRIP, "step:8", *words, "--yes", "-o", "json")
    return str(answer.json["checkpoint_id"])


def blame(store: Path, path: str, *words: str) -> Any:
    return ckpt("-s", store, "blame", TRIP, path, *words, "-o", "json").json


def test_an_edit_names_its_fork_and_reason(sample: Path) -> None:
    added = fork(sample, "--replace", 'destination="Nara"', "--reason", "wrong city")
    found = blame(sample, "destination")
    assert (found["value"], found["by"], found["node"]) == ("Nara", "fork", None)
    assert (found["checkpoint_id"], found["source"]) == (added, "fork")
    assert (found["reason"], found["forked_by"]) == ("wrong city", "ckpt")
    target = ckpt("-s", sample, "show", TRIP, "--at", found["forked_from"], "-o", "json").json
    assert target["step"] == 8
    shown = ckpt("-s", sample, "blame", TRIP, "destination", "-o", "table").out
    assert "an edit made with `ckpt fork`" in shown
    assert "wrong city" in shown
    resume = ckpt("-s", sample, "show", TRIP, "-o", "json").json["resume"]
    assert resume["metadata"].keys() == {"user_id", "channel"}, "the reason is no user's"
    assert blame(sample, "hotel")["node"] == "choose_hotel", "a fork copied it"
    hidden = blame(sample, "destination", "--redact")
    assert (hidden["forked_from"], hidden["forked_by"]) == (found["forked_from"], "ckpt")
    assert (hidden["value"]["$type"], "wrong" in str(hidden)) == ("ckpt.redacted", False)
    # What the tasks of the copied checkpoint wrote to the same channel is no part of the fork.
    ckpt("-s", sample, "fork", TRIP, "step:4", "--replace", 'hotel="Inn"', "--yes")
    found = ckpt("-s", sample, "bisect", TRIP, "values.hotel = Inn", "-o", "json").json
    assert (found["source"], found["tasks"]) == ("fork", [])


@pytest.mark.parametrize(
    "edit",
    [["--append", 'itinerary="A tea ceremony"'], ["--set", 'itinerary=["A tea ceremony"]']],
    ids=["appended", "waits for the reducer"],
)
def test_an_added_item_is_the_edits_and_the_others_are_not(sample: Path, edit: list[str]) -> None:
    before = blame(sample, "itinerary[0]")
    fork(sample, *edit, "--reason", "asked for")
    found = blame(sample, "itinerary[-1]")
    assert (found["value"], found["by"], found["reason"]) == ("A tea ceremony", "fork", "asked for")
    assert blame(sample, "itinerary[0]")["by"] == before["by"] == "task"


@cases(
    "step place node told",
    (1, "join:stock+price:offer", None, "by       price, stock\n"),
    (2, "join:stock+price:offer", "offer", "emptied when offer ran"),
    (0, "branch:to:price", "__start__", "by       __start__\n"),
)
def test_edges_have_writers(path: Path, step: int, place: str, node: str | None, told: str) -> None:
    run(path, joined(["stock", "price"]), {"log": [], "pick": ["stock", "price"]})
    words = ("-s", path, "blame", f"t@step:{step}", place, "-o")
    found = ckpt(*words, "json").json
    assert (found["step"], found["by"], found["node"]) == (step, "task", node)
    assert told in ckpt(*words, "table").out


class Trip(TypedDict, total=False):
    city: str
    hotel: str
    tip: int
    plan: str


def test_all_who_may_set_a_value_are_told_apart(path: Path) -> None:
    nodes = {"ask": lambda _: {"hotel": interrupt("?")}, "write": lambda _: {"plan": "new"}}
    config: Any = {"configurable": {"thread_id": "t"}}
    with running(path, chain(Trip, nodes)) as agent:
        agent.invoke({"city": "Kyoto"}, config)
        agent.update_state(config, {"plan": "draft"}, as_node="__start__")
        agent.invoke(None, config)
        agent.invoke(Command(resume="Inn", update={"tip": 10}), config)
        (asked,) = [one for one in agent.get_state_history(config) if one.next == ("write",)]
        agent.update_state(asked.config, None, as_node="__copy__")

    def told(place: str) -> tuple[Any, ...]:
        found = ckpt("-s", path, "blame", "t", place, "-o", "json").json
        return tuple(found[name] for name in ("by", "node", "source", "remark"))

    assert told("city") == ("input", "__start__", "loop", None)
    assert told("plan") == ("update", None, "update", None)
    assert told("tip") == ("caller", None, "fork", None)
    assert told("hotel") == ("task", "ask", "fork", None), "a copy by LangGraph is no edit"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM writes WHERE channel IN ('city', 'hotel')")
    lost = "no write to this channel is stored for this step"
    assert told("city") == ("unknown", None, "loop", lost)
    assert told("hotel") == ("fork", None, "fork", None)
    # A fork copies what the caller wrote to its target.
    ckpt("-s", path, "fork", "t", "~1", "--replace", 'city="Nara"', "--yes")
    assert told("tip") == ("caller", None, "fork", None)
    # What the oldest step that is left set may be older.
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM checkpoints WHERE parent_checkpoint_id IS NULL")
        row = "SELECT min(checkpoint_id) FROM checkpoints"
        change = "UPDATE checkpoints SET parent_checkpoint_id = NULL"
        connection.execute(f"{change} WHERE checkpoint_id = ({row})")
    older = "set here or earlier: the parent checkpoint is not stored"
    found = ckpt("-s", path, "blame", "t@step:0", "city", "-o", "json").json
    assert (found["by"], found["remark"]) == ("unknown", older)


test_wrong_words_are_refused = refusals(
    ("blame trip-to-kyoto", 2, "missing argument 'CHANNEL[.PATH]'"),
    ("blame trip-to-kyoto messages[].id", 2, "is not the path of one value"),
    ("blame nobody plan", 3, "no thread 'nobody'"),
    ("blame trip-to-kyoto messages[99]", 3, "a list of 10 items"),
)
