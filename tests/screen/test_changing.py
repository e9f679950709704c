"""Changing a store: the plan is shown, and the official graph goes on. Not without `--write`."""

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph

from ckpt_backends.errors import CkptError, UsageError
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.official import ScenarioThread, config_of, drive
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.testing.screen import Seat, sitting
from ckpt_cli.tui import writing
from ckpt_cli.tui.keys import CHANGING, READING_GROUPS, Key, keys_of
from ckpt_cli.tui.screens.dialogs import PlanScreen
from ckpt_cli.tui.writing import Writing, edit, editor_of
from tests.kit.cases import cases
from tests.kit.command import ROOT, ckpt
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.opening import empty_store

pytestmark = pytest.mark.engines


CHAT, STUCK = "chat", "interrupt-alone"


class Store:
    """A store with a few threads that official graphs can go on with."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.url = harness.url
        self.threads: dict[str, ScenarioThread] = {
            name: drive(harness.kept_saver, SCENARIOS[name]) for name in (CHAT, STUCK)
        }

    def graph(self, name: str) -> Any:
        return self.threads[name].graph(self.harness.kept_saver)

    def state(self, name: str) -> Any:
        """What the official library says of a thread's head."""
        return self.graph(name).get_state(config_of(name))

    def history(self, name: str) -> list[str]:
        """Its checkpoints as the official saver lists them, newest first."""
        return [one.checkpoint["id"] for one in self.harness.kept_saver.list(config_of(name))]


@pytest.fixture
def driven(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with empty_store(SqliteHarness, request, tmp_path) as harness:
        yield Store(harness)


def recorded() -> Any:
    """The recorded operations, the newest first."""
    return ckpt("ops", "list", "-o", "json").json


async def go(seat: Seat, name: str) -> None:
    """To the tree of a thread."""
    await seat.search(name)
    await seat.press("enter")
    assert seat.main.tree_pane.view.thread_id == name


async def test_a_thread_is_rolled_back_resumed_and_the_change_undone(driven: Store) -> None:
    before = driven.history(STUCK)
    async with sitting(driven.url, writes=True) as seat:
        await go(seat, STUCK)
        assert seat.sees("WRITE")
        assert seat.place.checkpoint_id == before[0]
        await seat.see("k B", "Plan", "Roll back this thread?", "back to")
        await seat.press("n")
        assert driven.history(STUCK) == before
        await seat.hear("B y", ": head is now ")
        await seat.rest()
        head, *rest = driven.history(STUCK)
        assert rest == before
        assert seat.place.checkpoint_id == head
        assert driven.state(STUCK).config["configurable"]["checkpoint_id"] == head
        # The official graph goes on from it, in a branch that comes up on the screen.
        assert "__interrupt__" in driven.graph(STUCK).invoke(None, config_of(STUCK))
        await seat.see("r", "2 branches", "interrupted")
        assert set(before) < set(driven.history(STUCK))
        # The undo rolls back, because the graph went on.
        await seat.hear("U y", f"undid the last change of {STUCK}: head is now ")
    undo, rollback = recorded()
    assert (undo["action"], rollback["action"]) == ("undo", "rollback")
    assert rollback["undone_by"] == undo["op"]


async def test_a_refused_fork_keeps_its_form_and_a_plan_is_the_commands(driven: Store) -> None:
    before = driven.history(CHAT)
    async with sitting(driven.url, writes=True, size=(140, 50)) as seat:
        await go(seat, STUCK)
        await seat.see("F", "Fork", "New thread", "Channel to edit", "items")
        await seat.type(CHAT)
        await seat.press("enter")
        assert seat.sees("Fork", f"thread '{CHAT}' already exists", "hint:"), seat.text
        # What is typed goes on in the same field, and does not roll back or quit.
        await seat.type("-Bq")
        await seat.fill("tab", "no")
        assert seat.sees("Fork", f"{CHAT}-Bq", "no channel 'no'"), seat.text
        await seat.press("backspace", "backspace", "enter")
        await seat.until(lambda: seat.sees("Fork this checkpoint?", f"{CHAT}-Bq"))
        await seat.press("n")
        assert seat.app.screen is seat.main

        await seat.press("escape")
        await go(seat, CHAT)
        await seat.press("P")
        assert seat.sees("nothing is missing") or seat.sees("stores values inside")
        await seat.press("U", "F", "escape")
        assert seat.app.screen is seat.main
        await seat.press("k", "k", "B")
        told = ckpt("-s", driven.url, "rollback", CHAT, seat.place.checkpoint_id, "--dry-run").out
        for one in told.splitlines():
            # The new checkpoint's id differs in each plan; here a key undoes it, not a command.
            if one.strip() and not one.startswith(("new head", "undo")):
                assert one.strip()[:60] in seat.text
        await seat.hear("y", ": head is now ")
        assert len(driven.history(CHAT)) == len(before) + 1
        await seat.see("U", "Undo this?", "remove")
        await seat.hear("y", f"undid the last change of {CHAT}: head is now ")
        assert driven.history(CHAT) == before
        # A thread that moved meanwhile is left alone.
        await seat.see("k B", "Roll back this thread?")
        driven.graph(CHAT).update_state(config_of(CHAT), {})
        after = driven.history(CHAT)
        await seat.press("y")
        await seat.until(lambda: seat.sees("changed"))
    assert driven.history(CHAT) == after


async def test_threads_are_pruned_and_one_is_deleted(driven: Store) -> None:
    waiting, chat = driven.history(STUCK), driven.history(CHAT)
    async with sitting(driven.url, writes=True) as seat:
        await seat.press("X", "enter")
        await seat.until(lambda: seat.sees("nothing selected"))
        await seat.press("tab", "tab")
        await seat.type("2")
        await seat.press("enter")
        await seat.until(lambda: seat.sees("Prune 2 threads (", "prune"))
        await seat.press("y")
        await seat.until(lambda: len(driven.history(CHAT)) < len(chat))
        assert driven.history(STUCK)[0] == waiting[0]
        await seat.rest()
        await go(seat, STUCK)
        await seat.see("D", "Remove 1 thread (", "This cannot be undone.", STUCK, "selected")
        await seat.press("n")
        assert driven.history(STUCK)
        await seat.press("D", "y")
        await seat.until(lambda: seat.sees("Removed", "1 thread"))
        await seat.rest()
        assert STUCK not in {one.thread_id for one in seat.main.threads_pane.listing.threads}
    assert recorded()[0]["action"] == "threads delete"
    assert (driven.history(STUCK), driven.history(CHAT)[0]) == ([], chat[0])


def chat(saver: SqliteSaver) -> Any:
    """A graph whose state is a list of messages."""

    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"you said {state['messages'][-1].content}", id="a")]}

    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    return builder.compile(checkpointer=saver)


