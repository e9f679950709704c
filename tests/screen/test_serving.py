"""`ckpt tui --serve`: who may look, what they see, in a real browser too, and how it ends."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.sync.connection import Connection
from websockets.typing import Origin

from ckpt_cli.tui.serving import server
from ckpt_cli.tui.serving.server import ScreenProcess, is_allowed
from tests.kit.browser import Browser
from tests.kit.command import ROOT, ckpt

pytestmark = pytest.mark.engines


_PATIENCE = 60.0


@contextmanager
def serving(
    store: str, *words: str, **variables: str
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Serve a store; yields the address and the process."""
    command = [sys.executable, "-m", "ckpt_cli", *words, "tui", "--serve"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CKPT_STORE": store, **variables}
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.communicate(timeout=_PATIENCE)


def opened(url: str, origin: str | None = None) -> Connection:
    """Connect as the page does."""
    host = urlsplit(url).netloc
    address = f"ws://{host}{urlsplit(url).path}ws?width=120&height=40"
    return connect(address, origin=Origin(origin or f"http://{host}"), open_timeout=_PATIENCE)


def until(page: Connection, *words: str) -> str:
    """Read what the page draws until all words were drawn."""
    seen, end = "", time.monotonic() + _PATIENCE
    while not all(word in seen for word in words):
        drawn = page.recv(timeout=max(end - time.monotonic(), 0))
        text = drawn if isinstance(drawn, str) else drawn.decode()
        seen += re.sub(r"\x1b\[[0-9;:?<>=]*[a-zA-Z]", "", text)
    return seen


def ended(page: Connection) -> None:
    """Wait until the connection is closed."""
    for _ in page:
        pass


def asked(url: str, path: str = "", **headers: str) -> tuple[int, str, dict[str, str]]:
    """Return the status, the text and the headers of an answer."""
    parts = urlsplit(url)
    connection = HTTPConnection(str(parts.hostname), parts.port, timeout=_PATIENCE)
    connection.request("GET", path or parts.path, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text, dict(answer.headers)


def children(number: int) -> list[int]:
    """Return the processes that a process started."""
    found = Path(f"/proc/{number}/task/{number}/children")
    return [int(one) for one in found.read_text().split()]


def only_child(process: subprocess.Popen[str]) -> int:
    """Wait until a server has one screen; one that was left may be about to end."""
    holds_within(lambda: len(children(process.pid)) == 1)
    return children(process.pid)[0]


def is_running(number: int) -> bool:
    return Path(f"/proc/{number}").exists()


def holds_within(holds: Callable[[], bool]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + _PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def only_the_page_itself_on_this_machine_may_look(url: str, process: subprocess.Popen[str]) -> None:
    host = urlsplit(url).netloc
    status, text, headers = asked(url)
    assert (status, f"ws://{host}" in text) == (200, True)
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["Referrer-Policy"] == "no-referrer"
    # Nothing of the page comes from elsewhere.
    assert set(re.findall(r"\w+://[^/\"]*", text)) == {f"ws://{host}"}
    assert asked(url, urlsplit(url).path + "static/js/textual.js")[0] == 200
    # A forwarded port has another number.
    assert asked(url, Host="localhost:9")[0] == 200
    for path in ("/", "/ws", "/static/js/textual.js", "/wrong/"):
        assert asked(url, path)[0] == 403
    assert asked(url, Host="evil.example")[0] == 403
    assert asked(url, Host=f"evil.example:{urlsplit(url).port}")[0] == 403
    assert asked(url, Origin="http://evil.example")[0] == 403
    for origin in ("http://evil.example", "http://localhost:3000", "null"):
        with pytest.raises(InvalidStatus, match="403"):
            opened(url, origin)
    assert not children(process.pid)


def test_the_screen_is_seen_by_its_page_alone_driven_and_ended_with_the_server(
    sample: Path,
) -> None:
    with serving(str(sample)) as (url, process):
        assert urlsplit(url).hostname == "127.0.0.1"
        only_the_page_itself_on_this_machine_may_look(url, process)
        with opened(url) as page:
            until(page, "8 threads", "refund-4711", "read-only")
            page.send("not JSON")
            page.send(json.dumps(["ping", 7]))
            page.send(json.dumps(["resize", {"width": 100, "height": 30}]))
            page.send(json.dumps(["stdin", "?"]))
            until(page, '["pong", 7]', "Keys")
            page.send(json.dumps(["stdin", "qq"]))
            ended(page)
        with opened(url) as page:
            until(page, "8 threads")
            screen = only_child(process)
            line = Path(f"/proc/{screen}/cmdline").read_bytes()
            assert sample.name.encode() not in line
            process.send_signal(signal.SIGINT)
            ended(page)
        assert process.wait(_PATIENCE) == 130
        assert not is_running(screen)


def test_a_socket_needs_an_origin() -> None:
    assert is_allowed("/a/", "127.0.0.1:5", None, "a", from_page=False)
    assert not is_allowed("/a/ws", "127.0.0.1:5", None, "a", from_page=True)
    assert is_allowed("/a/ws", "127.0.0.1:5", "http://127.0.0.1:5", "a", from_page=True)
    assert not is_allowed("/ä/", "127.0.0.1:5", None, "a", from_page=False)
    assert not is_allowed("/a/", "127.0.0.1.evil.example", None, "a", from_page=False)
    assert not is_allowed("/a/", "[", None, "a", from_page=False)
    assert not is_allowed("*", "127.0.0.1", None, "token", from_page=False)
    assert not is_allowed("", "127.0.0.1", None, "token", from_page=False)


def test_a_screen_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def end() -> int:
        process = await asyncio.create_subprocess_exec("sleep", "60", stdin=PIPE, stdout=PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        await ScreenProcess(process, process.stdin, process.stdout).end()
        return await process.wait()

    monkeypatch.setattr(server, "_GRACE", 0.1)
    assert asyncio.run(end()) == -signal.SIGKILL


def test_what_cannot_be_served_is_refused(sample: Path, tmp_path: Path) -> None:
    both = ckpt("-s", sample, "tui", "--serve", "--write")
    assert (both.code, "--serve cannot be combined with --write" in both.err) == (2, True)
    alone = ckpt("-s", sample, "tui", "--port", "8000")
    assert (alone.code, "--port needs --serve" in alone.err) == (2, True)
    missing = ckpt("-s", tmp_path / "none.db", "tui", "--serve")
    assert missing.code == 4
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = str(other.getsockname()[1])
        taken = ckpt("-s", sample, "tui", "--serve", "--port", port)
        assert (taken.code, f"cannot serve on port {port}" in taken.err) == (2, True)


_FIND_TERMINAL = """
// The page draws on a canvas and keeps its terminal for itself: take it where it is stored.
Object.defineProperty(Object.prototype, "terminal", {
  configurable: true,
  set(one) {
    Object.defineProperty(this, "terminal", { value: one, writable: true, configurable: true });
    if (one && one.buffer) window.shown = one;
  },
});
"""


_READ_TERMINAL = """
[...Array(shown.rows).keys()]
  .map(row => shown.buffer.active.getLine(row).translateToString(true)).join("\\n")
"""


def shown_until(browser: Browser, holds: Callable[[str], bool]) -> None:
    """Wait until what the terminal of the page shows is so."""
    holds_within(lambda: holds(browser.run(_READ_TERMINAL)))


def test_the_screen_is_driven_in_a_browser_and_ends_when_its_server_is_killed(
    sample: Path, chromium: Browser
) -> None:
    with serving(str(sample)) as (url, process), chromium.before_each_page(_FIND_TERMINAL):
        chromium.show(width=1280, height=800)
        chromium.go(url)
        shown_until(chromium, lambda text: "refund-4711" in text and "read-only" in text)
        # Typed at once: the page has the focus.
        chromium.press("/", *"weekly", "Enter")
        shown_until(chromium, lambda text: "weekly-digest" in text and "refund-4711" not in text)
        # With --write, D shows a plan, over which there is no help.
        chromium.press("D", "?")
        shown_until(chromium, lambda text: "Keys and signs" in text)
        chromium.show(width=700, height=500)
        shown_until(chromium, lambda text: text.count("\n") < 30)
        asked = [one["request"]["url"] for kind, one in chromium.trouble if kind == "request"]
        assert all(one.startswith(url) for one in asked)
        trouble = [one for one in chromium.trouble if one[0] in {"exception", "blocked"}]
        assert trouble == []
        screen = only_child(process)
        process.kill()
        holds_within(lambda: not is_running(screen))
    chromium.go("about:blank")
    chromium.trouble.clear()
