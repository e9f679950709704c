"""`ckpt ops`: what is listed, shown, undone, redone and refused; the log, and audit files.

What each command records is tested in tests/commands/test_apply.py.
"""

import fcntl
import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.postgres import PostgresSaver

from ckpt_backends.changes import Change, Inside, Removal
from ckpt_backends.errors import Refused, StoreUnavailable, UsageError
from ckpt_backends.model import BlobKey, Record, TypedBytes
from ckpt_backends.open_for_writing import open_writable_memory
from ckpt_backends.registry import open_store
from ckpt_backends.sqlite import database
from ckpt_backends.url import parse_url
from ckpt_cli.app import root
from ckpt_cli.apply import changes as apply_memory
from ckpt_cli.apply import copy as restore
from ckpt_cli.apply.purge import Pace
from ckpt_cli.apply.recording import (
    CopyRecording,
    Recorder,
    Recording,
    is_carried_out,
    writable_store,
)
from ckpt_cli.core.copying import CopyReport
from ckpt_cli.core.retention import PlannedRemoval
from ckpt_cli.lazy import command_text
from ckpt_cli.operations import log as log_module
from ckpt_cli.operations.log import (
    AppliedChange,
    AuditFile,
    Journal,
    Operation,
    OperationLog,
    OperationStep,
    RowsRemoved,
    from_record,
    place_of,
    to_record,
)
from ckpt_cli.plans.fork import ThreadContents, contents_of, removal_of_added
from ckpt_cli.plans.undo import change_now
from tests.kit.agents.steps import config_of, fill, graph_of
from tests.kit.cases import cases
from tests.kit.command import CommandResult, ckpt
from tests.kit.rows import change, rows_of
from tests.kit.savers.deerflow import memory, save

TRIP, REFUND = "trip-to-kyoto", "refund-4711"


def done(store: Path, *words: str | Path) -> CommandResult:
    return ckpt("-s", store, *words, "--yes", code=0)


