"""An empty store of each layout."""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from ckpt_backends.testing.harness import Harness
from tests.kit.harness import HARNESSES
from tests.kit.harness.redis import PlainRedisHarness
from tests.kit.servers import Server


class ColonHashHarness(PlainRedisHarness):
    """The saver of hashes with its older separator."""

    name: ClassVar[str] = "redis-hash-colon"
    separator: ClassVar[str] = ":"


KINDS: list[type[Harness]] = [*HARNESSES, ColonHashHarness]
LAYOUTS = {one.name: one for one in KINDS}


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    """An empty store of the layout that the parameter of the test names, or its module."""
    kind, server = LAYOUTS[getattr(request, "param", None) or request.module.LAYOUT], None
    if kind.server in {"redis", "redis_stack"}:
        server = Server(request.getfixturevalue(f"{kind.server}_url"))
    elif kind.server is not None:
        server = request.getfixturevalue(f"{kind.server}_server")
    folder = tmp_path / "store"
    folder.mkdir()
    with kind(folder, server) as made:
        yield made
