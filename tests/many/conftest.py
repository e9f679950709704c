"""A store with threads that failed in several ways, filled once."""

import shutil
from pathlib import Path

import pytest

from tests.many.broken import fill


@pytest.fixture(scope="session")
def _filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("many") / "filled.db"
    fill(path)
    return path


@pytest.fixture
def path(_filled: Path, tmp_path: Path) -> Path:
    """A store with six threads that failed, two that wait and three that are done."""
    return Path(shutil.copyfile(_filled, tmp_path / "many.db"))
