"""LangGraph.js itself goes on with threads that were repaired."""

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from ckpt_backends.errors import Refused
from ckpt_backends.registry import open_store
from ckpt_cli.core.forking import CheckpointPlan
from ckpt_cli.plans.repair import CONTENT, plan_message_repair
from ckpt_cli.reading.thread import ThreadReader
from tests.kit.command import apply_change, ckpt

pytestmark = pytest.mark.nightly

AGENT = "agent.mjs"
"""An agent with tools."""
THREAD = {"thread_id": "t", "checkpoint_ns": ""}
_SECONDS = 60
"""After this time, a process that hangs is killed, and the test fails."""


@pytest.fixture(scope="session")
def library(langgraph_js: Path) -> Path:
    """A folder with the script."""
    shutil.copy(Path(__file__).parent / AGENT, langgraph_js)
    return langgraph_js


@pytest.fixture(params=["postgres_url", "redis_stack_url", "mongodb_url"])
def url(request: pytest.FixtureRequest) -> str:
    """An empty store of each kind."""
    found: str = request.getfixturevalue(request.param)
    return found


def run(library: Path, verb: str, url: str, config: Any = THREAD, text: str = "") -> Any:
    words = ["node", AGENT, verb, url, json.dumps(config), text]
    done = subprocess.run(words, cwd=library, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def is_in_tools(url: str) -> bool:
    """Return whether the message with the calls is stored: the library stores it while it runs."""
    with open_store(url) as store:
        if store.thread("t") is None:
            return False
        reader = ThreadReader(store, "t")
        return reader.moment("", str(reader.head(""))).number == 1


def kill_in_tools(library: Path, url: str) -> None:
    command = ["node", AGENT, "hang", url, json.dumps(THREAD), "use quick and slow"]
    with subprocess.Popen(command, cwd=library, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        watchdog = Timer(_SECONDS, process.kill)
        watchdog.start()
        line = process.stdout.readline()
        while process.poll() is None and not is_in_tools(url):
            time.sleep(0.05)
        watchdog.cancel()
        process.send_signal(signal.SIGKILL)
    assert line == "slow\n"


def plan(url: str) -> CheckpointPlan:
    with open_store(url) as store:
        return plan_message_repair(
            ThreadReader(store, "t"), store, None, datetime.now(UTC), content=None, force=False
        )


def rows(url: str) -> Iterator[str]:
    with open_store(url) as store:
        yield from sorted(repr((row.table, sorted(row.cells.items()))) for row in store.rows("t"))


def test_a_killed_agent_goes_on(library: Path, url: str) -> None:
    kill_in_tools(library, url)
    with pytest.raises(Refused, match="has yet to be carried out"):
        plan(url)
    assert "INVALID_CHAT_HISTORY" in run(library, "send", url, text="Hello?")
    before, sent = list(rows(url)), run(library, "read", url)
    for is_undone in (True, False):
        made = plan(url)
        apply_change(url, made.change)
        mended = run(library, "read", url)
        assert mended == [
            *sent[:2],
            ["tool", "call-1-quick", "error", CONTENT],
            ["tool", "call-1-slow", "error", CONTENT],
            *sent[2:],
        ]
        if is_undone:
            ckpt("-s", url, "undo", "t", "--yes", code=0)
            assert list(rows(url)) == before
    ended = run(library, "resume", url, dict(made.configurable or {}))
    assert ended[:-1] == mended
    assert len(run(library, "send", url, text="use quick and slow")) == len(ended) + 5