async def test_messages_are_edited_and_a_refused_text_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "chat.db"
    with SqliteSaver.from_conn_string(str(store)) as saver:
        chat(saver).invoke({"messages": [HumanMessage("hello", id="h")]}, config_of("talk"))
    async with sitting(store, writes=True) as seat:
        seen: list[tuple[str, str]] = []

        def edit(text: str, heading: str) -> str:
            seen.append((text, heading))
            if len(seen) == 1:
                return text.replace("hello", "goodbye", 1).replace("HumanMessage", "Nobody", 1)
            return text.replace("Nobody", "HumanMessage")

        monkeypatch.setattr(seat.main.changes, "edited", edit)
        await seat.press("enter", "F")
        await seat.type("edited")
        await seat.fill("tab", "messages")
        await seat.until(lambda: isinstance(seat.app.screen, PlanScreen))
        assert [one["content"] for one in json.loads(seen[0][0])] == ["hello", "you said hello"]
        assert "goodbye" in seen[1][0]
        assert "cannot write an object of class" in seen[1][1]
        assert len(seen) == 2
        # Each change is shown once.
        assert seat.text.count("goodbye") == 1
        await seat.hear("y", "forked talk to edited: ")
        await seat.rest()
        assert seat.main.tree_pane.view.thread_id == "edited"
        await seat.see("U", "Undo this?", "edited")
        await seat.press("n")
    with SqliteSaver.from_conn_string(str(store)) as saver:
        found = [chat(saver).get_state(config_of(one)).values for one in ("edited", "talk")]
    answered = AIMessage("you said hello", id="a")
    assert [one["messages"] for one in found] == [
        [HumanMessage("goodbye", id="h"), answered],
        [HumanMessage("hello", id="h"), answered],
    ]


_EVERY_KEY = """
import sys
from pathlib import Path
from ckpt_backends.testing.screen import Seat, sit

async def look(seat):
    pressed = set()
    for pane in (seat.threads, seat.tree, seat.document):
        pane.focus()
        await seat.rest()
        bound = seat.app.screen.active_bindings.items()
        keys = {(key, one.node) for key, one in bound if key not in {"q", "ctrl+c", "ctrl+q"}}
        for key, _ in sorted(keys - pressed, key=str):
            pane.focus()
            await seat.press_at_once(key)
            while seat.app.screen is not seat.main:
                await seat.press_at_once("escape")
        pressed |= keys
        assert len(pressed) > 80
    await seat.press("escape", "escape", "escape")

sit(Path(sys.argv[1]), look)
changing = [name for name in sys.modules if name in {"ckpt_cli.tui.writing", "ckpt_cli.tui.plans"}]
assert not changing, changing
"""


