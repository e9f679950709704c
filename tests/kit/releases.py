"""Environments of older releases of LangGraph, which pip makes in a cache folder."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

from tests.kit.command import FIXTURES

MAKE = FIXTURES / "make"
PINNED = {"0.2.70": "lg-0.2.70", "0.6.11": "lg-0.6.11", "1.0.10": "lg-1.0.10"}
BASE = "lg-1.2.22"
"""The environment of all releases 1.2: only `langgraph` itself differs."""
MINOR_RELEASES = [f"1.2.{number}" for number in range(13) if number != 3]
"""1.2.3 was never published."""


def environment(release: str, venvs: Path) -> tuple[Path, Path | str]:
    """The Python of a release, and the folder of packages that go before its own."""
    if str(MAKE) not in sys.path:
        sys.path.insert(0, str(MAKE))
    python: Path = import_module("make").environment(PINNED.get(release, BASE), venvs)
    if release in PINNED:
        return python, ""
    folder = venvs / f"langgraph-{release}"
    if not folder.exists():
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        made = venvs / f"{folder.name}.part"
        subprocess.run(
            [str(python), *install, "--target", str(made), f"langgraph=={release}"], check=True
        )
        made.rename(folder)
    return python, folder
