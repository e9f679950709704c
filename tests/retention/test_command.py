"""What `ckpt purge` and `ckpt gc` take, refuse and say."""

import json
import os
import signal
from itertools import product
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ckpt_backends.errors import Unreadable
from ckpt_backends.postgres import connect as catalog
from ckpt_cli.plans import purge
from ckpt_cli.reading import thread
from tests.kit.agents.steps import fill
from tests.kit.cases import cases
from tests.kit.command import ckpt
from tests.kit.harness.postgres import PostgresHarness
from tests.kit.rows import change
from tests.kit.servers import Server, postgres_database
from tests.kit.terminal import ckpt_in_terminal


def ids(sample: Path) -> set[str]:
    listed = ckpt("-s", sample, "threads", "list", "--all", "-o", "json").json
    return {one["thread_id"] for one in listed}


@cases(
    "words reasons",
    ("purge --older-than 1m --match *-report", {"nightly-report": "idle for "}),
    ("purge --older-than 1m --include-error --status error", {"invoice-import": "error; idle"}),
    ("purge --older-than 1m --where metadata.source=nothing", {}),
    ("purge --match *-report --status done", {"nightly-report": "matches --match and --status"}),
    (
        "purge --match *-report --status done --keep-last 2",
        {"nightly-report": "keeps 2 of 6: newest"},
    ),
    (
        "threads delete nightly-report --match *-report --match *-digest",
        {"nightly-report": "given by id", "weekly-digest": "matches --match"},
    ),
)
def test_a_plan_says_why_threads_go(sample: Path, words: str, reasons: dict[str, str]) -> None:
    found = ckpt("-s", sample, *words.split(), "--dry-run", "-o", "json").json["threads"]
    assert {one["thread_id"] for one in found} == reasons.keys()
    assert all(reasons[one["thread_id"]] in one["reason"] for one in found)


def test_what_is_protected_stays_and_says_so(sample: Path) -> None:
    words = ["purge", "--older-than", "1m", "--protect", "*-thread", "--protect", "trip-*", "--yes"]
    for more in (["--keep-last", "1"], []):
        found = ckpt("-s", sample, *words, *more, "-o", "json").json
        assert {"thread_id": "trip-to-kyoto", "reason": "matches --protect"} in found["skipped"]
    assert ckpt("-s", sample, "history", "trip-to-kyoto", "-o", "json").json[1:]
    assert "weekly-digest" not in ids(sample)


