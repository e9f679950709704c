"""Stepping from checkpoint to checkpoint, and to where a value changed."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple, cast

import pytest

from ckpt_backends.errors import CkptError
from ckpt_backends.model import CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_backends.sql.store import SqlStore
from ckpt_backends.testing.screen import Seat, sitting
from ckpt_cli.core.lineage import Parentage
from ckpt_cli.core.state import Body
from ckpt_cli.core.tree import Key
from ckpt_cli.queries.diff import ChannelChanges
from ckpt_cli.tui.panes.tree import ScrubberLine
from ckpt_cli.tui.stepper import Stepper
from ckpt_cli.tui.tabs import checkpoint
from ckpt_cli.tui.tabs.checkpoint import read_document
from tests.kit.cases import cases
from tests.screen.stores import BUDGET_SET, STEPS, WRONG, budget_thread

pytestmark = pytest.mark.engines


async def test_following_is_shown_and_follows_messages(seat: Seat) -> None:
    document = seat.document
    await seat.press("4", "f")
    assert "following the head" in seat.lines[0]
    assert document.cursor == len(document.lines) - 1
    await seat.press("1", "4")
    assert document.cursor == len(document.lines) - 1
    await seat.press("f")
    assert "following the head" not in seat.lines[0]


async def test_going_to_a_checkpoint_ends_following(seat: Seat) -> None:
    await seat.press("enter", "f", "5", "k", "enter")
    picture = seat.picture
    assert seat.tree.key not in (None, picture.head)
    assert "following the head" not in seat.lines[0]
    await seat.press("f")
    assert seat.tree.key == picture.head
    await seat.pilot.click(ScrubberLine, offset=(0, 0))
    await seat.press("r")
    assert seat.tree.key != picture.head
    assert "following the head" not in seat.lines[0]


async def test_siblings_are_reached_and_the_ends_are_said(seat: Seat) -> None:
    await seat.press("enter", "g", "less_than_sign")
    assert seat.said == "this is the first checkpoint"
    await seat.press("left_curly_bracket")
    assert seat.said == "no sibling: no other checkpoint has this parent"
    await seat.press("G")
    siblings: Sequence[str] = ()
    while len(siblings) < 2:
        await seat.press("less_than_sign")
        known = seat.picture.parentage[seat.place.checkpoint_ns]
        siblings = known.siblings(seat.place.checkpoint_id)
    assert len(siblings) == 2
    for key in ("left_curly_bracket", "right_curly_bracket", "left_curly_bracket"):
        before = seat.place
        await seat.press(key)
        assert seat.place != before
    await seat.press("left_curly_bracket")
    assert seat.said == "this is the oldest of 2 siblings"
    # Forward goes along this branch, to its end.
    for _ in range(20):
        await seat.press("greater_than_sign")
    assert seat.said == "this is the last checkpoint of its branch"


async def test_a_step_from_a_call_goes_into_its_tree(seat: Seat) -> None:
    main = seat.main
    await seat.press("enter", "g")
    rows = seat.tree
    while (picture := rows.picture) and rows.cursor not in picture.inner:
        await seat.press("j")
    call = seat.place
    await seat.press("less_than_sign")
    assert main.tree_pane.view.ns == call.checkpoint_ns
    assert seat.place.checkpoint_ns == call.checkpoint_ns
    await seat.press("greater_than_sign")
    assert seat.place == call
    await seat.press("escape")
    assert main.tree_pane.view.ns is None
    assert seat.place == call


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
        read.clear()
        go.clear()
        began.clear()
        await seat.press_at_once("k")
        first = seat.place
        await seat.until(began.is_set)
        await seat.press_at_once("k", "k", "k")
        shown = []
        step = seat.document.show_step

        def noted(*args: Any, **options: Any) -> None:
            shown.append(args[2][0])
            step(*args, **options)

        monkeypatch.setattr(seat.document, "show_step", noted)
        go.set()
        await seat.rest()
        assert first != seat.place
        assert read == shown == [first, seat.place]


# a - b - c - d - e
#      \\- f - g
PARENTS: Mapping[str, str | None] = {
    **{"g": "f", "f": "b", "e": "d", "d": "c", "c": "b", "b": "a", "a": None}
}


KNOWN = Parentage(PARENTS)


NOTHING = cast("Store", None)


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
    ("a", "step", -1, "this is the first checkpoint"),
    ("g", "step", 1, "this is the last checkpoint of its branch"),
    ("a", "sibling", 1, "no sibling: no other checkpoint has this parent"),
    ("c", "sibling", -1, "this is the oldest of 2 siblings"),
    ("f", "sibling", 1, "this is the newest of 2 siblings"),
)
def test_where_no_step_leads_on_it_says_why(here: str, move: str, way: int, said: str) -> None:
    steps: Callable[[Key, Parentage, int], Key | str] = getattr(Stepper(), move)
    assert steps(key(here), KNOWN, way) == said


def test_a_parent_that_was_removed_is_told() -> None:
    pruned = Parentage({"c": "b"})
    said = Stepper().step(key("c"), pruned, -1)
    assert said == "this is the first checkpoint that is stored: its parent was removed"


@pytest.fixture
def changing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A store in which `hotel` changes at b and at e. Returns what is read of it, in order."""
    read: list[str] = []

    def bodies(
        self: ChannelChanges, store: Store, ids: Collection[str], values: Collection[str]
    ) -> dict[str, Body]:
        del self, store, values
        read.extend(ids)
        versions = {one: {"hotel": "2" if one == "e" else "1"} for one in "bcdefg"} | {"a": {}}
        return {one: Body(4, None, {}, versions[one], {}, None) for one in ids}

    monkeypatch.setattr(ChannelChanges, "_bodies", bodies)
    return read


