"""What the screen says is so: its colours, titles, signs and keys."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from textual.color import Color

from ckpt_backends.model import Status
from ckpt_backends.testing.official import config_of
from ckpt_backends.testing.scenarios import graphs
from ckpt_backends.testing.screen import Seat, sit
from ckpt_cli.tui.panes.document import TabContent
from ckpt_cli.tui.screens.dialogs import PlanScreen
from ckpt_cli.tui.tabs import checkpoint
from ckpt_cli.tui.tabs.checkpoint import read_document
from tests.kit.command import first_now

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("theme", first_now(["textual-dark", "textual-light"]))
@pytest.mark.parametrize(("writes", "colour"), [(True, "error"), (False, "panel")])
def test_the_header_is_red_with_write_alone(
    sample: Path, theme: str, writes: bool, colour: str
) -> None:
    async def look(seat: Seat) -> None:
        seat.app.theme = theme
        await seat.rest()
        wanted = Color.parse(seat.app.get_css_variables()[colour])
        assert seat.main.status.styles.background == wanted
        header = seat.draw()[0]
        drawn = {part.style.bgcolor.name for part in header if part.style and part.style.bgcolor}
        assert drawn == {wanted.rich_color.name}

    sit(sample, look, writes=writes)


def test_n_closes_a_plan(sample: Path) -> None:
    async def work(seat: Seat) -> None:
        for key in ("n", "escape", "q"):
            await seat.press("B")
            assert isinstance(seat.app.screen, PlanScreen)
            await seat.press(key)
            assert not isinstance(seat.app.screen, PlanScreen)

    sit(sample, work, writes=True)


class Slow:
    """A read that waits, from when it is told to until it is let go."""

    def __init__(self, read: Callable[..., TabContent]) -> None:
        self._read = read
        self.go = Event()
        self.go.set()

    def __call__(self, *asked: Any, **told: Any) -> TabContent:
        assert self.go.wait(60)
        return self._read(*asked, **told)


def test_a_title_says_loading_only_while_something_loads(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(read_document)
    monkeypatch.setattr(checkpoint, "read_document", slow)

    async def look(seat: Seat) -> None:
        inspector = seat.main.inspector
        await seat.press("enter")
        before = str(inspector.border_title)
        assert before.startswith("step ")
        slow.go.clear()
        # To another checkpoint, whose reading takes long, and back to what is still shown.
        await seat.press_at_once("k")
        await seat.until(lambda: "loading" in str(inspector.border_title))
        await seat.press_at_once("j")
        await seat.until(lambda: str(inspector.border_title) == before)
        # The same with another tab, whose reading ends while its first one is shown.
        await seat.press_at_once("2")
        await seat.until(lambda: "loading" in str(inspector.border_title))
        await seat.press_at_once("1")
        slow.go.set()
        await seat.rest()
        assert str(inspector.border_title) == before
        await seat.press("2")
        assert str(inspector.border_title) == before

    sit(sample, look)


def copies(path: Path, number: int) -> None:
    """A store of so many threads that are done, and a newest one in which a question waits."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graphs.linear(saver).invoke({"items": ["in"]}, config_of("done"))
        graphs.ask_alone(saver).invoke({"items": ["in"]}, config_of("newest"))
    with closing(sqlite3.connect(path)) as connection:
        for table in ("checkpoints", "writes"):
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            rest = ", ".join(name for name in columns if name != "thread_id")
            connection.execute(
                f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
                f" INSERT INTO {table} (thread_id, {rest})"
                f" SELECT printf('user-%05d', i), {rest} FROM {table}, n WHERE thread_id = 'done'",
                [number],
            )
        connection.commit()


@pytest.mark.parametrize("height", first_now([24, 60, 120]))
def test_every_thread_on_the_screen_has_its_sign(tmp_path: Path, height: int) -> None:
    store = tmp_path / "many.db"
    copies(store, 400)

    def signs(seat: Seat) -> set[Status | None]:
        listing = seat.main.threads_pane.listing
        seen = seat.main.threads_pane.rows.seen
        return {listing.status(one) for one in listing.shown[seen.start : seen.stop]}

    async def look(seat: Seat) -> None:
        assert signs(seat) == {Status.INTERRUPTED, Status.DONE}
        await seat.press("G")
        assert signs(seat) == {Status.DONE}

    sit(store, look, size=(100, height))


