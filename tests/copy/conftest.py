"""Stores to copy from, and places to copy to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from ckpt_backends.testing.harness import Harness
from tests.kit.official import Source, fill
from tests.kit.opening import empty_store

Sources: TypeAlias = Callable[[type[Harness], frozenset[str] | None], Source]
Places: TypeAlias = Callable[[type[Harness]], AbstractContextManager[Harness]]


@pytest.fixture(scope="module")
def sources(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sources]:
    """Return a function that returns a filled store; each is filled once."""
    with ExitStack() as stack:
        known: dict[tuple[str, frozenset[str] | None], Source] = {}

        def source(kind: type[Harness], only: frozenset[str] | None) -> Source:
            if (kind.name, only) not in known:
                folder = tmp_path_factory.mktemp("source")
                harness = stack.enter_context(empty_store(kind, request, folder))
                known[kind.name, only] = fill(harness, only)
            return known[kind.name, only]

        yield source


@pytest.fixture
def places(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Places:
    """Return a function that yields the harness of an empty place, without a store."""

    @contextmanager
    def place(kind: type[Harness]) -> Iterator[Harness]:
        folder: Path = tmp_path_factory.mktemp("target")
        with empty_store(kind, request, folder) as harness:
            yield harness

    return place
