"""The screen in the browser, by `ckpt tui --serve`, and in a real terminal; and a watched list."""

import asyncio
import json
import os
import re
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.sync.connection import Connection
from websockets.typing import Origin

from ckpt_cli.tui.serving import server
from ckpt_cli.tui.serving.server import ScreenProcess, is_allowed
from tests.kit.agents.small import Log, chain, run
from tests.kit.browser import Browser
from tests.kit.cases import cases
from tests.kit.command import ROOT, ckpt
from tests.kit.memory.benches import SqliteBench
from tests.kit.savers.deerflow import make
from tests.kit.terminal import check_installed, ckpt_in_terminal

pytestmark = pytest.mark.engines


_PATIENCE = 60.0


@contextmanager
def serving(
    store: str, *words: str, **variables: str
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Serve a store; yields the address and the process."""
    with subprocess.Popen(
        [sys.executable, "-m", "ckpt_cli", *words, "tui", "--serve"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CKPT_STORE": store, **variables},
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


def test_the_screen_is_seen_by_its_page_alone_and_ends_with_the_server(sample: Path) -> None:
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
    ckpt("-s", sample, "tui", "--port", "8000", code=2, says="--port needs --serve")
    ckpt("-s", tmp_path / "none.db", "tui", "--serve", code=4)
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


def test_the_screen_in_a_browser_ends_with_its_server(sample: Path, chromium: Browser) -> None:
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
        assert [one for one in chromium.trouble if one[0] in {"exception", "blocked"}] == []
        screen = only_child(process)
        process.kill()
        holds_within(lambda: not is_running(screen))
    chromium.go("about:blank")
    chromium.trouble.clear()


# In a real terminal, with real keys, under tmux; and when there is none


class Terminal:
    """A terminal of some size with a program in it."""

    def __init__(self, width: int, height: int, folder: Path) -> None:
        self._socket = f"ckpt-{uuid4().hex[:8]}"
        self._pid = folder / "pid"
        self._size = (str(width), str(height))

    def start(self, words: list[str], environment: Mapping[str, str]) -> None:
        """Run a program; the terminal stays when it ends."""
        # The shell's child writes its process id, and becomes the program.
        program = f"echo $$ > {shlex.quote(str(self._pid))}; exec {shlex.join(words)}"
        command = f"sh -c {shlex.quote(program)}; echo ended with $?; exec sleep 600"
        variables = [f"-e{name}={value}" for name, value in environment.items()]
        width, height = self._size
        self._tmux("new-session", "-d", "-x", width, "-y", height, *variables, "sh", "-c", command)

    def press(self, *keys: str) -> None:
        """Press keys as tmux names them."""
        self._tmux("send-keys", *keys)

    @property
    def text(self) -> str:
        """What is on the screen."""
        return self._tmux("capture-pane", "-p")

    @property
    def colored(self) -> str:
        """The same with its colours."""
        return self._tmux("capture-pane", "-p", "-e")

    def until(self, holds: Callable[[str], object]) -> str:
        """Wait until the screen is so; what it shows then."""
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            if holds(text := self.text):
                return text
            time.sleep(0.1)
        raise AssertionError(f"never so:\n{self.text}")

    def until_field(self, words: str) -> None:
        """Wait until the field below some words has the focus, and so the cursor."""

        def has_focus(text: str) -> bool:
            row = int(self._tmux("display-message", "-p", "#{cursor_y}"))
            return words in "".join(text.splitlines()[row - 1 : row])

        self.until(has_focus)

    def ask_for_fork(self, name: str, channel: str) -> None:
        """Fill the form for a fork in which the value of a channel is edited."""
        self.press("Enter", "F")
        self.until(lambda text: "Channel to edit" in text)
        self.press("-l", name)
        self.until(lambda text: name in text)
        self.press("Tab")
        self.until_field("Channel to edit")
        self.press("-l", channel)
        self.until(lambda text: channel in text and "booking, budget" not in text)
        self.press("Enter")

    def leave(self) -> None:
        """Press q, and see that the program ends without an error."""
        self.press("q")
        self.until(lambda text: "ended with 0" in text)

    def tell_program(self, number: int) -> None:
        """Send a signal to the program."""
        os.kill(int(self._pid.read_text()), number)

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def close(self) -> None:
        self._tmux("kill-server")

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-L", self._socket, "-f", "/dev/null", *words]
        # The size of the terminal, not that of the tests.
        sized = {"COLUMNS", "LINES"}
        variables = {key: os.environ[key] for key in os.environ if key not in sized}
        found = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
        assert found.returncode == 0, found.stderr
        return found.stdout


@pytest.fixture
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    check_installed("tmux")
    found = Terminal(80, 24, tmp_path_factory.mktemp("terminal"))
    yield found
    found.close()


def start(
    terminal: Terminal,
    store: Path,
    *words: str,
    shows: tuple[str, ...] = ("8 threads", "next"),
    before: tuple[str, ...] = (),
    command: tuple[str, ...] = ("tui",),
    **variables: str,
) -> None:
    environment = {"TERM": "screen-256color", "LC_ALL": "C.UTF-8", "PYTHONPATH": str(ROOT)}
    environment |= {"TZ": "UTC", "HOME": os.environ["HOME"], **variables}
    program = [sys.executable, "-m", "ckpt_cli", "-s", str(store), *before, *command, *words]
    terminal.start(program, environment)
    terminal.until(lambda text: all(one in text for one in shows))


def test_looking_around_and_leaving_while_others_write(terminal: Terminal, sample: Path) -> None:
    with closing(sqlite3.connect(sample)) as connection:
        # Without a write-ahead log, SQLite's writers wait for whoever has not ended reading.
        connection.execute("PRAGMA journal_mode = DELETE")
    start(terminal, sample)
    with closing(sqlite3.connect(sample, timeout=60)) as connection, connection:
        connection.execute("DELETE FROM writes WHERE thread_id = 'weekly-digest'")
    terminal.press("j")
    terminal.until(lambda text: "Refund 89.00 EUR" in text)
    terminal.press("Enter", "Enter", "4")
    text = terminal.until(lambda text: "The shoes of order 4711" in text)
    assert len(text.splitlines()) == 24
    assert "\x1b[" in terminal.colored
    terminal.press("?")
    terminal.until(lambda text: "Keys" in text)
    terminal.press("Escape")
    terminal.until(lambda text: "Keys" not in text)
    terminal.leave()


def test_a_value_is_edited_and_the_screen_ends_with_the_editor(
    terminal: Terminal, sample: Path, tmp_path: Path
) -> None:
    temporary, editor, child = (tmp_path / name for name in ("tmp", "editor", "child"))
    temporary.mkdir()
    editor.write_text('#!/bin/sh\nsed -i s/Kyoto/Nara/ "$1"\n')
    editor.chmod(0o755)
    start(terminal, sample, "--write", EDITOR=str(editor), TMPDIR=str(temporary))
    assert "WRITE" in terminal.text
    terminal.ask_for_fork("to-nara", "destination")
    terminal.until(lambda text: "Fork this checkpoint?" in text)
    # A plan ignores `y` in its first moment.
    while "Fork this checkpoint?" in terminal.text:
        terminal.press("y")
        time.sleep(0.1)
    terminal.until(lambda text: "9 threads" in text)
    state = ckpt("-s", sample, "show", "to-nara", "--path", "destination", "-o", "json").json
    assert state == "Nara"
    assert list(temporary.iterdir()) == []

    editor.write_text(f"#!/bin/sh\necho $$ > {child}\necho draft open\nexec sleep 600\n")
    terminal.ask_for_fork("to-osaka", "destination")
    terminal.until(lambda text: "draft open" in text)
    assert list(temporary.glob("ckpt-*/value.json"))
    terminal.tell_program(signal.SIGTERM)
    terminal.until(lambda text: "ended with 143" in text)
    assert list(temporary.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int(child.read_text()), 0)


def test_deerflows_folder_opens_with_what_it_remembers(terminal: Terminal, tmp_path: Path) -> None:
    make(tmp_path)
    start(terminal, tmp_path, shows=("Memory: 4 items", "content:"), NO_COLOR="1")
    terminal.press("q")
    terminal.until(lambda text: "2 threads" in text and "thread_abc123" in text)
    terminal.leave()


def test_a_store_of_memory_alone_opens_with_it(terminal: Terminal, tmp_path: Path) -> None:
    with SqliteBench(str(tmp_path / "memory.db")).store() as memory:
        memory.put(("users", "anna"), "tea", {"text": "likes tea", "thread_id": "gone"})
    start(terminal, tmp_path / "memory.db", shows=("Memory: 1 item", "likes tea"))
    terminal.leave()


@cases(
    "store words said",
    ("memory.json", ["tui", "trip-to-kyoto"], "this store holds memory only"),
    (".", ["tui", "--write"], "--write changes threads"),
    ("store.db", ["--copy", "tui", "--write"], "--write cannot be combined with --copy,"),
    ("store.db", ["--redact", "tui", "--write"], "--write cannot be combined with --copy,"),
)
def test_what_the_screen_cannot_do_is_told_before_it_starts(
    sample: Path, tmp_path: Path, store: str, words: list[str], said: str
) -> None:
    make(tmp_path)
    (tmp_path / "memory.json").write_text('{"version": "1.0", "facts": []}')
    where = sample if store == "store.db" else tmp_path / store
    code, shown = ckpt_in_terminal("-s", where, *words, width=120)
    assert (code, said in shown) == (2, True), shown


def test_an_unknown_thread_is_told_before_the_screen_starts(sample: Path) -> None:
    for target in ("no-such-thread", "trip-to-kyoto@ffff0000"):
        refused = ckpt("-s", sample, "show", target)
        code, shown = ckpt_in_terminal("-s", sample, "tui", target, width=120)
        assert code == refused.code == 3
        assert shown.splitlines()[0] == refused.err.splitlines()[0]
        assert "\x1b[?1049h" not in shown


_NO_TEXTUAL = """
import sys
for name in [one for one in sys.modules if one.startswith(("textual", "ckpt_cli.tui"))]:
    del sys.modules[name]
sys.modules["textual"] = None
"""


def test_without_textual_it_says_how_to_install_it(sample: Path) -> None:
    # A terminal, as without one it is not tried at all.
    code, shown = ckpt_in_terminal("-s", sample, "tui", begin=_NO_TEXTUAL, width=120)
    assert (code, "pip install 'langgraph-ckpt[tui]'" in shown) == (2, True), shown


def test_a_screen_that_is_told_to_end_restores_the_terminal(
    terminal: Terminal, sample: Path, tmp_path: Path
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    start(terminal, sample, TMPDIR=str(temporary), before=("--copy",))
    assert list(temporary.glob("ckpt-*/copy.db"))
    terminal.tell_program(signal.SIGTERM)
    assert "8 threads" not in terminal.until(lambda text: "ended with 143" in text)
    assert list(temporary.iterdir()) == []


# `threads list --watch` shows the list again and again, until `q`


WATCH = ("threads", "list", "--watch", "--interval")


def write(path: Path, thread: str) -> None:
    run(path, chain(Log, {"answer": lambda _: {"log": ["yes"]}}), {"log": []}, thread=thread)


def test_a_watched_list_shows_what_changes_until_q(terminal: Terminal, path: Path) -> None:
    away = path.with_suffix(".away")
    write(path, "first")
    start(terminal, path, "0.2", command=WATCH, shows=("every 0.2 s, q ends", "THREAD", "first"))
    write(path, "second")
    terminal.until(lambda text: [one[:6] for one in text.splitlines()[3:5]] == ["second", "first "])
    # A lost store is said, and opened again.
    path.rename(away)
    path.mkdir()
    terminal.until(lambda text: "trying again" in text)
    path.rmdir()
    away.rename(path)
    write(path, "third")
    terminal.until(lambda text: "third" in text and "trying again" not in text)
    terminal.leave()
    # The terminal is as it was before, and shows what is typed.
    assert "THREAD" not in terminal.text
    terminal.press("-l", "typed")
    terminal.until(lambda text: "typed" in text)


def test_a_watched_list_keeps_to_the_size_until_a_signal(terminal: Terminal, path: Path) -> None:
    for number in range(9):
        write(path, f"thread-{number}")
    start(terminal, path, "60", command=WATCH, shows=("thread-0", "thread-8"))
    terminal.resize(60, 8)
    text = terminal.until(lambda text: text.splitlines()[-1] == "…")
    assert "thread-8" in text
    terminal.resize(60, 20)
    terminal.until(lambda text: "thread-0" in text and "…" not in text)
    terminal.tell_program(signal.SIGTERM)
    assert "THREAD" not in terminal.until(lambda text: "ended with 143" in text)
    terminal.press("-l", "typed")
    terminal.until(lambda text: "typed" in text)
