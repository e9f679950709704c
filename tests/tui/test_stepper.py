"""Where steps lead, without a screen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import cast

import pytest

from ckpt_backends.errors import CkptError
from ckpt_backends.model import CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_cli.core.lineage import Parentage
from ckpt_cli.core.state import Body
from ckpt_cli.core.tree import Key
from ckpt_cli.queries.diff import ChannelChanges
from ckpt_cli.tui.stepper import Stepper

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


@pytest.mark.parametrize(
    ("start", "ways", "come"),
    [
        ("c", "<<>>", "cbabc"),
        # Back to where the way began, though another branch is newer.
        ("e", "<<<<>>>>", "edcbabcde"),
        # Without a way back, to the newest.
        ("a", ">>>", "abfg"),
        # A sibling ends the way: from there, forward goes along its own branch.
        ("e", "<<}>", "edcfg"),
        ("g", "<{>>", "gfcde"),
        ("f", "{}{", "fcfc"),
    ],
)
def test_steps_lead_along_the_branch(start: str, ways: str, come: str) -> None:
    assert walk(Stepper(), start, ways) == come


def test_a_way_back_from_elsewhere_starts_anew() -> None:
    stepper = Stepper()
    walk(stepper, "e", "<<")
    # The cursor was moved by hand to g.
    assert walk(stepper, "g", "<<>>") == "gfbfg"


@pytest.mark.parametrize(
    ("here", "move", "way", "said"),
    [
        ("a", "step", -1, "this is the first checkpoint"),
        ("g", "step", 1, "this is the last checkpoint of its branch"),
        ("a", "sibling", 1, "no sibling: no other checkpoint has this parent"),
        ("c", "sibling", -1, "this is the oldest of 2 siblings"),
        ("f", "sibling", 1, "this is the newest of 2 siblings"),
    ],
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
