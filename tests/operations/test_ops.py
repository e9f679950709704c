"""`ckpt ops`: what is listed, shown, undone, redone and refused, and where operations are named."""

import os
import shutil
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.postgres import PostgresSaver

from ckpt_backends.testing.screen import Seat, sit
from tests.kit.agents.steps import config_of, fill, graph_of
from tests.kit.command import CommandResult, ckpt
from tests.kit.rows import rows_of

TRIP, REFUND = "trip-to-kyoto", "refund-4711"


@pytest.fixture
def store(sample: Path) -> Path:
    return sample


def done(store: Path, *words: str | Path) -> CommandResult:
    answer = ckpt("-s", store, *words, "--yes")
    assert answer.code == 0, answer.err
    return answer


def ops(store: Path, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ckpt("-s", store, "ops", "list", *words, "-o", "json").json
    return found


def test_what_is_listed_and_shown(store: Path) -> None:
    rolled = done(store, "rollback", TRIP, "--steps", "2", "--reason", "wrong hotel", "-o", "json")
    done(store, "fork", REFUND, "~1")
    newest, first = ops(store)
    assert (first["undoable"], first["undone_by"], newest["action"]) == (True, None, "fork")
    assert [one["op"] for one in ops(store, "--thread", TRIP)] == [first["op"]]
    assert [one["op"] for one in ops(store, "--action", "fork")] == [newest["op"]]
    assert [one["op"] for one in ops(store, "-n", "1")] == [newest["op"]]
    (step,) = ckpt("-s", store, "ops", "show", first["op"][:4], "-o", "json").json["steps"]
    assert rolled.json["checkpoint_id"] in step["checkpoints"]
    assert step["did"].startswith("add ")
    text = ckpt("-s", store, "ops", "show", first["op"], "-o", "table").out
    assert f"undo {first['op']}" in text


def test_operations_of_another_store_are_listed_only_without_a_store(
    store: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.db"
    shutil.copyfile(store, other)
    done(store, "rollback", TRIP, "--steps", "2")
    done(other, "rollback", TRIP, "--steps", "1")
    assert len(ops(store)) == len(ops(other)) == 1
    assert len(ckpt("ops", "list", "-o", "json").json) == 2
    refused = ckpt("-s", store, "undo", ops(other)[0]["op"], "--yes")
    assert refused.code == 2
    assert str(other) in refused.err


def test_undo_and_redo_go_back_and_forth(store: Path) -> None:
    first = rows_of(store)
    done(store, "rollback", TRIP, "--steps", "2")
    second = rows_of(store)
    done(store, "fork", REFUND, "~1")
    third = rows_of(store)
    for words, rows in (
        ("undo", second),
        ("undo", first),
        ("redo", second),
        ("redo", third),
        ("undo", second),
    ):
        done(store, words)
        assert rows_of(store) == rows
    done(store, "redo")
    assert ckpt("-s", store, "redo", "--yes").code == 3


def test_one_in_the_middle_is_undone_if_nothing_depends_on_it(store: Path) -> None:
    first = rows_of(store)
    done(store, "rollback", TRIP, "--steps", "2")
    added = rows_of(store) - first
    done(store, "rollback", TRIP, "step:3")
    both = rows_of(store)
    done(store, "undo", ops(store)[1]["op"])
    assert rows_of(store) == both - added
    for at, words, said in (
        (1, ("fork", TRIP, "head"), "follows"),
        (0, ("rollback", TRIP, "head", "--sibling"), "is a copy of it"),
    ):
        needed = ops(store)[at]
        done(store, *words)
        later, before = ops(store)[0], rows_of(store)
        refused = ckpt("-s", store, "undo", needed["op"], "--yes")
        assert (refused.code, said in refused.err, rows_of(store)) == (5, True, before)
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
    store: Path, tmp_path: Path
) -> None:
    before = rows_of(store)
    for number, keep in enumerate("42"):
        archive = ("--archive", tmp_path / f"archive-{number}")
        done(store, "purge", "--match", TRIP, "--keep-last", keep, *archive)
    later, first = ops(store)
    refused = ckpt("-s", store, "undo", first["op"], "--yes")
    assert (refused.code, "lost other checkpoints since" in refused.err) == (5, True)
    for one in (later, first):
        done(store, "undo", one["op"])
    assert rows_of(store) == before


def test_a_purge_is_undone_from_its_archives(store: Path, tmp_path: Path) -> None:
    before, archive = rows_of(store), tmp_path / "archive"
    done(store, "threads", "delete", TRIP, REFUND, "--archive", archive)
    (one,) = ops(store)
    (path, _) = sorted(archive.iterdir())
    kept = path.read_bytes()
    path.write_bytes(kept[:-20])
    partly = ckpt("-s", store, "undo", "--yes")
    assert partly.code == 7
    assert str(path) in partly.err
    assert ops(store, "--action", "undo")[0]["number"] == 1
    path.write_bytes(kept)
    assert {row["op"]: row for row in ops(store)}[one["op"]]["undoable"]
    done(store, "undo", one["op"])
    assert rows_of(store) == before
    assert {row["op"]: row for row in ops(store)}[one["op"]]["undoable"] is False
    assert ckpt("-s", store, "undo", one["op"], "--yes").code == 5


def test_undo_of_a_thread_takes_back_only_that_thread(store: Path, tmp_path: Path) -> None:
    before = rows_of(store)
    done(store, "threads", "delete", TRIP, REFUND, "--archive", tmp_path / "archive")
    (deleted,) = ops(store)
    answer = done(store, "undo", REFUND, "-o", "table")
    assert answer.out.endswith(f"undid threads delete {deleted['op']} in 1 thread\n")
    assert rows_of(store) == {row for row in before if row[1] != TRIP}
    without_trip = rows_of(store)
    planned = ckpt("-s", store, "undo", TRIP, "--dry-run", "-o", "json").json
    assert (planned["dry_run"], [one["thread_id"] for one in planned["threads"]]) == (True, [TRIP])
    assert ckpt("-s", store, "undo", TRIP).code == 5, "nobody can be asked"
    assert rows_of(store) == without_trip
    done(store, "undo", TRIP)
    assert rows_of(store) == before


def test_a_thread_that_was_used_since_is_left_alone(store: Path, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    done(store, "threads", "delete", REFUND, "--archive", archive)
    done(store, "import", archive)
    imported, deleted = ops(store)
    done(store, "fork", REFUND, "~1")
    before = rows_of(store)
    moved = ckpt("-s", store, "undo", imported["op"], "--yes")
    assert (moved.code, rows_of(store)) == (6, before)
    assert "used since" in moved.err
    done(store, "undo", ops(store)[0]["op"])
    done(store, "undo", imported["op"])
    done(store, "undo", deleted["op"])
    done(store, "fork", REFUND, "~1")
    refused = ckpt("-s", store, "redo", deleted["op"], "--yes")
    assert refused.code == 6
    assert f"cannot redo: thread '{REFUND}' was used since" in refused.err


def test_what_another_user_changed_is_found_in_the_thread(
    store: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = rows_of(store)
    done(store, "rollback", TRIP, "--steps", "2")
    before = rows_of(store)
    with monkeypatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
        done(store, "rollback", TRIP, "--steps", "1")
    done(store, "undo", TRIP)
    assert rows_of(store) == before
    done(store, "rollback", TRIP, "step:3")
    with monkeypatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
        done(store, "undo", TRIP)
    done(store, "undo", TRIP)
    assert rows_of(store) == first


def test_redo_never_undoes(store: Path) -> None:
    done(store, "rollback", TRIP, "--steps", "2")
    (one,) = ops(store)
    rolled_back = rows_of(store)
    refused = ckpt("-s", store, "redo", one["op"], "--yes")
    assert (refused.code, rows_of(store)) == (5, rolled_back)
    assert "not undone" in refused.err
    done(store, "undo")
    done(store, "redo", one["op"])
    assert rows_of(store) == rolled_back
    assert ckpt("-s", store, "redo", ops(store)[0]["op"], "--yes").code == 5
    assert rows_of(store) == rolled_back


def test_the_rest_of_a_copy_is_undone_later(store: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.db"
    done(store, "copy", TRIP, REFUND, "--to", target, "--create")
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
    store: Path, steps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows_of(store)
    done(store, "rollback", TRIP, "--steps", "2")
    (one,) = ops(store)
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
    assert ckpt("-s", store, "ops", "show", one["op"]).code == 0
    done(store, "undo", TRIP)
    assert rows_of(store) == before


def test_undo_takes_a_thread_before_an_operation(store: Path, tmp_path: Path) -> None:
    """Also one that was removed."""
    done(store, "rollback", REFUND, "~1")
    (one,) = ops(store)
    word = one["op"][:4]
    done(store, "copy", f"{TRIP}@step:3", "--as", word)
    before = rows_of(store)
    done(store, "threads", "delete", word, "--archive", tmp_path)
    done(store, "undo", word)
    assert rows_of(store) == before
    answer = done(store, "undo", word)
    assert f"'{word}' is a thread; operation {one['op']} begins like it" in answer.err
    assert ops(store)[0]["action"] == "undo"
    assert ops(store, "--action", "rollback")[0]["undone_by"] is None


def test_an_operation_is_named_by_at_least_four_digits(store: Path) -> None:
    done(store, "rollback", TRIP, "--steps", "2")
    op, before = ops(store)[0]["op"], rows_of(store)
    refused = ckpt("-s", store, "undo", op[:3], "--yes")
    assert (refused.code, rows_of(store)) == (3, before)
    assert f"no thread '{op[:3]}'" in refused.err
    other = "0000" if not op.startswith("0000") else "1111"
    refused = ckpt("-s", store, "undo", other, "--yes")
    assert refused.code == 3
    assert f"no thread '{other}', and no operation whose id begins like this" in refused.err
    assert f"`ckpt -s {store} ops list`" in refused.err


def test_the_plan_and_the_question_name_the_operation(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done(store, "rollback", TRIP, "--steps", "2")
    op = ops(store)[0]["op"]
    asked: list[str] = []

    def ask(question: str) -> bool:
        asked.append(question)
        return False

    monkeypatch.setattr("ckpt_cli.diagnostics.ask", ask)
    for words in (["undo"], ["undo", op[:5]], ["undo", TRIP]):
        shown = ckpt("-s", store, *words, "-o", "table")
        assert (shown.code, f"undoes   rollback {op}, " in shown.out) == (5, True)
        assert asked.pop() == f"Undo rollback {op} of thread '{TRIP}'?"


@pytest.mark.parametrize(("old", "new"), [("undo", "undo OP"), ("redo", "redo OP")])
def test_the_former_names_lead_to_the_new_ones(store: Path, old: str, new: str) -> None:
    refused = ckpt("-s", store, "ops", old, "3f2a")
    assert (refused.code, f"hint: use `ckpt {new}`" in refused.err) == (2, True)


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


def test_a_checkpoint_that_was_added_names_its_operation(rolled_back: Path) -> None:
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


def test_people_read_its_id_and_reason(rolled_back: Path) -> None:
    (listed,) = told(rolled_back, "ops", "list")
    drawn = ckpt("-s", rolled_back, "show", TRIP, "--tree").out
    assert f"  rollback {listed['op'][:8]}: wrong\\x1b[2J hotel\n" in drawn
    shown = ckpt("-s", rolled_back, "show", TRIP).out
    assert f"{listed['op']}  rollback, " in shown
    (undo,) = [line.split("ckpt ", 1)[1] for line in shown.splitlines() if " undo " in line]
    assert ckpt(*undo.split(), "--yes").code == 0
    assert ckpt("-s", rolled_back, "undo", TRIP).code == 3


def test_the_screen_names_it(rolled_back: Path) -> None:
    (listed,) = told(rolled_back, "ops", "list")

    async def look(seat: Seat) -> None:
        seat.main.go_to(TRIP)
        await seat.rest()
        assert seat.sees(f"rollback {listed['op'][:8]}: wrong")

    sit(rolled_back, look, size=(120, 60))


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


def test_a_redacted_answer_has_no_reason(rolled_back: Path) -> None:
    (listed,) = told(rolled_back, "ops", "list")
    for words in (
        *(f"show {TRIP} --tree", f"show --long {TRIP}", f"history {TRIP}"),
        *("ops list", f"ops show {listed['op']}"),
    ):
        for form in ("table", "json"):
            answer = ckpt("-s", rolled_back, "--redact", *words.split(), "-o", form)
            assert (answer.code, "wrong" in answer.out) == (0, False), (words, form)
    assert "wrong" not in ckpt("--redact", "ops", "list", "-o", "json").out
    assert ckpt("-s", rolled_back, "--redact", "history", TRIP, "-o", "json").json[0]["operation"]


def test_a_copy_in_a_thread_is_named_there_alone(sample: Path) -> None:
    told(sample, "copy", TRIP, "--at", "~2", "--as", "other", "--yes", "--reason", "to try")
    (shown,) = told(sample, "show", "--long", "other")["operations"]
    assert (shown["action"], shown["reason"]) == ("copy", "to try")
    assert not any("operation" in one for one in told(sample, "history", TRIP))
    assert any("operation" in one for one in told(sample, "history", "other"))
