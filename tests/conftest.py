"""A clean environment for every test: no settings of the person who runs it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import SAMPLE, copy_store


@pytest.fixture(autouse=True)
def clean_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    for name in list(os.environ):
        if name.startswith("CKPT_") and not name.startswith("CKPT_TEST_"):
            monkeypatch.delenv(name)
    monkeypatch.delenv("LANGGRAPH_AES_KEY", raising=False)
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("NO_COLOR", raising=False)
    time.tzset()
    yield
    time.tzset()


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A private copy of the sample store."""
    return copy_store(SAMPLE, tmp_path)
