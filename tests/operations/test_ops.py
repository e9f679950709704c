"""`ckpt ops`: what is listed, shown, undone, redone and refused, and where operations are named."""

import os
import shutil
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.postgres import PostgresSaver

from tests.kit.agents.steps import config_of, fill, graph_of
from tests.kit.command import CommandResult, ckpt
from tests.kit.rows import rows_of

TRIP, REFUND = "trip-to-kyoto", "refund-4711"


def done(store: Path, *words: str | Path) -> CommandResult:
    answer = ckpt("-s", store, *words, "--yes")
    assert answer.code == 0, answer.err
    return answer


def ops(store: Path, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ckpt("-s", store, "ops", "list", *words, "-o", "json").json
    return found


def test_what_is_listed_and_shown(sample: Path) -> None:
    rolled = done(sample, "rollback", TRIP, "--steps", "2", "--reason", "wrong hotel", "-o", "json")
    done(sample, "fork", REFUND, "~1")
    newest, first = ops(sample)
    assert (first["undoable"], first["undone_by"], newest["action"]) == (True, None, "fork")
    assert [one["op"] for one in ops(sample, "--thread", TRIP)] == [first["op"]]
    assert [one["op"] for one in ops(sample, "--action", "fork")] == [newest["op"]]
    assert [one["op"] for one in ops(sample, "-n", "1")] == [newest["op"]]
    (step,) = ckpt("-s", sample, "ops", "show", first["op"][:4], "-o", "json").json["steps"]
    assert rolled.json["checkpoint_id"] in step["checkpoints"]
    assert step["did"].startswith("add ")
    text = ckpt("-s", sample, "ops", "show", first["op"], "-o", "table").out
    assert f"undo {first['op']}" in text


def test_operations_of_another_store_are_listed_only_without_a_store(
    sample: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.db"
    shutil.copyfile(sample, other)
    done(sample, "rollback", TRIP, "--steps", "2")
    done(other, "rollback", TRIP, "--steps", "1")
    assert len(ops(sample)) == len(ops(other)) == 1
    assert len(ckpt("ops", "list", "-o", "json").json) == 2
    refused = ckpt("-s", sample, "undo", ops(other)[0]["op"], "--yes")
    assert refused.code == 2
    assert str(other) in refused.err


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
    assert ckpt("-s", sample, "redo", "--yes").code == 3


def test_one_in_the_middle_is_undone_if_nothing_depends_on_it(sample: Path) -> None:
    first = rows_of(sample)
    done(sample, "rollback", TRIP, "--steps", "2")
    added = rows_of(sample) - first
    done(sample, "rollback", TRIP, "step:3")
    both = rows_of(sample)
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


def test_undo_of_a_prune_brings_back_nothing_that_a_later_one_removed(
    sample: Path, tmp_path: Path
) -> None:
    before = rows_of(sample)
    for number, keep in enumerate("42"):
        archive = ("--archive", tmp_path / f"archive-{number}")
        done(sample, "purge", "--match", TRIP, "--keep-last", keep, *archive)
    later, first = ops(sample)
    refused = ckpt("-s", sample, "undo", first["op"], "--yes")
    assert (refused.code, "lost other checkpoints since" in refused.err) == (5, True)
    for one in (later, first):
        done(sample, "undo", one["op"])
    assert rows_of(sample) == before


def test_a_purge_is_undone_from_its_archives(sample: Path, tmp_path: Path) -> None:
    before, archive = rows_of(sample), tmp_path / "archive"
    done(sample, "threads", "delete", TRIP, REFUND, "--archive", archive)
    (one,) = ops(sample)
    (path, _) = sorted(archive.iterdir())
    kept = path.read_bytes()
    path.write_bytes(kept[:-20])
    partly = ckpt("-s", sample, "undo", "--yes")
    assert partly.code == 7
    assert str(path) in partly.err
    assert ops(sample, "--action", "undo")[0]["number"] == 1
    path.write_bytes(kept)
    assert {row["op"]: row for row in ops(sample)}[one["op"]]["undoable"]
    done(sample, "undo", one["op"])
    assert rows_of(sample) == before
    assert {row["op"]: row for row in ops(sample)}[one["op"]]["undoable"] is False
    assert ckpt("-s", sample, "undo", one["op"], "--yes").code == 5


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
    done(sample, "import", archive)
    imported, deleted = ops(sample)
    done(sample, "fork", REFUND, "~1")
    before = rows_of(sample)
    moved = ckpt("-s", sample, "undo", imported["op"], "--yes")
    assert (moved.code, rows_of(sample)) == (6, before)
    assert "used since" in moved.err
    done(sample, "undo", ops(sample)[0]["op"])
    done(sample, "undo", imported["op"])
    done(sample, "undo", deleted["op"])
    done(sample, "fork", REFUND, "~1")
    refused = ckpt("-s", sample, "redo", deleted["op"], "--yes")
    assert refused.code == 6
    assert f"cannot redo: thread '{REFUND}' was used since" in refused.err


def test_what_another_user_changed_is_found_in_the_thread(
    sample: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = rows_of(sample)
    done(sample, "rollback", TRIP, "--steps", "2")
    before = rows_of(sample)
    with monkeypatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
        done(sample, "rollback", TRIP, "--steps", "1")
    done(sample, "undo", TRIP)
    assert rows_of(sample) == before
    done(sample, "rollback", TRIP, "step:3")
    with monkeypatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
        done(sample, "undo", TRIP)
    done(sample, "undo", TRIP)
    assert rows_of(sample) == first


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
    assert ckpt("-s", sample, "redo", ops(sample)[0]["op"], "--yes").code == 5
    assert rows_of(sample) == rolled_back


def test_the_rest_of_a_copy_is_undone_later(sample: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.db"
    done(sample, "copy", TRIP, REFUND, "--to", target, "--create")
    (copy,) = ops(target)
    done(target, "rollback", TRIP, "--steps", "2")
    partly = ckpt("-s", target, "undo", copy["op"], "--yes")
    assert partly.code == 7
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
    assert ckpt("-s", sample, "ops", "show", one["op"]).code == 0
    done(sample, "undo", TRIP)
    assert rows_of(sample) == before


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
    refused = ckpt("-s", sample, "undo", other, "--yes")
    assert refused.code == 3
    assert f"no thread '{other}', and no operation whose id begins like this" in refused.err
    assert f"`ckpt -s {sample} ops list`" in refused.err


def test_the_plan_and_the_question_name_the_operation(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    found = ckpt("-s", store, *words, "-o", "json")
    assert found.code == 0, found.err
    return found.json


@pytest.fixture
def rolled_back(sample: Path) -> Path:
    """The sample, with a thread that was rolled back for a reason."""
    told(sample, "rollback", TRIP, "~2", "--yes", "--reason", "wrong\x1b[2J hotel")
    return sample


def test_a_checkpoint_that_was_added_names_its_operation_unless_reasons_are_hidden(
    rolled_back: Path,
) -> None:
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
    assert ckpt(*undo.split(), "--yes").code == 0
    assert ckpt("-s", rolled_back, "undo", TRIP).code == 3


@pytest.mark.parametrize("is_folder", [False, True])
def test_without_its_log_the_metadata_tells_the_reason(
    rolled_back: Path, *, is_folder: bool
) -> None:
    log = Path(os.environ["XDG_STATE_HOME"]) / "ckpt" / "operations" / "log.ndjson"
    log.write_bytes(b'{"ckpt_operation": 1\n\xff\x00\n[]\n')
    if is_folder:
        log.unlink()
        log.mkdir()
    shown = told(rolled_back, "show", "--long", TRIP)
    assert "operations" not in shown
    assert "operation" not in told(rolled_back, "history", TRIP)[0]
    drawn = ckpt("-s", rolled_back, "show", TRIP, "--tree").out
    assert "  reason: wrong\\x1b[2J hotel\n" in drawn


def test_a_copy_in_a_thread_is_named_there_alone(sample: Path) -> None:
    told(sample, "copy", TRIP, "--at", "~2", "--as", "other", "--yes", "--reason", "to try")
    (shown,) = told(sample, "show", "--long", "other")["operations"]
    assert (shown["action"], shown["reason"]) == ("copy", "to try")
    assert not any("operation" in one for one in told(sample, "history", TRIP))
    assert any("operation" in one for one in told(sample, "history", "other"))
