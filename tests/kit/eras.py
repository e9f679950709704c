"""Stores and environments of earlier releases of LangGraph."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.encryption import DecryptingStore
from ckpt_backends.registry import open_store
from ckpt_backends.testing.conformance.comparison import Known, check_thread
from ckpt_cli.reading.thread import TriggerInference
from tests.kit.command import FIXTURES, program


def check_store(url: str, truth: Mapping[str, Any], known: Known) -> None:
    failures: list[str] = []
    unknown: set[tuple[str, int]] = set()
    key = truth.get("aes_key", "").encode() or None
    with DecryptingStore(open_store(url), lambda: [key] if key else (), failures.append) as store:
        inference = TriggerInference(store)
        for thread_id, thread in truth["threads"].items():
            try:
                unknown |= check_thread(store, thread_id, thread, known, inference)
            except AssertionError as error:
                failures.append(str(error)[:600])
    assert not failures, "\n\n".join(failures)
    assert unknown == known.next_unknown


def with_engines(name: str, chosen: str) -> list[Any]:
    """Return a server's eras: one with `-m engines`, the others with `-m nightly`."""
    return [
        pytest.param(
            path,
            id=path.name,
            marks=pytest.mark.engines if path.name == chosen else pytest.mark.nightly,
        )
        for path in sorted((FIXTURES / name).iterdir())
    ]


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
