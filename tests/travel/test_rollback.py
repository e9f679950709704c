"""After `ckpt rollback` the official graph stands and goes on as after its own time travel."""

from __future__ import annotations

import pytest

from tests.travel.conftest import Filled
from tests.travel.official import scenarios, stored_ids
from tests.travel.trials import check_rollback

NAMES = [name for name, one in scenarios.SCENARIOS.items() if not one.is_async]


@pytest.mark.parametrize("name", NAMES)
def test_every_checkpoint_of_a_sqlite_thread(sqlite_filled: Filled, name: str) -> None:
    thread = sqlite_filled.threads[name]
    for target in stored_ids(sqlite_filled.saver, name):
        check_rollback(sqlite_filled, thread, target)
