"""With only Python, two commands lead to the tree of a store: by pip, by pipx and by uv."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest

from ckpt_cli import __version__
from tests.kit.command import SAMPLE

pytestmark = pytest.mark.release
TOOLS = Path(sys.executable).parent
PACKAGE = "langgraph-ckpt"
SHOW = "-s agent.db show --tree"
SECONDS = 15
"""In which a stranger has a first answer, with everything downloaded."""
SETTINGS = ("PIP_", "UV_", "SSL_CERT_")
"""How this machine reaches the package index."""

Shell = Callable[[str], str]


@pytest.fixture
def shell(tmp_path: Path, dist: Path) -> Shell:
    """Runs a command in a home without settings, with a store and an empty environment of Python.

    The package comes from the folder of the built wheel, what it requires from the index.
    """
    shutil.copyfile(SAMPLE, tmp_path / "agent.db")
    settings = {key: one for key, one in os.environ.items() if key.startswith(SETTINGS)}
    links = {"PIP_FIND_LINKS": str(dist), "UV_FIND_LINKS": str(dist)}
    programs = f"{tmp_path}/venv/bin:{tmp_path}/.local/bin:/usr/bin:/bin"

    def run(command: str) -> str:
        answer = subprocess.run(
            command,
            shell=True,
            cwd=tmp_path,
            env={**settings, **links, "HOME": str(tmp_path), "PATH": programs},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    return run


def shows_tree(printed: str) -> bool:
    return printed.startswith("thread trip-to-kyoto ") and "● f169" in printed


@pytest.mark.parametrize(
    "install",
    [
        f"pip install {PACKAGE}",
        f"{TOOLS}/pipx install {PACKAGE}",
        f"{TOOLS}/uv tool install {PACKAGE}",
    ],
    ids=["pip", "pipx", "uv"],
)
def test_two_commands_lead_to_the_tree_of_a_store(install: str, shell: Shell) -> None:
    if install.startswith("pip "):
        shell(f"{sys.executable} -m venv venv")
    shell(install)
    assert shows_tree(shell(f"ckpt {SHOW}"))
    assert shell("ckpt --version").split()[-1] == __version__


@pytest.mark.parametrize("run", ["pipx run", "uvx"])
def test_one_command_does_it_without_installing(run: str, shell: Shell) -> None:
    begun = monotonic()
    found = shell(f"{TOOLS}/{run} {PACKAGE}")
    took = monotonic() - begun
    assert "./agent.db  8 threads" in found
    # pipx lets uvx do it, where it finds uv.
    assert re.search(rf"^  (?:{run}|uvx) {PACKAGE} -s ./agent.db threads list", found, re.MULTILINE)
    assert took < SECONDS
    assert shows_tree(shell(f"{TOOLS}/{run} {PACKAGE} {SHOW}"))
