"""Serves the screen to a browser on this machine; the page is that of textual-serve."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
import sys
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from hmac import compare_digest
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import urlsplit

import textual_serve
from aiohttp import WSCloseCode, WSMsgType, web

from ckpt_backends.errors import UsageError, reason_of
from ckpt_backends.platform import ENDING
from ckpt_cli.tui.serving import SERVED

LOOPBACK = "127.0.0.1"
_NAMES = frozenset({LOOPBACK, "localhost"})


def is_allowed(path: str, host: str, origin: str | None, token: str, *, from_page: bool) -> bool:
    """Return whether a request may be answered.

    `host` and `origin` are its headers. With `from_page`, only a page of this server may send it,
    such as the one that opens a WebSocket: browsers do not keep other pages from that.
    """
    # The path of `OPTIONS *` has no slash.
    given = path.removeprefix("/").partition("/")[0]
    if not compare_digest(given.encode("utf-8", "replace"), token.encode()):
        return False
    # The port may differ: `ssh -L` forwards another one.
    if _name_of(host) not in _NAMES:
        return False
    return not from_page if origin is None else origin == f"http://{host}"


def _name_of(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def page_policy(host: str) -> str:
    """Return the policy of the page: it loads nothing from elsewhere and is in no frame."""
    return (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
        f"img-src 'self' data:; font-src 'self'; connect-src ws://{host}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


_DRIVER = "ckpt_cli.tui.serving.__main__:ServedDriver"
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
            "ckpt_cli.tui.serving",
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


_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_HEARTBEAT = 15.0
_PAGE = files("ckpt_cli.data") / "serve"
_STATIC = Path(textual_serve.__file__).parent / "static"


class ScreenServer:
    """Gives each connection a screen of its own."""

    def __init__(self, argv: Sequence[str]) -> None:
        """`argv` are the arguments of `ckpt` for the screens."""
        self._argv = argv
        self._token = secrets.token_urlsafe(24)
        self._sockets: set[web.WebSocketResponse] = set()

    def serve(self, port: int, ready: Callable[[str], None]) -> int:
        """Serve until a signal comes, and return its number; 0 is any free port.

        Calls `ready` with the address. Raises `UsageError` if the port cannot be used.
        """
        return asyncio.run(self._serve(port, ready))

    async def _serve(self, port: int, ready: Callable[[str], None]) -> int:
        ended = asyncio.get_running_loop().create_future()
        for number in (signal.SIGINT, *ENDING):
            if signal.getsignal(number) is not signal.SIG_IGN:
                asyncio.get_running_loop().add_signal_handler(number, _settle, ended, number)
        runner = web.AppRunner(self._application(), access_log=None, shutdown_timeout=5)
        await runner.setup()
        try:
            listening = _listening(port)
            await web.SockSite(runner, listening).start()
            ready(f"http://{LOOPBACK}:{listening.getsockname()[1]}/{self._token}/")
            return int(await ended)
        finally:
            await runner.cleanup()

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[self._guarded])
        application.add_routes(
            [
                web.get(f"/{self._token}/", self._page),
                web.get(f"/{self._token}/page.css", self._style),
                web.get(f"/{self._token}/page.js", self._script),
                web.get(f"/{self._token}/ws", self._screen),
                web.static(f"/{self._token}/static", _STATIC),
            ]
        )
        application.on_shutdown.append(self._close)
        return application

    @property
    def _guarded(self) -> Any:
        @web.middleware
        async def guarded(request: web.Request, handler: _Handler) -> web.StreamResponse:
            origin = request.headers.get("Origin")
            from_page = request.path.endswith("/ws")
            if not is_allowed(request.path, request.host, origin, self._token, from_page=from_page):
                # The same for all, so that nothing is learned from it.
                raise web.HTTPForbidden(text="forbidden\n")
            answer = await handler(request)
            if not answer.prepared:
                answer.headers["Content-Security-Policy"] = page_policy(request.host)
                answer.headers["Referrer-Policy"] = "no-referrer"
                answer.headers["X-Content-Type-Options"] = "nosniff"
                answer.headers["Cross-Origin-Resource-Policy"] = "same-origin"
                answer.headers["Cache-Control"] = "no-store"
            return answer

        return guarded

    async def _page(self, request: web.Request) -> web.Response:
        page = Template((_PAGE / "page.html").read_text("utf-8"))
        text = page.substitute(socket=f"ws://{request.host}/{self._token}/ws")
        return web.Response(text=text, content_type="text/html")

    async def _style(self, _: web.Request) -> web.Response:
        return web.Response(text=(_PAGE / "page.css").read_text("utf-8"), content_type="text/css")

    async def _script(self, _: web.Request) -> web.Response:
        text = (_PAGE / "page.js").read_text("utf-8")
        return web.Response(text=text, content_type="text/javascript")

    async def _screen(self, request: web.Request) -> web.WebSocketResponse:
        """Start a screen, and pass on what it draws and what is typed until either side ends."""
        page = web.WebSocketResponse(heartbeat=_HEARTBEAT)
        await page.prepare(request)
        self._sockets.add(page)
        try:
            width, height = (_number(request.query.get(name)) for name in ("width", "height"))
            screen = await ScreenProcess.start(self._argv, width or 80, height or 24)
            drawing = asyncio.create_task(_draw(screen, page))
            try:
                async for message in page:
                    if message.type is WSMsgType.TEXT:
                        await _pass_on(message.data, screen, page)
            finally:
                drawing.cancel()
                await asyncio.gather(drawing, return_exceptions=True)
                await screen.end()
        finally:
            self._sockets.discard(page)
        return page

    async def _close(self, _: web.Application) -> None:
        closing = (one.close(code=WSCloseCode.GOING_AWAY) for one in [*self._sockets])
        await asyncio.gather(*closing, return_exceptions=True)


async def _draw(screen: ScreenProcess, page: web.WebSocketResponse) -> None:
    async for picture in screen.pictures():
        await page.send_bytes(picture)
    await page.close()


async def _pass_on(text: str, screen: ScreenProcess, page: web.WebSocketResponse) -> None:
    """Carry out one message of the page; others than it sends are ignored."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return
    match said:
        case ["stdin", str(typed)]:
            await screen.type(typed)
        case ["resize", {"width": int(width), "height": int(height)}]:
            await screen.resize(width, height)
        case ["focus" | "blur" as kind, *_]:
            await screen.focus(is_focused=kind == "focus")
        case ["ping", sent]:
            await page.send_json(["pong", sent])


def _settle(ended: asyncio.Future[int], number: int) -> None:
    if not ended.done():
        ended.set_result(number)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        reason = reason_of(error)
        raise UsageError(
            f"cannot serve on port {port}: {reason}", hint="leave out --port to use a free one"
        ) from error
