"""On each layout, the official client calls every tool, and the store stays as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.official import drive
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from tests.doors.mcp_client import call, each_tool, items, talk, text_of
from tests.kit.command import ckpt
from tests.kit.harness import HARNESSES
from tests.kit.harness.tiers import FAST
from tests.kit.opening import empty_store

# The other tests are about SQLite.
LAYOUTS = [
    pytest.param(
        one,
        id=one.name,
        marks=pytest.mark.engines if one.name in {"postgres", "redis"} else pytest.mark.slow,
    )
    for one in HARNESSES
    if one.name in FAST - {"sqlite"} and not one.read_only
]
"""The tools know a store only through the handles of `ckpt_cli.api`, as commands do."""


@pytest.mark.parametrize("kind", LAYOUTS)
def test_every_tool_answers(
    kind: type[Harness], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with empty_store(kind, request, tmp_path) as harness:
        drive(harness.kept_saver, SCENARIOS["chat"])
        url, before = harness.url, harness.fingerprint()
        listed = ckpt("-s", url, "threads", "list", "-o", "json").json

        async def ask(client: Client) -> dict[str, str]:
            threads = await items(client, "threads")
            assert [one["thread_id"] for one in threads] == [one["thread_id"] for one in listed]
            thread = threads[0]["thread_id"]
            failed = {}
            for name, arguments in each_tool(thread):
                found: Any = await call(client, name, **arguments)
                if found.is_error:
                    failed[name] = text_of(found)
            return failed

        failed = talk(url, ask, "--values")
        assert failed.keys() <= {"memory", "doctor"}, failed
        assert harness.fingerprint() == before
