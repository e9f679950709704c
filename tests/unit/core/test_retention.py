"""Which checkpoints stay, and the lines of a plan."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ckpt_backends.changes import GONE, MOVED, Inside, Removal, RemovalBatch
from ckpt_backends.model import BlobKey, Status
from ckpt_cli.apply.purge import removal_batches
from ckpt_cli.core.retention import (
    PlannedRemoval,
    RetentionCandidate,
    RetentionRules,
    choose_kept,
    from_plan_line,
    record_in_line,
    removal_record,
    to_plan_line,
    why_protected,
)
from ckpt_cli.operations.log import OperationStep, RowsRemoved, step_line, step_record
from tests.kit.cases import cases

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def item(name: str, parent: str | None = None, ns: str = "", **more: object) -> RetentionCandidate:
    at = NOW - timedelta(days=100 - int(name))
    return RetentionCandidate(ns, name, parent, at, **more)  # type: ignore[arg-type]


def line(length: int) -> list[RetentionCandidate]:
    """A thread without branches, newest first: ids '01', '02', ..."""
    ids = [f"{number:02}" for number in range(1, length + 1)]
    return [item(one, before) for one, before in zip(ids, [None, *ids], strict=False)][::-1]


def days(number: int) -> RetentionRules:
    return RetentionRules(within=timedelta(days=number))


BRANCHES = [item("04", "01"), item("03", "02"), item("02", "01"), item("01")]
LAST = RetentionRules(last=1)
AGELESS = [*line(3)[:2], RetentionCandidate("", "01", None, None)]
UNFINISHED = [item("03", "01"), item("02", "01", unfinished=True), item("01")]
SENT = [item("03", "02", needs_sends=True), item("02", "01"), item("01")]
SENT += [item("12", None, "a:1", root="02"), item("11", None, "b:2", root="01")]
INHERITS = [item("03", "02", inherited={"log"}), item("02", "01"), item("01")]
DELTA = [item("05", "04", missing={"log"}), item("04", "03"), item("03", "02", stored={"log"})]
DELTA += [item("02", "01"), item("01")]
INSIDE = [item("12", "11", "a:1", root="03"), item("11", None, "a:1", root="03")]
CALLED = [*line(3), *INSIDE, item("10", None, "b:2", root="02")]
LOST = [*line(3), item("10", None, "a:1", root="99"), item("11", None, "b:2")]
KNEW = [item("15", "08", "memory", root="10"), item("08", "05", "memory", root="07")]
KNEW += [item("05", None, "memory", root="07")]
REMEMBERS = [item("20", "10"), item("10"), item("07", None), *KNEW]


@cases(
    "items rules kept",
    pytest.param(line(5), RetentionRules(last=2), "05 04", id="the newest"),
    pytest.param(line(5), days(1), "05", id="the head, however old it is"),
    pytest.param(line(5), days(97), "05 04 03", id="what is young"),
    pytest.param(AGELESS, LAST, "03 01", id="what has no age"),
    pytest.param(BRANCHES, RetentionRules(tips=True), "04 03", id="ends of branches"),
    pytest.param(UNFINISHED, LAST, "03 02", id="an unfinished step"),
    pytest.param(SENT, LAST, "03 02 12", id="the parent that holds the sends, with its subgraph"),
    pytest.param(INHERITS, LAST, "03 02", id="the parent that holds a value"),
    pytest.param(DELTA, LAST, "05 04 03", id="the way to the value of a DeltaChannel"),
    pytest.param(CALLED, LAST, "03 12 11", id="subgraphs with their caller"),
    pytest.param(LOST, LAST, "03 10 11", id="a subgraph without its caller"),
    pytest.param(REMEMBERS, LAST, "20 15", id="what a subgraph with a memory knew"),
    pytest.param(REMEMBERS, RetentionRules(last=2), "20 10 15 08", id="and before"),
)
def test_what_stays(items: list[RetentionCandidate], rules: RetentionRules, kept: str) -> None:
    assert {one for _, one in choose_kept(items, rules, NOW)} == set(kept.split())


def dumped(record: Any) -> str:
    return json.dumps(record, separators=(",", ":"))


@pytest.mark.parametrize("inside", [None, Inside({"": ("1",)}, (BlobKey("", "items", "2"),))])
@pytest.mark.parametrize("thread_id", ["plain", 'quote " and \udc80', ""])
@pytest.mark.parametrize("at", [datetime(2026, 4, 1, 12, 0, 0, 5, tzinfo=UTC), None])
def test_a_step_with_the_line_of_its_plan_is_the_same(
    inside: Inside | None, thread_id: str, at: datetime | None
) -> None:
    action = "remove" if inside is None else "prune"
    keeps = {} if inside is None else {"": {"3": ("the newest",)}}
    removal = Removal(thread_id, at, 4, 7, inside)
    one = PlannedRemoval(action, "idle for 3d", 4, 7, removal, 2, 99, keeps)  # type: ignore[arg-type]
    line = dumped(to_plan_line(one))
    read = from_plan_line(json.loads(line), line)
    told = record_in_line(json.loads(line))
    assert told == removal_record(one)
    assert [*told] == [*removal_record(one)]
    step = OperationStep(thread_id, RowsRemoved(read), None)
    assert bool(read.line) == (inside is None)
    assert step_line(step) == dumped(step_record(step))
    for wrong in ("remove" if inside else "prune", "drop"):
        with pytest.raises(ValueError, match=r"drop|pruned"):
            from_plan_line({**json.loads(line), "action": wrong})


def test_a_batch_ends_with_its_last_thread_or_row() -> None:
    threads = [
        PlannedRemoval("remove", "", *size, Removal(str(number), NOW, *size))
        for number, size in enumerate([(1, 0), (1, 1), (0, 5), (4, 0), (1, 0)])
    ]
    found = removal_batches(threads, RemovalBatch(threads=2, rows=5))
    assert ["".join(one.thread_id for one in batch) for batch in found] == ["01", "2", "34"]


def test_a_thread_is_kept_for_each_condition_that_is_not_included() -> None:
    failed, asked = Status.ERROR, Status.INTERRUPTED
    assert why_protected([failed, asked], []) == (
        "its last step failed and a question waits for an answer"
        " (to remove: --include-error --include-interrupted)"
    )
    assert why_protected([failed, asked], [asked]).startswith(
        "its last step failed (to remove: --include-error)"
    )
    assert why_protected([failed, asked], [failed]).startswith("a question waits for an answer (")
    assert why_protected([failed, asked], [asked, failed]) == why_protected([Status.DONE], []) == ""
    assert "--include-pending" in why_protected([Status.UNKNOWN], [failed, asked])


def test_a_thread_that_is_not_as_it_was_planned_is_skipped() -> None:
    planned = Removal("t", NOW, 2, 1)
    assert planned.reason_to_skip(NOW, 2, 1) == ""
    for state in ((NOW + timedelta(seconds=1), 2, 1), (NOW, 3, 1), (NOW, 2, 0), (None, 2, 1)):
        assert planned.reason_to_skip(*state) == MOVED
    assert planned.reason_to_skip(None, 0, 0) == GONE
