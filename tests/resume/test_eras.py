"""What a resume does with older releases of LangGraph, each resuming what it stored itself.

Environments are made with pip in a cache folder; `-m eras` runs these.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.kit.command import FIXTURES
from tests.kit.graphs import CELLS
from tests.resume.test_resume import claim_of, disagreements, matrix

pytestmark = pytest.mark.eras

MAKE = FIXTURES / "make"
PINNED = {"0.2.70": "lg-0.2.70", "0.6.11": "lg-0.6.11", "1.0.10": "lg-1.0.10"}
BASE = "lg-1.2.22"
"""The environment of all releases 1.2: only `langgraph` itself differs."""
MINOR_RELEASES = [f"1.2.{number}" for number in range(13) if number != 3]
"""1.2.3 was never published."""
RELEASES = [*PINNED, *MINOR_RELEASES, "1.2.15", "1.2.16"]
USES_SAVED_RESULTS = (1, 2, 16)
"""Before, a subgraph call did not use what was saved of its step: its finished nodes ran again, and
so did those that had failed, in place of their error handlers."""
OTHERWISE = {"0.2.70": {"sub-stateful-second-first-died"}}
"""There, a run goes on telling subgraphs that it is a resume after its first step, and one with a
memory returns that without running."""
LISTS = ("runs", "applies", "asks", "handlers", "repeats", "known_repeats")


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


def without(calls: set[str], found: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is said of some subgraph calls and of the nodes in them."""

    def is_kept(path: str) -> bool:
        within = path.rpartition(" > ")[0] in calls
        return not within and not any(f"{one} > ".startswith(f"{path} > ") for one in calls)

    return {
        key: [path for path in one if is_kept(path)] if key in LISTS and one is not None else one
        for key, one in found.items()
    }


@pytest.mark.parametrize("release", RELEASES)
def test_a_release_resumes_as_was_said(release: str, tmp_path: Path) -> None:
    venvs = Path(os.environ.get("CKPT_TEST_ERAS", Path("~/.cache/ckpt-eras").expanduser()))
    python, packages = environment(release, venvs)
    numbers = tuple(map(int, release.split(".")))
    wrong = []
    with matrix(tmp_path, python, packages) as truth_of:
        for name, cell in CELLS.items():
            if cell.since > numbers:
                continue
            told = truth_of(name)
            assert told["release"] == release
            if name in OTHERWISE.get(release, ()):
                continue
            claim = claim_of(told["store"])
            if claim is None or told["next"][:1] == ["raised"]:
                continue
            if numbers < USES_SAVED_RESULTS:
                saved = [*claim["applies"], *claim["handlers"]]
                calls = {path.rpartition(" > ")[0] for path in saved} & set(told["namespaces"])
                claim = without(calls, claim)
                ways = told["resumes"]
                told = {**told, "resumes": {way: without(calls, ways[way]) for way in ways}}
            wrong += [(name, one) for one in disagreements(claim, told)]
    assert not wrong, "\n".join(map(str, wrong))
