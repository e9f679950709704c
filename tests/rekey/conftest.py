"""Empty stores for the tests of encryption."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ckpt_backends.testing.encrypted import KEY, NEW
from ckpt_backends.testing.harness import Harness
from tests.kit.opening import empty_store


@pytest.fixture
def places(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[type[Harness]], Harness]]:
    """Return a function that opens an empty store of a layout, until the test ends."""
    with ExitStack() as stack:

        def place(kind: type[Harness]) -> Harness:
            folder = tmp_path_factory.mktemp("store")
            return stack.enter_context(empty_store(kind, request, folder))

        yield place


@pytest.fixture
def old_key(tmp_path: Path) -> Path:
    """The file of the key that the stores have."""
    return _file(tmp_path / "old.key", KEY)


@pytest.fixture
def new_key(tmp_path: Path) -> Path:
    """The file of another key."""
    return _file(tmp_path / "new.key", NEW)


def _file(path: Path, key: bytes) -> Path:
    path.write_bytes(key)
    path.chmod(0o600)
    return path
