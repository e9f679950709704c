"""The tree of a thread: folds, subgraphs, marks, columns, and what is read of long threads."""

import asyncio
import re
import shutil
from collections.abc import Callable, Collection
from datetime import UTC
from pathlib import Path
from threading import Event
from typing import Any, cast
from unittest.mock import Mock

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from ckpt_backends.errors import CkptError
from ckpt_backends.model import CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_backends.sql.store import SqlStore
from ckpt_backends.testing.official import config_of
from ckpt_backends.testing.screen import NOW, Seat, sitting
from ckpt_backends.url import parse_url
from ckpt_cli.core.lineage import Parentage
from ckpt_cli.core.state import Body
from ckpt_cli.core.tree import Key, StepDetails
from ckpt_cli.queries import tree
from ckpt_cli.queries.diff import ChannelChanges
from ckpt_cli.queries.thread_operations import ThreadOperations
from ckpt_cli.queries.tree import TreeKeys, TreeReader, TreeShape
from ckpt_cli.reading.store import Opening
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.render.text import Ui
from ckpt_cli.tui.panes.tree import GrowingTree, ScrubberLine, draw_tree
from ckpt_cli.tui.stepper import Stepper
from ckpt_cli.tui.tabs import checkpoint
from ckpt_cli.tui.tabs.checkpoint import read_document
from ckpt_cli.tui.tabs.content import KeptReader
from tests.kit.agents.asking import CONFIG, Two
from tests.kit.cases import cases
from tests.kit.command import ckpt, ids_of
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


async def test_a_subgraph_call_is_entered_a_mark_is_seen_and_folds_open(seat: Seat) -> None:
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


_TURNS, _WRONG = 200, 120


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("long") / "agent.db"
    long_thread(store, _TURNS, _WRONG)
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
        long_graph(saver, 1, 1).invoke({"items": []}, config_of("long"))
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


