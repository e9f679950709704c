"""The log on disk: torn lines, rotation, several processes, and runs that were killed."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.url import parse_url
from ckpt_cli.operations import log as log_module
from ckpt_cli.operations.log import (
    Journal,
    Operation,
    OperationLog,
    from_record,
    place_of,
    steps_path,
    to_record,
)
from tests.kit.command import ckpt
from tests.kit.rows import rows_of

TRIP = "trip-to-kyoto"


def operation(place_in_log: int, **more: Any) -> Operation:
    at = datetime(2026, 4, 7, tzinfo=UTC)
    named: dict[str, Any] = {"threads": ("t",), "number": 1, **more}
    return Operation(f"{place_in_log:012x}", at, "anna", "rollback", "s.db", "here", **named)


def state() -> Path:
    return Path(os.environ["XDG_STATE_HOME"]) / "ckpt" / "operations"


def ops(*store: Path) -> list[dict[str, Any]]:
    words: tuple[str | Path, ...] = ("-s", *store) if store else ()
    found: list[dict[str, Any]] = ckpt(*words, "ops", "list", "--all", "-o", "json").json
    return found


def test_a_record_is_read_as_it_was_written() -> None:
    one = operation(1, reason="why", undoes="2" * 12, added=("c",), ended="stopped")
    assert from_record(json.loads(json.dumps(to_record(one)))) == one


def test_a_long_log_is_rotated_and_steps_go_with_their_operations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "_LONGEST", 1000)
    log = OperationLog(tmp_path / "log")
    for number in range(60):
        journal = Journal(log, operation(number))
        journal.record(operation(number))
        journal.close(keep=True)
    known = {one.op for one in log.newest_first()}
    assert operation(59).op in known
    assert operation(0).op not in known
    assert {path.stem for path in (tmp_path / "log" / "steps").iterdir()} == known


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_log_of_another_user_is_refused(sample: Path) -> None:
    assert ckpt("-s", sample, "rollback", TRIP, "--steps", "1", "--yes").code == 0
    os.chown(state() / "log.ndjson", 12345, 12345)
    refused = ckpt("-s", sample, "undo", "--yes")
    assert refused.code == 2
    assert "another user owns it" in refused.err


def test_several_processes_at_once_lose_nothing(tmp_path: Path, sample: Path) -> None:
    names = [f"t{number}" for number in range(6)]
    for name in names:
        assert ckpt("-s", sample, "copy", "refund-4711", "--as", name, "--yes").code == 0

    def roll_back(name: str) -> int:
        words = ["-s", str(sample), "rollback", name, "--steps", "1", "--yes", "-q"]
        return subprocess.run(
            [sys.executable, "-m", "ckpt_cli", *words], capture_output=True, check=False
        ).returncode

    before = rows_of(sample)
    with ThreadPoolExecutor(3) as pool:
        codes = list(pool.map(roll_back, names))
    assert codes == [0] * len(names)
    newest = ops(sample)[: len(names)]
    assert sorted(one["threads"][0] for one in newest) == sorted(names)
    for one in newest:
        assert ckpt("-s", sample, "undo", one["op"], "--yes").code == 0
    assert rows_of(sample) == before


def killed(store: Path) -> tuple[dict[str, Any], Path]:
    """Roll a thread back, and make the state folder as if the run was killed before its end."""
    assert ckpt("-s", store, "rollback", TRIP, "--steps", "1", "--yes").code == 0
    (one,) = ops()
    log = OperationLog.of_user()
    (log.folder / "running").mkdir(exist_ok=True)
    left = log.folder / "running" / f"{one['op']}.ndjson"
    steps_path(log, one["op"]).rename(left)
    return one, left


def test_a_killed_run_is_named_once_by_the_next_one(sample: Path) -> None:
    one, left = killed(sample)
    (state() / "log.ndjson").unlink()
    read = ckpt("-s", sample, "threads", "list")
    assert "was stopped before it recorded" in read.err
    assert left.exists()
    words = [sys.executable, "-m", "ckpt_cli", "-s", str(sample), "ops", "list"]
    with ThreadPoolExecutor(3) as pool:
        runs = list(
            pool.map(lambda _: subprocess.run(words, capture_output=True, check=True), range(3))
        )
    assert any(f"it is now operation {one['op']}".encode() in run.stderr for run in runs)
    assert [row["op"] for row in ops(sample)] == [one["op"]]
    assert ops(sample)[0]["ended"] == "stopped; found by a later run"
    assert "operation" not in ckpt("-s", sample, "ops", "list").err
    assert ckpt("-s", sample, "undo", TRIP, "--yes").code == 0


def test_a_run_killed_after_its_line_is_not_recorded_twice(sample: Path) -> None:
    one, left = killed(sample)
    assert "operation" not in ckpt("-s", sample, "ops", "list").err
    assert [row["op"] for row in ops(sample)] == [one["op"]]
    assert not left.exists()


def test_what_another_process_still_runs_is_left_alone(sample: Path) -> None:
    log = OperationLog.of_user()
    planned = operation(7, number=0)
    place = place_of(parse_url(str(sample)))
    journal = Journal(log, from_record({**to_record(planned), "place": place}))
    assert ops(sample) == []
    assert (log.folder / "running" / f"{planned.op}.ndjson").exists()
    journal.close(keep=False)
