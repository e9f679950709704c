"""What happens to the server: many calls, cancelled calls, a client or a store that goes away."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.doors.mcp_client import McpServer, text_of
from tests.kit.command import SAMPLE, copy_store

HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


@contextmanager
def server(*words: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Start a server whose messages the test writes itself."""
    command = [sys.executable, "-m", "ckpt_cli", *map(str, words)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def send(process: subprocess.Popen[str], method: str, number: int, params: Any) -> None:
    assert process.stdin
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()


def received(process: subprocess.Popen[str]) -> Any:
    assert process.stdout
    return json.loads(process.stdout.readline())


@pytest.fixture(scope="module")
def large_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample, with a thousand copies of a thread: deep checks take seconds."""
    path = copy_store(SAMPLE, tmp_path_factory.mktemp("large"))
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in ("checkpoints", "writes"):
            names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            rest = ", ".join(name for name in names if name != "thread_id")
            connection.execute(
                f"WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1000)"
                f" INSERT INTO {table} (thread_id, {rest})"
                f" SELECT 'copy-' || n, {rest} FROM s, {table} WHERE thread_id = 'trip-to-kyoto'"
            )
    return path


@pytest.mark.slow
def test_two_hundred_calls_at_once_are_all_answered() -> None:
    with McpServer(SAMPLE) as server:

        async def ask() -> list[object]:
            wanted = {"thread": "trip-to-kyoto"}
            calls = (server.client.call_tool("history", wanted) for _ in range(200))
            return [one.structured_content for one in await asyncio.gather(*calls)]

        one = server.call("history", thread="trip-to-kyoto")
        assert server.ask(ask()) == [one.structured_content] * 200


@pytest.mark.engines
def test_a_cancelled_call_ends_and_the_server_goes_on() -> None:
    with McpServer(SAMPLE) as server:

        async def ask() -> None:
            with anyio.move_on_after(0.05):
                await server.client.call_tool("doctor", {"deep": True})

        server.ask(ask())
        assert server.items("threads")


@pytest.mark.slow
def test_a_call_that_takes_too_long_is_stopped(large_store: Path) -> None:
    with McpServer(large_store, "--timeout", "1") as server:
        late = server.call("doctor", deep=True)
        assert late.is_error
        assert "stopped after 1 s" in text_of(late)
        assert "--timeout" in text_of(late)
        assert server.described()


@pytest.mark.parametrize(
    "end",
    [
        "client",
        pytest.param(signal.SIGTERM, marks=pytest.mark.engines),
        pytest.param(signal.SIGINT, marks=pytest.mark.engines),
    ],
)
def test_the_server_ends(end: str | signal.Signals) -> None:
    with server("-s", SAMPLE, "mcp") as process:
        send(process, "initialize", 1, HELLO)
        assert received(process)["result"]["serverInfo"]["name"] == "ckpt"
        if isinstance(end, signal.Signals):
            process.send_signal(end)
        else:
            assert process.stdin
            process.stdin.close()
        assert process.wait(20) == (-end if isinstance(end, signal.Signals) else 0)
        assert process.stderr
        assert process.stderr.read() == ""


@pytest.mark.engines
def test_the_server_ends_in_the_middle_of_a_call(large_store: Path) -> None:
    with server("-s", large_store, "mcp", "--timeout", "600") as process:
        send(process, "initialize", 1, HELLO)
        received(process)
        arguments = {"name": "doctor", "arguments": {"deep": True}}
        send(process, "tools/call", 2, arguments)
        assert process.stdin
        process.stdin.close()
        assert process.wait(20) == 0


@pytest.mark.engines
def test_a_store_that_cannot_be_opened_is_told_before_it_is_served(tmp_path: Path) -> None:
    with server("-s", tmp_path / "missing.db", "mcp") as process:
        assert process.wait(20) == 4
        assert process.stderr
        assert "no such file" in process.stderr.read()


@pytest.mark.engines
def test_a_store_that_goes_away_and_comes_back(sample: Path) -> None:
    with McpServer(sample) as server:
        assert server.items("threads")
        away = sample.with_name("away")
        sample.rename(away)
        # Each of the connections notices when it is asked next.
        for _ in range(8):
            server.call("threads")
        away.rename(sample)
        assert server.items("threads")
