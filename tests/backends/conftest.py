"""What the tests of PostgreSQL share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.backends.agent import fill
from tests.servers import Server, postgres_database


@pytest.fixture(scope="module")
def filled_url(postgres_server: Server) -> Iterator[str]:
    """A database that these tests only read."""
    with postgres_database(postgres_server) as url:
        fill(url, "trip", "other")
        yield url