def test_details_are_read_anew_after_writes(long: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
            long_graph(saver, 1, 1).invoke({"items": []}, config_of("long"))
        opened.refresh()
        assert kept.of(opened, "long", older) is first
        second = kept.of(opened, "long", head)
        assert second is not first
        newest = second.index("")[0].key
        assert newest.checkpoint_id > head.checkpoint_id
        assert kept.of(opened, "long", newest) is second


# Stepping from checkpoint to checkpoint, and to where a value changed


async def test_only_the_last_step_is_read_after_a_running_read(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, began = Event(), Event()
    go.set()
    read: list[CheckpointKey] = []

    def slow(*args: Any, **options: Any) -> Any:
        began.set()
        assert go.wait(30)
        read.append(options["subject"].place)
        return read_document(*args, **options)

    monkeypatch.setattr(checkpoint, "read_document", slow)
    async with sitting(sample) as seat:
        await seat.press("enter")
        step, shown = seat.document.show_step, []

        def noted(*args: Any, **options: Any) -> None:
            shown.append(args[2][0])
            step(*args, **options)

        monkeypatch.setattr(seat.document, "show_step", noted)
        read.clear()
        go.clear()
        began.clear()
        await seat.press_at_once("k")
        first = seat.place
        await seat.until(began.is_set)
        await seat.press_at_once("k", "k", "k")
        inspector = seat.main.inspector
        await seat.until(lambda: inspector.subject and inspector.subject.place == seat.place)
        await seat.until(lambda: "loading" in str(inspector.border_title))
        go.set()
        await seat.rest()
        assert str(seat.main.inspector.border_title).startswith("step ")
        assert first != seat.place
        assert read == shown == [first, seat.place]


# a - b - c - d - e
#      \\- f - g
KNOWN = Parentage({"g": "f", "f": "b", "e": "d", "d": "c", "c": "b", "b": "a", "a": None})


def key(name: str) -> Key:
    return "", name


def walk(stepper: Stepper, start: str, ways: str) -> str:
    """Go from checkpoint to checkpoint as the keys do; returns all that were come to."""
    here, come = key(start), start
    for way in ways:
        move = stepper.step if way in "<>" else stepper.sibling
        goal = move(here, KNOWN, -1 if way in "<{" else 1)
        assert not isinstance(goal, str), goal
        here = goal
        come += goal[1]
    return come


@cases(
    "start ways come",
    ("c", "<<>>", "cbabc"),
    # Back to where the way began, though another branch is newer.
    ("e", "<<<<>>>>", "edcbabcde"),
    # Without a way back, to the newest.
    ("a", ">>>", "abfg"),
    # A sibling ends the way: from there, forward goes along its own branch.
    ("e", "<<}>", "edcfg"),
    ("g", "<{>>", "gfcde"),
    ("f", "{}{", "fcfc"),
)
def test_steps_lead_along_the_branch(start: str, ways: str, come: str) -> None:
    assert walk(Stepper(), start, ways) == come


def test_a_way_back_from_elsewhere_starts_anew() -> None:
    stepper = Stepper()
    walk(stepper, "e", "<<")
    # The cursor was moved by hand to g.
    assert walk(stepper, "g", "<<>>") == "gfbfg"


@cases(
    "here move way said",
    ("g", "step", 1, "this is the last checkpoint of its branch"),
    ("c", "sibling", -1, "this is the oldest of 2 siblings"),
    ("f", "sibling", 1, "this is the newest of 2 siblings"),
)
def test_where_no_step_leads_on_it_says_why(here: str, move: str, way: int, said: str) -> None:
    steps: Callable[[Key, Parentage, int], Key | str] = getattr(Stepper(), move)
    assert steps(key(here), KNOWN, way) == said
    removed = "this is the first checkpoint that is stored: its parent was removed"
    assert Stepper().step(key("c"), Parentage({"c": "b"}), -1) == removed


def change(stepper: Stepper, start: str, way: int) -> Key | str:
    async def ask(question: Callable[[Store], None]) -> None:
        question(cast("Store", None))

    place = CheckpointKey("trip", "", start)
    return asyncio.run(stepper.change(place, KNOWN, way, ask, lambda _: None))


def test_changes_of_a_channel_are_found_on_the_branch_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def bodies(_: object, __: object, ids: Collection[str], ___: object) -> dict[str, Body]:
        read.extend(ids)
        # `hotel` changes at b and at e.
        versions = {one: {"hotel": "2" if one == "e" else "1"} for one in "bcdefg"} | {"a": {}}
        return {one: Body(4, None, {}, versions[one], {}, None) for one in ids}

    monkeypatch.setattr(ChannelChanges, "_bodies", bodies)
    stepper = Stepper()
    said = change(stepper, "e", -1)
    assert said == "choose a channel first: move the cursor in State (1) to its value"
    stepper.note_value("hotel.name[0]")
    assert change(stepper, "e", -1) == key("b")
    assert change(stepper, "b", -1) == "no earlier step of this branch changed 'hotel'"
    # The way back is the way on.
    assert change(stepper, "b", 1) == key("e")
    before = len(read)
    assert change(stepper, "e", -1) == key("b")
    assert len(read) == before
    stepper.forget_changes()
    assert change(stepper, "e", -1) == key("b")
    assert len(read) > before


_CHANGES = [2 * number + 1 for number in (_WRONG // 4, _WRONG)]
"""The numbers of the checkpoints in which `budget` changed."""
_BUDGET = ("1", "slash", "b", "u", "enter")
"""The keys that lead to `budget` in State."""


async def test_steps_lead_on_and_read_little(long: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = ids_of(long, "long")[::-1]
    asked: list[Collection[str] | None] = []
    checkpoints = SqlStore.checkpoints

    def noted(self: SqlStore, thread_id: str, **options: Any) -> Any:
        asked.append(options.get("checkpoint_ids"))
        return checkpoints(self, thread_id, **options)

    async with sitting(long) as seat:
        main = seat.main
        at = len(ids) - 1

        async def goes(key: str, by: int) -> None:
            nonlocal at
            at += by
            focused = main.focused
            asked.clear()
            await seat.press(key)
            assert None not in asked
            assert sum(len(one) for one in asked if one is not None) < 30
            assert seat.place.checkpoint_id == ids[at]
            assert main.inspector.shown == (seat.place, "state")
            assert main.focused is focused
            # Inside a fold, it has a line of its own.
            assert len(seat.picture.holds[seat.tree.cursor]) == 1

        await seat.press("enter")
        await goes("less_than_sign", -1)
        # A thread that one stays at is checked once, which reads all of it.
        await seat.until(lambda: main.inspector.checked("long"))
        monkeypatch.setattr(SqlStore, "checkpoints", noted)
        for _ in range(4):
            await goes("less_than_sign", -1)
        await seat.press("1")
        await goes("greater_than_sign", 1)
        await seat.press("tab")
        await goes("greater_than_sign", 1)
        assert len(seat.tree.lines) < 10


async def test_changes_are_found_in_both_directions_and_escape_stops_the_search(
    long: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = ids_of(long, "long")[::-1]
    answer = Event()
    read = ChannelChanges.read
    begun = []

    def slow(self: ChannelChanges, *asked: Any, **options: Any) -> None:
        begun.append(self)
        answer.wait(60)
        read(self, *asked, **options)

    async with sitting(long) as seat:

        async def goes(key: str, number: int) -> None:
            await seat.press(key)
            assert seat.place.checkpoint_id == ids[number]

        await seat.press(*_BUDGET)
        before, focused = seat.place, seat.main.focused
        with monkeypatch.context() as patched:
            patched.setattr(ChannelChanges, "read", slow)
            for _ in range(3):
                await seat.press_at_once("left_square_bracket")
            await seat.until(lambda: seat.sees("Looking for changes of budget"))
            await seat.press_at_once("escape")
            answer.set()
            await seat.rest()
            patched.setattr(ChannelChanges, "read", Mock(side_effect=CkptError("it is away")))
            await seat.hear("left_square_bracket", "it is away")
        assert (seat.place, seat.main.focused) == (before, focused)
        assert len(begun) == 1
        assert not seat.sees("Looking for changes")
        await goes("left_square_bracket", _CHANGES[1])
        assert seat.sees("budget", "-40")
        await seat.press("escape")
        await goes("left_square_bracket", _CHANGES[0])
        await seat.press("2")
        await goes("right_square_bracket", _CHANGES[1])


async def test_siblings_an_earlier_time_and_the_head_are_gone_to(seat: Seat) -> None:
    await seat.press("enter")
    newest, siblings = seat.picture.head, {""}
    while len(siblings) < 2:
        await seat.press("less_than_sign")
        known = seat.picture.parentage[seat.place.checkpoint_ns]
        siblings = {*known.siblings(seat.place.checkpoint_id)}
    place = seat.place
    await seat.press("left_curly_bracket")
    assert siblings == {place.checkpoint_id, seat.place.checkpoint_id}
    await seat.press("right_curly_bracket")
    assert seat.place == place
    await seat.press("right_curly_bracket")
    assert seat.said == "this is the newest of 2 siblings"
    earlier = seat.place
    await seat.press("A", "enter")
    await seat.until(lambda: "as of" in seat.lines[0])
    await seat.until(lambda: seat.main.tree_pane.place == earlier)
    assert seat.picture.head == seat.tree.key
    await seat.fill("A", "soon")
    assert "'soon' is not a time" in seat.text
    await seat.press("escape")
    await seat.fill("A", "")
    await seat.until(lambda: "as of" not in seat.lines[0])
    await seat.until(lambda: seat.main.tree_pane.place == earlier)
    assert seat.picture.head == newest

    # Following ends where one goes to a checkpoint.
    document = seat.document
    await seat.press("4", "f")
    assert "following the head" in seat.lines[0]
    assert document.cursor == len(document.lines) - 1
    await seat.press("5", "k", "enter")
    head = seat.picture.head
    assert seat.tree.key not in (None, head)
    assert "following the head" not in seat.lines[0]
    await seat.press("f")
    assert seat.tree.key == head
    await seat.pilot.click(ScrubberLine, offset=(0, 0))
    await seat.press("r")
    assert seat.tree.key != head
    assert "following the head" not in seat.lines[0]
