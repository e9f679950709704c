"""The environment of tests: fixtures for the conformance suite and for the tests of the project."""

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
    """Run all tests without settings of the user, on a screen of 100 columns, in UTC.

    What fixtures of a whole run record stays out of the state folder of the user.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("CKPT_") and not name.startswith("CKPT_TEST_"):
                patch.delenv(name)
        for name in ("LANGGRAPH_AES_KEY", "NO_COLOR"):
            patch.delenv(name, raising=False)
        patch.setenv("XDG_STATE_HOME", str(next(homes)))
        patch.setenv("COLUMNS", "100")
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, homes: Iterator[Path]) -> None:
    """Give each test a home of its own, and UTC after a test in another zone."""
    home = next(homes)
    home.mkdir()
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(home))
    if time.tzname[0] != "UTC":
        time.tzset()
