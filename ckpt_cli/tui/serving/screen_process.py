"""One screen in a process of its own, spoken to through pipes as Textual's web driver does.

A packet is a letter (`D` text of the terminal, `M` JSON), the length in 4 bytes, and the data.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress

from ckpt_cli.tui.serving import SERVED

_DRIVER = "ckpt_cli.tui.serving.driver:ServedDriver"
_READY = b"__GANGLION__\n"
_GRACE = 3.0
"""Seconds that a screen has to close its connections before it is killed."""
_LARGEST = 1000
"""Maximum number of columns and of lines."""


class ScreenProcess:
    """A running screen."""

    def __init__(self, process: Process, keys: StreamWriter, picture: StreamReader) -> None:
        self._process = process
        self._keys, self._picture = keys, picture

    @classmethod
    async def start(cls, argv: Sequence[str], width: int, height: int) -> ScreenProcess:
        """Start a screen of some size with the arguments of `ckpt`; errors go to stderr."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            # Else it would import from the current folder first.
            "-P",
            "-m",
            "ckpt_cli.served",
            stdin=PIPE,
            stdout=PIPE,
            env=_environment(argv, width, height),
        )
        if process.stdin is None or process.stdout is None:
            raise AssertionError("the process has no pipes")
        return cls(process, process.stdin, process.stdout)

    async def pictures(self) -> AsyncIterator[bytes]:
        """Yield what the terminal is to draw, until the screen ends."""
        if await self._picture.readline() != _READY:
            return
        with suppress(asyncio.IncompleteReadError):
            while True:
                head = await self._picture.readexactly(5)
                data = await self._picture.readexactly(int.from_bytes(head[1:], "big"))
                # Files and addresses to open are not passed on.
                if head[:1] == b"D":
                    yield data

    async def type(self, text: str) -> None:
        """Pass on keys and the mouse."""
        await self._send(b"D", text.encode("utf-8", "replace"))

    async def resize(self, width: int, height: int) -> None:
        """Set the size of the terminal."""
        await self._tell({"type": "resize", "width": _size(width), "height": _size(height)})

    async def focus(self, *, is_focused: bool) -> None:
        """Tell whether the page has the focus."""
        await self._tell({"type": "focus" if is_focused else "blur"})

    async def end(self) -> None:
        """Close the screen; kill it if that takes too long."""
        self._keys.close()
        try:
            async with asyncio.timeout(_GRACE):
                # A full pipe would keep it from ending.
                while await self._picture.read(1 << 16):
                    pass
                await self._process.wait()
        except TimeoutError:
            pass
        finally:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def _tell(self, said: Mapping[str, object]) -> None:
        await self._send(b"M", json.dumps(said).encode())

    async def _send(self, kind: bytes, data: bytes) -> None:
        # The screen may have ended, which `pictures` tells.
        with suppress(ConnectionError, RuntimeError):
            self._keys.write(kind + len(data).to_bytes(4, "big") + data)
            await self._keys.drain()


def _environment(argv: Sequence[str], width: int, height: int) -> Mapping[str, str]:
    return {
        **os.environ,
        SERVED: json.dumps(argv),
        "TEXTUAL_DRIVER": _DRIVER,
        "TEXTUAL_COLOR_SYSTEM": "truecolor",
        "COLUMNS": str(_size(width)),
        "ROWS": str(_size(height)),
    }


def _size(number: int) -> int:
    return min(max(number, 1), _LARGEST)
