"""After `ckpt rollback` the official graph stands and goes on as after its own time travel."""

from __future__ import annotations

import pytest

from ckpt_backends.testing.trials import check_rollback
from tests.travel.conftest import NAMES, SAMPLE, Filled, tiered


@pytest.mark.parametrize("name", tiered(NAMES, SAMPLE))
def test_every_checkpoint_of_a_sqlite_thread(sqlite_filled: Filled, name: str) -> None:
    for target in sqlite_filled.ids(name):
        check_rollback(sqlite_filled, sqlite_filled.thread(name), target)
