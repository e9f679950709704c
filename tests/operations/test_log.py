"""What is recorded of changes: the log on disk, runs that stop early or are killed, and a chain of
hashes, which `ops verify` checks. tests/commands/test_apply.py has what each command records.
"""

import fcntl
import hashlib
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.open_for_writing import open_writable_memory
from ckpt_backends.url import parse_url
from ckpt_cli.app import root
from ckpt_cli.apply import changes as apply_memory
from ckpt_cli.apply import copy as restore
from ckpt_cli.apply.purge import Pace
from ckpt_cli.apply.recording import writable_store
from ckpt_cli.core.copying import CopyReport
from ckpt_cli.lazy import command_text
from ckpt_cli.operations import log as log_module
from ckpt_cli.operations.log import (
    Journal,
    Operation,
    OperationLog,
    from_record,
    place_of,
    to_record,
)
from tests.kit.cases import cases
from tests.kit.command import CommandResult, ckpt
from tests.kit.rows import rows_of
from tests.kit.savers.deerflow import memory, save

TRIP, REFUND = "trip-to-kyoto", "refund-4711"
ROLLBACK = ("rollback", TRIP, "--steps", "1", "--yes")


def operation(place_in_log: int, **more: Any) -> Operation:
    at = datetime(2026, 4, 7, tzinfo=UTC)
    named: dict[str, Any] = {"threads": ("t",), "number": 1, **more}
    return Operation(f"{place_in_log:012x}", at, "anna", "rollback", "s.db", "here", **named)


def state() -> Path:
    return Path(os.environ["XDG_STATE_HOME"]) / "ckpt" / "operations"


def running() -> list[str]:
    return [one.name for one in state().glob("running/*")]


def ops(*store: Path) -> list[dict[str, Any]]:
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
    assert ckpt("-s", sample, *ROLLBACK).code == 0
    os.chown(state() / "log.ndjson", 12345, 12345)
    refused = ckpt("-s", sample, "undo", "--yes")
    assert refused.code == 2
    assert "another user owns it" in refused.err


def killed(store: Path, *words: str | Path) -> tuple[dict[str, Any], Path]:
    """Roll a thread back, and make the state folder as if the run was killed before its end."""
    done = ckpt("-s", store, *words, *ROLLBACK)
    assert done.code == 0, done.err
    (one,) = ops()
    (kept,) = (state() / "steps").iterdir()
    return one, kept.rename(state() / "running" / kept.name)


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
    (one,) = ops()
    assert (one["number"], one["undoable"], one["ended"]) == (8, True, "interrupted")
    assert not running()
    assert ckpt("-s", target, "undo", "--yes").code == 0
    assert rows_of(target) == frozenset()


