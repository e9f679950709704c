"""A store with threads that failed in several ways, filled once."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ckpt_cli.apply.changes import Work
from ckpt_cli.plans.proposal import Proposal
from tests.kit.agents.many import add_copies, sqlite_agent
from tests.kit.command import ROOT

DONE = "done-0"


def threads(number_failed: int, waiting: int) -> dict[str, str]:
    """Return the ids of threads that are not done, each with its kind."""
    third, sixth = number_failed // 3, number_failed // 6
    shares = {"raise": third, "die": third, "inside": sixth, "beside": sixth}
    failed = {f"{kind}-{n}": kind for kind, share in shares.items() for n in range(share)}
    return failed | {f"ask-{n}": "ask" for n in range(waiting)}


def fill(path: Path, found: dict[str, str], done: int) -> None:
    """Fill a store by the official graph; all but one of the threads that are done are copies."""
    with sqlite_agent(path) as agent:
        agent.run(DONE, "plain")
        for thread_id, kind in found.items():
            if kind != "die":
                agent.run(thread_id, kind)
    killed = [thread_id for thread_id, kind in found.items() if kind == "die"]
    command = [sys.executable, "-m", "tests.kit.agents.many", str(path), *killed]
    subprocess.run(command, check=True, cwd=ROOT)
    add_copies(path, DONE, [f"done-{n}" for n in range(1, done)])


@pytest.fixture(scope="session")
def _filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("many") / "filled.db"
    fill(path, threads(6, 2), 3)
    return path


@pytest.fixture
def path(_filled: Path, tmp_path: Path) -> Path:
    """A store with six threads that failed, two that wait and three that are done."""
    return Path(shutil.copyfile(_filled, tmp_path / "many.db"))


@pytest.fixture
def after_planning(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], None]], None]:
    """Do something between the plan of a thread and its change."""
    plain = Work.carry_out

    def set_up(thread_id: str, act: Callable[[], None]) -> None:
        def late(self: Work, found: Proposal, *others: Any) -> Proposal:
            if found.thread_id == thread_id:
                act()
            return plain(self, found, *others)

        monkeypatch.setattr(Work, "carry_out", late)

    return set_up
