"""Opens the harness of a layout, with a server of its own where the layout needs one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from ckpt_backends.testing.harness import Harness
from tests.kit.plugin import redis_of_its_own
from tests.kit.servers import Server

SHARED = frozenset({"postgres", "mysql", "mongodb", "dynamodb", "cosmosdb", "firestore"})
"""The kinds of servers of which a run has one."""
AnyHarness = TypeVar("AnyHarness", bound=Harness)


@contextmanager
def own_server(kind: type[Harness], request: pytest.FixtureRequest) -> Iterator[Server | None]:
    """Yield a separate server if a store is a whole server; otherwise the shared one of the run."""
    if kind.server is None:
        yield None
    elif kind.server in SHARED:
        yield request.getfixturevalue(f"{kind.server}_server")
    else:
        with redis_of_its_own(modules=kind.server == "redis_stack") as server:
            yield server


@contextmanager
def empty_store(
    kind: type[AnyHarness], request: pytest.FixtureRequest, folder: Path
) -> Iterator[AnyHarness]:
    """Yield the harness of an empty store."""
    with own_server(kind, request) as server, kind(folder, server) as harness:
        yield harness
