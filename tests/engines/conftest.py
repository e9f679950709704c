"""Fixtures for several modules."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ckpt_backends.testing.harness import Harness
from tests.engines.places import LAYOUTS
from tests.kit.agents.steps import fill
from tests.kit.command import SAMPLE, ckpt
from tests.kit.servers import Server, postgres_database


@pytest.fixture(scope="module")
def filled_url(postgres_server: Server) -> Iterator[str]:
    """A database that these tests only read."""
    with postgres_database(postgres_server) as url:
        fill(url, "trip", "other")
        yield url


@pytest.fixture(scope="session")
def _imported() -> None:
    """Load late modules now: another user may not read this environment."""
    for words in (["--copy", "threads", "list"], ["stores"], ["du"], ["grep", "x"]):
        ckpt("-s", SAMPLE, *words)


@pytest.fixture
def locked_folder(_imported: None) -> Iterator[Path]:
    """An empty folder that a test fills and then locks, so that any user can read it and none
    can write.
    """
    folder = Path(tempfile.mkdtemp(prefix="ckpt-test-"))
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    """An empty store of a layout, named by the parameter of the test."""
    kind, server = LAYOUTS[request.param], None
    if kind.server in {"redis", "redis_stack"}:
        server = Server(request.getfixturevalue(f"{kind.server}_url"))
    elif kind.server is not None:
        server = request.getfixturevalue(f"{kind.server}_server")
    folder = tmp_path / "store"
    folder.mkdir()
    with kind(folder, server) as made:
        yield made
