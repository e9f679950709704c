"""A headless Chromium, driven by its DevTools protocol.

It opens one page at a time and keeps what the page asked of the network, printed or raised.
"""

import json
import os
import shutil
import subprocess
import tempfile
from base64 import b64decode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from websockets.sync.client import connect

from tests.kit.servers import INSTALL, USED, Unavailable

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_SECONDS = 30.0
_OPTIONS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage"),
    *("--disable-extensions", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--hide-scrollbars", "--no-first-run", "--remote-debugging-port=0"),
]
_KEYS = {"ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35, "Tab": 9, "Enter": 13}
_TROUBLE = {
    "Network.requestWillBeSent": "request",
    "Network.loadingFailed": "blocked",
    "Page.javascriptDialogOpening": "dialog",
    "Runtime.exceptionThrown": "exception",
    "Runtime.consoleAPICalled": "console",
    "Log.entryAdded": "log",
    "Target.targetCreated": "window",
    "Page.frameRequestedNavigation": "navigation",
}


def start_browser() -> "Browser":
    """Start a browser. Raises `Unavailable` if there is none."""
    given = os.environ.get("CKPT_TEST_CHROMIUM")
    program = next(filter(None, map(shutil.which, [given] if given else _PROGRAMS)), None)
    if program is None:
        raise Unavailable(f"no Chromium: {INSTALL['chromium']}")
    USED["chromium"] = program
    return Browser(program)


class Browser:
    def __init__(self, path: str) -> None:
        self._folder = tempfile.mkdtemp(prefix="ckpt-test-chromium-")
        self._process = subprocess.Popen(
            [path, *_OPTIONS, f"--user-data-dir={self._folder}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self._folder},
        )
        self._numbers = count(1)
        self.trouble: list[tuple[str, Any]] = []
        """What the page did besides showing itself: its kind, and the event."""
        self._loaded = False
        port, where = self._address()
        self._open = ExitStack()
        there = connect(f"ws://127.0.0.1:{port}{where}", max_size=None)
        self._socket = self._open.enter_context(there)
        self._session: str | None = None
        targets = self.send("Target.getTargets")["targetInfos"]
        (page,) = (one["targetId"] for one in targets if one["type"] == "page")
        self._session = self.send("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        self.send("Target.setDiscoverTargets", discover=True)

    def _address(self) -> tuple[str, str]:
        """Return the port and path that Chromium writes when it listens."""
        file, ends = Path(self._folder) / "DevToolsActivePort", monotonic() + _SECONDS
        while monotonic() < ends:
            if self._process.poll() is not None:
                raise RuntimeError("Chromium ended at once")
            if file.exists() and file.read_text().count("\n") == 1:
                port, path = file.read_text().split("\n")
                return port, path
            sleep(0.02)
        raise TimeoutError("Chromium does not listen")

    def stop(self) -> None:
        self._open.close()
        self._process.terminate()
        self._process.wait(_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)

    def send(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        while (answer := self._receive()).get("id") != number:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def _receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._socket.recv(_SECONDS))
        method = message.get("method")
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method in _TROUBLE:
            self.trouble.append((_TROUBLE[method], message["params"]))
        return message

    def open(self, file: Path, *, width: int = 1280, height: int = 900) -> None:
        """Open a file in a window of a size, forgetting what earlier pages did."""
        self.show(width=width, height=height)
        self.go(file.as_uri())
        # The file itself is asked for, too.
        (kind, asked), *_ = self.trouble
        assert (kind, asked["request"]["url"]) == ("request", file.as_uri())
        del self.trouble[0]
        # A report unpacks what it holds after it was loaded.
        self.run(
            "new Promise(done => { const look = (left) => left && document.getElementById('data')"
            " && !document.body.dataset.shown ? setTimeout(look, 10, left - 1) : done();"
            " look(2500); })"
        )

    def go(self, url: str) -> None:
        """Open an address, forgetting what earlier pages did."""
        self.trouble.clear()
        self._loaded = False
        self.send("Page.navigate", url=url)
        while not self._loaded:
            self._receive()
        self.drawn()

    @contextmanager
    def before_each_page(self, script: str) -> Iterator[None]:
        """Run a script before those of each page, until the block ends."""
        found = self.send("Page.addScriptToEvaluateOnNewDocument", source=script)
        try:
            yield
        finally:
            self.send("Page.removeScriptToEvaluateOnNewDocument", **found)

    def show(
        self, *, width: int = 1280, height: int = 900, dark: bool = False, media: str = ""
    ) -> None:
        """Set the size of the window, the colours that its user prefers, and screen or print."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page; waits for a promise."""
        found = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"])
        return found["result"].get("value")

    def drawn(self) -> None:
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def press(self, *keys: str) -> None:
        """Press keys as a person does, one after the other."""
        for key in keys:
            named: dict[str, Any] = {"key": key}
            if key in _KEYS:
                named |= {"code": key, "windowsVirtualKeyCode": _KEYS[key]}
                self.send("Input.dispatchKeyEvent", type="rawKeyDown", **named)
            else:
                self.send("Input.dispatchKeyEvent", type="keyDown", text=key, **named)
            self.send("Input.dispatchKeyEvent", type="keyUp", **named)
        self.drawn()

    def click(self, selector: str) -> None:
        place = self.run(
            f"(() => {{ const one = document.querySelector({json.dumps(selector)});"
            "one.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const box = one.getBoundingClientRect();"
            "return {x: box.x + box.width / 2, y: box.y + box.height / 2} })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)
        self.drawn()

    def text(self, selector: str) -> str:
        """Return the text of the first element that fits, as it is shown."""
        found: str = self.run(f"document.querySelector({json.dumps(selector)}).innerText")
        return found

    def picture(self, file: Path, *, whole: bool = True) -> None:
        """Write a PNG of the page, or of what the window shows."""
        found = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(b64decode(found["data"]))

    def pdf(self) -> bytes:
        return b64decode(self.send("Page.printToPDF")["data"])
