"""Stores to copy from, and places to copy to."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ckpt_backends.testing.harness import Harness
from tests.copy.round_trip import sqlite_source
from tests.kit.official import Source, fill
from tests.kit.opening import empty_store
from tests.kit.pairs import Places, Sources


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


SCENES = (
    *("chat", "interrupt-nested", "fanout-send", "subgraph-stateful", "delta-often"),
    *("error-parallel", "fork-update", "zoo-pydantic", "zoo-nested", "two\nlines"),
)
"""Threads with questions, parallel writes, subgraphs, DeltaChannels, forks, and odd ids."""


@pytest.fixture(scope="session")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sqlite_source(tmp_path_factory.mktemp("scenes") / "agent.db", SCENES)
