"""The tabs Errors and Timeline: what happened in a thread, and the way there."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.testing.screen import Seat, sit
from ckpt_cli.core.timeline import ThreadSteps
from ckpt_cli.queries.timeline import read_steps
from ckpt_cli.tui.screens.main import MainScreen
from ckpt_cli.tui.tabs import thread as thread_tabs
from tests.kit.agents import failing as agents
from tests.kit.command import ckpt

pytestmark = pytest.mark.slow

CONFIG = {"configurable": {"thread_id": "trip"}}


def document(seat: Seat) -> list[str]:
    return [one.text for one in seat.main.inspector.rows.lines]


def title(main: MainScreen) -> str:
    return str(main.inspector.border_title)


def test_all_failures_of_a_thread_are_listed_with_what_became_of_them(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    world = agents.fill(store, agents.inner_crash, "trip")
    world.is_down = False
    with agents.running(store, agents.inner_crash, world) as graph:
        graph.invoke(None, CONFIG)
        world.is_down = True
        try:
            graph.invoke(agents.INPUT, CONFIG)
        except TimeoutError as error:
            said = repr(error)
    agents.fill(store, agents.question, "asks")
    printed = ckpt("-s", store, "errors", "trip", "--history", "-o", "json").json
    assert [one["state"] for one in printed] == ["failed", "retried"]

    async def look(seat: Seat) -> None:
        seat.main.threads_pane.rows.cursor = next(
            at
            for at, one in enumerate(seat.main.threads_pane.listing.shown)
            if one.thread_id == "trip"
        )
        await seat.rest()
        await seat.press("enter", "6")
        lines = document(seat)
        assert lines[0] == "2 failed tasks: 1 waiting for a retry, 1 retried"
        assert lines[2].startswith("failed  step 0  research > inner > crash  ")
        assert lines[3] == f"  {said}"
        assert lines[5].startswith("retried step 0  research > inner > crash  ")
        listed = ckpt(*shlex.split(seat.main.command_lines()[0])[1:], "-o", "json").json
        assert [one["state"] for one in listed] == ["failed", "retried"]
        # Enter goes to the checkpoint, inside its subgraph.
        await seat.press("G", "enter")
        assert seat.main.tree_pane.rows.has_focus
        place = seat.main.place
        assert place is not None
        assert place.checkpoint_id == printed[1]["checkpoint_id"]
        assert place.checkpoint_ns == printed[1]["checkpoint_ns"]

    sit(store, look)


def test_a_thread_without_failures_says_so(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("6")
        assert document(seat) == ["no task of this thread failed"]

    sit(sample, look)


def signed(seat: Seat) -> str:
    """The line of the timeline with the sign."""
    rows = seat.main.inspector.rows
    (found,) = (one for at in range(rows.count()) if "▸" in (one := rows.line_at(at, 200).text))
    return found


def test_the_timeline_follows_the_cursor_and_is_read_once(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []

    def counted(*given: Any, **named: Any) -> ThreadSteps:
        reads.append(1)
        return read_steps(*given, **named)

    monkeypatch.setattr(thread_tabs, "read_steps", counted)

    async def look(seat: Seat) -> None:
        rows = seat.main.inspector.rows
        await seat.press("enter", "k", "k", "k", "5")
        assert title(seat.main) == "step 7 · book · 6a3c"
        assert signed(seat).split()[:3] == ["▸", "7", "book"]
        assert rows.cursor in rows.seen
        shown = rows.document
        await seat.press("escape", "G")
        assert signed(seat).split()[:3] == ["▸", "12", "reply"]
        assert rows.document is shown
        # Enter goes to the step of a line.
        await seat.press("tab", "g", *["j"] * 6, "enter")
        place = seat.main.place
        assert place is not None
        assert (place.checkpoint_ns, place.checkpoint_id) == shown.places[6]
        # A step of a side branch has another timeline, drawn from what was read.
        picture = seat.main.tree_pane.rows.picture
        assert picture is not None
        side = next(at for at, one in enumerate(picture.lines) if "tip" in one.text)
        seat.main.tree_pane.rows.cursor = side
        await seat.rest()
        assert signed(seat).split()[2] == "book"
        assert rows.document is not shown
        assert len(reads) == 1

    sit(sample, look)


def test_bars_use_the_width(sample: Path) -> None:
    # A pipe has no width.
    printed = ckpt("-s", sample, "timeline", "trip-to-kyoto", "-o", "table").out
    assert max(map(len, printed.splitlines())) < 150

    async def look_at_80(seat: Seat) -> None:
        await seat.press("enter", "5")
        assert seat.main.inspector.rows.width < 60
        assert seat.sees("book", "█████")

    sit(sample, look_at_80, size=(80, 24))

    async def look(seat: Seat) -> None:
        await seat.press("enter", "5", "z")
        longest = max(one.rfind("█") for one in document(seat))
        assert longest > 150

    sit(sample, look, size=(200, 40))
