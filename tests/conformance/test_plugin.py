"""The conformance suite runs on the layout of another package, which has only `ckpt` installed.

`.ci/run` runs it whole on that of `examples/ckpt-duckdb`.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.command import ROOT

_HARNESS = """
import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path

from ckpt_backends.testing.harness import Harness


class ToyHarness(Harness):
    name = "toy"
    only_scenarios = frozenset({"linear", "chat", "subgraph", "interrupt-nested", "update-mid"})

    def create(self, folder, server):
        self.path = folder / "store.db"
        return str(self.path)

    @contextmanager
    def saver(self):
        from langgraph.checkpoint.sqlite import SqliteSaver

        with closing(sqlite3.connect(self.path, check_same_thread=False)) as connection:
            saver = SqliteSaver(connection)
            saver.setup()
            yield saver

    def fingerprint(self):
        return self.path.read_bytes()


class ReadOnlyToyHarness(ToyHarness):
    name = "read-only toy"
    read_only = True

    def create(self, folder, server):
        return f"toy:///{super().create(folder, server)}"


class WritableToyHarness(ToyHarness):
    '''It claims to be read-only, and `ckpt` changes its stores.'''

    read_only = True


class ServerHarness(ToyHarness):
    server = "toyserver"
"""
_BACKEND = """
from ckpt_backends.declaration import SAVER, Backend
from ckpt_backends.model import Capability

BACKEND = Backend(
    title="Toy", schemes=("toy",), is_local=True,
    layouts={"sqlite": SAVER | Capability.INLINE_VALUES | Capability.ENFORCED_READ_ONLY},
    checkpoints="ckpt_backends.sqlite.store:open_store",
)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the two packages and their bytecode, as pip installs them."""
    folder = tmp_path_factory.mktemp("site")
    for source in (ROOT / "ckpt_cli", ROOT / "backends" / "ckpt_backends"):
        shutil.copytree(source, folder / source.name)
    return folder


@pytest.fixture
def package(tmp_path: Path, installed: Path) -> Path:
    """A folder with the tests of another package, and its backend, installed."""
    (tmp_path / "site").symlink_to(installed)
    (tmp_path / "toy_harness.py").write_text(_HARNESS)
    (tmp_path / "toy_backend.py").write_text(_BACKEND)
    info = tmp_path / "toy-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[ckpt.backends]\ntoy = toy_backend:BACKEND\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_own.py").write_text("def test_own():\n    pass\n")
    (tmp_path / "pyproject.toml").write_text(
        "[tool.pytest.ini_options]\n"
        'addopts = "-p ckpt_backends.testing.plugin -p no:cacheprovider -q"\n'
        'ckpt_harnesses = ["toy_harness:ToyHarness"]\n'
        'testpaths = ["tests"]\n'
    )
    return tmp_path


def pytest_in(folder: Path, *words: str) -> tuple[int, str]:
    """Run pytest as in a project of its own. Return its exit code and its output."""
    done = subprocess.run(
        # Plug-ins that are installed beside it are loaded for seconds.
        [sys.executable, "-m", "pytest", *words],
        cwd=folder,
        env={
            **os.environ,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": f"{folder}:{(folder / 'site').resolve()}",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.returncode, done.stdout + done.stderr


SUITE = ["--pyargs", "ckpt_backends.testing.conformance"]


@pytest.mark.nightly
def test_the_suite_joins_the_tests_of_a_package(package: Path) -> None:
    code, said = pytest_in(package, "--collect-only")
    assert code == 0, said
    assert "tests/test_own.py::test_own" in said
    assert "test_threads_are_listed_newest_first[toy]" in said
    _, only = pytest_in(package, "tests", "--collect-only")
    assert "conformance" not in only


@pytest.mark.nightly
def test_a_read_only_layout_is_read_and_refuses_changes(package: Path) -> None:
    words = [*SUITE, "--ckpt-harness", "toy_harness:ReadOnlyToyHarness"]
    code, said = pytest_in(
        package, *words, "-k", "metadata_are_read or each_command or listed_in_full"
    )
    assert code == 0, said
    assert "skipped" not in said
    _, collected = pytest_in(package, *words, "--collect-only")
    assert "test_removal.py" not in collected
    assert "skipped" not in collected


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("harness", "message"),
    [
        ("toy_harness:Nothing", "cannot import the harness 'toy_harness:Nothing'"),
        ("toy_harness:sqlite3", "is no subclass of ckpt_backends.testing.harness.Harness"),
        ("toy_harness:ServerHarness", "no plug-in starts a server 'toyserver'"),
        ("toy_harness:WritableToyHarness", "must be refused with exit code 4"),
    ],
)
def test_a_mistake_is_named(package: Path, harness: str, message: str) -> None:
    words = ["--ckpt-harness", harness, "-k", "describe_names or change_is_refused"]
    code, said = pytest_in(package, *SUITE, *words)
    assert code != 0
    assert message in said
    assert "INTERNALERROR" not in said


def test_ckpt_itself_does_not_load_the_suite() -> None:
    program = (
        "import sys, ckpt_cli.run; ckpt_cli.run.run(['stores', 'none.db']);"
        "sys.exit('ckpt_backends.testing' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
