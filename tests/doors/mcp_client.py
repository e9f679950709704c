"""The official client, talking to `ckpt mcp` over standard input and output."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeVar

import mcp_types as types
from mcp import Client, StdioServerParameters, stdio_client

_Answer = TypeVar("_Answer")


@asynccontextmanager
async def connected(store: str | Path, *options: str) -> AsyncIterator[Client]:
    """Yield a client of a server that was started for this store."""
    words = ["-m", "ckpt_cli", "-s", str(store), "mcp", *options]
    # Drivers find their credentials in the environment.
    server = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
    async with Client(stdio_client(server)) as client:
        yield client


def talk(
    store: str | Path, questions: Callable[[Client], Awaitable[_Answer]], *options: str
) -> _Answer:
    """Start a server, ask it, and return what `questions` returns."""

    async def run() -> _Answer:
        async with connected(store, *options) as client:
            return await questions(client)

    try:
        return asyncio.run(run())
    except ExceptionGroup as group:
        # The client wraps what fails in groups, one in another.
        error: Exception = group
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        raise error from None


class Conversation:
    """A server that several tests talk to, because each start takes a second."""

    def __init__(self, store: str | Path, *options: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._ready = Event()
        self._client: Client | None = None
        self._thread = Thread(
            target=self._loop.run_until_complete, args=[self._run(store, options)]
        )

    async def _run(self, store: str | Path, options: Sequence[str]) -> None:
        try:
            async with connected(store, *options) as self._client:
                self._ready.set()
                await self._end.wait()
        finally:
            self._ready.set()

    def __call__(self, questions: Callable[[Client], Coroutine[Any, Any, _Answer]]) -> _Answer:
        """Ask the server, and return what `questions` returns."""
        assert self._client, "the server did not start"
        return asyncio.run_coroutine_threadsafe(questions(self._client), self._loop).result()

    def __enter__(self) -> Conversation:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()
        self._loop.close()


async def call(client: Client, tool: str, **arguments: Any) -> types.CallToolResult:
    """Call a tool, which answers itself."""
    found = await client.call_tool(tool, arguments)
    assert isinstance(found, types.CallToolResult)
    return found


def text_of(result: types.CallToolResult) -> str:
    """Return the text of an answer."""
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


async def items(client: Client, tool: str, **arguments: Any) -> list[dict[str, Any]]:
    """Return the items of all pages of an answer."""
    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = await call(client, tool, **arguments, **cursor)
        assert not page.is_error, text_of(page)
        found += page.structured_content["items"]
        if page.structured_content["next_cursor"] is None:
            return found
        cursor = {"cursor": page.structured_content["next_cursor"]}


def each_tool(thread: str) -> Sequence[tuple[str, dict[str, Any]]]:
    """Return a call of each tool."""
    one = {"thread": thread}
    return [
        ("threads", {}),
        ("tree", one),
        ("show", {**one, "writes": True}),
        ("history", {**one, "all_ns": True}),
        ("diff", one),
        ("messages", one),
        ("blame", {**one, "path": "messages"}),
        ("grep", {"pattern": "e", "threads": [thread]}),
        ("interrupts", {}),
        ("errors", {"history": True}),
        ("timeline", one),
        ("doctor", {"deep": True}),
        ("memory", {}),
    ]
