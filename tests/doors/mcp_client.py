"""The official client, talking to `ckpt mcp` over standard input and output."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Self, TypeVar

if TYPE_CHECKING:
    import mcp_types as types
    from mcp import Client

_Answer = TypeVar("_Answer")


class McpServer:
    """A server that was started for a store, and its client. Each start takes a second."""

    client: Client

    def __init__(self, store: str | Path, *options: str) -> None:
        # It takes half a second, which a run without these tests saves.
        from mcp import StdioServerParameters

        words = ["-m", "ckpt_cli", "-s", str(store), "mcp", *options]
        # Drivers find their credentials in the environment.
        self._server = StdioServerParameters(
            command=sys.executable, args=words, env=dict(os.environ)
        )
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._ready = Event()
        self._thread = Thread(target=self._loop.run_until_complete, args=[self._run()])

    async def _run(self) -> None:
        from mcp import Client, stdio_client

        try:
            async with Client(stdio_client(self._server)) as self.client:
                self._ready.set()
                await self._end.wait()
        finally:
            self._ready.set()

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()
        self._loop.close()

    def ask(self, question: Coroutine[Any, Any, _Answer]) -> _Answer:
        """Return what a question to the client returns."""
        return asyncio.run_coroutine_threadsafe(question, self._loop).result()

    def call(self, tool: str, **arguments: Any) -> types.CallToolResult:
        """Call a tool, which answers itself."""
        found = self.ask(self.client.call_tool(tool, arguments))
        assert found.result_type == "complete"
        return found

    def told(self, tool: str, **arguments: Any) -> str:
        """Call a tool, and return the text of its answer."""
        return text_of(self.call(tool, **arguments))

    def items(self, tool: str, **arguments: Any) -> list[dict[str, Any]]:
        """Return the items of all pages of an answer."""
        found: list[dict[str, Any]] = []
        while True:
            page = self.call(tool, **arguments)
            assert not page.is_error, text_of(page)
            found += page.structured_content["items"]
            if page.structured_content["next_cursor"] is None:
                return found
            arguments["cursor"] = page.structured_content["next_cursor"]

    def described(self) -> str:
        """Return what the server says of its tools and resources."""
        tools = self.ask(self.client.list_tools()).model_dump_json()
        return tools + self.ask(self.client.list_resource_templates()).model_dump_json()


def text_of(result: types.CallToolResult) -> str:
    """Return the text of an answer."""
    (block,) = result.content
    assert block.type == "text"
    return block.text


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
