"""The worked example, made once by the official graph, and copied for each test."""

import shutil
from pathlib import Path

import pytest

from tests.kit.savers.deerflow import make


@pytest.fixture(autouse=True)
def no_deerflow_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DEER_FLOW_CONFIG_PATH", "DEER_FLOW_HOME", "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("deerflow")
    make(root)
    return root


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    """A folder with `config.yaml` and `.deer-flow`."""
    target = tmp_path / "project"
    shutil.copytree(made, target)
    return target


@pytest.fixture
def base(root: Path) -> Path:
    return root / ".deer-flow"


@pytest.fixture
def store(base: Path) -> Path:
    return base / "data" / "deerflow.db"
