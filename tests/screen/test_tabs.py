"""The tabs of a checkpoint and of a thread: their labels, what they show, and the way there."""

import json
import shlex
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from langgraph.types import interrupt

from ckpt_backends.testing.official import config_of
from ckpt_backends.testing.screen import Seat, sitting
from ckpt_backends.url import parse_url
from ckpt_cli.queries.timeline import read_steps
from ckpt_cli.reading.graphs import GraphPaths
from ckpt_cli.reading.store import Opening
from ckpt_cli.tui.panes.inspector import tab_labels
from ckpt_cli.tui.tabs import thread as thread_tabs
from ckpt_cli.tui.tabs.content import TABS
from tests.kit.agents import failing as agents
from tests.kit.agents.small import Log, chain, running
from tests.kit.command import ckpt
from tests.kit.probing import document_of
from tests.kit.savers.three_table import MAKER, connected

pytestmark = pytest.mark.engines


async def test_each_tab_shows_its_part_and_a_message_leads_to_the_step_that_wrote_it(
    seat: Seat, sample: Path
) -> None:
    says = {
        "1": ["next", "booking", "KYO-HKK-0407"],
        "2": ["--- step 11", "+++ step 12 · reply · f169", "itinerary"],
        "3": ["writes that produced this checkpoint", "last_value"],
        "4": ["human", "Five nights in Kyoto"],
        "6": ["no task of this thread failed"],
        "7": ["checked 1 thread", "no findings"],
        "8": ["parent", "channel_versions", "source"],
        "9": ["where", "body", "000000"],
        "5": ["14 steps", "planner > check_weather", "answered"],
    }
    await seat.press("z")
    for key, words in says.items():
        await seat.press(key)
        assert [one for one in words if one not in seat.read] == [], (key, seat.read)
    await seat.see("C", "ckpt tui --compat NEW.json")
    blame = ("-s", sample, "blame", "trip-to-kyoto", "messages[1]", "-o", "json")
    await seat.press("z", "4", "g", "j", "j", "j", "enter")
    assert seat.place.checkpoint_id == ckpt(*blame).json["checkpoint_id"]
    assert seat.main.inspector.tab == "writes"
    assert seat.tree.has_focus


async def test_a_question_that_the_layout_cannot_answer_is_not_asked_again(tmp_path: Path) -> None:
    store = tmp_path / "three.db"
    with connected(str(store)) as execute:
        MAKER.fill("sqlite", execute)
    async with sitting(store) as seat:
        assert seat.sees("1 thread ")
        await seat.see("9", "cannot print the stored bytes")
        assert not seat.sees("retrying")


def test_labels_fit_into_the_pane_and_differ() -> None:
    for active, width in product(TABS, range(28, 200)):
        labels = tab_labels(width, active)
        assert sum(len(one) + 1 for one in labels) <= width
        assert len(set(labels)) == len(TABS)
        assert labels[TABS.index(active)][-3:].isalpha()


@pytest.mark.screen(size=(80, 24))
async def test_labels_and_bars_use_the_width(seat: Seat) -> None:
    await seat.press("enter", "5")
    assert seat.sees("book", "█████")
    (shown,) = (one for one in seat.lines if "State" in one)
    assert shown.split()[-10:-8] == ["State", "Diff"]
    tabs = seat.main.inspector.tabs
    assert all(tabs.query_one(f"#{one}").region.right <= 80 for one in TABS)
    await seat.pilot.resize_terminal(200, 40)
    await seat.rest()
    assert seat.sees("1 State 2 Diff 3 Writes 4 Messages 5 Timeline 6 Errors")
    await seat.press("z")
    assert max(one.rfind("█") for one in seat.read.splitlines()) > 150


def waiting(name: str) -> Any:
    return chain(Log, {name: lambda _: {"log": [interrupt("sure?")]}})


async def test_a_tab_shows_what_a_new_graph_does(tmp_path: Path) -> None:
    with running(tmp_path / "s.db", waiting("ask")) as agent:
        agent.invoke({"log": []}, config_of("trip"))
    paths = [tmp_path / f"{name}.json" for name in ("new", "old")]
    for path, node in zip(paths, ("review", "ask"), strict=True):
        path.write_text(json.dumps(document_of(waiting(node))))
    url = parse_url(str(tmp_path / "s.db"))
    opening = Opening(url, graphs=GraphPaths(*paths))
    async with sitting(tmp_path / "s.db", opening=opening) as seat:
        await seat.see("C", "In the new graph, trip", "C Compat")
        assert seat.read.startswith("loses  by graph\n\nloses  ask  node-gone\n")
        words = ("compat", *map(str, paths), "--match trip")
        assert any(all(word in one for word in words) for one in seat.main.command_lines())


async def test_all_failures_of_a_thread_are_listed_with_what_became_of_them(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    world = agents.fill(store, agents.inner_crash, "trip")
    world.is_down = False
    with agents.running(store, agents.inner_crash, world) as graph:
        graph.invoke(None, config_of("trip"))
        world.is_down = True
        with pytest.raises(TimeoutError) as raised:
            graph.invoke(agents.INPUT, config_of("trip"))
    printed = ckpt("-s", store, "errors", "trip", "--history", "-o", "json").json
    assert [one["state"] for one in printed] == ["failed", "retried"]
    async with sitting(store) as seat:
        await seat.press("enter", "6")
        lines = seat.read.splitlines()
        assert lines[0] == "2 failed tasks: 1 waiting for a retry, 1 retried"
        assert lines[2].startswith("failed  step 0  research > inner > crash  ")
        assert lines[3] == f"  {raised.value!r}"
        assert lines[5].startswith("retried step 0  research > inner > crash  ")
        listed = ckpt(*shlex.split(seat.main.command_lines()[0])[1:], "-o", "json").json
        assert [one["state"] for one in listed] == ["failed", "retried"]
        # Enter goes to the checkpoint, inside its subgraph.
        await seat.press("G", "enter")
        assert seat.tree.has_focus
        place = seat.place
        assert place.checkpoint_id == printed[1]["checkpoint_id"]
        assert place.checkpoint_ns == printed[1]["checkpoint_ns"]


def signed(seat: Seat) -> str:
    """The line of the timeline with the sign."""
    rows = seat.document
    (found,) = (one for at in range(rows.count()) if "▸" in (one := rows.line_at(at, 200).text))
    return found


async def test_the_timeline_follows_the_cursor_and_is_read_once(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Mock(wraps=read_steps)
    monkeypatch.setattr(thread_tabs, "read_steps", read)
    async with sitting(sample) as seat:
        rows = seat.document
        await seat.press("enter", "k", "k", "k", "5")
        assert signed(seat).split()[:3] == ["▸", "7", "book"]
        assert rows.cursor in rows.seen
        shown = rows.document
        await seat.press("escape", "G")
        assert signed(seat).split()[:3] == ["▸", "12", "reply"]
        assert rows.document is shown
        # Enter goes to the step of a line.
        await seat.press("tab", "g", *["j"] * 6, "enter")
        assert (seat.place.checkpoint_ns, seat.place.checkpoint_id) == shown.places[6]
        # A step of a side branch has another timeline, drawn from what was read.
        lines = enumerate(seat.picture.lines)
        seat.tree.cursor = next(at for at, one in lines if "tip" in one.text)
        await seat.rest()
        assert signed(seat).split()[2] == "book"
        assert rows.document is not shown
        assert read.call_count == 1
