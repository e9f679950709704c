"""What happens to the server: many calls, cancelled calls, a client or a store that goes away."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from tests.doors.mcp_client import call, items, talk, text_of
from tests.kit.command import SAMPLE

THREAD = "trip-to-kyoto"
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


@pytest.mark.slow
def test_two_hundred_calls_at_once_are_all_answered() -> None:
    async def ask(client: Client) -> None:
        one = await call(client, "history", thread=THREAD)
        found = await asyncio.gather(*(call(client, "history", thread=THREAD) for _ in range(200)))
        assert all(each.structured_content == one.structured_content for each in found)

    talk(SAMPLE, ask)


@pytest.mark.engines
def test_a_cancelled_call_ends_and_the_server_goes_on(tmp_path: Path) -> None:
    async def ask(client: Client) -> None:
        with anyio.move_on_after(0.05):
            await call(client, "doctor", deep=True)
        assert await items(client, "threads")

    talk(SAMPLE, ask)


@pytest.mark.slow
def test_a_call_that_takes_too_long_is_stopped(large_store: Path) -> None:
    async def ask(client: Client) -> None:
        late = await call(client, "doctor", deep=True)
        assert late.is_error
        assert "stopped after 1 s" in text_of(late)
        assert "--timeout" in text_of(late)
        assert (await client.list_tools()).tools

    talk(large_store, ask, "--timeout", "1")


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
    async def ask(client: Client) -> None:
        assert await items(client, "threads")
        away = sample.with_name("away")
        sample.rename(away)
        # Each of the connections notices when it is asked next.
        for _ in range(8):
            await call(client, "threads")
        away.rename(sample)
        assert await items(client, "threads")

    talk(sample, ask)
