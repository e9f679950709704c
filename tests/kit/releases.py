"""Environments of older releases of LangGraph, which pip makes in a cache folder."""

import os
import subprocess
from pathlib import Path

from tests.kit.command import program

PINNED = {"0.2.70": "lg-0.2.70", "0.6.11": "lg-0.6.11", "1.0.10": "lg-1.0.10"}
BASE = "lg-1.2.22"
"""The environment of all releases 1.2: only `langgraph` itself differs."""
MINOR_RELEASES = [f"1.2.{number}" for number in range(13) if number != 3]
"""1.2.3 was never published."""
VENVS = Path(os.environ.get("CKPT_TEST_ERAS", Path("~/.cache/ckpt-eras").expanduser()))


def era_python(era: str, engine: str = "") -> Path:
    """Return the Python of an era's environment."""
    found: Path = program("fixtures/make/make.py").environment(era, VENVS, engine=engine)
    return found


def environment(release: str) -> tuple[Path, Path | str]:
    """The Python of a release, and the folder of packages that go before its own."""
    python = era_python(PINNED.get(release, BASE))
    if release in PINNED:
        return python, ""
    folder = VENVS / f"langgraph-{release}"
    if not folder.exists():
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        made = VENVS / f"{folder.name}.part"
        subprocess.run(
            [str(python), *install, "--target", str(made), f"langgraph=={release}"], check=True
        )
        made.rename(folder)
    return python, folder
