"""After `ckpt rollback` the official graph stands and goes on as after its own time travel."""

from __future__ import annotations

import pytest

from ckpt_backends.testing.trials import check_rollback
from tests.travel.conftest import FEW, NAMES, PLAIN, Filled

WHOLE = {*FEW, "chat", "interrupt-answered", "update-mid"}
"""The threads of which every checkpoint is tried by default. Of the others, one is tried with
`-m engines`, and every one in slow runs."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in WHOLE else pytest.mark.slow) for name in NAMES]
)
def test_every_checkpoint_of_a_sqlite_thread(sqlite_filled: Filled, name: str) -> None:
    for target in sqlite_filled.ids(name):
        check_rollback(sqlite_filled, sqlite_filled.thread(name), target)


@pytest.mark.engines
@pytest.mark.parametrize("name", [name for name in NAMES if name not in WHOLE | PLAIN])
def test_a_checkpoint_of_a_sqlite_thread(sqlite_filled: Filled, name: str) -> None:
    ids = sqlite_filled.ids(name)
    check_rollback(sqlite_filled, sqlite_filled.thread(name), ids[len(ids) // 2])
