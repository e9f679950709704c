"""The environment of tests: fixtures for the conformance suite and for the tests of the project."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Paths of folders that do not exist yet.

    `tmp_path_factory.mktemp` looks at every folder that is there, so each call takes longer.
    """
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in count())


@pytest.fixture(scope="session", autouse=True)
def own_state(homes: Iterator[Path]) -> Iterator[None]:
    """Keep what fixtures of a whole run record out of the state folder of the user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(next(homes)))
        yield


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, homes: Iterator[Path]) -> Iterator[None]:
    """Run each test without settings of the user, on a screen of 100 columns, in UTC."""
    for name in list(os.environ):
        if name.startswith("CKPT_") and not name.startswith("CKPT_TEST_"):
            monkeypatch.delenv(name)
    for name in ("LANGGRAPH_AES_KEY", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    home = next(homes)
    home.mkdir()
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    time.tzset()
