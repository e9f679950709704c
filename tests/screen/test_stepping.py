"""Stepping from checkpoint to checkpoint, and to where a value changed."""

import asyncio
from collections.abc import Callable, Collection
from pathlib import Path
from threading import Event
from typing import Any, cast
from unittest.mock import Mock

import pytest

from ckpt_backends.errors import CkptError
from ckpt_backends.model import CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_backends.sql.store import SqlStore
from ckpt_backends.testing.screen import Seat, sitting
from ckpt_cli.core.lineage import Parentage
from ckpt_cli.core.state import Body
from ckpt_cli.core.tree import Key
from ckpt_cli.queries import tree
from ckpt_cli.queries.diff import ChannelChanges
from ckpt_cli.tui.panes.tree import ScrubberLine
from ckpt_cli.tui.stepper import Stepper
from ckpt_cli.tui.tabs import checkpoint
from ckpt_cli.tui.tabs.checkpoint import read_document
from tests.kit.cases import cases
from tests.kit.command import ckpt
from tests.screen.stores import long_thread

pytestmark = pytest.mark.engines


async def test_the_running_read_is_shown_and_only_the_last_step_is_read_after_it(
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


def test_changes_of_the_channel_are_found_on_the_branch_and_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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


_TURNS, _WRONG = 200, 120
_CHANGES = [2 * number + 1 for number in (_WRONG // 4, _WRONG)]
"""The numbers of the checkpoints in which `budget` changed."""
_BUDGET = ("1", "slash", "b", "u", "enter")
"""The keys that lead to `budget` in State."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A thread of many checkpoints, which is only looked at, and their ids, oldest first."""
    store = tmp_path_factory.mktemp("long") / "agent.db"
    long_thread(store, _TURNS, _WRONG)
    rows = ckpt("-s", store, "history", "long", "-o", "json").json
    return store, [one["checkpoint_id"] for one in reversed(rows)]


@pytest.fixture
def long(
    written: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, list[str]]:
    # A thread of this length counts as long.
    monkeypatch.setattr(tree, "_SMALL", _TURNS)
    return written


async def test_steps_lead_on_from_any_pane_and_read_few_checkpoints(
    long: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, ids = long
    asked: list[Collection[str] | None] = []
    checkpoints = SqlStore.checkpoints

    def noted(self: SqlStore, thread_id: str, **options: Any) -> Any:
        asked.append(options.get("checkpoint_ids"))
        return checkpoints(self, thread_id, **options)

    async with sitting(store) as seat:
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
    long: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, ids = long
    answer = Event()
    read = ChannelChanges.read
    begun = []

    def slow(self: ChannelChanges, *asked: Any, **options: Any) -> None:
        begun.append(self)
        answer.wait(60)
        read(self, *asked, **options)

    async with sitting(store) as seat:

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


async def test_siblings_are_reached_a_time_is_looked_back_to_and_the_head_followed(
    seat: Seat,
) -> None:
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
