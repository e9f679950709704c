"""A store with threads that failed in several ways, filled once."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ckpt_cli.apply.changes import Work
from ckpt_cli.plans.proposal import Proposal
from tests.many.broken import fill, threads


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
        def late(self: Work, some: Sequence[Proposal]) -> list[Proposal]:
            if any(one.thread_id == thread_id for one in some):
                act()
            return plain(self, some)

        monkeypatch.setattr(Work, "carry_out", late)

    return set_up
