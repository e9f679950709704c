"""Serves the screen to a browser on this machine; the page is that of textual-serve."""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
import socket
from collections.abc import Awaitable, Callable, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import textual_serve
from aiohttp import WSCloseCode, WSMsgType, web

from ckpt_backends.errors import UsageError, reason_of
from ckpt_cli.ending import ENDING
from ckpt_cli.tui.serving.guard import LOOPBACK, is_allowed, page_policy
from ckpt_cli.tui.serving.screen_process import ScreenProcess

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
