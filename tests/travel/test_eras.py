"""Stores of older releases and of LangGraph.js: a rolled back thread stands as at the target.

Nothing but `ckpt` touches a file before all of its threads are rolled back: the newest saver
alters the tables of an older one when it opens them. With `-m release`, the very release that wrote
a thread resumes it, in an environment that pip makes in a cache folder.
"""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import ormsgpack
import pytest

from ckpt_backends.registry import open_store
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_cli.reading.states import read_state
from ckpt_cli.reading.thread import ThreadReader
from tests.kit.command import FIXTURES, ROOT, ckpt, copy_store
from tests.kit.eras import era_python
from tests.kit.rows import rows_of

PYTHON = ["lg-0.2.14-json", "lg-0.2.14", "lg-0.2.70", "lg-0.6.11", "lg-1.0.10", "lg-1.2.22"]
Target = tuple[str, str]
"""Thread and checkpoint."""


def root_history(era: str) -> dict[str, list[Mapping[str, Any]]]:
    """The root's checkpoints of each thread of an era, as its library told them."""
    threads = json.loads((FIXTURES / era / "truth.json").read_text("utf-8"))["threads"]
    found = {thread: told["history"].get("", []) for thread, told in threads.items()}
    return {thread: rows for thread, rows in found.items() if isinstance(rows, list) and rows}


