"""A store with a few dozen threads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from ckpt_backends.registry import open_store
from ckpt_backends.url import parse_url
from ckpt_cli.reading.executor import Executor
from ckpt_cli.reading.store import Opening
from ckpt_cli.reading.workers import LostThread
from tests.kit.command import FIXTURES, copy_store

Answer: TypeAlias = tuple[list[str], list[LostThread]]
Run: TypeAlias = Callable[..., Answer]
"""Takes work, and the options of `Executor`; returns the results, and the threads left out."""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return copy_store(FIXTURES / "lg-1.2.22" / "store.db", tmp_path)


@pytest.fixture
def run(store: Path) -> Run:
    def run(work: Any, at_once: int = 1, **options: Any) -> Answer:
        lost: list[LostThread] = []
        url = parse_url(str(store))
        executor = Executor(Opening(url), lost=lost.extend, **options)
        with open_store(url) as opened:
            return list(executor.run(opened, opened.threads(), work, at_once=at_once)), lost

    return run
