"""The tree of a thread: folds, subgraphs, marks, columns, and what is read of long threads."""

import re
import shutil
from collections.abc import Collection
from datetime import UTC
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import Mock

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from ckpt_backends.testing.official import config_of
from ckpt_backends.testing.screen import NOW, Seat, sitting
from ckpt_backends.url import parse_url
from ckpt_cli.core.tree import StepDetails
from ckpt_cli.queries import tree
from ckpt_cli.queries.thread_operations import ThreadOperations
from ckpt_cli.queries.tree import TreeKeys, TreeReader, TreeShape
from ckpt_cli.reading.store import Opening
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.render.text import Ui
from ckpt_cli.tui.panes.tree import GrowingTree, ScrubberLine, draw_tree
from ckpt_cli.tui.tabs.content import KeptReader
from tests.kit.agents.two_questions import CONFIG, Two
from tests.kit.command import ckpt
from tests.screen.stores import long_graph, long_thread

pytestmark = pytest.mark.engines


async def test_the_tree_is_that_of_show(sample: Path) -> None:
    drawn = ckpt("-s", sample, "--utc", "show", "--tree", "trip-to-kyoto").out.splitlines()[3:]
    # The screen has other columns at the right, and more room for what a step changed.
    ends = re.compile(r"…?( +\d+ writes?)? +[\d:]+(–[\d:]+)?$")
    rows = [ends.sub("", one) for one in drawn if "Nov" not in one and one][:-1]
    async with sitting(sample, size=(200, 40)) as seat:
        shown = [one.text for one in seat.tree.lines]
        assert [one for one in rows if not any(row.startswith(one) for row in shown)] == []
        # Waits for people are marked.
        (waited,) = (one for one in shown if "choose_hotel  hotel → Ryo" in one)
        assert "▒ 75ms" in waited
        (asked,) = (one for one in shown if "planner  ✓" in one)
        assert "▒" not in asked


async def test_a_subgraph_call_is_entered_and_left_a_mark_is_seen_and_folds_open(
    seat: Seat,
) -> None:
    await seat.press("enter")
    (seat.tree.cursor,) = seat.picture.inner
    await seat.rest()
    call = seat.place
    for key in ("enter", "less_than_sign"):
        await seat.see(key, "> planner (Esc leaves)", "draft_days", "check_weather")
        # The status of the thread is not that of the call.
        assert "done" not in seat.main.tree_pane.heading
        assert seat.place.checkpoint_ns.startswith("planner:")
        await seat.press("escape")
        assert seat.place == call
        assert seat.sees("20 checkpoints")
    await seat.press("less_than_sign", "greater_than_sign")
    assert seat.place == call
    await seat.press("escape", "escape")
    assert seat.threads.has_focus

    await seat.press("enter", "G")
    before = seat.lines
    await seat.press("m")
    (row,) = [one for one in seat.lines if "▌" in one]
    assert row.replace("▌", " ", 1) in before
    # It does not shift its row, and is seen wherever one goes.
    await seat.press("escape", "j", "2")
    assert seat.sees("marked trip-to-kyoto > step 12 ")
    assert seat.sees("trip-to-kyoto > step 12 · reply · f169 → step")
    await seat.press("escape", "escape", "k")

    # Folds open, and subgraphs are drawn inside.
    await seat.see("enter z g j", "3 steps")
    # It stays folded while the cursor rests on it.
    await seat.see("r", "3 steps")
    await seat.press("enter")
    assert not seat.sees("3 steps")
    await seat.see("o", "3 steps")
    assert not seat.sees("draft_days")
    await seat.see("a", "draft_days")
    # Hidden again, the steps around them stay unfolded.
    await seat.press("a", "o")
    assert not seat.sees("3 steps")
    assert not seat.sees("draft_days")