def test_no_key_changes_the_store_or_loads_what_could(sample: Path) -> None:
    """Each key of a pane, and those of the screen once."""
    before = hashlib.sha256(sample.read_bytes()).hexdigest()
    command = [sys.executable, "-c", _EVERY_KEY, str(sample)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr[-3000:]
    assert hashlib.sha256(sample.read_bytes()).hexdigest() == before


async def test_operations_of_a_thread_are_listed_and_each_can_be_undone(sample: Path) -> None:
    async with sitting(sample, writes=True) as seat:
        assert seat.sees("Roll back")
        for key, closing in (("B", "n"), ("R", "escape"), ("B", "q")):
            await seat.see(key, "Roll back this thread?")
            assert isinstance(seat.app.screen, PlanScreen)
            await seat.press(closing)
            assert not isinstance(seat.app.screen, PlanScreen)
        await another_look_does_not_end_the_wait_for_a_change(seat)
        await seat.press("O")
        await seat.until(lambda: seat.sees("ckpt recorded no change of this thread"))
        both = "thread in ('trip-to-kyoto', 'refund-4711')"
        ckpt("-s", sample, "rollback", "--where", both, "--steps", "2", "--yes", code=0)
        await seat.press("escape", "enter", "k", "k", "k", "k", "B", "y")
        await seat.until(lambda: len(recorded()) == 2)
        await seat.rest()
        newer, older = recorded()
        await seat.press("O")
        await seat.until(lambda: seat.sees("on trip-to-kyoto: 2", "rollback"))
        await seat.see("j u", "Undo this operation?")
        await seat.hear("y", f"undid rollback {older['op']}")
        # Of one that changed several threads, that is taken back which changed this one.
        assert recorded()[0]["threads"] == ["trip-to-kyoto"]
        ckpt("-s", sample, "undo", older["op"], "--yes", code=0)
        assert [one["undone_by"] is None for one in recorded()] == [True, True, True, False]
        assert recorded()[2]["op"] == newer["op"]
    async with sitting(sample) as seat:
        await the_keys_that_change_say_what_to_type(seat, sample)
        await seat.press("O")
        await seat.until(lambda: seat.sees("on trip-to-kyoto: 3", "UNDOES", "UNDONE BY"))
        await seat.press("u")
        assert f"read-only: start with `ckpt -s {sample} tui --write`" in seat.said
        await seat.press("j", "j", "u")
        assert "cannot undo rollback " in seat.said
        assert "it was taken back by operation" in seat.said


async def another_look_does_not_end_the_wait_for_a_change(seat: Seat) -> None:
    main = seat.main
    assert isinstance(main.changes, Writing)
    waiting = asyncio.create_task(main.changes.listed_anew())
    await asyncio.sleep(0)
    main.threads_pane.load()
    await waiting
    assert len(main.threads_pane.listing.threads) == 8


async def the_keys_that_change_say_what_to_type(seat: Seat, sample: Path) -> None:
    assert seat.main.changes is None
    for key in [*keys_of([CHANGING]), Key("R", "", "", "")]:
        assert key not in keys_of(READING_GROUPS)
        await seat.press("question_mark")
        assert not seat.sees(f" {key.shown} ", key.help)
        await seat.press("escape", key.keys.split(",")[0])
        assert seat.said == f"read-only: start with `ckpt -s {sample} tui --write`"
        assert seat.app.screen is seat.main
    assert not seat.sees("Roll back")


# The editor of a value: whatever it is and does, the screen stays and the store too


def script(folder: Path, text: str) -> str:
    """An editor that runs a few lines of Python on `path`."""
    path = folder / "editor.py"
    path.write_text(
        f"import os, sys\nfrom pathlib import Path\npath = Path(sys.argv[-1])\n{text}\n"
    )
    return f"{sys.executable} {path}"


NO_VALUES = [
    ("path.write_bytes(b'x' * 5000)", "the edited value: it is longer than 4000 bytes"),
    ("os.kill(os.getpid(), 9)", "ended with SIGKILL; nothing was changed"),
    ("path.unlink()", "cannot read the edited value: no such file or directory"),
    ("path.write_bytes(b'\\xff')", "cannot read the edited value: it is not UTF-8"),
    ("path.unlink(); os.mkfifo(path)", "cannot read the edited value: it is a FIFO"),
    ("path.unlink(); path.symlink_to('/dev/zero')", "the edited value: it is a device"),
]
"""What an editor does with the file, and what is said of it."""


@cases(
    "command words",
    ("false", "the editor 'false' ended with exit code 1; nothing was changed"),
    ('vim "', "cannot run the editor in EDITOR: no closing quotation; export EDITOR=vim"),
    ("no-such-editor -f", "cannot run the editor 'no-such-editor': no such file or directory"),
    ("/", "cannot run the editor '/': permission denied"),
    ("'' x", "cannot run the editor ''"),
)
def test_an_editor_that_cannot_be_run_is_named(command: str, words: str) -> None:
    with pytest.raises(CkptError) as raised:
        edit(editor_of({"EDITOR": command}), "text")
    assert words in f"{raised.value}; {raised.value.hint}"


@pytest.mark.parametrize(("text", "words"), NO_VALUES)
def test_what_an_editor_leaves_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    monkeypatch.setattr(writing, "_LONGEST_EDIT", 4000)
    with pytest.raises(CkptError) as raised:
        edit(script(tmp_path, text).split(), "text")
    assert words in str(raised.value)


async def test_the_screen_says_what_an_editor_leaves_and_changes_nothing(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_LONGEST_EDIT", 4000)
    before = sample.read_bytes()
    unchanged = "the value was not changed"
    # A text that is not JSON comes again; left as it is, it is not started for ever.
    garbling = """
log = Path(__file__).with_suffix(".log")
log.write_text((log.read_text() if log.exists() else "") + (before := path.read_text()))
if "garbage" not in before: path.write_text(before + "garbage")
"""
    async with sitting(sample, writes=True) as seat:
        monkeypatch.setattr(seat.app, "suspend", nullcontext)
        await seat.press("enter")
        for text, words in (
            (None, "the editor 'false' ended with exit code 1"),
            ("pass", f"{unchanged}; nothing to do"),
            NO_VALUES[0],
            (garbling, unchanged),
        ):
            monkeypatch.setenv("VISUAL", "false" if text is None else script(tmp_path, text))
            await seat.press("F")
            await seat.fill("tab", "itinerary")
            await seat.hear("", words)
            assert seat.sees("WRITE")
            await seat.see("escape", "8 threads")
    assert sample.read_bytes() == before
    first, again = (tmp_path / "editor.log").read_text().split("# this is not JSON: ")
    assert first.startswith("# The value of 'itinerary' as JSON.\n")
    # The line is named as the editor counts.
    lines = ("# this is not JSON: " + again).splitlines()
    assert f"line {lines.index('garbage') + 1} column 1 " in lines[0]


def test_a_blank_variable_is_like_none_and_a_broken_one_is_named() -> None:
    assert editor_of({}) == editor_of({"VISUAL": " ", "EDITOR": ""}) == ["vi"]
    assert editor_of({"VISUAL": "\t", "EDITOR": "nano -w"}) == ["nano", "-w"]
    assert editor_of({"VISUAL": "code --wait", "EDITOR": 'vim "'}) == ["code", "--wait"]
    with pytest.raises(UsageError, match="the editor in VISUAL"):
        editor_of({"VISUAL": "vim '", "EDITOR": "vim"})


@pytest.mark.parametrize("text", ["plain\n", "\ud800", "値"])
def test_a_text_comes_back_as_it_is(text: str) -> None:
    assert edit(["true"], text) == text


def test_the_draft_is_private_and_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    log = tmp_path / "log"
    lines = f"""
modes = [oct(one.stat().st_mode & 0o777) for one in (path, path.parent)]
Path({str(log)!r}).write_text(" ".join(modes))
(path.parent / ".value.json.swp").touch()
"""
    before = os.umask(0)
    try:
        edit(script(tmp_path, lines).split(), "secret")
    finally:
        os.umask(before)
    assert log.read_text() == "0o600 0o700"
    assert not list(tmp_path.glob("ckpt-*"))


def test_ctrl_c_is_left_to_the_editor(tmp_path: Path) -> None:
    """The terminal sends it to `ckpt` too, which must not end or kill the editor."""
    lines = """
import signal
signal.signal(signal.SIGINT, lambda *_: path.write_text("saved"))
signal.raise_signal(signal.SIGINT)
os.kill(os.getppid(), signal.SIGINT)
"""
    before = signal.getsignal(signal.SIGINT)
    assert edit(script(tmp_path, lines).split(), "text") == "saved"
    assert signal.getsignal(signal.SIGINT) is before


def test_without_a_folder_for_the_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(CkptError, match="cannot make a temporary folder"):
        edit(["true"], "text")