def test_a_purge_that_stops_is_recorded_with_what_it_removed(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, reasons = rows_of(sample), iter(["", "", "--max-duration reached"])
    monkeypatch.setattr(Pace, "why_stop", lambda _: next(reasons))
    purge = ["purge", "--match", "*", "--include-pending", "--include-interrupted"]
    more = ["--include-error", "--batch", "1", "--archive", str(tmp_path / "archive"), "--yes"]
    assert ckpt("-s", sample, *purge, *more).code == 7
    (one,) = ops()
    assert (one["number"], one["ended"]) == (2, "--max-duration reached")
    assert ckpt("-s", sample, "undo", "--yes").code == 0
    assert rows_of(sample) == first


def test_a_thread_that_is_skipped_is_not_ops(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    intend = Journal.intend

    def used_meanwhile(journal: Journal, steps: Any) -> None:
        intend(journal, steps)
        with closing(sqlite3.connect(sample)) as db, db:
            db.execute("DELETE FROM writes WHERE thread_id = ?", [REFUND])

    monkeypatch.setattr(Journal, "intend", used_meanwhile)
    assert ckpt("-s", sample, "threads", "delete", TRIP, REFUND, "--yes").code == 7
    (one,) = ops()
    assert (one["threads"], one["number"]) == ([TRIP], 1)


def losing(open_: Callable[..., Any], name: str, *, is_done: bool) -> Callable[..., Any]:
    """Return what opens a store whose connection is lost in a call, which may be carried out."""

    @contextmanager
    def opened(*words: Any) -> Iterator[Any]:
        with open_(*words) as writable:

            def lose(*words: Any) -> None:
                if is_done:
                    getattr(writable, name)(*words)
                raise StoreUnavailable("the connection was lost")

            yield SimpleNamespace(**{name: lose})

    return opened


@pytest.mark.parametrize("is_done", [True, False])
def test_what_became_of_a_change_after_a_lost_connection_the_next_run_finds_out(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    assert ckpt("-s", sample, "export", TRIP, "--to", tmp_path / "archive").code == 0
    assert ckpt("-s", sample, "threads", "delete", TRIP, "--yes").code == 0
    with monkeypatch.context() as patch:
        lost = losing(writable_store, "restore", is_done=is_done)
        patch.setattr(restore, "writable_store", lost)
        assert ckpt("-s", sample, "import", tmp_path / "archive", "--yes").code == 4
    assert len(running()) == 1
    found = [(one["action"], one["threads"]) for one in ops(sample)]
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
        assert ckpt("-s", path, *delete, "--yes").code == 4
    note = ckpt("-s", path, "ops", "list").err
    assert ("before it recorded its memory delete of long-term memory;" in note) == is_done
    found = ops(path)
    assert [(one["action"], one["number"]) for one in found] == [("memory delete", 1)] * is_done
    assert not running()
    assert (json.loads(path.read_bytes())["facts"] != first) == is_done
    assert ckpt("-s", path, "undo", "--yes").code == (0 if is_done else 3)
    assert json.loads(path.read_bytes())["facts"] == first


def test_a_killed_copy_says_how_what_it_added_is_removed(sample: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.db"
    copied = ckpt("-s", sample, "copy", REFUND, "--to", target, "--create", "--yes")
    assert copied.code == 0, copied.err
    (kept,) = (state() / "steps").iterdir()
    lines = kept.read_bytes().splitlines(keepends=True)
    # The outcome is the second step; a killed run has only the intended one.
    (state() / "running" / kept.name).write_bytes(b"".join(lines[:2]))
    (state() / "log.ndjson").unlink()
    (one,) = ops(target)
    assert one["why_not"].startswith("it was killed before it recorded what it added")
    assert one["why_not"].endswith(f"ckpt -s {target} threads delete {REFUND}")


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
    assert ckpt("-s", sample, "export", TRIP, "--to", "archive").code == 0
    with closing(sqlite3.connect(sample)) as db, db:
        db.execute("DELETE FROM writes WHERE thread_id = ?", [TRIP])
    state().parent.mkdir(parents=True)
    state().write_text("no folder")
    before = rows_of(sample), rows_of(Path("other.db"))
    done = ckpt("-s", sample, *words.split())
    assert done.code == 0, done.err
    assert done.err.count("`ckpt ops` will not know this change") == 1
    assert (rows_of(sample), rows_of(Path("other.db"))) != before
    assert ckpt("-s", sample, "ops", "list").code == 2


def test_what_is_recorded_of_memory_holds_no_values_but_edited_ones(tmp_path: Path) -> None:
    save(tmp_path / "memory.json", memory())
    words = ("-s", tmp_path / "memory.json", "memory")
    assert ckpt(*words, "edit", "fact_a1b2c3d4", "--set", "category=goal", "--write").code == 0
    archive = ("--archive", tmp_path / "archive")
    assert ckpt(*words, "delete", "fact_e5f6g7h8", "--write", "--yes", *archive).code == 0
    lines = [
        json.loads(line)
        for path in state().rglob("*.ndjson")
        for line in path.read_text().splitlines()
    ]
    assert "GitHub" not in json.dumps(lines, ensure_ascii=False)
    edits = [one["command"] for one in lines if one.get("action") == "memory edit"]
    assert edits
    assert all(one.endswith("--set ... --write") for one in edits)


def test_a_log_that_another_process_holds_does_not_stop_a_change(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "_PATIENCE", 0.05)
    assert ckpt("-s", sample, "rollback", TRIP, "--steps", "2", "--yes").code == 0
    with open(state() / "lock", "rb+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = ckpt("-s", sample, "purge", "--match", TRIP, "--keep-last", "1", "--yes")
    assert done.code == 0, done.err
    assert "another process keeps it locked" in done.err
    # The next run finds out what it did.
    assert [one["action"] for one in ops(sample)] == ["purge", "rollback"]


def roll_back(store: Path, audit: Path, *more: str) -> CommandResult:
    return ckpt("-s", store, "--audit", audit, *ROLLBACK, *more)


@pytest.fixture
def audit(sample: Path, tmp_path: Path) -> Path:
    """An audit file with three lines."""
    path = tmp_path / "audit.ndjson"
    assert roll_back(sample, path).code == 0
    assert ckpt("-s", sample, "--audit", path, "undo", TRIP, "--yes").code == 0
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
    ):
        audit.write_bytes(changed)
        found = ckpt("ops", "verify", audit, "-o", "json")
        assert (found.code, found.json["broken"]["line"]) == (1, broken)
    # Lines that were cut off are found by a known hash alone.
    for content, code in ((kept, 0), (b"".join(lines[:2]), 1)):
        audit.write_bytes(content)
        assert "only --head HASH" in ckpt("ops", "verify", audit).err
        assert ckpt("ops", "verify", audit, "--head", answer["head"]).code == code


def test_a_torn_line_is_named_and_the_chain_goes_on(sample: Path, audit: Path) -> None:
    audit.write_bytes(audit.read_bytes() + b'{"ckpt_operation": 1')
    assert roll_back(sample, audit).code == 0
    found = ckpt("ops", "verify", audit, "-o", "json")
    assert (found.code, found.json["torn"], found.json["lines"]) == (0, [4], 5)


@pytest.mark.parametrize("kind", ["folder", "device", "link", "new link", "hard link", "shared"])
def test_nothing_is_changed_if_it_cannot_be_written(
    sample: Path, tmp_path: Path, kind: str
) -> None:
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


def test_a_killed_change_is_appended_by_the_next_run(sample: Path, tmp_path: Path) -> None:
    path = tmp_path / "audit.ndjson"
    one, left = killed(sample, "--audit", path)
    path.unlink()
    ckpt("-s", sample, "ops", "list")
    assert json.loads(path.read_bytes())["op"] == one["op"]
    assert not left.exists()


def test_a_profile_names_the_file_if_its_configuration_is_trusted(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "ckpt.toml"
    config.write_text(f'[stores.agent]\nurl = "{sample.name}"\naudit = "audit.ndjson"\n')
    monkeypatch.chdir(tmp_path)
    refused = ckpt("-s", "agent", *ROLLBACK)
    assert refused.code == 2
    assert "sets 'audit'" in refused.err
    assert ckpt("-s", "agent", "--config", config, *ROLLBACK).code == 0
    assert len((tmp_path / "audit.ndjson").read_bytes().splitlines()) == 1
    verified = ckpt("-s", "agent", "--config", config, "ops", "verify", "-o", "json")
    assert verified.json["lines"] == 1


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
