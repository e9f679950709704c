"""Long-term memory on the screen: LangGraph's Store, and DeerFlow's files."""

import json
import re
import shlex
from pathlib import Path

import pytest

from ckpt_backends.testing.screen import Seat, sitting
from ckpt_backends.url import parse_url
from ckpt_cli.reading.store import Opening
from ckpt_cli.tui.context import MemoryNamed
from ckpt_cli.tui.keys import MEMORY_GROUP
from ckpt_cli.tui.screens.memory import MemoryScreen
from tests.kit.command import ckpt
from tests.kit.memory.benches import SqliteBench
from tests.kit.savers.deerflow import THREAD, TURNS, make

pytestmark = pytest.mark.engines

KYOTO = "trip-to-kyoto"
ANNA = ("users", "anna")
BAD_LABEL, BAD_KEY = "\x1b[31m[red]bob[/red]", "\x1b]0;title\x07key\u202e"


def remember(store: Path) -> None:
    """Some items beside the sample's threads, by the official library."""
    bench = SqliteBench(str(store))
    with bench.store() as memory:
        memory.put((*ANNA, "memories"), "tea", {"text": "likes tea", "thread_id": KYOTO})
        memory.put(ANNA, "profile", {"name": "Anna"})
        memory.put(("app",), "old", {"text": "long ago"})
        bad = {"text": "[bold]loud[/bold]\x1b[2J", "thread_id": "[@click=app.quit]gone[/]"}
        memory.put(("users", BAD_LABEL), BAD_KEY, bad)
    bench.expire(("app",), "old")


def screen_of(seat: Seat) -> MemoryScreen:
    found = seat.app.screen
    assert isinstance(found, MemoryScreen)
    return found


def keys_of(seat: Seat) -> list[str]:
    rows = screen_of(seat).pane.rows
    return [rows.listed[at][0].key.key for at in range(rows.count()) if rows.is_stop(at)]  # type: ignore[union-attr]


async def test_items_lead_to_their_thread_and_a_tab_of_it_to_its_items(sample: Path) -> None:
    remember(sample)
    listed = ckpt("-s", sample, "memory", "list", "-o", "json").json

    async with sitting(sample) as seat:
        await seat.press("M")
        assert keys_of(seat) == [one["key"] for one in listed]
        assert seat.sees("Memory: 4 items", "sqlite-store", "anna/", "expired", "vector $")
        for text, found in (("ANNA", ["profile", "tea"]), ("expired:yes", ["old"]), ("zzz", [])):
            await seat.search(text)
            assert keys_of(seat) == found
        assert seat.sees("no item matches")
        await seat.search("tea")
        assert seat.sees("text: likes tea", "vector   $, 16 B", f"from     thread {KYOTO}", "as of")
        await seat.press("y")
        shown = ckpt(*shlex.split(seat.app.clipboard)[1:], "-o", "json").json
        assert shown["value"]["text"] == "likes tea"
        await seat.press("enter", "enter")
        assert seat.app.screen is seat.main
        place = seat.place
        assert (place.thread_id, place.checkpoint_id) == (KYOTO, shown["origin"]["checkpoint_id"])
        assert seat.main.inspector.tab == "messages"

        await seat.see("0", f"Memory from {KYOTO}", "users/anna/memories/tea", "likes tea", "ago)")
        line = seat.main.command_lines()[0]
        assert "likes tea" in ckpt(*shlex.split(line)[1:], "-o", "table").out
        with SqliteBench(str(sample)).store() as memory:
            memory.put(ANNA, "late", {"text": "came later", "threadId": KYOTO})
        await seat.see("r", "came later")
        await seat.press("enter")
        assert screen_of(seat).pane.rows.item is not None
        assert seat.sees("Item users/anna/late", "text: came later")
        await seat.see(
            "escape escape escape j",
            "Memory from refund-4711",
            "no memory item came from this thread",
        )
    async with sitting(sample, opening=Opening(parse_url(str(sample)), redact=True)) as seat:
        await seat.see("0", "users/anna/memories/tea")
        assert not seat.sees("likes tea")
        for _ in range(2):
            for key in "12345":
                await seat.press(key)
                assert "Kanra" not in seat.read
                assert "Refund 89" not in seat.read
            await seat.see("9 j", "bytes are not shown with --redact")


async def test_hostile_items_are_text_and_a_store_without_memory_says_so(sample: Path) -> None:
    said = ckpt("-s", sample, "memory", "list").err
    # All but the path, which may be wrapped.
    message = said.removeprefix("ckpt: ").partition(" in ")[0]
    async with sitting(sample, size=(80, 60)) as seat:
        await seat.see("0", message)
        assert not seat.sees("retrying: ")
        await seat.see("M", message)
        await seat.press("enter", "y", "z", "question_mark")
        assert all(seat.sees(key.help) for key in MEMORY_GROUP.keys)
        await seat.press("escape", "escape", "escape")
        assert seat.app.screen is seat.main
        remember(sample)
        await seat.pilot.resize_terminal(100, 30)
        await seat.press("M", "G", "k", "k")
        for bad in ("\x1b", "\x07", "\u202e"):
            assert bad not in seat.text
        assert seat.sees("[red]bob[", "\\x1b]0;title\\x07key\\u202e", "[bold]loud[/bold]\\x1b[2J")
        assert seat.sees("[@click=app.quit]gone[/]", "no thread '[@click")
        await seat.see("y enter enter", "no thread '[@click")
        assert isinstance(seat.app.screen, MemoryScreen)
        assert "\x1b" not in seat.app.export_screenshot()


async def test_deerflows_facts_come_first_where_they_were_named(tmp_path: Path) -> None:
    base = make(tmp_path)
    store = base / "data" / "deerflow.db"
    named = MemoryNamed(parse_url(str(tmp_path)), ["-s", str(tmp_path)])
    async with sitting(store, memory=named, start="memory", pause=1) as seat:
        assert seat.sees("Memory: 4 items", "deerflow", "goal  confidence 0.90")
        assert seat.sees("content: 在字节跳动担任后端开发工程师", TURNS[0], "assumed")
        await seat.search("category:goal")
        await seat.press("enter", "enter")
        assert seat.app.screen is seat.main
        assert seat.main.tree_pane.view.thread_id == THREAD
        assert seat.sees(TURNS[2])
        await seat.see("0", "facts/fact_e5f6g7h8", "goal, confidence 0.90")
        data = json.loads((base / "memory.json").read_text())
        data["facts"][1]["content"] = "changed meanwhile"
        (base / "memory.json").write_text(json.dumps(data))
        await seat.until(lambda: seat.sees("changed meanwhile"))


async def test_memory_alone_says_why_no_thread_can_be_gone_to(tmp_path: Path) -> None:
    base = make(tmp_path, "checkpointer: {type: memory}\n")
    opening = Opening(parse_url(str(base / "memory.json")), redact=True)
    async with sitting(
        base / "memory.json", opening=opening, start="memory alone", size=(80, 24)
    ) as seat:
        said = "\n".join(one.text for one in screen_of(seat).document.lines)
        assert f"thread {THREAD}" in said
        assert "in memory only" in " ".join(said.split())
        assert seat.sees("fact_a1b2c3d4")
        for shown in (said, seat.text):
            assert "字节" not in shown
            assert re.search(r"\b0\.95\b", shown) is None
        await seat.press("enter", "enter", "z", "escape", "tab", "r", "escape")
        assert isinstance(seat.app.screen, MemoryScreen)
        await seat.press_at_once("q")
