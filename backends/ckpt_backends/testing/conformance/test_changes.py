"""Each change: planned, carried out, read by the official library, and taken back."""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ckpt_backends.testing.chance import Chance
from ckpt_backends.testing.command_line import CommandResult
from ckpt_backends.testing.conformance.changes import (
    CHANGES,
    ChangeCase,
    archived,
    has_the_value,
    is_gone,
)
from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.killing import calls_of, kill_at
from ckpt_backends.testing.library import EmptyStore
from ckpt_backends.testing.official import without_ids

VALUES_ONLY = False
_LONGEST_LOCK = 75.0
"""Seconds after which the lock of a killed run must have expired."""
ONLY_OF_ONE = {
    *("dry_run", "change", "undo", "op", "removed", "before", "after"),
    *("complete", "places", "statements", "remains"),
}
"""Keys that a plan or its report has alone, or that say whether it is carried out."""


@pytest.fixture
def emptied(empty_store: EmptyStore) -> Iterator[EmptyStore]:
    """The store, without threads before and after the test."""
    with quiet():
        yield empty_store
        empty_store.clear()
        empty_store.ckpt("threads", "delete", "new", "--yes")


@pytest.fixture(params=CHANGES)
def case(
    request: pytest.FixtureRequest, emptied: EmptyStore, tmp_path: Path
) -> Iterator[ChangeCase]:
    """Each change, on a store that has what it needs."""
    found = CHANGES[request.param]
    if emptied.harness.recording and found.prepare.__name__ not in {"done", "asking", "archived"}:
        pytest.skip("needs a graph in Python")
    if found.scenario in emptied.harness.skipped_scenarios:
        pytest.skip(f"stores no {found.scenario}")
    if why := found.why_not(emptied):
        pytest.skip(why)
    if found.check is is_gone:
        # Without any thread, a database may look like one of another layout.
        emptied.library.run("other", "in")
    found.prepare(emptied, tmp_path)
    yield found
    if found.check is is_gone:
        emptied.library.forget("other")


def permission(store: EmptyStore, case: ChangeCase) -> list[str]:
    """Return the option that an archive needs which holds the pickles of this test."""
    return ["--allow-pickle"] if store.harness.stores_pickles and case.prepare is archived else []


def told(answer: CommandResult) -> str:
    """Return what an answer has of a plan and of a report, with numbers in place of new ids."""
    assert answer.code == 0, answer.err
    records = answer.json if isinstance(answer.json, list) else [answer.json]
    kept = [{k: v for k, v in one.items() if k not in ONLY_OF_ONE} for one in records]
    for one in kept:
        if "notes" in one:
            # A plan may be carried out when the thread is not young any more.
            one["notes"] = [note for note in one["notes"] if "seconds old" not in note]
    return without_ids(json.dumps(kept))


def rows(store: EmptyStore) -> Any:
    return store.rows("a"), store.rows("new")


def test_a_change_is_planned_carried_out_read_by_the_library_and_taken_back(
    emptied: EmptyStore, case: ChangeCase, tmp_path: Path
) -> None:
    before, allowed = rows(emptied), permission(emptied, case)
    words = [*case.command_line(tmp_path), *allowed, "-o", "json"]
    unchanged = emptied.harness.fingerprint()
    planned = emptied.ckpt(*words, "--dry-run")
    assert emptied.ckpt(*words).code == 5, "nobody can be asked"
    assert emptied.harness.fingerprint() == unchanged
    plan = tmp_path / "plan.ndjson"
    assert emptied.ckpt(*words, "--plan-out", plan).code == 0
    assert emptied.harness.fingerprint() == unchanged
    done = emptied.ckpt("apply", plan, *allowed, "--yes", "-o", "json")
    assert told(done) == told(planned), "the report must tell what the plan told"
    case.check(emptied)
    after = rows(emptied)
    assert emptied.ckpt("apply", plan, *allowed, "--yes").code == 6, "a plan is carried out once"
    (one, *_) = emptied.ckpt("ops", "list", "-o", "json").json
    undone = emptied.ckpt("undo", one["op"], "--yes")
    assert (undone.code == 0) == one["undoable"] == case.can_undo, undone.err
    if not case.can_undo:
        assert rows(emptied) == after
        return
    assert rows(emptied) == before, "undo must give the rows of before back"
    assert emptied.ckpt("redo", "--yes").code == 0
    case.check(emptied)


def test_a_plan_is_not_carried_out_on_a_thread_that_moved(
    emptied: EmptyStore, case: ChangeCase, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.ndjson"
    allowed = permission(emptied, case)
    planned = emptied.ckpt(*case.command_line(tmp_path), *allowed, "--plan-out", plan)
    assert planned.code == 0, planned.err
    if case.check is has_the_value:
        # A saver may refuse to load a checkpoint without a value that it names.
        assert emptied.ckpt("rollback", "a", "~1", "--yes").code == 0
    else:
        emptied.fill("a")
    moved = rows(emptied)
    refused = emptied.ckpt("apply", plan, *allowed, "--yes")
    assert (refused.code, rows(emptied)) == (6, moved), refused.err


@pytest.mark.parametrize("at_random", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_a_killed_change_is_whole_or_nothing_and_the_log_tells_which(
    emptied: EmptyStore, case: ChangeCase, tmp_path: Path, chance: Chance, at_random: bool
) -> None:
    """The next run finds out what a killed one did. What cannot be undone, it completes."""
    allowed = permission(emptied, case)
    words = ["-s", emptied.url, *case.command_line(tmp_path), *allowed, "--yes"]
    calls = calls_of(words, since="open_writable")
    rounds = chance.rounds(10) if at_random else map(Random, "abc")
    for call in (dice.choice(calls) for dice in rounds):
        emptied.clear()
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
        case.prepare(emptied, tmp_path)
        emptied.made.append("new")
        before, known = rows(emptied), operations(emptied)
        kill_at(words, call, since="open_writable")
        found = [one for op, one in operations(emptied).items() if op not in known]
        if not case.can_undo:
            assert unlocked(emptied, *words[2:]).code == 0
            case.check(emptied)
        elif rows(emptied) == before:
            assert found == [], f"killed at call {call}, it claims what did not happen"
        else:
            (one,) = found
            assert one["threads"] == [case.thread], f"killed at call {call}"
            if case.check is is_gone and emptied.read("a"):
                # Without transactions, a change of any thread completes what was being removed.
                assert unlocked(emptied, "rollback", "other", "~1", "--yes").code == 0
            case.check(emptied)
            undone = unlocked(emptied, "undo", one["op"], "--yes")
            assert (undone.code == 0) == one["undoable"], undone.err
            assert one["ended"] if undone.code else rows(emptied) == before


def unlocked(store: EmptyStore, *words: str) -> CommandResult:
    """Run a command, again as long as it says that a killed run may hold a lock."""
    end = time.monotonic() + _LONGEST_LOCK
    while True:
        answer = store.ckpt(*words)
        # A receipt tells it where it tells what was not erased.
        if "lock of a killed run" not in answer.err + answer.out or time.monotonic() > end:
            return answer
        time.sleep(0.5)


def operations(store: EmptyStore) -> dict[str, Any]:
    """Return what the log tells of a store, by the ids of the operations."""
    return {one["op"]: one for one in store.ckpt("ops", "list", "--all", "-o", "json").json}