def copy_thread(path: Path, thread_id: str, new_id: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        for table in ("checkpoints", "writes"):
            found = db.execute(f"SELECT name FROM pragma_table_info('{table}')").fetchall()
            names = ", ".join(name for (name,) in found if name != "thread_id")
            db.execute(
                f"INSERT INTO {table} (thread_id, {names})"
                f" SELECT ?, {names} FROM {table} WHERE thread_id = ?",
                [new_id, thread_id],
            )


def rolled_back(path: Path, targets: Mapping[Target, str]) -> dict[Target, Any]:
    """Roll a copy of its thread back to each target; gives what `ckpt` answered."""
    answers = {}
    for (thread_id, checkpoint_id), copy in targets.items():
        copy_thread(path, thread_id, copy)
        words = ["rollback", "--at", checkpoint_id, "--yes", "-o", "json", "--", copy]
        answers[thread_id, checkpoint_id] = ckpt("-s", path, *words, code=0).json
    rows: dict[object, set[object]] = {}
    for table, name, *row in rows_of(path):
        rows.setdefault(name, set()).add((table, *row))
    assert all(rows[thread_id] <= rows[copy] for (thread_id, _), copy in targets.items())
    return answers


def some(history: Mapping[str, list[Any]]) -> dict[Target, str]:
    """One checkpoint of every fourth thread."""
    return {
        (thread, rows[len(rows) // 2]["checkpoint_id"]): f"ours {thread}"
        for thread, rows in sorted(history.items())[::4]
    }


def every(history: Mapping[str, list[Any]]) -> dict[Target, str]:
    return {
        (thread, row["checkpoint_id"]): f"ours {number} {thread}"
        for thread, rows in history.items()
        for number, row in enumerate(rows)
    }


@pytest.mark.engines
@pytest.mark.parametrize("era", ["lg-0.2.70", "lg-0.6.11"])
def test_an_empty_checkpoint_has_the_keys_of_its_format(era: str, tmp_path: Path) -> None:
    path = copy_store(FIXTURES / era / "store.db", tmp_path)
    thread = "subgraph-stateful"
    before = bodies(path, thread)
    first = root_history(era)[thread][-1]["checkpoint_id"]
    back = ckpt("-s", path, "rollback", thread, "--at", first, "--yes", "-o", "json").json
    (empty,) = [one["checkpoint_id"] for one in back["also"] if one["form"] == "empty"]
    found = bodies(path, thread)[empty]
    assert found["channel_values"] == {}
    # `updated_channels` may be left out, and is in the checkpoints of some releases.
    for other in before.values():
        assert found["v"] == other["v"]
        assert found.keys() >= other.keys() - {"updated_channels"}
    assert ("pending_sends" in found) == (found["v"] < 4)


def bodies(path: Path, thread_id: str) -> dict[str, Any]:
    query = "SELECT checkpoint_id, checkpoint FROM checkpoints WHERE thread_id = ?"
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(query, [thread_id]).fetchall()
    return {key: ormsgpack.unpackb(body, ext_hook=lambda *_: None) for key, body in rows}


def check_javascript(
    url: str, history: Mapping[str, list[Any]], answers: Mapping[Target, Any]
) -> None:
    """What its own library said of the target holds of the new head."""
    with open_store(url) as store:
        for (thread_id, checkpoint_id), answer in answers.items():
            told = next(one for one in history[thread_id] if one["checkpoint_id"] == checkpoint_id)
            reader = ThreadReader(store, answer["thread_id"])
            assert reader.head("") == answer["checkpoint_id"]
            moment = reader.moment("", answer["checkpoint_id"], state=True)
            source = ThreadReader(store, thread_id)
            was = source.moment("", checkpoint_id, state=True)
            assert read_state(reader, moment).values == read_state(source, was).values
            assert sorted(answer["next"]) == told["next"], (thread_id, checkpoint_id)
            # Of an @entrypoint that has not run yet no row has the name.
            assert moment.step.assumed or sorted(moment.step.next or ()) == told["next"]
            assert moment.body.is_javascript


@pytest.mark.engines
@pytest.mark.parametrize("which", [some, pytest.param(every, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("era", ["js-0.2.74", "js-1.7.3"])
def test_javascript_sqlite(era: str, which: Any, tmp_path: Path) -> None:
    path = copy_store(FIXTURES / era / "store.db", tmp_path)
    history = root_history(era)
    check_javascript(str(path), history, rolled_back(path, which(history)))


WITHOUT_STATEFUL = {"lg-0.2.14", "lg-0.2.14-json"}
TRAVELS = "lg-1.2.22"
"""The first era here whose time travel adds a fork for every target, and runs its tasks again."""
STATEFUL = {"subgraph-stateful", "subgraph-stateful-node"}
"""Travel leaves a subgraph's memory as later turns left it; a rollback takes it back too. The truth
for these is the thread as it was at the time of the target."""
REPLAYED = {"breakpoint-subgraph", "breakpoint-subgraph-passed", "error-retried"}
"""Before 1.2, travel finds what the target's tasks did, in a subgraph behind its breakpoint or at
their second attempt; after a rollback they run anew."""
SETTINGS = {
    **{**os.environ, "PYTHONHASHSEED": "0"},
    **{"PYTHONWARNINGS": "ignore", "PYTHONDONTWRITEBYTECODE": "1"},
}
CONTROL = ("__resume__", "__interrupt__")


def asked(path: Path) -> set[tuple[str, str]]:
    """Checkpoints with a question or an answer among their writes."""
    with closing(sqlite3.connect(path)) as connection:
        return set(
            connection.execute(
                "SELECT thread_id, checkpoint_id FROM writes WHERE channel IN (?, ?)", CONTROL
            )
        )


def forget_after(path: Path, thread_id: str, target: str) -> None:
    """Take a thread back to the time of a checkpoint, before any task of its next step ran."""
    with closing(sqlite3.connect(path)) as connection:
        at = [thread_id, target]
        connection.execute("DELETE FROM checkpoints WHERE thread_id = ? AND checkpoint_id > ?", at)
        connection.execute("DELETE FROM writes WHERE thread_id = ? AND checkpoint_id >= ?", at)
        connection.commit()


@pytest.mark.parametrize(
    ("era", "which", "python"),
    [
        # The newest library resumes what has its format as its own.
        pytest.param("lg-0.6.11", some, None, marks=pytest.mark.engines),
        pytest.param("lg-1.0.10", every, None, marks=pytest.mark.nightly),
        *(pytest.param(era, every, era, marks=pytest.mark.release) for era in PYTHON),
    ],
)
def test_the_era_resumes_every_rollback_as_its_own_travel(
    era: str, which: Any, python: str | None, tmp_path: Path
) -> None:
    path = copy_store(FIXTURES / era / "store.db", tmp_path)
    history = root_history(era)
    assert history.keys() >= STATEFUL or era in WITHOUT_STATEFUL
    targets = {
        target: copy for target, copy in which(history).items() if not SCENARIOS[target[0]].is_async
    }
    questions = asked(path)
    answers = rolled_back(path, targets)
    jobs: list[dict[str, Any]] = []
    for number, ((thread, target), ours) in enumerate(targets.items()):
        theirs = f"theirs {number}"
        copy_thread(path, thread, theirs)
        if thread in STATEFUL:
            forget_after(path, theirs, target)
        job = {"thread": thread, "target": target, "ours": ours, "theirs": theirs}
        jobs.append({**job, "configurable": answers[thread, target]["configurable"]})
    outcomes = resume(era_python(python) if python else None, path, jobs)
    assert len(outcomes) == len(jobs) > 10
    wrong = []
    for one in outcomes:
        thread, target = one["thread"], one["target"]
        if one["states"][0] != one["states"][1]:
            wrong.append(("state", thread, target, one["states"]))
        # Before 1.2, travel to a finished target adds no fork, and answers are given again.
        is_replayed = (
            not one["states"][1]["next"] or (thread, target) in questions or thread in REPLAYED
        )
        if thread in STATEFUL:
            assert "KeyError" not in str(one["ended"])
            is_replayed = not one["states"][1]["next"]
        if python not in {None, TRAVELS} and is_replayed:
            continue
        ours, theirs = one["ended"]
        # Where nothing ran, travel may not even have added its fork.
        if ours[0] != theirs[0] or (ours[0] == "done" and ours[1] != theirs[1]):
            wrong.append(("resume", thread, target, one["ended"]))
    assert not wrong, "\n".join(json.dumps(one)[:1500] for one in wrong)


def resume(python: Path | None, path: Path, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    script = str(Path(__file__).parent / "resume.py")
    done = subprocess.run(
        [str(python or sys.executable), script, str(path), str(ROOT / "backends")],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        check=False,
        env=SETTINGS,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


# `langgraph dev` itself, started on files that `ckpt` changed

NEW, OLD = "runtime-0.36.7", "runtime-0.2.1"
"""The old one, of 2025, stored the user of a request in the metadata, which made it a pickle."""


@pytest.mark.release
@pytest.mark.parametrize("era", [NEW, OLD])
def test_the_server_resumes_a_fork_and_misses_what_was_removed(era: str, tmp_path: Path) -> None:
    folder = tmp_path / ".langgraph_api"
    shutil.copytree(FIXTURES / "dev" / era, folder)
    os.utime(folder / ".langgraph_ops.pckl", (0, 0))
    truth = json.loads((folder / "truth.json").read_text("utf-8"))["threads"]
    asking, answered, forked = (
        next(thread for thread, one in truth.items() if one["name"] == name)
        for name in ("asking", "answered", "forked")
    )
    back = ckpt("-s", folder, "rollback", answered, "~2", "--yes", "-o", "json").json
    ckpt("-s", folder, "threads", "delete", asking, "--yes", code=0)
    said = served(era, folder, answered)
    assert said["state"]["checkpoint_id"] == back["checkpoint_id"]
    assert said["state"]["next"] == back["next"] == ["inner"]
    assert said["state"]["values"] == truth[answered]["history"][2]["values"]
    assert said["ended"]["items"][-1] == "that"
    there = {one["checkpoint_id"]: one["values"] for one in said["history"]}
    before = {one["checkpoint_id"]: one["values"] for one in truth[answered]["history"]}
    assert before.items() <= there.items()
    assert len(there) == len(before) + 3
    assert (said["threads"][asking], said["threads"][forked]) == (0, len(truth[forked]["history"]))


def served(era: str, folder: Path, thread_id: str) -> Any:
    """What the server says of a thread with which it went on."""
    script = FIXTURES / "make" / "dev_server.py"
    line: list[Any] = [era_python(era, "dev"), script, folder, "--resume", thread_id, "that"]
    done = subprocess.run(line, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return json.loads(done.stdout)


# LangGraph.js itself resumes a fork on a server

SCRIPT = Path(__file__).parent / "branches.mjs"


@pytest.fixture(scope="session")
def library(langgraph_js: Path) -> Path:
    shutil.copy(SCRIPT, langgraph_js)
    return langgraph_js


def run(library: Path, verb: str, url: str, config: dict[str, str], word: str = "") -> Any:
    done = subprocess.run(
        ["node", SCRIPT.name, verb, url, json.dumps(config), word],
        cwd=library,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


BEFORE = {"items": ["in", "a-old", "b-old"], "note": "note-old"}
AFTER = {"items": ["in", "a-new", "b-new"], "note": "note-new"}


THREAD = {"thread_id": "t", "checkpoint_ns": ""}
URLS = {"postgres": "postgres_url", "redis": "redis_stack_url", "mongodb": "mongodb_url"}


@pytest.fixture(params=URLS)
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(URLS[request.param])
    return found


@pytest.mark.nightly
def test_both_branches_keep_their_values(library: Path, url: str) -> None:
    assert run(library, "drive", url, THREAD, "old") == BEFORE
    old = run(library, "read", url, THREAD)
    ckpt("-s", url, "rollback", "t", "step:0", "--dry-run", code=0)
    record = ckpt("-s", url, "rollback", "t", "step:0", "--yes", "-o", "json").json
    new_head = run(library, "read", url, THREAD)
    assert new_head["id"] == record["checkpoint_id"]
    assert new_head["next"] == record["next"] == ["a"]
    assert run(library, "resume", url, record["configurable"], "new") == AFTER
    assert run(library, "read", url, THREAD)["values"] == AFTER
    assert run(library, "read", url, {**THREAD, "checkpoint_id": old["id"]}) == old
    # A second fork, beside the first, keeps them apart too.
    record = ckpt("-s", url, "rollback", "t", record["forked_from"], "--yes", "-o", "json")
    third = {"items": ["in", "a-third", "b-third"], "note": "note-third"}
    assert run(library, "resume", url, record.json["configurable"], "third") == third
    assert run(library, "read", url, THREAD)["values"] == third
    assert run(library, "read", url, {**THREAD, "checkpoint_id": old["id"]}) == old


@pytest.mark.nightly
def test_an_edited_fork_resumes_with_the_edit_alone(library: Path, url: str) -> None:
    run(library, "drive", url, THREAD, "old")
    old = run(library, "read", url, THREAD)
    fork = ("-s", url, "fork", "t", "step:1", "--yes", "-o", "json")
    record = ckpt(*fork, "--replace", 'items=["put"]', "--set", 'note="set"').json
    assert run(library, "read", url, THREAD)["values"] == {"items": ["put"], "note": "set"}
    ended = run(library, "resume", url, record["configurable"], "new")
    assert ended == {"items": ["put", "b-new"], "note": "set"}
    assert run(library, "read", url, {**THREAD, "checkpoint_id": old["id"]}) == old
    grown = ckpt(*fork, "--append", 'items="more"')
    ended = run(library, "resume", url, grown.json["configurable"], "third")
    assert ended == {"items": ["in", "a-old", "more", "b-third"], "note": "note-old"}
    assert run(library, "read", url, {**THREAD, "checkpoint_id": old["id"]}) == old


@pytest.mark.nightly
def test_what_is_undone_purged_or_removed_is_gone_for_the_library(library: Path, url: str) -> None:
    run(library, "drive", url, THREAD, "old")
    before = rows(url, "t")
    for remove in (("purge", "--match", "t", "--yes"), ()):
        ckpt("-s", url, "rollback", "t", "step:0", "--yes", code=0)
        ckpt("-s", url, "undo", "t", "--yes", code=0)
        assert rows(url, "t") == before
        record = ckpt("-s", url, "rollback", "t", "step:0", "--yes", "-o", "json").json
        assert run(library, "resume", url, record["configurable"], "new") == AFTER
        if remove:
            ckpt("-s", url, *remove, code=0)
        else:  # the library removes what was forked, too
            run(library, "forget", url, THREAD)
        assert run(library, "left", url, THREAD) == {"listed": 0, "head": None}
        assert rows(url, "t") == []
        run(library, "drive", url, THREAD, "old")
        before = rows(url, "t")


def rows(url: str, thread_id: str) -> list[str]:
    with open_store(url) as store:
        return sorted(repr((row.table, sorted(row.cells.items()))) for row in store.rows(thread_id))
