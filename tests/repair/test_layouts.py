"""Every layout that takes rollbacks takes repaired messages, and gives the old rows back."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ckpt_backends.registry import open_store
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.official import config_of, drive
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_cli.plans.repair import plan_message_repair
from ckpt_cli.reading.thread import ThreadReader
from tests.kit.command import apply_change, ckpt
from tests.kit.opening import empty_store
from tests.kit.travelling import HARNESSES

pytestmark = pytest.mark.engines

THREAD = "chat-edited"
"""An update removes a message with a call, and leaves its result."""


@pytest.mark.parametrize("kind", HARNESSES.values(), ids=lambda kind: kind.name)
def test_an_orphaned_result_is_removed(
    kind: type[Harness], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with empty_store(kind, request, tmp_path) as harness:
        graph = drive(harness.kept_saver, SCENARIOS[THREAD]).graph(harness.kept_saver)
        broken = graph.get_state(config_of(THREAD)).values["messages"]
        before = harness.rows(THREAD)
        with open_store(harness.url) as store:
            reader = ThreadReader(store, THREAD)
            now = datetime.now(UTC)
            plan = plan_message_repair(reader, store, None, now, content=None, force=False)
        apply_change(harness.url, plan.change)
        mended = graph.get_state(config_of(THREAD)).values["messages"]
        assert mended == [one for one in broken if one.type != "tool"] != broken
        assert ckpt("-s", harness.url, "undo", THREAD, "--yes").code == 0
        assert harness.rows(THREAD) == before
