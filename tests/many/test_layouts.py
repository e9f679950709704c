"""On each layout, threads that broke are put back together, and taken back together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.registry import open_store
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.official import drive
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from tests.kit.command import ckpt
from tests.kit.opening import empty_store
from tests.many.test_rollback import FAILED, KILLED, LAST_GOOD, by_thread
from tests.operations.test_recorded_layouts import layouts


def rows(url: str) -> dict[str, list[Any]]:
    with open_store(url) as store:
        found = {name: store.rows(name) for name in (*FAILED, *KILLED)}
        return {
            name: sorted(repr((row.table, sorted(row.cells.items()))) for row in of_thread)
            for name, of_thread in found.items()
        }


@pytest.mark.parametrize("kind", list(layouts()))
def test_many_are_put_back_and_taken_back(
    request: pytest.FixtureRequest, kind: type[Harness], path: Path, tmp_path: Path
) -> None:
    with empty_store(kind, request, tmp_path) as harness:
        url = harness.url
        drive(harness.kept_saver, SCENARIOS["chat"])  # it makes the tables
        assert ckpt("-s", path, "copy", "--where", LAST_GOOD[2], "--to", url, "--yes").code == 0
        before = rows(url)
        done = ckpt("-s", url, *LAST_GOOD, "--yes", "-o", "ndjson")
        assert done.code == 0, done.err
        states = {name: one["state"] for name, one in by_thread(done).items()}
        assert states == dict.fromkeys(FAILED, "rolled back") | dict.fromkeys(KILLED, "ready")
        after = rows(url)
        assert {name for name in before if before[name] != after[name]} == set(FAILED)
        again = ckpt("-s", url, *LAST_GOOD, "--yes", "-o", "ndjson")
        assert {one["state"] for one in by_thread(again).values()} == {"ready"}
        assert rows(url) == after
        assert ckpt("-s", url, "undo", "--yes").code == 0
        assert rows(url) == before
