"""Lines of JSON: the text of `json.dumps` without spaces."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from ckpt_backends.changes import Inside, Removal
from ckpt_backends.model import BlobKey
from ckpt_cli.core.retention import (
    PlannedRemoval,
    from_plan_line,
    record_in_line,
    removal_record,
    to_plan_line,
)
from ckpt_cli.core.values import compact_json
from ckpt_cli.operations.log import OperationStep, RowsRemoved, step_line, step_record

AT = datetime(2026, 4, 1, 12, 0, 0, 5, tzinfo=UTC)


def dumped(record: Any) -> str:
    return json.dumps(record, separators=(",", ":"))


@pytest.mark.parametrize(
    "value", [{}, [], 'é\udc80\n"', None, True, -1, 1.5, float("inf"), {"a": [1, {"b": ""}], "": 0}]
)
def test_text_is_that_of_dumps(value: object) -> None:
    assert compact_json(value) == dumped(value)


def test_what_json_does_not_hold_is_an_error() -> None:
    with pytest.raises(TypeError):
        compact_json({"at": AT})


@pytest.mark.parametrize("inside", [None, Inside({"": ("1",)}, (BlobKey("", "items", "2"),))])
@pytest.mark.parametrize("thread_id", ["plain", 'quote " and \udc80', ""])
@pytest.mark.parametrize("at", [AT, None])
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