def change(stepper: Stepper, start: str, way: int) -> Key | str:
    async def ask(question: Callable[[Store], None]) -> None:
        question(NOTHING)

    place = CheckpointKey("trip", "", start)
    return asyncio.run(stepper.change(place, KNOWN, way, ask, lambda _: None))


def test_changes_of_the_channel_are_found_on_the_branch_and_read_once(changing: list[str]) -> None:
    stepper = Stepper()
    said = change(stepper, "e", -1)
    assert said == "choose a channel first: move the cursor in State (1) to its value"
    stepper.note_value("hotel.name[0]")
    assert change(stepper, "e", -1) == key("b")
    assert change(stepper, "b", -1) == "no earlier step of this branch changed 'hotel'"
    # The way back is the way on.
    assert change(stepper, "b", 1) == key("e")
    before = len(changing)
    assert change(stepper, "e", -1) == key("b")
    assert len(changing) == before
    stepper.forget_changes()
    assert change(stepper, "e", -1) == key("b")
    assert len(changing) > before


def test_a_search_that_fails_raises_and_can_be_repeated(changing: list[str]) -> None:
    async def fail(_: Callable[[Store], None]) -> None:
        raise CkptError("it is away")

    stepper = Stepper()
    stepper.note_value("hotel")
    place = CheckpointKey("trip", "", "e")
    with pytest.raises(CkptError, match="it is away"):
        asyncio.run(stepper.change(place, KNOWN, -1, fail, lambda _: None))
    assert changing == []
    assert change(stepper, "e", -1) == key("b")


_BUDGET = ("1", "slash", "b", "u", "enter")
"""The keys that lead to `budget` in State."""


class LongThread(NamedTuple):
    """A store with a thread of many checkpoints, which is only looked at."""

    store: Path
    ids: list[str]
    """Oldest first."""


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> LongThread:
    store = tmp_path_factory.mktemp("long") / "agent.db"
    return LongThread(store, budget_thread(store))


async def test_steps_lead_back_and_forward_inside_folds_from_any_pane(long: LongThread) -> None:
    async with sitting(long.store) as seat:
        main = seat.main
        at = STEPS - 1

        async def goes(key: str, by: int) -> None:
            nonlocal at
            at += by
            focused = main.focused
            await seat.press(key)
            assert seat.place.checkpoint_id == long.ids[at]
            assert main.inspector.shown == (seat.place, "state")
            assert main.focused is focused
            # It has a line of its own.
            picture = seat.picture
            assert len(picture.holds[seat.tree.cursor]) == 1

        for _ in range(6):
            await goes("less_than_sign", -1)
        await seat.press("1")
        await goes("less_than_sign", -1)
        await goes("greater_than_sign", 1)
        await seat.press("2", "1", "tab", "tab")
        await goes("greater_than_sign", 1)
        assert len(seat.tree.lines) < 10


async def test_a_step_reads_a_few_checkpoints_and_no_list_of_them(
    long: LongThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Collection[str] | None] = []
    checkpoints = SqlStore.checkpoints

    def noted(self: SqlStore, thread_id: str, **options: Any) -> Any:
        asked.append(options.get("checkpoint_ids"))
        return checkpoints(self, thread_id, **options)

    async with sitting(long.store) as seat:
        await seat.press("enter", "less_than_sign")
        monkeypatch.setattr(SqlStore, "checkpoints", noted)
        for key in ("less_than_sign",) * 3 + ("greater_than_sign", "left_curly_bracket"):
            asked.clear()
            await seat.press(key)
            assert None not in asked
            assert sum(len(ids) for ids in asked if ids is not None) < 30


async def test_changes_are_found_in_both_directions_from_any_pane(long: LongThread) -> None:
    async with sitting(long.store) as seat:

        async def goes(key: str, number: int) -> None:
            await seat.press(key)
            assert seat.place.checkpoint_id == long.ids[number]

        await seat.press("left_square_bracket")
        assert seat.said == "choose a channel first: move the cursor in State (1) to its value"
        await seat.press(*_BUDGET)
        await goes("left_square_bracket", WRONG)
        assert seat.sees("budget", "-40")
        await seat.press("escape")
        await goes("left_square_bracket", BUDGET_SET)
        await goes("left_square_bracket", 0)
        await seat.press("left_square_bracket")
        assert seat.said == "no earlier step of this branch changed 'budget'"
        await goes("right_square_bracket", BUDGET_SET)
        await seat.press("2")
        await goes("right_square_bracket", WRONG)


async def test_a_search_for_changes_is_stopped_by_escape(
    long: LongThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Event()
    read = ChannelChanges.read
    begun = []

    def slow(self: ChannelChanges, *asked: Any, **options: Any) -> None:
        begun.append(self)
        answer.wait(60)
        read(self, *asked, **options)

    monkeypatch.setattr(ChannelChanges, "read", slow)
    async with sitting(long.store) as seat:
        main = seat.main
        await seat.press(*_BUDGET)
        before, focused = seat.place, main.focused
        for _ in range(3):
            await seat.press_at_once("left_square_bracket")
        await seat.until(lambda: seat.sees("Looking for changes of budget"))
        await seat.press_at_once("escape")
        answer.set()
        await seat.rest()
        assert (seat.place, main.focused) == (before, focused)
        assert len(begun) == 1
        assert not seat.sees("Looking for changes")


async def test_the_store_is_shown_as_of_a_checkpoint_and_as_of_now(seat: Seat) -> None:
    await seat.press("enter", "[")
    place, newest = seat.place, seat.picture.head
    await seat.press("less_than_sign", "less_than_sign")
    earlier = seat.place
    assert earlier != place
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