async def test_the_line_of_the_thread_follows_the_cursor_and_is_clicked(seat: Seat) -> None:
    scrubber = seat.main.query_one(ScrubberLine)
    assert [one for one in "┬◆▒" if one not in scrubber.render_line(0).text] == []
    places = []
    await seat.press("enter", "o", "g")
    for _ in range(4):
        strip = scrubber.render_line(0)
        (at,) = (n for n, one in enumerate(strip) if one.style is not None and one.style.reverse)
        places.append(at)
        await seat.press("j")
    assert places == sorted(set(places))
    assert places[0] == 0
    assert strip.cell_length == scrubber.size.width
    # A click goes to the nearest checkpoint.
    await seat.press("o")
    cells = seat.picture.tree.scrubber.cells(scrubber.size.width)
    for column in (0, len(cells) // 2, len(cells) - 1):
        await seat.pilot.click(ScrubberLine, offset=(column, 0))
        await seat.rest()
        assert seat.tree.key == cells[column].key
        assert seat.main.inspector.shown is not None
        assert seat.main.inspector.shown[0].checkpoint_id == cells[column].key[1]
    assert seat.tree.has_focus
    await seat.press("escape", "j")
    assert scrubber.render_line(0).text.endswith("?")


async def test_the_next_question_of_the_same_task_is_shown(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    with SqliteSaver.from_conn_string(str(store)) as saver:
        graph = Two(saver).graph
        graph.invoke({"log": []}, CONFIG)
        async with sitting(store) as seat:
            assert seat.sees("first?")
            graph.invoke(Command(resume="yes"), CONFIG)
            await seat.see("r", "second?")
            assert not seat.sees("? ask: first?")


# Threads with many checkpoints: what is read for the tree, and how often


_TURNS = 200


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("long") / "agent.db"
    long_thread(store, _TURNS)
    return store


@pytest.fixture
def long(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # A thread of this length counts as long.
    monkeypatch.setattr(tree, "_SMALL", _TURNS)
    return Path(shutil.copy(written, tmp_path / "agent.db"))


@pytest.fixture
def bodies(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the checkpoints whose bodies are read for the tree."""
    found: list[str] = []
    moments = ThreadReader.moments

    def noted(
        self: ThreadReader, ns: str, ids: Collection[str] | None = None, **options: Any
    ) -> Any:
        assert ids is not None
        if ids:
            found.extend(ids)
        return moments(self, ns, ids, **options)

    monkeypatch.setattr(ThreadReader, "moments", noted)
    return found


def rows_that_are_not_read_look_as_those_that_are(seat: Seat, store: Path) -> None:
    picture, opening = seat.picture, Opening(parse_url(str(store)))
    assert len(picture.tree.unread) > _TURNS
    with opening.open(lambda _: None) as opened:
        reader, operations = ThreadReader(opened, "long"), ThreadOperations(opening, "long")
        whole = TreeReader(reader, operations, str).read(TreeShape(unfold=True))
    # Of these rows it is only not known what they changed.
    details = {key: one._replace(changes=()) for key, one in whole.details.items()}
    whole = whole._replace(details=details, steps=picture.tree.steps)
    drawn = draw_tree(whole, Ui(NOW, UTC, seat.tree.room))
    assert picture.keys == drawn.keys
    for at, key in enumerate(picture.keys):
        if key in picture.tree.unread:
            assert picture.lines[at] == drawn.lines[at]


@pytest.mark.screen(on="long", now=NOW)
async def test_unfolding_reads_only_the_rows_that_are_seen_and_stays_when_the_thread_grows(
    seat: Seat, long: Path, bodies: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = seat.tree
    await seat.press("enter")
    # A thread that one stays at is checked once: what that reads is not counted.
    await seat.until(lambda: seat.main.inspector.checked("long"))
    bodies.clear()
    await seat.press("o")
    # The first line is the day.
    assert len(rows.lines) == 2 * _TURNS + 3
    assert 0 < len(set(bodies)) < 100
    rows_that_are_not_read_look_as_those_that_are(seat, long)
    bodies.clear()
    looks = Mock(wraps=tree.read_keys)
    with monkeypatch.context() as patched:
        patched.setattr(tree, "read_keys", looks)
        for key in ("g", "pagedown", "pagedown"):
            await seat.press(key)
            read = seat.picture.tree
            assert read is seat.main.tree_pane.view.tree
            assert read.unread.isdisjoint(seat.picture.keys_near(rows.seen))
    # Rows are read without a look at all keys.
    assert not looks.called
    assert any("items +1" in rows.lines[at].text for at in rows.seen)
    assert 0 < len(set(bodies)) < 100
    bodies.clear()
    await seat.press("G", "g", "j", "j", "r")
    # Of the tree nothing is read again but the head.
    assert len(set(bodies)) < 10
    place = seat.place
    with SqliteSaver.from_conn_string(str(long)) as saver:
        long_graph(saver, 1).invoke({"items": []}, config_of("long"))
    bodies.clear()
    await seat.press("r")
    assert len(rows.lines) == 2 * _TURNS + 7
    assert seat.place == place
    assert len(set(bodies)) < 20


async def test_a_running_read_is_not_restarted(long: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, later, begun = Event(), Event(), []
    read = GrowingTree.read

    def slow(*arguments: Any, **options: Any) -> Any:
        begun.append(options["asked"])
        (first if len(begun) == 1 else later).wait(60)
        return read(*arguments, **options)

    async with sitting(long) as seat:
        await seat.press("enter")
        monkeypatch.setattr(GrowingTree, "read", slow)
        await seat.press_at_once("o")
        await seat.until(lambda: begun)
        for _ in range(5):
            await seat.press_at_once("r")
            await seat.until(lambda: not seat.app.context.threads.waiting)
        assert len(begun) == 1
        assert seat.app.context.tree.waiting == 1
        first.set()
        # What was read first is shown, and not thrown away for a later read.
        await seat.until(lambda: len(seat.tree.lines) > _TURNS)
        later.set()
        await seat.rest()
        # Once more for all that was asked meanwhile, and once for the rows that are seen then.
        assert len(begun) <= 3


def test_details_are_read_again_if_writes_were_added(
    long: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [("", one) for one in "abc"]

    def details(*asked: Any) -> Any:
        return {key: StepDetails(problem="damaged" if key == keys[2] else None) for key in asked[4]}

    read = Mock(side_effect=details)
    monkeypatch.setattr(tree, "read_details", read)
    seals = dict.fromkeys(keys, 1)
    more = {**seals, keys[0]: 2}
    opening = Opening(parse_url(str(long)))
    with opening.open(lambda _: None) as opened:
        reader, operations = ThreadReader(opened, "long"), ThreadOperations(opening, "long")
        trees = TreeReader(reader, operations, str)
        for stored, tips in ((seals, ()), (more, ()), (more, (keys[1],))):
            assert trees.details(TreeKeys({}, {}, tips, stored), keys, ()).keys() == set(keys)
    asked = [list(one.args[4]) for one in read.call_args_list]
    assert asked == [keys, [keys[0], keys[2]], [keys[1], keys[2]]]


def test_a_kept_reader_of_a_grown_thread_serves_older_checkpoints_only(long: Path) -> None:
    kept = KeptReader()
    with Opening(parse_url(str(long))).open(lambda _: None) as opened:
        first = kept.of(opened, "long")
        head, older = (one.key for one in first.index("")[:2])
        with SqliteSaver.from_conn_string(str(long)) as saver:
            long_graph(saver, 1).invoke({"items": []}, config_of("long"))
        opened.refresh()
        assert kept.of(opened, "long", older) is first
        second = kept.of(opened, "long", head)
        assert second is not first
        newest = second.index("")[0].key
        assert newest.checkpoint_id > head.checkpoint_id
        assert kept.of(opened, "long", newest) is second
