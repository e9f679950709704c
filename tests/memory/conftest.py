"""A Store of each layout, in an empty place."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.memory.benches import BENCHES, Bench

FAST = {"sqlite", "postgres"}
"""The layouts that are tested by default."""


@pytest.fixture(
    params=[
        pytest.param(one, id=one.name, marks=() if one.name in FAST else pytest.mark.engines)
        for one in BENCHES
    ]
)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    kind: type[Bench] = request.param
    server = None if kind.server is None else request.getfixturevalue(kind.server)
    with kind.place(tmp_path, server) as url:
        yield kind(url)