def test_a_higher_terminal_shows_the_signs_of_all_its_threads(tmp_path: Path) -> None:
    store = tmp_path / "many.db"
    copies(store, 400)

    async def look(seat: Seat) -> None:
        await seat.pilot.resize_terminal(100, 150)
        await seat.rest()
        listing = seat.main.threads_pane.listing
        seen = seat.main.threads_pane.rows.seen
        assert len(seen) > 140
        assert None not in {listing.status(one) for one in listing.shown[: seen.stop]}

    sit(store, look, size=(100, 24))


def chat(saver: SqliteSaver) -> Any:
    """A graph whose state is a list of messages."""

    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"you said {state['messages'][-1].content}", id="a")]}

    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    return builder.compile(checkpointer=saver)


def test_messages_are_edited_and_a_refused_text_comes_again_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "chat.db"
    with SqliteSaver.from_conn_string(str(store)) as saver:
        chat(saver).invoke({"messages": [HumanMessage("hello", id="h")]}, config_of("talk"))

    async def work(seat: Seat) -> None:
        seen: list[tuple[str, str]] = []

        def edit(text: str, heading: str) -> str:
            seen.append((text, heading))
            if len(seen) == 1:
                return text.replace("hello", "goodbye", 1).replace("HumanMessage", "Nobody", 1)
            return text.replace("Nobody", "HumanMessage")

        monkeypatch.setattr(seat.main.changes, "edited", edit)
        await seat.press("enter", "F")
        await seat.type("edited")
        await seat.press("tab")
        await seat.type("messages")
        await seat.press("enter")
        await seat.until(lambda: isinstance(seat.app.screen, PlanScreen))
        assert seat.sees("goodbye")
        assert [one["content"] for one in json.loads(seen[0][0])] == ["hello", "you said hello"]
        assert "goodbye" in seen[1][0]
        assert "cannot write an object of class" in seen[1][1]
        assert len(seen) == 2
        await seat.press("y")
        await seat.until(lambda: seat.main.tree_pane.view.thread_id == "edited")

    sit(store, work, writes=True)
    with SqliteSaver.from_conn_string(str(store)) as saver:
        found = chat(saver).get_state(config_of("edited")).values["messages"]
    assert found == [HumanMessage("goodbye", id="h"), AIMessage("you said hello", id="a")]


_EDITOR = """\
import sys
from pathlib import Path
path = Path(sys.argv[-1])
log = Path(__file__).with_suffix(".log")
with log.open("a") as file:
    print(path.read_text(), file=file)
path.write_text("[1,")
"""


def test_an_editor_that_always_breaks_the_text_is_not_started_for_ever(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys
    from contextlib import nullcontext

    script = tmp_path / "editor.py"
    script.write_text(_EDITOR)
    monkeypatch.setenv("VISUAL", f"{sys.executable} {script}")

    async def work(seat: Seat) -> None:
        monkeypatch.setattr(seat.app, "suspend", nullcontext)
        await seat.press("enter", "F", "tab")
        await seat.type("itinerary")
        await seat.press("enter")
        await seat.until(lambda: seat.sees("the value was not changed"))
        log = script.with_suffix(".log").read_text()
        assert log.startswith("# The value of 'itinerary' as JSON.\n")
        assert log.count("# this is not JSON: ") == 1

    sit(sample, work, writes=True)


_APPENDING = """\
import sys
from pathlib import Path
path = Path(sys.argv[-1])
before = path.read_text()
with Path(__file__).with_suffix(".log").open("a") as file:
    print(before, file=file)
if "garbage" not in before:
    path.write_text(before + "garbage")
"""


def test_the_line_that_is_not_json_is_counted_as_the_editor_counts(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys
    from contextlib import nullcontext

    script = tmp_path / "editor.py"
    script.write_text(_APPENDING)
    monkeypatch.setenv("VISUAL", f"{sys.executable} {script}")

    async def work(seat: Seat) -> None:
        monkeypatch.setattr(seat.app, "suspend", nullcontext)
        await seat.press("enter", "F", "tab")
        await seat.type("itinerary")
        await seat.press("enter")
        await seat.until(lambda: seat.sees("the value was not changed"))
        _, again = script.with_suffix(".log").read_text().split("# this is not JSON: ")
        lines = ("# this is not JSON: " + again).splitlines()
        assert f"line {lines.index('garbage') + 1} column 1 " in lines[0]

    sit(sample, work, writes=True)
