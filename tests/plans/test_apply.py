"""A saved plan is carried out exactly as the command would have done it, or not at all."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from ckpt_backends.registry import open_store
from ckpt_cli.core.forking import seeded
from ckpt_cli.plans.saved_plan import rows_digest
from ckpt_cli.session import Session
from tests.kit.command import ckpt

KYOTO, REFUND, DIGEST = "trip-to-kyoto", "refund-4711", "weekly-digest"

Words = list[str]
CASES: dict[str, Words] = {
    "rollback": ["rollback", KYOTO, "--steps", "3", "--reason", "wrong hotel"],
    "rollback root only": ["rollback", KYOTO, "--steps", "4", "--root-only"],
    "fork": ["fork", KYOTO, "step:3", "--replace", 'itinerary=["rest"]'],
    "fork set": ["fork", KYOTO, "step:3", "--set", 'messages=[{"role": "user", "content": "x"}]'],
    "copy checkpoint": ["copy", KYOTO, "--at", "head", "--as", "new"],
    "copy thread": ["copy", KYOTO, "--as", "new"],
    "threads delete": ["threads", "delete", KYOTO, REFUND],
    "purge": ["purge", "--older-than", "0s", "--include-interrupted"],
    "prune": ["purge", "--keep-last", "2"],
}


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return tmp_path / "plan.ndjson"


def rows(store: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(store)) as connection:
        return [
            row
            for table in ("checkpoints", "writes")
            for row in sorted(connection.execute(f"SELECT * FROM {table}"), key=repr)
        ]


def save(store: Path, plan: Path, words: Words) -> None:
    before = rows(store)
    answer = ckpt("-s", store, *words, "--plan-out", plan)
    assert answer.code == 0, answer.err
    assert f"apply {plan}" in answer.err
    assert "dry run" not in answer.err
    assert rows(store) == before
    assert plan.stat().st_mode & 0o777 == 0o600


def head_of(store: Path, thread: str) -> str:
    with open_store(str(store)) as opened:
        found = opened.thread(thread)
    assert found is not None
    assert found.head is not None
    return found.head


@pytest.mark.parametrize("words", CASES.values(), ids=CASES)
def test_a_plan_does_what_was_planned_once(sample: Path, plan: Path, words: Words) -> None:
    save(sample, plan, words)
    direct = ckpt("-s", sample, *words, "--dry-run", "-o", "json").json
    before = rows(sample)
    shown = ckpt("apply", plan, "--dry-run", "-o", "json")
    assert (shown.code, rows(sample)) == (0, before)
    kept = {"action", "before", "why", "changes", "next", "threads", "checkpoints", "writes"}
    assert {k: v for k, v in shown.json.items() if k in kept} == {
        k: v for k, v in direct.items() if k in kept
    }

    done = ckpt("-s", sample, "apply", plan, "--yes", "-o", "json")
    assert done.code == 0, done.err
    assert done.json.get("checkpoint_id") == shown.json.get("checkpoint_id")
    after = rows(sample)
    assert after != before

    again = ckpt("-s", sample, "apply", plan, "--yes")
    assert (again.code, rows(sample)) == (6, after), again.err


@pytest.mark.parametrize("words", CASES.values(), ids=CASES)
def test_nothing_is_written_if_the_thread_moved(sample: Path, plan: Path, words: Words) -> None:
    save(sample, plan, words)
    assert ckpt("-s", sample, "rollback", KYOTO, "--steps", "1", "--yes").code == 0
    before = sample.read_bytes()
    refused = ckpt("-s", sample, "apply", plan, "--yes")
    assert (refused.code, sample.read_bytes()) == (6, before), refused.err
    assert "--plan-out" in refused.err


@pytest.mark.parametrize("words", CASES.values(), ids=CASES)
def test_a_plan_writes_the_rows_that_the_command_writes(
    sample: Path, plan: Path, tmp_path: Path, words: Words
) -> None:
    """With the same clock and the same random numbers."""
    other = tmp_path / "other.db"
    shutil.copyfile(sample, other)
    save(sample, plan, words)
    head = json.loads(plan.read_text().splitlines()[0])
    assert ckpt("-s", sample, "apply", plan, "--yes").code == 0
    now = datetime.fromisoformat(head["made_at"])
    with patch.object(Session, "now", now), seeded(head["seed"]):
        assert ckpt("-s", other, *words, "--yes").code == 0
    assert rows(other) == rows(sample)


def test_two_runs_of_a_plan_write_the_same_rows(sample: Path, plan: Path, tmp_path: Path) -> None:
    """New ids follow from the plan: what is reviewed is what runs, up to each id."""
    save(sample, plan, CASES["fork set"])
    kept = tmp_path / "kept.db"
    shutil.copyfile(sample, kept)
    assert ckpt("apply", plan, "--yes").code == 0
    once = rows(sample)
    shutil.copyfile(kept, sample)
    assert ckpt("apply", plan, "--yes").code == 0
    assert rows(sample) == once


def test_an_old_plan_still_adds_the_newest_checkpoint(sample: Path, plan: Path) -> None:
    save(sample, plan, CASES["rollback"])
    lines = plan.read_text().splitlines()
    with open_store(str(sample)) as store:
        newest = max(one.key.checkpoint_id for one in store.checkpoints(KYOTO))
    assert ckpt("apply", plan, "--yes").code == 0
    assert head_of(sample, KYOTO) > newest
    assert json.loads(lines[1])["adds"] == [head_of(sample, KYOTO)]


def test_the_operation_has_the_reason_and_the_command_of_the_plan(sample: Path, plan: Path) -> None:
    save(sample, plan, CASES["rollback"])
    assert ckpt("apply", plan, "--yes").code == 0
    one = ckpt("-s", sample, "ops", "list", "-o", "json").json[0]
    assert one["reason"] == "wrong hotel"
    assert "rollback trip-to-kyoto --steps 3" in one["command"]


def test_an_operation_is_taken_back_by_a_plan(sample: Path, plan: Path, tmp_path: Path) -> None:
    before = rows(sample)
    for words in (["undo", KYOTO], ["undo"]):
        assert ckpt("-s", sample, *CASES["rollback"], "--yes").code == 0
        save(sample, plan, words)
        assert ckpt("-s", sample, "apply", plan, "--yes").code == 0
        assert rows(sample) == before
        assert ckpt("-s", sample, "apply", plan, "--yes").code == 6
    save(sample, plan, ["redo"])
    assert ckpt("-s", sample, "apply", plan, "--yes").code == 0
    assert rows(sample) != before
    assert ckpt("-s", sample, "apply", plan, "--yes").code == 6
    archive = tmp_path / "archive"
    whole = rows(sample)
    assert ckpt("-s", sample, "threads", "delete", KYOTO, "--archive", archive, "--yes").code == 0
    save(sample, plan, ["undo"])
    assert ckpt("-s", sample, "apply", plan, "--yes").code == 0
    assert rows(sample) == whole


def test_a_line_that_is_deleted_keeps_its_thread(sample: Path, plan: Path) -> None:
    save(sample, plan, CASES["threads delete"])
    head, *lines = plan.read_text().splitlines()
    plan.write_text("\n".join([head, *(one for one in lines if REFUND not in one)]) + "\n")
    assert ckpt("-s", sample, "apply", plan, "--yes").code == 0
    assert ckpt("-s", sample, "show", REFUND).code == 0
    assert ckpt("-s", sample, "show", KYOTO).code == 3


def test_a_plan_of_a_removal_keeps_its_archive(sample: Path, plan: Path, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    words = ["threads", "delete", KYOTO, "--archive", str(archive)]
    before = rows(sample)
    save(sample, plan, words)
    assert not archive.exists()
    done = ckpt("-s", sample, "apply", plan, "--yes")
    assert (done.code, f"archive: {archive}" in done.err) == (0, True)
    assert ckpt("-s", sample, "import", archive, "--plan-out", plan).code == 0
    assert ckpt("-s", sample, "apply", plan, "--yes").code == 0
    assert rows(sample) == before
    assert ckpt("-s", sample, "apply", plan, "--yes").code == 6


def test_an_archive_that_was_replaced_is_not_imported(
    sample: Path, plan: Path, tmp_path: Path
) -> None:
    archives = [tmp_path / name for name in ("one", "two")]
    for one in archives:
        assert ckpt("-s", sample, "export", KYOTO, "--to", one).code == 0
    (file,), (other,) = (list(one.iterdir()) for one in archives)
    assert ckpt("-s", sample, "threads", "delete", KYOTO, "--yes").code == 0
    assert ckpt("-s", sample, "import", file, "--plan-out", plan).code == 0
    other.replace(file)
    before = sample.read_bytes()
    assert ckpt("-s", sample, "apply", plan, "--yes").code == 6
    assert sample.read_bytes() == before


def test_a_copy_is_planned_and_carried_out(sample: Path, plan: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.db"
    save(sample, plan, ["copy", KYOTO, REFUND, "--to", str(target), "--create"])
    assert not target.exists()
    assert ckpt("-s", sample, "apply", plan, "--yes").code == 0
    assert {one[0] for one in rows(target)} == {KYOTO, REFUND}
    before = rows(target)
    assert ckpt("-s", sample, "apply", plan, "--yes").code == 6
    assert rows(target) == before


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_copy_notices_a_change_on_each_side(
    sample: Path, plan: Path, tmp_path: Path, side: str
) -> None:
    target = tmp_path / "target.db"
    assert ckpt("-s", sample, "copy", "--all", "--to", target, "--create", "--yes").code == 0
    assert ckpt("-s", sample, "rollback", REFUND, "--steps", "1", "--yes").code == 0
    save(sample, plan, ["copy", REFUND, "--to", str(target)])
    with closing(sqlite3.connect({"source": sample, "target": target}[side])) as db, db:
        # The same number of rows, and the same ids.
        db.execute("UPDATE writes SET value = value || x'00' WHERE thread_id = ?", [REFUND])
    before = target.read_bytes()
    assert ckpt("-s", sample, "apply", plan, "--yes").code == 6
    assert target.read_bytes() == before


def test_a_copied_thread_is_compared_row_by_row(sample: Path, plan: Path) -> None:
    save(sample, plan, CASES["copy checkpoint"])
    with closing(sqlite3.connect(sample)) as db, db:
        db.execute("UPDATE writes SET value = value || x'00' WHERE thread_id = ?", [KYOTO])
    before = sample.read_bytes()
    assert ckpt("-s", sample, "apply", plan, "--yes").code == 6
    assert sample.read_bytes() == before


@pytest.mark.parametrize(
    "words",
    [["erase", KYOTO], ["erase", "--value", f"{KYOTO}:messages[0].content"]],
    ids=["thread", "value"],
)
def test_an_erasure_is_carried_out_once_and_not_if_the_thread_moved(
    sample: Path, plan: Path, words: Words
) -> None:
    save(sample, plan, words)
    assert ckpt("-s", sample, "rollback", KYOTO, "--steps", "1", "--yes").code == 0
    before = rows(sample)
    assert ckpt("-s", sample, "apply", plan, "--yes").code == 6
    assert rows(sample) == before
    save(sample, plan, words)
    done = ckpt("-s", sample, "apply", plan, "--yes")
    assert done.code == 0, done.err
    after = rows(sample)
    assert after != before
    assert ckpt("-s", sample, "apply", plan, "--yes").code == 6
    assert rows(sample) == after


def test_a_plan_cannot_read_stdin_again(sample: Path, plan: Path) -> None:
    answer = ckpt("-s", sample, "erase", "--values-from", "-", "--plan-out", plan)
    assert (answer.code, "stdin" in answer.err, plan.exists()) == (2, True, False)


def test_a_question_is_asked_and_its_answer_counts(
    sample: Path, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(sample, plan, CASES["rollback"])
    before = rows(sample)
    assert ckpt("apply", plan).code == 5
    answers: list[Callable[[str], bool]] = [lambda _: False, lambda _: True]
    for code, answer in zip((5, 0), answers, strict=True):
        monkeypatch.setattr("ckpt_cli.diagnostics.ask", answer)
        assert ckpt("apply", plan).code == code
        assert (rows(sample) == before) == (code == 5)


def test_a_plan_is_saved_if_some_of_it_is_left_out(sample: Path, plan: Path) -> None:
    answer = ckpt("-s", sample, "threads", "delete", REFUND, "none", "--plan-out", plan)
    assert answer.code == 7
    assert ckpt("apply", plan, "--yes").code == 0
    assert ckpt("-s", sample, "show", REFUND).code == 3


def test_a_command_that_fails_leaves_no_plan(sample: Path, plan: Path) -> None:
    assert ckpt("-s", sample, "rollback", "none", "--plan-out", plan).code == 3
    assert ckpt("-s", sample, "rollback", KYOTO, "--plan-out", plan / "x").code == 2
    assert not plan.exists()
    assert list(plan.parent.glob(".*.part")) == []


def test_the_digest_of_rows_depends_on_each_cell_and_on_no_order(sample: Path) -> None:
    with open_store(str(sample)) as store:
        found = list(store.rows(KYOTO))
    assert rows_digest(found) == rows_digest(reversed(found))
    assert rows_digest(found) != rows_digest(found[1:])
    assert rows_digest(found) != rows_digest([*found[1:], found[1]])
