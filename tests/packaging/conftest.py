"""The built distribution, once for all tests of this folder."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.command import ROOT


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist of the tree, and the wheel that is built from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "-q", "--installer", "uv"]
    subprocess.run([*command, "--outdir", str(folder), str(ROOT)], check=True)
    return folder
