"""No repair of values finds anything to do where official savers wrote and nothing was damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckpt_backends.testing.official import ScenarioStore
from ckpt_backends.testing.trials import NAMES
from tests.kit.command import ckpt
from tests.kit.opening import empty_store
from tests.kit.travelling import HARNESSES

OTHERS = ("postgres", "mysql", "mongodb", "redis", "plain_redis", "valkey", "dev")
ENGINES = ("sqlite", *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS))
ANSWERED = "interrupt-second"
"""The scenario in which a first answer was used, and a second question waits."""


@pytest.mark.parametrize("engine", ENGINES)
def test_sound_threads_need_no_repair(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with empty_store(HARNESSES[engine], request, tmp_path) as place:
        store = ScenarioStore(place)
        for name in sorted(set(NAMES) - place.failing_scenarios - place.skipped_scenarios):
            store.thread(name)
        for kind in ("values", "writes"):
            answer = ckpt("-s", place.url, "repair", kind, "--all", "--dry-run", "-o", "json")
            assert answer.code == 0, answer.err
            found = {one["thread_id"]: one["reason"] or one["mends"] for one in answer.json}
            assert found.keys() <= ({ANSWERED} if kind == "writes" else set()), found
