"""`blame` names the step and the task that set a value, or the fork by which a person did."""

from pathlib import Path
from typing import Any

import pytest

from tests.commands.words import refusals
from tests.kit.agents.small import joined, run
from tests.kit.command import ckpt

TRIP = "trip-to-kyoto"
NARA = 'destination="Nara"'


def fork(store: Path, *words: str) -> str:
    answer = ckpt("-s", store, "fork", TRIP, "step:8", *words, "--yes", "-o", "json")
    return str(answer.json["checkpoint_id"])


def blame(store: Path, path: str, *words: str) -> Any:
    return ckpt("-s", store, "blame", TRIP, path, *words, "-o", "json").json


@pytest.mark.parametrize("option", ["--replace", "--set"])
def test_an_edit_names_its_fork_and_reason(option: str, sample: Path) -> None:
    added = fork(sample, option, NARA, "--reason", "wrong city")
    found = blame(sample, "destination")
    assert (found["value"], found["by"], found["node"]) == ("Nara", "fork", None)
    assert (found["checkpoint_id"], found["source"]) == (added, "fork")
    assert (found["reason"], found["forked_by"]) == ("wrong city", "ckpt")
    target = ckpt("-s", sample, "show", TRIP, "--at", found["forked_from"], "-o", "json").json
    assert target["step"] == 8
    shown = ckpt("-s", sample, "blame", TRIP, "destination", "-o", "table").out
    assert "an edit made with `ckpt fork`" in shown
    assert "wrong city" in shown


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


def test_what_a_fork_copied_is_its_writers(sample: Path) -> None:
    before = blame(sample, "hotel")
    fork(sample, "--replace", NARA)
    after = blame(sample, "hotel")
    assert (after["by"], after["node"]) == ("task", "choose_hotel")
    assert (before["by"], before["node"]) == ("task", "choose_hotel")
    assert (after["reason"], after["forked_from"]) == (None, None)
    assert blame(sample, "destination")["reason"] is None


def test_no_reason_is_told_when_values_are_redacted(sample: Path) -> None:
    fork(sample, "--replace", NARA, "--reason", "wrong city")
    answer = ckpt("-s", sample, "--redact", "blame", TRIP, "destination", "-o", "json")
    assert (answer.json["by"], "wrong city" in answer.out) == ("fork", False)
    assert "Nara" not in answer.out


@pytest.fixture(scope="module")
def joining(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Threads in which `offer` waits for `stock` and `price`: one, then the other, or both."""
    path = tmp_path_factory.mktemp("joining") / "agent.db"
    for thread, picks in (("both", [["stock", "price"]]), ("each", [["stock"], ["price"]])):
        given = [{"log": [], "pick": pick} for pick in picks]
        run(path, joined(["stock", "price"]), *given, thread=thread)
    return path


JOIN = "join:stock+price:offer"


@pytest.mark.parametrize(
    ("ref", "path", "step", "node", "told"),
    [
        ("both@step:1", JOIN, 1, None, "by       price, stock\n"),
        ("both@step:1", "log", 1, None, "by       price, stock\n"),
        ("both@step:2", JOIN, 2, "offer", "emptied when offer ran"),
        ("each@step:2", JOIN, 1, "stock", "by       stock\n"),
        ("each@step:4", JOIN, 4, "price", "by       price\n"),
        ("each@step:3", "branch:to:price", 3, "__start__", "by       __start__\n"),
    ],
)
def test_edges_have_writers(
    joining: Path, ref: str, path: str, step: int, node: str | None, told: str
) -> None:
    found = ckpt("-s", joining, "blame", ref, path, "-o", "json").json
    assert (found["step"], found["by"], found["node"]) == (step, "task", node)
    shown = ckpt("-s", joining, "blame", ref, path, "-o", "table").out
    assert told in shown
    assert "a task" not in shown


test_wrong_words_are_refused = refusals(
    ("blame trip-to-kyoto", 2, "missing argument 'CHANNEL[.PATH]'"),
    ("blame trip-to-kyoto messages[].id", 2, "is not the path of one value"),
    ("blame trip-to-kyoto .", 2, "is not the path of one value"),
    ("blame nobody plan", 3, "no thread 'nobody'"),
    ("blame trip-to-kyoto messages[99]", 3, "a list of 10 items"),
    ("blame trip-to-kyoto@step:99 hotel", 3, "no checkpoint 'step:99'"),
)
