"""Rolled back threads of older releases, resumed by the very release that wrote them.

Environments are made with pip in a cache folder; `-m eras` runs these.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.testing.scenarios import catalog
from tests.kit.command import FIXTURES, ROOT, copy_store
from tests.travel.test_eras import PYTHON, copy_thread, every, rolled_back, root_history

pytestmark = pytest.mark.eras

MAKE = FIXTURES / "make"
BETWEEN = {"lg-0.2.60": "travel", "lg-0.4.10": "redis"}
"""Releases of formats 1 and 3 with stateful subgraphs, and the folder of their pins: no fixture is
kept of them, so the test lets them write their store."""
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
    **os.environ,
    "PYTHONHASHSEED": "0",
    "PYTHONWARNINGS": "ignore",
    "PYTHONDONTWRITEBYTECODE": "1",
}
CONTROL = ("__resume__", "__interrupt__")


@pytest.fixture(scope="session")
def environments() -> Path:
    default = Path("~/.cache/ckpt-eras").expanduser()
    return Path(os.environ.get("CKPT_TEST_ERAS", default))


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


def python_of(era: str, environments: Path) -> Path:
    """The Python of an era's environment, made where it is missing."""
    if str(MAKE) not in sys.path:
        sys.path.insert(0, str(MAKE))
    python: Path = import_module("make").environment(era, environments, engine=BETWEEN.get(era, ""))
    return python


def folder_of(era: str, tmp_path: Path, environments: Path) -> Path:
    """A folder with an era's store and truth."""
    if era not in BETWEEN:
        return FIXTURES / era
    line = [str(python_of(era, environments)), str(MAKE / "write.py"), era, str(tmp_path / era)]
    # Some scenarios need a later release and fail; those that count here are asserted below.
    subprocess.run(line, check=False, capture_output=True, env=SETTINGS)
    return tmp_path / era


@pytest.mark.parametrize("era", [*BETWEEN, *PYTHON])
def test_the_era_resumes_every_rollback_as_its_own_travel(
    era: str, tmp_path: Path, environments: Path
) -> None:
    folder = folder_of(era, tmp_path, environments)
    path = copy_store(folder / "store.db", tmp_path)
    history = root_history(folder)
    assert history.keys() >= STATEFUL or era in WITHOUT_STATEFUL
    targets = {
        target: copy
        for target, copy in every(history).items()
        if not catalog.SCENARIOS[target[0]].is_async
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
    outcomes = resume(era, path, jobs, environments)
    assert len(outcomes) == len(jobs) > 20
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
        if era != TRAVELS and is_replayed:
            continue
        ours, theirs = one["ended"]
        # Where nothing ran, travel may not even have added its fork.
        if ours[0] != theirs[0] or (ours[0] == "done" and ours[1] != theirs[1]):
            wrong.append(("resume", thread, target, one["ended"]))
    assert not wrong, "\n".join(json.dumps(one)[:1500] for one in wrong)


def resume(
    era: str, path: Path, jobs: list[dict[str, Any]], environments: Path
) -> list[dict[str, Any]]:
    done = subprocess.run(
        [
            str(python_of(era, environments)),
            str(Path(__file__).parent / "resume.py"),
            str(path),
            str(ROOT / "backends"),
        ],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        check=False,
        env=SETTINGS,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
