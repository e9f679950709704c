"""`blame` names the step and the task that set a value, or the fork by which a person did."""

from pathlib import Path
from typing import Any

import pytest

from tests.commands.words import refusals
from tests.kit.agents.small import joined, run
from tests.kit.cases import cases
from tests.kit.command import ckpt

TRIP = "trip-to-kyoto"
NARA = 'destination="Nara"'


def fork(store: Path, *words: str) -> str:
    answer = ckpt("-s", store, "fork", TRIP, "step:8", *words, "--yes", "-o", "json")
    return str(answer.json["checkpoint_id"])


def blame(store: Path, path: str, *words: str) -> Any:
    return ckpt("-s", store, "blame", TRIP, path, *words, "-o", "json").json


def test_an_edit_names_its_fork_and_reason(sample: Path) -> None:
    added = fork(sample, "--replace", NARA, "--reason", "wrong city")
    found = blame(sample, "destination")
    assert (found["value"], found["by"], found["node"]) == ("Nara", "fork", None)
    assert (found["checkpoint_id"], found["source"]) == (added, "fork")
    assert (found["reason"], found["forked_by"]) == ("wrong city", "ckpt")
    target = ckpt("-s", sample, "show", TRIP, "--at", found["forked_from"], "-o", "json").json
    assert target["step"] == 8
    shown = ckpt("-s", sample, "blame", TRIP, "destination", "-o", "table").out
    assert "an edit made with `ckpt fork`" in shown
    assert "wrong city" in shown
    assert blame(sample, "hotel")["node"] == "choose_hotel", "a fork copied it"


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


test_wrong_words_are_refused = refusals(
    ("blame trip-to-kyoto", 2, "missing argument 'CHANNEL[.PATH]'"),
    ("blame trip-to-kyoto messages[].id", 2, "is not the path of one value"),
    ("blame nobody plan", 3, "no thread 'nobody'"),
    ("blame trip-to-kyoto messages[99]", 3, "a list of 10 items"),
)