def ops(store: Path, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ckpt("-s", store, "ops", "list", *words, "-o", "json").json
    return found


def test_what_is_listed_and_shown(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = os.urandom
    monkeypatch.setattr(os, "urandom", lambda number: b"\xab\xcd" + random(number - 2))
    rolled = done(sample, "rollback", TRIP, "--steps", "2", "--reason", "wrong hotel", "-o", "json")
    done(sample, "fork", REFUND, "~1")
    newest, first = ops(sample)
    assert (first["undoable"], first["undone_by"], newest["action"]) == (True, None, "fork")
    assert [one["op"] for one in ops(sample, "--thread", TRIP)] == [first["op"]]
    assert [one["op"] for one in ops(sample, "--action", "fork")] == [newest["op"]]
    assert [one["op"] for one in ops(sample, "-n", "1")] == [newest["op"]]
    (step,) = ckpt("-s", sample, "ops", "show", first["op"][:10], "-o", "json").json["steps"]
    assert rolled.json["checkpoint_id"] in step["checkpoints"]
    assert step["did"].startswith("add ")
    text = ckpt("-s", sample, "ops", "show", first["op"], "-o", "table").out
    assert f"undo {first['op']}" in text
    before = rows_of(sample)
    ckpt("-s", sample, "undo", "abcd", "--yes", code=3, says="'abcd' names several operations")
    assert rows_of(sample) == before


def test_operations_of_other_stores_are_listed_without_one(sample: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    shutil.copyfile(sample, other)
    done(sample, "rollback", TRIP, "--steps", "2")
    done(other, "rollback", TRIP, "--steps", "1")
    assert len(ops(sample)) == len(ops(other)) == 1
    assert len(ckpt("ops", "list", "-o", "json").json) == 2
    ckpt("-s", sample, "undo", ops(other)[0]["op"], "--yes", code=2, says=str(other))


def test_undo_and_redo_go_back_and_forth(sample: Path) -> None:
    first = rows_of(sample)
    done(sample, "rollback", TRIP, "--steps", "2")
    second = rows_of(sample)
    done(sample, "fork", REFUND, "~1")
    third = rows_of(sample)
    for words, rows in (
        ("undo", second),
        ("undo", first),
        ("redo", second),
        ("redo", third),
        ("undo", second),
    ):
        done(sample, words)
        assert rows_of(sample) == rows
    done(sample, "redo")
    ckpt("-s", sample, "redo", "--yes", code=3)


def test_one_in_the_middle_is_undone_if_nothing_depends_on_it(sample: Path) -> None:
    first = rows_of(sample)
    done(sample, "rollback", TRIP, "--steps", "2")
    added = rows_of(sample) - first
    done(sample, "rollback", TRIP, "step:3")
    both = rows_of(sample)
    (copy,) = (one[3] for one in added if one[0] == "checkpoints")
    into = "INSERT INTO writes (thread_id, checkpoint_id, task_id, idx, channel)"
    change(sample, f"{into} VALUES (?, ?, 'late', 0, 'notes')", TRIP, copy)
    refused = ckpt("-s", sample, "undo", ops(sample)[1]["op"], "--yes")
    assert (refused.code, "tasks stored writes" in refused.err) == (5, True), refused.err
    change(sample, "DELETE FROM writes WHERE task_id = 'late'")
    done(sample, "undo", ops(sample)[1]["op"])
    assert rows_of(sample) == both - added
    for at, words, said in (
        (1, ("fork", TRIP, "head"), "follows"),
        (0, ("rollback", TRIP, "head", "--sibling"), "is a copy of it"),
    ):
        needed = ops(sample)[at]
        done(sample, *words)
        later, before = ops(sample)[0], rows_of(sample)
        refused = ckpt("-s", sample, "undo", needed["op"], "--yes")
        assert (refused.code, said in refused.err, rows_of(sample)) == (5, True, before)
        assert f"undo {later['op']}" in refused.err


@pytest.fixture
def apart(sample: Path, tmp_path: Path) -> Path:
    """A store that keeps values apart from checkpoints, with threads of the sample."""
    path = tmp_path / "apart" / ".langgraph_api"
    done(sample, "copy", TRIP, REFUND, "--to", path, "--create")
    return path


def test_what_was_added_to_a_thread_is_removed_only_if_all_else_is_as_before(apart: Path) -> None:
    gone = BlobKey("", "gone", "1")
    with open_store(str(apart)) as store:
        now, thread = contents_of(store, TRIP), store.thread(TRIP)
        assert thread is not None
        newest, *older = (one.key for one in store.checkpoints(TRIP))
        writes = {key: number for key, number in now.writes.items() if key != newest}
        added, *blobs = now.blobs
        before = ThreadContents(frozenset(older), writes, {one: now.blobs[one] for one in blobs})
        found = removal_of_added(store, TRIP, before)
        inside = Inside({"": (newest.checkpoint_id,)}, (added,))
        assert found is not None
        assert found.removal == Removal(
            TRIP, thread.last_at, len(now.checkpoints), now.number_of_writes, inside
        )
        for other in (
            now,
            replace(before, checkpoints=before.checkpoints | {newest._replace(checkpoint_id="1")}),
            replace(before, blobs={**before.blobs, gone: (1, 1)}),
            replace(before, writes={**writes, older[0]: writes.get(older[0], 0) + 1}),
        ):
            assert removal_of_added(store, TRIP, other) is None
        assert removal_of_added(store, "gone", before) is None


def test_a_change_is_not_made_again_where_a_part_of_it_is_there_or_gone(sample: Path) -> None:
    with open_store(str(sample)) as store:
        head = next(iter(store.checkpoints(TRIP, body=True, metadata=True))).record()
        new = head._replace(key=head.key._replace(checkpoint_id="new"))
        heads = {"": head.key.checkpoint_id}
        for wanted, said in (
            (Change(TRIP, {"": "1"}, checkpoints=(new, head)), "its checkpoints are there already"),
            (Change(TRIP, {}, checkpoints=(new,)), "exists already"),
            (Change(TRIP, heads, removed={head.key: 0, new.key: 0}), "checkpoint new is gone"),
            (Change("gone", heads, checkpoints=(new,)), "'gone' is gone"),
            (Change("gone", {}, removed={new.key: 0}), "'gone' is gone"),
        ):
            with pytest.raises(Refused, match=said):
                change_now(wanted, None, store, store)
        again = change_now(Change(TRIP, {"": "1"}, checkpoints=(new,)), None, store, store)
        assert again.heads[""] == head.key.checkpoint_id
        assert change_now(replace(again, thread_id="gone", heads={}), None, store, store)


def test_values_that_a_later_checkpoint_uses_are_not_taken_back(postgres_url: str) -> None:
    """The checkpoint between the two was pruned."""
    fill(postgres_url, "a")
    edit = ("fork", "a", "head", "--replace", 'items=["x"]', "--yes", "-o", "json")
    added = ckpt("-s", postgres_url, *edit).json["checkpoint_id"]
    with PostgresSaver.from_conn_string(postgres_url) as saver:
        graph_of(saver).invoke({"items": ["more"]}, config_of("a"))
    with psycopg.connect(postgres_url) as db:
        parent = "parent_checkpoint_id"
        db.execute(f"UPDATE checkpoints SET {parent} = NULL WHERE {parent} = %s", [added])
    found = ckpt("-s", postgres_url, "ops", "list", "-o", "json").json
    refused = ckpt("-s", postgres_url, "undo", found[0]["op"], "--yes")
    assert (refused.code, "uses its value of 'items'" in refused.err) == (5, True), refused.err


def test_undo_of_a_prune_brings_nothing_that_a_later_one_took(sample: Path, tmp_path: Path) -> None:
    before = rows_of(sample)
    for number, keep in enumerate("42"):
        archive = ("--archive", tmp_path / f"archive-{number}")
        done(sample, "purge", "--match", TRIP, "--keep-last", keep, *archive)
    later, first = ops(sample)
    ckpt("-s", sample, "undo", first["op"], "--yes", code=5, says="lost other checkpoints since")
    table, *cells = next(row for row in before - rows_of(sample) if row[0] == "checkpoints")
    change(sample, f"INSERT INTO {table} VALUES ({', '.join('?' * len(cells))})", *cells)
    ckpt("-s", sample, "undo", first["op"], "--yes", code=5, says="has removed checkpoints again")
    change(sample, "DELETE FROM checkpoints WHERE checkpoint_id = ?", cells[2])
    for one in (later, first):
        done(sample, "undo", one["op"])
    assert rows_of(sample) == before


def test_a_purge_is_undone_from_its_archives(sample: Path, tmp_path: Path) -> None:
    before, archive = rows_of(sample), tmp_path / "archive"
    done(sample, "threads", "delete", TRIP, REFUND, "--archive", archive)
    (one,) = ops(sample)
    (path, other) = sorted(archive.iterdir())
    kept = path.read_bytes()
    path.write_bytes(kept[:-20])
    ckpt("-s", sample, "undo", "--yes", code=7, says=str(path))
    assert ops(sample, "--action", "undo")[0]["number"] == 1
    path.write_bytes(other.read_bytes())
    ckpt("-s", sample, "undo", one["op"], "--yes", code=5, says="is not the archive")
    path.write_bytes(kept)
    assert {row["op"]: row for row in ops(sample)}[one["op"]]["undoable"]
    done(sample, "undo", one["op"])
    assert rows_of(sample) == before
    assert {row["op"]: row for row in ops(sample)}[one["op"]]["undoable"] is False
    ckpt("-s", sample, "undo", one["op"], "--yes", code=5)


def test_undo_of_a_thread_takes_back_only_that_thread(sample: Path, tmp_path: Path) -> None:
    before = rows_of(sample)
    done(sample, "threads", "delete", TRIP, REFUND, "--archive", tmp_path / "archive")
    (deleted,) = ops(sample)
    answer = done(sample, "undo", REFUND, "-o", "table")
    assert answer.out.endswith(f"undid threads delete {deleted['op']} in 1 thread\n")
    assert rows_of(sample) == {row for row in before if row[1] != TRIP}
    without_trip = rows_of(sample)
    planned = ckpt("-s", sample, "undo", TRIP, "--dry-run", "-o", "json").json
    assert (planned["dry_run"], [one["thread_id"] for one in planned["threads"]]) == (True, [TRIP])
    assert ckpt("-s", sample, "undo", TRIP).code == 5, "nobody can be asked"
    assert rows_of(sample) == without_trip
    done(sample, "undo", TRIP)
    assert rows_of(sample) == before


def test_a_thread_that_was_used_since_is_left_alone(sample: Path, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    done(sample, "threads", "delete", REFUND, "--archive", archive)
    done(sample, "copy", TRIP, "--as", REFUND)
    copied, deleted = ops(sample)
    ckpt("-s", sample, "undo", deleted["op"], "--yes", code=5, says="exists again")
    done(sample, "undo", copied["op"])
    done(sample, "import", archive)
    imported = ops(sample)[0]
    done(sample, "fork", REFUND, "~1")
    before = rows_of(sample)
    moved = ckpt("-s", sample, "undo", imported["op"], "--yes")
    assert (moved.code, rows_of(sample)) == (6, before)
    assert "used since" in moved.err
    done(sample, "undo", ops(sample)[0]["op"])
    done(sample, "undo", imported["op"])
    done(sample, "undo", deleted["op"])
    done(sample, "fork", REFUND, "~1")
    refused = ckpt("-s", sample, "redo", deleted["op"], "--yes", code=6)
    assert f"cannot redo: thread '{REFUND}' was used since" in refused.err


def test_a_thread_that_is_used_while_its_copy_is_undone_stays(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, carry_out = tmp_path / "target.db", apply_memory.Work.carry_out
    done(sample, "copy", REFUND, "--to", target, "--create")

    def late(*words: Any) -> Any:
        change(target, "DELETE FROM writes WHERE idx = 0")
        return carry_out(*words)

    monkeypatch.setattr(apply_memory.Work, "carry_out", late)
    ckpt("-s", target, "undo", "--yes", code=6, says="changed since the plan was made")
    assert rows_of(target)
    assert [one["action"] for one in ops(target)] == ["copy"]


def test_what_another_user_changed_is_found_in_the_thread(
    sample: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = rows_of(sample)
    done(sample, "rollback", TRIP, "--steps", "2")
    before = rows_of(sample)
    with monkeypatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
        done(sample, "rollback", TRIP, "--steps", "1")
    both = rows_of(sample)
    done(sample, "purge", "--match", TRIP, "--keep-last", "3", "--archive", tmp_path / "archive")
    done(sample, "undo", TRIP)
    assert rows_of(sample) == both
    done(sample, "undo", TRIP)
    assert rows_of(sample) == before
    assert ops(sample, "--action", "undo")[0]["undoes"] is None
    done(sample, "rollback", TRIP, "step:3")
    with monkeypatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
        done(sample, "undo", TRIP)
    done(sample, "undo", TRIP)
    assert rows_of(sample) == first


@cases("words", f"rollback {TRIP} --steps 1", "import archive")
def test_an_undo_says_that_an_open_reader_keeps_what_it_removed(
    sample: Path, tmp_path: Path, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.1)
    done(sample, "threads", "delete", REFUND, "--archive", "archive")
    change(sample, "PRAGMA journal_mode = WAL")
    done(sample, *words.split())
    with closing(sqlite3.connect(sample)) as reader:
        reader.execute("BEGIN").execute("SELECT count(*) FROM checkpoints").fetchone()
        assert "deleted text may remain in" in done(sample, "undo").err


def test_redo_needs_nothing_of_what_was_copied(sample: Path) -> None:
    done(sample, "copy", f"{TRIP}@step:3", "--as", "other")
    after = rows_of(sample)
    done(sample, "undo")
    done(sample, "threads", "delete", TRIP)
    done(sample, "redo", ops(sample)[1]["op"])
    assert rows_of(sample) == {row for row in after if row[1] != TRIP}


def test_redo_never_undoes(sample: Path) -> None:
    done(sample, "rollback", TRIP, "--steps", "2")
    (one,) = ops(sample)
    rolled_back = rows_of(sample)
    refused = ckpt("-s", sample, "redo", one["op"], "--yes")
    assert (refused.code, rows_of(sample)) == (5, rolled_back)
    assert "not undone" in refused.err
    done(sample, "undo")
    done(sample, "redo", one["op"])
    assert rows_of(sample) == rolled_back
    ckpt("-s", sample, "redo", ops(sample)[0]["op"], "--yes", code=5)
    assert rows_of(sample) == rolled_back


def test_the_rest_of_a_copy_is_undone_later(sample: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.db"
    done(sample, "copy", TRIP, REFUND, "--to", target, "--create")
    (copy,) = ops(target)
    done(target, "rollback", TRIP, "--steps", "2")
    partly = ckpt("-s", target, "undo", copy["op"], "--yes", code=7)
    assert f"undo {ops(target, '--action', 'rollback')[0]['op']}" in partly.err
    done(target, "undo", TRIP)
    done(target, "undo", copy["op"])
    assert rows_of(target) == set()
    (why_not,) = {one["why_not"] for one in ops(target) if one["undoes"] == copy["op"]}
    assert "run the original command again" in why_not
    assert f"ops show {copy['op']}" in ckpt("-s", target, "redo", "--yes").err


@pytest.mark.parametrize("steps", ["damaged", "lost", "hidden"])
def test_without_its_steps_a_rollback_is_undone_as_the_thread_tells(
    sample: Path, steps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows_of(sample)
    done(sample, "rollback", TRIP, "--steps", "2")
    (one,) = ops(sample)
    path = Path(os.environ["XDG_STATE_HOME"], "ckpt", "operations", "steps", f"{one['op']}.ndjson")
    path.write_text("no JSON\n")
    if steps == "lost":
        path.unlink()
    if steps == "hidden":

        def stat(of: Any, *words: Any, **named: Any) -> Any:
            if os.fspath(of) == str(path):
                raise PermissionError(13, "Permission denied", str(path))
            return looked(of, *words, **named)

        looked = os.stat
        monkeypatch.setattr(os, "stat", stat)
    ckpt("-s", sample, "ops", "show", one["op"], code=0)
    undone = done(sample, "undo", TRIP)
    assert ("is found in the thread itself" in undone.err) == (steps == "damaged")
    assert rows_of(sample) == before
    assert ops(sample)[0]["undoes"] == (None if steps == "damaged" else one["op"])


def test_undo_takes_a_thread_before_an_operation(sample: Path, tmp_path: Path) -> None:
    """Also one that was removed."""
    done(sample, "rollback", REFUND, "~1")
    (one,) = ops(sample)
    word = one["op"][:4]
    done(sample, "copy", f"{TRIP}@step:3", "--as", word)
    before = rows_of(sample)
    done(sample, "threads", "delete", word, "--archive", tmp_path)
    done(sample, "undo", word)
    assert rows_of(sample) == before
    answer = done(sample, "undo", word)
    assert f"'{word}' is a thread; operation {one['op']} begins like it" in answer.err
    assert ops(sample)[0]["action"] == "undo"
    assert ops(sample, "--action", "rollback")[0]["undone_by"] is None


def test_an_operation_is_named_by_at_least_four_digits(sample: Path) -> None:
    done(sample, "rollback", TRIP, "--steps", "2")
    op, before = ops(sample)[0]["op"], rows_of(sample)
    refused = ckpt("-s", sample, "undo", op[:3], "--yes")
    assert (refused.code, rows_of(sample)) == (3, before)
    assert f"no thread '{op[:3]}'" in refused.err
    other = "0000" if not op.startswith("0000") else "1111"
    refused = ckpt("-s", sample, "undo", other, "--yes", code=3)
    assert f"no thread '{other}', and no operation whose id begins like this" in refused.err
    assert f"`ckpt -s {sample} ops list`" in refused.err


def test_plan_and_question_name_an_operation(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done(sample, "rollback", TRIP, "--steps", "2")
    op = ops(sample)[0]["op"]
    asked: list[str] = []

    def ask(question: str) -> bool:
        asked.append(question)
        return False

    monkeypatch.setattr("ckpt_cli.diagnostics.ask", ask)
    for words in (["undo"], ["undo", op[:5]], ["undo", TRIP]):
        shown = ckpt("-s", sample, *words, "-o", "table")
        assert (shown.code, f"undoes   rollback {op}, " in shown.out) == (5, True)
        assert asked.pop() == f"Undo rollback {op} of thread '{TRIP}'?"


def told(store: Path, *words: str) -> Any:
    """Return what a command tells as JSON."""
    return ckpt("-s", store, *words, "-o", "json", code=0).json


@pytest.fixture
def rolled_back(sample: Path) -> Path:
    """The sample, with a thread that was rolled back for a reason."""
    told(sample, "rollback", TRIP, "~2", "--yes", "--reason", "wrong\x1b[2J hotel")
    return sample


def test_an_added_checkpoint_names_its_operation_and_no_hidden_reason(rolled_back: Path) -> None:
    (newest, *others) = told(rolled_back, "history", TRIP)
    (listed,) = told(rolled_back, "ops", "list")
    named = newest["operation"]
    assert named == {
        **{name: listed[name] for name in ("op", "at", "user")},
        "action": "rollback",
        "reason": "wrong\x1b[2J hotel",
        "undone_by": None,
    }
    assert not any("operation" in one for one in others)
    assert "operations" not in told(rolled_back, "show", "--long", "refund-4711")
    (tree, *_) = told(rolled_back, "show", TRIP, "--tree")
    assert tree["operation"] == named
    (shown,) = told(rolled_back, "show", "--long", TRIP)["operations"]
    assert shown == named
    drawn = ckpt("-s", rolled_back, "show", TRIP, "--tree").out
    assert f"  rollback {listed['op'][:8]}: wrong\\x1b[2J hotel\n" in drawn
    page = ckpt("-s", rolled_back, "show", TRIP).out
    assert f"{listed['op']}  rollback, " in page
    for words in (
        *(f"show {TRIP} --tree", f"show --long {TRIP}", f"history {TRIP}"),
        *("ops list", f"ops show {listed['op']}"),
    ):
        for form in ("table", "json"):
            answer = ckpt("-s", rolled_back, "--redact", *words.split(), "-o", form)
            assert (answer.code, "wrong" in answer.out) == (0, False), (words, form)
    assert "wrong" not in ckpt("--redact", "ops", "list", "-o", "json").out
    assert ckpt("-s", rolled_back, "--redact", "history", TRIP, "-o", "json").json[0]["operation"]
    # What is printed to take it back can be pasted.
    (undo,) = [line.split("ckpt ", 1)[1] for line in page.splitlines() if " undo " in line]
    ckpt(*undo.split(), "--yes", code=0)
    ckpt("-s", rolled_back, "undo", TRIP, code=3)


@pytest.mark.parametrize("is_folder", [False, True])
def test_without_its_log_metadata_tell_the_reason(rolled_back: Path, *, is_folder: bool) -> None:
    log = Path(os.environ["XDG_STATE_HOME"]) / "ckpt" / "operations" / "log.ndjson"
    log.write_bytes(b'{"ckpt_operation": 1\n\xff\x00\n[]\n')
    if is_folder:
        log.unlink()
        log.mkdir()
    assert "operations" not in told(rolled_back, "show", "--long", TRIP)
    assert "operation" not in told(rolled_back, "history", TRIP)[0]
    assert "  reason: wrong\\x1b[2J hotel\n" in ckpt("-s", rolled_back, "show", TRIP, "--tree").out


def test_a_copy_in_a_thread_is_named_there_alone(sample: Path) -> None:
    told(sample, "copy", TRIP, "--at", "~2", "--as", "other", "--yes", "--reason", "to try")
    (shown,) = told(sample, "show", "--long", "other")["operations"]
    assert (shown["action"], shown["reason"]) == ("copy", "to try")
    assert not any("operation" in one for one in told(sample, "history", TRIP))
    assert any("operation" in one for one in told(sample, "history", "other"))


# The log on disk, runs that stop early or are killed, and the chain of hashes in an audit file


ROLLBACK = ("rollback", TRIP, "--steps", "1", "--yes")


def operation(place_in_log: int, **more: Any) -> Operation:
    at = datetime(2026, 4, 7, tzinfo=UTC)
    named: dict[str, Any] = {"threads": ("t",), "number": 1, **more}
    return Operation(f"{place_in_log:012x}", at, "anna", "rollback", "s.db", "here", **named)


def state() -> Path:
    return Path(os.environ["XDG_STATE_HOME"]) / "ckpt" / "operations"


def running() -> list[str]:
    return [one.name for one in state().glob("running/*")]


def all_ops(*store: Path) -> list[dict[str, Any]]:
    """Return the operations, the newest first; with a store, after what it can tell."""
    words: tuple[str | Path, ...] = ("-s", *store) if store else ()
    found: list[dict[str, Any]] = ckpt(*words, "ops", "list", "--all", "-o", "json").json
    return found


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
    ckpt("-s", sample, *ROLLBACK, code=0)
    os.chown(state() / "log.ndjson", 12345, 12345)
    ckpt("-s", sample, "undo", "--yes", code=2, says="another user owns it")


def killed(store: Path, *words: str | Path) -> tuple[dict[str, Any], Path]:
    """Roll a thread back, and make the state folder as if the run was killed before its end."""
    ckpt("-s", store, *words, *ROLLBACK, code=0)
    (one,) = all_ops()
    (kept,) = (state() / "steps").iterdir()
    return one, kept.rename(state() / "running" / kept.name)


def test_a_killed_run_is_named_once_by_the_next_one(sample: Path) -> None:
    one, left = killed(sample)
    (state() / "log.ndjson").unlink()
    other = shutil.copyfile(sample, sample.with_name("other.db"))
    assert "was stopped" not in ckpt("-s", other, "ops", "list").err
    assert left.exists()
    ckpt("-s", sample, "threads", "list", says="was stopped before it recorded")
    assert left.exists()
    words = [sys.executable, "-m", "ckpt_cli", "-s", str(sample), "ops", "list"]
    with ThreadPoolExecutor(3) as pool:
        runs = list(
            pool.map(lambda _: subprocess.run(words, capture_output=True, check=True), range(3))
        )
    assert any(f"it is now operation {one['op']}".encode() in run.stderr for run in runs)
    assert [row["op"] for row in all_ops(sample)] == [one["op"]]
    assert all_ops(sample)[0]["ended"] == "stopped; found by a later run"
    assert "operation" not in ckpt("-s", sample, "ops", "list").err
    ckpt("-s", sample, "undo", TRIP, "--yes", code=0)


def test_a_run_killed_after_its_line_is_not_recorded_twice(sample: Path) -> None:
    one, left = killed(sample)
    assert "operation" not in ckpt("-s", sample, "ops", "list").err
    assert [row["op"] for row in all_ops(sample)] == [one["op"]]
    assert not left.exists()


def test_what_another_process_still_runs_is_left_alone(sample: Path) -> None:
    log = OperationLog.of_user()
    planned = operation(7, number=0)
    place = place_of(parse_url(str(sample)))
    journal = Journal(log, from_record({**to_record(planned), "place": place}))
    assert all_ops(sample) == []
    assert "was stopped" not in ckpt("-s", sample, "threads", "list").err
    assert (log.folder / "running" / f"{planned.op}.ndjson").exists()
    journal.close(keep=False)


def test_an_interrupted_copy_is_recorded_with_all_that_it_copied(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add, target = CopyReport.add, tmp_path / "other.db"

    def interrupted(report: CopyReport, one: Any) -> None:
        add(report, one)
        if report.number == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(CopyReport, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ckpt("-s", sample, "copy", "--all", "--to", target, "--create", "--yes")
    (one,) = all_ops()
    assert (one["number"], one["undoable"], one["ended"]) == (8, True, "interrupted")
    assert not running()
    ckpt("-s", target, "undo", "--yes", code=0)
    assert rows_of(target) == frozenset()


@cases("fails", False, True)
def test_a_purge_that_stops_is_recorded_with_what_it_removed(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    why = "it is read-only" if fails else "--max-duration reached"
    first, reasons, intend = rows_of(sample), iter(["", "", why]), Recording.intend

    def refused(recording: Recording, steps: Any) -> None:
        intend(recording, steps)
        if reason := next(reasons, ""):
            raise Refused(reason)

    if fails:
        monkeypatch.setattr(Recording, "intend", refused)
    else:
        monkeypatch.setattr(Pace, "why_stop", lambda _: next(reasons))
    purge = ["purge", "--match", "*", "--include-pending", "--include-interrupted"]
    more = ["--include-error", "--batch", "1", "--archive", str(tmp_path / "archive"), "--yes"]
    ckpt("-s", sample, *purge, *more, "--vacuum", code=7, says=f"stopped: {why}; 6 threads left")
    assert change(sample, "PRAGMA freelist_count") != [(0,)]
    (one,) = all_ops()
    assert (one["number"], one["ended"]) == (2, why)
    ckpt("-s", sample, "undo", "--yes", code=0)
    assert rows_of(sample) == first


def test_a_thread_that_is_skipped_is_not_ops(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    intend = Journal.intend

    def used_meanwhile(journal: Journal, steps: Any) -> None:
        intend(journal, steps)
        with closing(sqlite3.connect(sample)) as db, db:
            db.execute("DELETE FROM writes WHERE thread_id = ?", [REFUND])

    monkeypatch.setattr(Journal, "intend", used_meanwhile)
    done = ckpt("-s", sample, "threads", "delete", TRIP, REFUND, "--yes", "-o", "json", code=7)
    assert json.loads(done.out)["removed"]["threads"] == 1
    (one,) = all_ops()
    assert (one["threads"], one["number"]) == ([TRIP], 1)


def losing(
    open_: Callable[..., Any], name: str, *, is_done: bool = False, before: int = 0
) -> Callable[..., Any]:
    """Return what opens a store whose connection is lost in a call, which may be carried out.

    `before` is the number of calls before that one.
    """

    @contextmanager
    def opened(*words: Any) -> Iterator[Any]:
        with open_(*words) as writable:
            calls = count()

            def lose(*words: Any) -> Any:
                is_lost = next(calls) == before
                found = getattr(writable, name)(*words) if is_done or not is_lost else None
                if is_lost:
                    raise StoreUnavailable("the connection was lost")
                return found

            yield SimpleNamespace(**{name: lose, "finish_removal": str})

    return opened


@pytest.mark.parametrize("is_done", [True, False])
def test_what_became_of_a_change_after_a_lost_connection_the_next_run_finds_out(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    ckpt("-s", sample, "export", TRIP, "--to", tmp_path / "archive", code=0)
    ckpt("-s", sample, "threads", "delete", TRIP, "--yes", code=0)
    with monkeypatch.context() as patch:
        patch.setattr(restore, "writable_store", losing(writable_store, "restore", is_done=is_done))
        ckpt("-s", sample, "import", tmp_path / "archive", "--yes", code=4)
    assert len(running()) == 1
    found = [(one["action"], one["threads"]) for one in all_ops(sample)]
    assert found == [("import", [TRIP])] * is_done + [("threads delete", [TRIP])]
    assert not running()


@pytest.mark.parametrize("is_done", [True, False])
def test_what_became_of_a_change_of_memory_the_next_run_finds_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    path = tmp_path / "memory.json"
    save(path, memory())
    first = json.loads(path.read_bytes())["facts"]
    delete = ("memory", "delete", "fact_e5f6g7h8", "--archive", tmp_path / "archive", "--write")
    with monkeypatch.context() as patch:
        lost = losing(open_writable_memory, "remove", is_done=is_done)
        patch.setattr(apply_memory, "open_writable_memory", lost)
        ckpt("-s", path, *delete, "--yes", code=4)
    note = ckpt("-s", path, "ops", "list").err
    assert ("before it recorded its memory delete of long-term memory;" in note) == is_done
    found = all_ops(path)
    assert [(one["action"], one["number"]) for one in found] == [("memory delete", 1)] * is_done
    assert not running()
    assert (json.loads(path.read_bytes())["facts"] != first) == is_done
    assert ckpt("-s", path, "undo", "--yes").code == (0 if is_done else 3)
    assert json.loads(path.read_bytes())["facts"] == first


def test_a_removal_of_items_that_stops_is_recorded_with_what_it_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "memory.json"
    save(path, memory())
    facts = [one["id"] for one in json.loads(path.read_bytes())["facts"]]
    lost = losing(open_writable_memory, "remove", before=1)
    monkeypatch.setattr(apply_memory, "_AT_ONCE", 1)
    monkeypatch.setattr(apply_memory, "open_writable_memory", lost)
    delete = ("memory", "delete", *facts, "--archive", tmp_path / "archive", "--write", "--yes")
    ckpt("-s", path, *delete, code=7, says="the connection was lost")
    assert [one["id"] for one in json.loads(path.read_bytes())["facts"]] == facts[1:]
    assert all_ops(path)[0]["number"] == 1


def test_whether_a_step_was_carried_out_the_store_tells(apart: Path) -> None:
    with open_store(str(apart)) as store:
        one = next(iter(store.checkpoints(TRIP)))
        there, gone = one.key, one.key._replace(checkpoint_id="gone")
        (write, *_) = (each.record() for each in store.writes(TRIP, values=True))
        kept, number = next(iter(contents_of(store, TRIP).blobs)), store.size(TRIP).checkpoints
        no_value = BlobKey("", "gone", "1")
        new = Record.apart(TRIP, *kept, TypedBytes("msgpack", b"\xc0"))

        def removal(number: int, inside: Inside | None) -> RowsRemoved:
            removed = Removal(TRIP, None, number, 0, inside)
            return RowsRemoved(PlannedRemoval("remove", "", 0, 0, removed))

        for part, is_done in (
            (AppliedChange(Change(TRIP, {}, removed={there: 0})), False),
            (AppliedChange(Change(TRIP, {}, removed={there: 0, gone: 0})), True),
            (AppliedChange(Change(TRIP, {}, blobs=(new,))), False),
            (AppliedChange(Change(TRIP, {}, removed_blobs=(kept,))), False),
            (AppliedChange(Change(TRIP, {}, removed_blobs=(no_value,))), True),
            (AppliedChange(Change(TRIP, {}, removed_blobs=(no_value, kept))), False),
            (AppliedChange(Change(TRIP, {}, writes=(write,))), True),
            (AppliedChange(Change(TRIP, {}, writes=(write._replace(idx=99),))), False),
            (removal(number, None), False),
            (removal(number + 1, None), True),
            (removal(0, Inside({"": (there.checkpoint_id,)}, (no_value,))), False),
            (removal(0, Inside({"": (there.checkpoint_id, "gone")}, (kept,))), True),
            (removal(0, Inside({}, (kept,))), False),
            (removal(0, Inside({}, (kept, no_value))), True),
        ):
            assert is_carried_out(OperationStep(TRIP, part, None), store) is is_done, part
            assert is_carried_out(OperationStep(TRIP, None, part), store) is not is_done, part


def test_a_copy_that_stopped_records_only_what_was_added(apart: Path) -> None:
    found: dict[str, Any] = {}
    recording: Any = SimpleNamespace(
        intend_more=lambda _: None, came_out=found.update, unsure=lambda: None
    )
    copy = CopyRecording(recording, parse_url(str(apart)))
    copy.intend([TRIP, "new"])
    copy.close()
    assert found == {TRIP: None, "new": None}


def test_of_a_killed_run_only_what_it_did_is_taken_back(sample: Path, tmp_path: Path) -> None:
    first, archive = rows_of(sample), tmp_path / "archive"
    done(sample, "threads", "delete", TRIP, REFUND, "--archive", archive)
    (kept,) = (state() / "steps").iterdir()
    with kept.rename(state() / "running" / kept.name).open("ab") as file:
        file.write(b'{"cut off')
    (state() / "log.ndjson").unlink()
    for table, *row in first:
        if row[0] == REFUND:
            change(sample, f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", *row)
    (one,) = all_ops(sample)
    assert (one["threads"], one["number"]) == ([TRIP], 1)
    done(sample, "undo", one["op"])
    assert rows_of(sample) == first


@cases("is_known had", (False, False), (False, True), (True, False))
def test_a_killed_copy_says_how_what_it_added_is_removed(
    sample: Path, tmp_path: Path, is_known: bool, had: bool
) -> None:
    target = tmp_path / "target.db"
    if had:
        shutil.copyfile(sample, target)
        newest = "(SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ?)"
        for table in ("writes", "checkpoints"):
            change(target, f"DELETE FROM {table} WHERE checkpoint_id = {newest}", REFUND)
    ckpt("-s", sample, "copy", REFUND, "--to", target, "--create", "--yes", code=0)
    (kept,) = (state() / "steps").iterdir()
    lines = kept.read_bytes().splitlines(keepends=True)
    # The outcome is the second step; a killed run has only the intended one, or cannot tell more.
    (state() / "running" / kept.name).write_bytes(b"".join(lines[: 3 if is_known else 2]))
    (state() / "log.ndjson").unlink()
    (one,) = all_ops(target)
    if is_known:
        assert one["number"] == 1
        done(target, "undo")
        assert rows_of(target) == set()
        return
    assert one["why_not"].startswith("it was killed before it recorded what it added")
    # A thread that the target had is not removed for what was added to it.
    remove = f"; to remove that: ckpt -s {target} threads delete {REFUND}"
    assert one["why_not"].endswith("what it added" if had else remove)


@cases(
    "words",
    f"rollback {TRIP} --steps 2 --yes",
    f"purge --match {TRIP} --keep-last 1 --yes",
    f"copy {TRIP} --to other.db --create --yes",
    "import archive --yes",
)
def test_a_change_is_carried_out_where_it_cannot_be_ops(
    sample: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.chdir(sample.parent)
    ckpt("-s", sample, "export", TRIP, "--to", "archive", code=0)
    with closing(sqlite3.connect(sample)) as db, db:
        db.execute("DELETE FROM writes WHERE thread_id = ?", [TRIP])
    state().parent.mkdir(parents=True)
    state().write_text("no folder")
    before = rows_of(sample), rows_of(Path("other.db"))
    done = ckpt("-s", sample, *words.split(), code=0)
    assert done.err.count("`ckpt ops` will not know this change") == 1
    assert (rows_of(sample), rows_of(Path("other.db"))) != before
    ckpt("-s", sample, "ops", "list", code=2)


def test_what_is_recorded_of_memory_holds_no_values_but_edited_ones(tmp_path: Path) -> None:
    save(tmp_path / "memory.json", memory())
    words = ("-s", tmp_path / "memory.json", "memory")
    ckpt(*words, "edit", "fact_a1b2c3d4", "--set", "category=goal", "--write", code=0)
    archive = ("--archive", tmp_path / "archive")
    ckpt(*words, "delete", "fact_e5f6g7h8", "--write", "--yes", *archive, code=0)
    lines = [
        json.loads(line)
        for path in state().rglob("*.ndjson")
        for line in path.read_text().splitlines()
    ]
    assert "GitHub" not in json.dumps(lines, ensure_ascii=False)
    edits = [one["command"] for one in lines if one.get("action") == "memory edit"]
    assert edits
    assert all(one.endswith("--set ... --write") for one in edits)
    # A field that was not there cannot be taken away again.
    found = json.loads((tmp_path / "memory.json").read_bytes())
    del found["facts"][0]["confidence"]
    (tmp_path / "memory.json").write_text(json.dumps(found))
    ckpt(*words, "edit", found["facts"][0]["id"], "--set", "confidence=0.5", "--write", code=0)
    assert all_ops()[0]["why_not"] == "what it replaced was not kept"


def test_a_held_log_does_not_stop_a_change(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "_PATIENCE", 0.05)
    ckpt("-s", sample, "rollback", TRIP, "--steps", "2", "--yes", code=0)
    with open(state() / "lock", "rb+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = ckpt("-s", sample, "purge", "--match", TRIP, "--keep-last", "1", "--yes")
    assert done.code == 0, done.err
    assert "another process keeps it locked" in done.err
    # The next run finds out what it did.
    assert [one["action"] for one in all_ops(sample)] == ["purge", "rollback"]


def roll_back(store: Path, audit: Path, *more: str) -> CommandResult:
    return ckpt("-s", store, "--audit", audit, *ROLLBACK, *more)


@pytest.fixture
def audit(sample: Path, tmp_path: Path) -> Path:
    """An audit file with three lines."""
    path = tmp_path / "audit.ndjson"
    assert roll_back(sample, path).code == 0
    ckpt("-s", sample, "--audit", path, "undo", TRIP, "--yes", code=0)
    assert roll_back(sample, path, "--reason", "again").code == 0
    return path


def test_each_change_is_a_line_that_names_the_hash_of_the_one_before(audit: Path) -> None:
    kept = audit.read_bytes()
    lines = kept.splitlines(keepends=True)
    records = [json.loads(line) for line in lines]
    assert [one["action"] for one in records] == ["rollback", "undo", "rollback"]
    assert records[0]["prev"] == "0" * 64
    for line, record in zip(lines, records[1:], strict=False):
        assert record["prev"] == hashlib.sha256(line).hexdigest()
    assert audit.stat().st_mode & 0o777 == 0o600
    answer = ckpt("ops", "verify", audit, "-o", "json").json
    assert (answer["lines"], answer["broken"]) == (3, None)
    assert answer["head"] == hashlib.sha256(lines[-1]).hexdigest()
    # A changed or missing line breaks the chain.
    for changed, broken in (
        (kept.replace(b'"undo"', b'"fork"'), 3),
        (b"".join((lines[0], lines[2])), 2),
        (b"".join(lines[1:]), 1),
        (kept.replace(records[2]["prev"].encode(), b""), 3),
    ):
        audit.write_bytes(changed)
        found = ckpt("ops", "verify", audit, "-o", "json")
        assert (found.code, found.json["broken"]["line"]) == (1, broken)
    # Lines that were cut off are found by a known hash alone.
    for content, code in ((kept, 0), (b"".join(lines[:2]), 1)):
        audit.write_bytes(content)
        assert "only --head HASH" in ckpt("ops", "verify", audit).err
        ckpt("ops", "verify", audit, "--head", answer["head"], code=code)


def test_a_torn_line_is_named_and_the_chain_goes_on(sample: Path, audit: Path) -> None:
    audit.write_bytes(audit.read_bytes() + b'{"ckpt_operation": 1')
    assert roll_back(sample, audit).code == 0
    found = ckpt("ops", "verify", audit, "-o", "json")
    assert (found.code, found.json["torn"], found.json["lines"]) == (0, [4], 5)


@pytest.mark.parametrize("kind", ["folder", "device", "link", "new link", "hard link", "shared"])
def test_nothing_changes_if_it_cannot_be_written(sample: Path, tmp_path: Path, kind: str) -> None:
    path = {"folder": tmp_path, "device": Path("/dev/null")}.get(kind, tmp_path / kind)
    (tmp_path / "target").touch()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "hard link").hardlink_to(tmp_path / "target")
    (tmp_path / "new link").symlink_to(tmp_path / "made")
    (tmp_path / "shared").touch()
    (tmp_path / "shared").chmod(0o622)
    before = rows_of(sample)
    refused = roll_back(sample, path)
    assert (refused.code, rows_of(sample)) == (5, before)
    assert "nothing was written" in refused.err
    assert ckpt("ops", "list", "-o", "json").json == []
    assert (tmp_path / "target").read_bytes() == b""
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("is_there", [False, True])
def test_a_killed_change_is_appended_once(sample: Path, tmp_path: Path, is_there: bool) -> None:
    path = tmp_path / "audit.ndjson"
    one, left = killed(sample, "--audit", path)
    if not is_there:
        path.unlink()
    ckpt("-s", sample, "ops", "list")
    (line,) = path.read_bytes().splitlines()
    assert json.loads(line)["op"] == one["op"]
    assert not left.exists()


def full(*_: Any) -> None:
    raise UsageError("the disk is full")


def test_a_change_whose_line_is_not_written_is_appended_by_the_next_run(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.ndjson"

    with monkeypatch.context() as patch:
        patch.setattr(AuditFile, "append", full)
        assert "the next run of ckpt appends operation" in roll_back(sample, path).err
    (one,) = ops(sample)
    assert [json.loads(line)["op"] for line in path.read_bytes().splitlines()] == [one["op"]]
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "intend", full)
        before = rows_of(sample)
        assert (roll_back(sample, path).code, rows_of(sample)) == (2, before)


def test_a_step_that_must_be_recorded_is_refused_once_the_log_is_lost(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    recorder = Recorder(parse_url(str(sample)), "anna", "", datetime.now(UTC), notes.append)
    step = OperationStep(TRIP, AppliedChange(Change(TRIP, {})), None)

    for is_lost in (True, False):
        with monkeypatch.context() as patch, recorder.operation("repair") as recording:
            recording.intend([step])
            patch.setattr(Journal, "intend", full)
            if is_lost:
                recording.intend([step])
            with pytest.raises(UsageError, match="the disk is full"):
                recording.intend([step], must_record=True)
            assert recording.recorded is None
    assert len(notes) == 2


def test_a_profile_names_the_file_if_its_configuration_is_trusted(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "ckpt.toml"
    config.write_text(f'[stores.agent]\nurl = "{sample.name}"\naudit = "audit.ndjson"\n')
    monkeypatch.chdir(tmp_path)
    ckpt("-s", "agent", *ROLLBACK, code=2, says="sets 'audit'")
    ckpt("-s", "agent", "--config", config, *ROLLBACK, code=0)
    assert len((tmp_path / "audit.ndjson").read_bytes().splitlines()) == 1
    assert ckpt("-s", "agent", "--config", config, "ops", "verify", "-o", "json").json["lines"] == 1


# The command line that is recorded


URL = "postgresql://ann:S3cret@db.example/agents?sslpassword=S3cret"


@cases(
    "words",
    ["-s", URL, "gc", "--yes"],
    [f"-qs{URL}", "gc", "--yes"],
    ["gc", f"--store={URL}", "--yes"],
    ["copy", "--all", "--to", URL, f"-vqs{URL}"],
    ["memory", "copy", f"--to={URL}", "--replace"],
    ["-s", "x", "fork", "t1", "--replace", 'note="S3cret"', "--append=note=S3cret"],
    ["repair", "messages", "t1", "--content", "S3cret", "--content=S3cret"],
    ["purge", "--where", "metadata.user = S3cret", "--where=x = S3cret"],
    ["erase", "--value", "t1:card=S3cret", "--subject=metadata.user = S3cret"],
    ["memory", "edit", "key", "--set", "content=S3cret"],
    ids=lambda words: " ".join(words)[:20],
)
def test_no_secret_is_recorded_however_it_was_written(words: list[str]) -> None:
    text = command_text(root(), words)
    assert "S3cret" not in text
    assert text.startswith("ckpt ")
    for one in words:
        if not one.startswith("-") and "S3cret" not in one:
            assert one in text.split()


def test_an_id_that_looks_like_an_option_stays_an_id() -> None:
    words = ["-s", "x", "threads", "delete", "--yes", "--", "--where", "-sURL"]
    assert command_text(root(), words) == "ckpt -s x threads delete --yes -- --where -sURL"
    words = ["-s", "x", "rollback", "t1", "--steps=3", "--yes"]
    assert command_text(root(), words) == "ckpt -s x rollback t1 --steps 3 --yes"
