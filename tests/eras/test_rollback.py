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

from tests.support import FIXTURES, copy_store
from tests.travel.official import scenarios
from tests.travel.test_eras import PYTHON, copy_thread, every, rolled_back, root_history

pytestmark = pytest.mark.eras

MAKE = FIXTURES / "make"
TRAVELS = "lg-1.2.22"
"""The first era here whose time travel adds a fork for every target, and runs its tasks again."""
LEAKS = {"subgraph-stateful", "subgraph-stateful-node"}
"""Travel leaves a subgraph's memory as later turns left it; a rollback takes it back too."""
REPLAYED = {"breakpoint-subgraph", "breakpoint-subgraph-passed", "error-retried"}
"""Before 1.2, travel finds what the target's tasks did, in a subgraph behind its breakpoint or at
their second attempt; after a rollback they run anew."""
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


@pytest.mark.parametrize("era", PYTHON)
def test_the_era_resumes_every_rollback_as_its_own_travel(
    era: str, tmp_path: Path, environments: Path
) -> None:
    path = copy_store(FIXTURES / era / "store.db", tmp_path)
    history = root_history(era)
    targets = {
        target: copy
        for target, copy in every(history).items()
        if not scenarios.SCENARIOS[target[0]].is_async
    }
    questions = asked(path)
    answers = rolled_back(path, targets)
    jobs: list[dict[str, Any]] = []
    for number, ((thread, target), ours) in enumerate(targets.items()):
        theirs = f"theirs {number}"
        copy_thread(path, thread, theirs)
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
        if thread in LEAKS or (era != TRAVELS and is_replayed):
            continue
        ours, theirs = one["ended"]
        # Where nothing ran, travel may not even have added its fork.
        if ours[0] != theirs[0] or (ours[0] == "done" and ours[1] != theirs[1]):
            wrong.append(("resume", thread, target, one["ended"]))
    assert not wrong, "\n".join(json.dumps(one)[:1500] for one in wrong)


def resume(
    era: str, path: Path, jobs: list[dict[str, Any]], environments: Path
) -> list[dict[str, Any]]:
    sys.path.insert(0, str(MAKE))
    python = import_module("make").environment(era, environments)
    done = subprocess.run(
        [str(python), str(Path(__file__).parent / "resume.py"), str(path), str(MAKE)],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONWARNINGS": "ignore"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