def test_a_thread_of_unread_conditions_stays(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = thread.conditions_of_heads

    def some(store: Any, threads: Any, inference: Any) -> Any:
        if any(one.thread_id == "weekly-digest" for one in threads):
            raise Unreadable("its head is damaged")
        return read(store, threads, inference)

    monkeypatch.setattr(purge, "conditions_of_heads", some)
    monkeypatch.setattr(purge, "in_chunks", lambda threads: ([one] for one in threads))
    monkeypatch.setattr(purge, "_AT_ONCE", 1)
    monkeypatch.setattr(purge, "_MOST", 3)  # threads in a group
    found = ckpt("-s", sample, "purge", "--older-than", "1m", "--yes", "-o", "json").json
    assert {"thread_id": "weekly-digest", "reason": "its head is damaged"} in found["skipped"]
    gone = [one["thread_id"] for one in found["threads"]]
    assert "nightly-report" in gone
    assert len({*gone}) == len(gone) == 8 - len(ids(sample))


def test_a_thread_of_unknown_age_stays(sample: Path) -> None:
    ageless = "checkpoint_id = 'no-time-' || rowid, parent_checkpoint_id = NULL"
    change(sample, f"UPDATE checkpoints SET {ageless} WHERE thread_id LIKE 'trip-%'")
    found = ckpt("-s", sample, "purge", "--older-than", "1m", "--yes", "-o", "json").json
    assert {"thread_id": "trip-to-kyoto", "reason": "its age is unknown"} in found["skipped"]
    assert "trip-to-kyoto" in ids(sample)


def test_expired_goes_by_the_profile(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(sample.parent)
    for retention, goes in (("900d", False), ("1m", True)):
        text = f'[stores.a]\nurl = "{sample.name}"\nretention = "{retention}"\n'
        Path("ckpt.toml").write_text(text)
        ckpt("trust", "--yes", code=0)
        found = ckpt("-s", "a", "purge", "--expired", "--yes", "-o", "json").json
        assert bool(found["threads"]) == goes


def test_a_plan_is_applied_at_another_pace_and_to_an_archive(sample: Path, tmp_path: Path) -> None:
    """What is given to `apply` holds in place of what the plan says."""
    plan, archive, before = tmp_path / "plan", tmp_path / "archive", ids(sample)
    words = ["purge", "--match", "*", "--include-pending", "--include-error"]
    ckpt("-s", sample, *words, "--archive", tmp_path / "a", "--plan-out", plan, code=0)
    run = ["-s", str(sample), "apply", str(plan), "--yes", "--batch", "2", "--sleep", "0"]
    run += ["--archive", str(archive)]
    stopped = ckpt(*run, "--max-duration", "0s")
    assert (stopped.code, ids(sample)) == (7, before)
    assert "--max-duration reached; 7 threads left" in stopped.err
    assert "hint: run the same command again with --skip-changed" in stopped.err
    done = ckpt(*run, "--summary", code=0)
    assert len(done.out.splitlines()) == 1
    assert {"removed", "7"} <= set(done.out.replace(",", "").split()), done.out
    assert len(list(archive.iterdir())) == len(before - ids(sample)) == 7
    assert not (tmp_path / "a").exists()


def test_other_plans_take_no_option_of_a_removal(sample: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    ckpt("-s", sample, "rollback", "trip-to-kyoto", "--steps", "1", "--plan-out", str(plan), code=0)
    for option in (["--skip-changed"], ["--batch", "1"], ["--sleep", "0"], ["--archive", "x"]):
        refused = ckpt("-s", sample, "apply", plan, *option, "--yes")
        said = f"{option[0]} is for plans that remove threads"
        assert (refused.code, said in refused.err) == (2, True), refused.err


def test_the_file_keeps_its_size_unless_it_is_vacuumed(sample: Path) -> None:
    words = ["-s", str(sample), "purge", "--match", "trip-*", "--include-pending", "--yes"]
    unused = ckpt(*words, "--older-than", "900d", "-q")
    assert (unused.code, unused.out, unused.err) == (0, "", "")
    said = ckpt(*words).err
    assert "note: the file keeps its size: " in said
    assert "--vacuum" in said
    assert "keeps its size" not in ckpt(*words[:3], "--match", "*-[rd]*", "--vacuum", "--yes").err


def test_a_dry_run_ends_with_the_sum_and_shows_some_threads_on_a_terminal(sample: Path) -> None:
    change(
        sample,
        "WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 29)"
        " INSERT INTO checkpoints SELECT 't' || n, checkpoint_ns, checkpoint_id,"
        " parent_checkpoint_id, type, checkpoint, metadata FROM n JOIN checkpoints"
        " WHERE thread_id = 'weekly-digest'",
    )
    words = ["-s", str(sample), "purge", "--match", "*", "--dry-run"]
    every = len(ckpt(*words, "-o", "json").json["threads"])
    assert every > 30
    assert len(ckpt(*words, "-o", "tsv").out.splitlines()) == every + 1
    piped = ckpt(*words, "-o", "table").out.splitlines()
    shown = ckpt_in_terminal(*words, "-q", width=100, height=80)[1].splitlines()
    assert f"... and {every - 20} more; -o tsv lists all" in shown
    assert not any("more; -o tsv" in one for one in piped)
    for lines, number in ((piped, every), (shown, 20)):
        assert sum("  matches --match" in one for one in lines) == number
        assert lines[-1].startswith(f"Would remove {every} threads: ")
        assert any(one.startswith("Would keep ") for one in lines)


def test_an_archive_that_cannot_be_written_keeps_everything(sample: Path, tmp_path: Path) -> None:
    before, file = ids(sample), tmp_path / "file"
    file.write_text("")
    ckpt("-s", sample, "purge", "--match", "*", "--archive", file, "--yes", code=4)
    refused = ckpt("-s", sample, "purge", "--match", "*", "--archive", file / "in it", "--yes")
    assert (refused.code, "hint: give a folder" in refused.err) == (4, True)
    assert ids(sample) == before


def test_names_come_from_a_file(sample: Path, tmp_path: Path) -> None:
    names = tmp_path / "names"
    names.write_text("weekly-digest\n\nno such thread\n")
    words = ["-s", str(sample), "threads", "delete", "--from", str(names), "-o", "json"]
    for how in ("--dry-run", "--yes"):
        found = json.loads(ckpt(*words, how, code=7, says="not found: no such thread").out)
        assert [one["thread_id"] for one in found["threads"]] == ["weekly-digest"]
        assert found["skipped"] == [{"thread_id": "no such thread", "reason": "not found"}]
    assert "weekly-digest" not in ids(sample)
    ckpt("-s", sample, "threads", "delete", "no such thread", "--yes", code=3)
    ckpt("-s", sample, "threads", "delete", "--yes", code=2)
    names.write_text("")
    ckpt("-s", sample, "threads", "delete", "--from", names, "--yes", code=0)


def test_an_import_leaves_alone_what_has_different_contents(sample: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    words = ["-s", str(sample), "import", str(kept)]
    ckpt(*words, "--yes", code=3, says="no bundles")
    names = ["weekly-digest", "nightly-report"]
    ckpt("-s", sample, "export", *names, "--to", kept, code=0)
    for damaged, code in ((names[:1], 7), (names, 6)):
        for name in damaged:
            change(sample, "UPDATE checkpoints SET metadata = x'7b7d' WHERE thread_id = ?", name)
        for how in ("--dry-run", "--yes"):
            answer = ckpt(*words, how, code=code, says="exists with different contents")
            assert ("would not be restored" in answer.err) == (how == "--dry-run" and code == 7)


@pytest.mark.usefixtures("heeded_signals")
@cases("number", signal.SIGTERM, signal.SIGHUP)
def test_a_signal_ends_it_between_two_batches(
    sample: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    before = ids(sample)
    monkeypatch.setattr("ckpt_cli.apply.purge.time.sleep", lambda _: os.kill(os.getpid(), number))
    words = ("purge", "--match", "*", "--batch", "1", "--sleep", "2", "--yes", "-o", "json")
    report = json.loads(ckpt("-s", sample, *words, code=7, says=number.name).out)
    assert report["removed"]["threads"] == 2 == len(before - ids(sample))
    assert report["left"] == 3


def test_a_locked_table_is_waited_for_and_then_left(
    postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "_LOCK_TIMEOUT", "200ms")
    with postgres_database(postgres_server) as url:
        fill(url, "a")
        with psycopg.connect(url) as holder:
            holder.execute("LOCK TABLE checkpoints IN ROW EXCLUSIVE MODE")
            refused = ckpt("-s", url, "threads", "delete", "a", "--yes")
        assert (refused.code, "lock" in refused.err) == (4, True)
        ckpt("-s", url, "threads", "delete", "a", "--yes", code=0)


OLD, YOUNG = "1ef00000-0000-6000-8000-000000000000", "1ffffffe-0000-6000-8000-000000000000"
"""Ids of checkpoints."""


def test_writes_without_their_checkpoint_go_when_they_are_old(sample: Path) -> None:
    for place in product(("trip-to-kyoto", "nobody"), (OLD, YOUNG)):
        change(
            sample,
            "INSERT INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel,"
            " type, value) VALUES (?, '', ?, 'task', 0, 'x', 'msgpack', x'01')",
            *place,
        )
    words = ["-s", str(sample), "gc", "-o", "json", "--scope"]
    assert ckpt(*words, "calls", "--yes").json["threads"] == []
    planned = ckpt(*words, "writes", "--dry-run").json["threads"]
    assert {one["thread_id"]: one["writes"] for one in planned} == {"trip-to-kyoto": 1, "nobody": 1}
    before = ckpt("-s", sample, "show", "trip-to-kyoto", "-o", "json").json
    done = ckpt(*words, "writes", "--yes").json
    assert (done["threads"], done["removed"]["rows"]) == (planned, {"checkpoints": 0, "writes": 2})
    assert ckpt("-s", sample, "show", "trip-to-kyoto", "-o", "json").json == before
    left = change(sample, "SELECT checkpoint_id FROM writes WHERE task_id = 'task'")
    assert left == [(YOUNG,), (YOUNG,)]


def test_writes_of_a_checkpoint_with_the_same_id_in_a_subgraph_stay(sample: Path) -> None:
    change(
        sample,
        "INSERT INTO checkpoints SELECT 'nested', 'inner', ?, NULL, type, checkpoint, metadata"
        " FROM checkpoints LIMIT 1",
        OLD,
    )
    for ns in ("", "inner"):
        change(
            sample,
            "INSERT INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel,"
            " type, value) VALUES ('nested', ?, ?, 'task', 0, 'x', 'msgpack', x'01')",
            *(ns, OLD),
        )
    ckpt("-s", sample, "gc", "--scope", "writes", "--yes", code=0)
    assert change(sample, "SELECT checkpoint_ns FROM writes WHERE task_id = 'task'") == [("inner",)]


def test_calls_without_their_caller_go(sample: Path) -> None:
    of = "FROM checkpoints WHERE thread_id = 'research-agent' AND checkpoint_ns"
    change(sample, f"DELETE {of} = ''")
    ((number, first),) = change(sample, f"SELECT count(*), min(rowid) {of} LIKE '%:%'")
    # Nothing tells the caller of this one, so it stays.
    change(sample, "UPDATE checkpoints SET metadata = x'7b7d' WHERE rowid = ?", first)
    words = ["-s", str(sample), "gc", "--grace", "0s", "-o", "json"]
    every = ckpt(*words, "--dry-run").json
    assert every == ckpt(*words, "--dry-run", "--scope", "all").json
    assert every != ckpt(*words, "--dry-run", "--scope", "writes").json
    words += ["--scope", "calls"]
    (one,) = ckpt(*words, "--yes").json["threads"]
    assert (one["thread_id"], one["checkpoints"]) == ("research-agent", number - 1)
    assert ckpt(*words, "--yes").json["threads"] == []


def test_values_that_no_checkpoint_names_go(postgres_url: str) -> None:
    fill(postgres_url, "a", "b")
    with PostgresHarness.at(postgres_url) as place:
        before = place.rows("a")
        place.connection.execute(
            "INSERT INTO checkpoint_blobs SELECT thread_id, checkpoint_ns, channel, 'lost',"
            " type, blob FROM checkpoint_blobs WHERE thread_id = 'a' LIMIT 1"
        )
        words = ["-s", postgres_url, "gc", "--scope", "blobs", "-o", "json", "--yes"]
        assert ckpt(*words).json["threads"] == []
        assert place.rows("a") != before
        place.connection.execute("UPDATE checkpoints SET checkpoint = '{}' WHERE thread_id = 'b'")
        found = ckpt(*words, "--grace", "0s").json
        assert found["removed"]["rows"]["checkpoint_blobs"] == 1
        assert [one["thread_id"] for one in found["skipped"]] == ["b"]
        assert place.rows("a") == before
