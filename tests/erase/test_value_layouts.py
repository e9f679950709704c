"""`erase --value` on each layout: the secret is in no row, and the official graph goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.erasing.formats import Erasure
from ckpt_backends.erasing.thread import ThreadEraser
from ckpt_backends.errors import StoreChanged
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.registry import open_store
from ckpt_backends.rows import RowEdit
from ckpt_backends.testing.harness import Harness
from ckpt_backends.url import parse_url
from tests.erase.value_canary import (
    OTHER,
    SECRET,
    THREAD,
    TWIN,
    ask,
    erase,
    history,
    places_of,
    replaced,
    resumed,
    skeleton,
)
from tests.kit.command import ckpt
from tests.kit.harness import HARNESSES
from tests.kit.opening import empty_store


def _layouts() -> list[Any]:
    return [
        pytest.param(kind, id=kind.name, marks=pytest.mark.engines)
        for kind in HARNESSES
        if kind.name != "sqlite" and not kind.read_only and kind.recording is None
    ]


def erase_numbers(values: dict[str, Any]) -> None:
    """Erase in a state what the test erases in the store."""
    if "pin" in values:
        values["pin"] = 0
    if len(values.get("sums", ())) > 2:
        values["sums"][2]["amount"] = 0


def check_that_other_rows_are_not_replaced(harness: Harness) -> None:
    """Replace rows that are not as they are said to be."""
    rows = harness.rows(THREAD)
    with open_store(harness.url) as store:
        eraser = ThreadEraser(store.describe().layout, Erasure(frozenset({SECRET})), None)
        first = next(eraser.edits(list(store.rows(THREAD))))
    with open_writable(parse_url(harness.url)) as writable, pytest.raises(StoreChanged):
        writable.replace(THREAD, [RowEdit(first.new, first.stored)])
    assert harness.rows(THREAD) == rows


@pytest.mark.parametrize("kind", _layouts())
def test_a_secret_is_in_no_row_and_the_graph_goes_on(
    kind: type[Harness], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with empty_store(kind, request, tmp_path) as harness:
        for thread, secret in ((THREAD, SECRET), (OTHER, SECRET), (TWIN, "[erased]")):
            ask(harness, thread, secret)
        rows = harness.rows(OTHER)
        before, ids = history(harness, THREAD), skeleton(harness.url, THREAD)
        assert places_of(harness.url, THREAD)
        assert before[0][1]["card"]
        check_that_other_rows_are_not_replaced(harness)
        done = erase(harness.url, f"{THREAD}:card.password")
        assert done["places"]
        assert places_of(harness.url, THREAD) == []
        assert skeleton(harness.url, THREAD) == ids
        assert harness.rows(OTHER) == rows
        assert ckpt("-s", harness.url, "doctor", "--deep", THREAD).code == 0
        if not harness.stores_pickles:
            numbers = erase(harness.url, f"{THREAD}:pin", f"{THREAD}:sums[2].amount")
            assert {one["path"] for one in numbers["places"]} >= {"pin", "sums[2].amount"}
            for one in before:
                erase_numbers(one[1])
            assert ckpt("-s", harness.url, "doctor", "--deep", THREAD).code == 0
        if not harness.values_only:  # else the library has its own copy
            assert history(harness, THREAD) == replaced(before)
            # kagent's saver takes all writes for those of the task with the greatest id, which is
            # another one in each thread.
            if harness.has_writes and harness.name != "kagent":
                expected = resumed(harness, TWIN)
                erase_numbers(expected)
                assert resumed(harness, THREAD) == expected
