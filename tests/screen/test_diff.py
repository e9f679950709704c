"""Comparing two checkpoints: by the tab, side by side, and by the command line."""

import re
import shlex
from pathlib import Path

import pytest

from ckpt_backends.testing.screen import Seat, sitting
from ckpt_cli.render.text import StyledLine
from ckpt_cli.tui.tabs.checkpoint import SidesRows
from tests.kit.command import ckpt
from tests.screen.stores import stored

pytestmark = pytest.mark.engines


_STEP = re.compile(r"step (-?\d+)")


async def pairs(seat: Seat) -> list[list[str]]:
    """The two steps that the tab, the command and the diff side by side name."""
    await seat.press("2")
    tab = "\n".join(one.text for one in seat.document.lines[:2])
    printed = ckpt(*shlex.split(seat.main.command_lines()[0])[1:]).out.splitlines()
    await seat.press("d")
    beside = seat.lines[1]
    await seat.press("escape", "escape")
    return [_STEP.findall(one) for one in (tab, "\n".join(printed[:2]), beside)]


@pytest.mark.screen(size=(200, 40))
async def test_the_mark_is_the_base_of_every_diff(seat: Seat) -> None:
    await seat.press("enter", "k", "k", "k")
    to_parent = await pairs(seat)
    await seat.press("m")
    on_the_mark = await pairs(seat)
    await seat.press("G")
    to_mark = await pairs(seat)
    assert to_parent == on_the_mark == [["6", "7"]] * 3
    assert to_mark == [["7", "12"]] * 3


@pytest.mark.screen(size=(200, 40))
async def test_no_command_is_printed_for_a_diff_across_subgraphs(seat: Seat) -> None:
    await seat.press("enter", "m")
    picture = seat.picture
    (seat.tree.cursor,) = picture.inner
    await seat.press("enter", "2")
    assert seat.place.checkpoint_ns
    assert seat.sees("--- step 12 · reply · f169", "+++ planner > step ")
    assert not any(" diff " in one for one in seat.main.command_lines())


def shown(seat: Seat) -> list[StyledLine]:
    """The lines of the diff side by side."""
    return list(seat.app.screen.query_one(SidesRows).lines)


async def test_the_columns_have_the_names_of_their_steps(seat: Seat) -> None:
    await seat.press("enter", "k", "k", "m", "G", "d")
    left, right = seat.lines[1].split("│")
    assert left.split() == ["step", "8", "·", "input", "·", "d8ee"]
    assert right.split() == ["step", "12", "·", "reply", "·", "f169"]
    assert seat.sees("Diff of trip-to-kyoto", "itinerary")
    assert any("+" in one.partition("│")[2] for one in seat.lines)
    await seat.press("escape", "k", "k", "m")
    assert seat.main.base is None


async def test_an_item_at_the_end_of_a_long_list_is_shown_in_all_columns(tmp_path: Path) -> None:
    long = " ".join(["word"] * 15)
    items = [{"n": n, "m": n} for n in range(3000)]
    store = stored(tmp_path / "agent.db", {"items": items}, {"items": [long]})
    async with sitting(store, size=(100, 30)) as seat:
        await seat.press("enter", "d")
        assert [one.text.rstrip() for one in shown(seat)] == [
            *("items", "… 3000 equal items", f"+ - {long}")
        ]


async def test_the_words_that_changed_inside_a_line_are_marked(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    notes = (
        "Arrive on Monday at noon, and stay for two nights at the Kanra hotel.",
        "Arrive on Wednesday at noon, and stay for two nights at the Gracery hotel.",
    )
    stored(store, *({"note": one} for one in notes))
    async with sitting(store, size=(160, 30)) as seat:
        await seat.press("enter", "d")
        beside = shown(seat)
        await seat.press("escape", "2")
        for lines in (beside, seat.document.lines):
            spans = [one for line in lines for one in line.spans]
            assert [text for text, style in spans if style == "removed-part"] == ["Monday", "Kanra"]
            added = [text for text, style in spans if style == "added-part"]
            assert added == ["Wednesday", "Gracery"]


@pytest.mark.screen(size=(100, 20))
async def test_the_next_change_is_a_key_away(seat: Seat) -> None:
    await seat.press("enter", "m", "g", "d")
    await seat.see("right_square_bracket", "change 1 of 8", "- Booking")
    await seat.press(*["right_square_bracket"] * 7)
    assert seat.sees("change 8 of 8", "offers")
    # There is no change after the last one.
    await seat.see("right_square_bracket left_square_bracket", "change 7 of 8", "messages")


async def test_the_title_has_the_same_names_and_the_way_into_a_subgraph(seat: Seat) -> None:
    inspector = seat.main.inspector
    await seat.press("enter")
    assert str(inspector.border_title) == "step 12 · reply · f169"
    await seat.press("k", "k", "m", "2")
    assert str(inspector.border_title) == "step 8 · input · d8ee"
    await seat.press("escape", "G")
    assert str(inspector.border_title) == "step 8 · input · d8ee → step 12 · reply · f169"
    tab = [one.text.rstrip() for one in inspector.rows.lines[:2]]
    assert tab == ["--- step 8 · input · d8ee", "+++ step 12 · reply · f169"]
    # Only the bytes are about the full id.
    await seat.press("9")
    assert str(inspector.border_title) == "step 12 · reply · f169"
    assert seat.place.checkpoint_id in seat.text
    picture = seat.picture
    (seat.tree.cursor,) = picture.inner
    await seat.press("escape", "enter", "1")
    assert str(inspector.border_title).startswith("planner > step ")


@pytest.mark.screen(size=(100, 30))
async def test_the_tab_has_tints_to_its_end_and_goes_to_the_next_change(seat: Seat) -> None:
    await seat.press("enter", "m", "g", "2", "escape")
    document = seat.document
    changes = document.document.changes
    assert len(changes) > 2
    for at in changes:
        *_, (_, style) = document.lines[at].spans
        if style in {"added", "removed"}:
            assert len(document.lines[at].text) >= document.width
    # The tree has the focus.
    await seat.press("n")
    assert document.cursor == changes[0]
    await seat.press("n", "n", "N")
    assert document.cursor == changes[1]
    assert str(seat.main.inspector.border_title).endswith(f": change 2 of {len(changes)}")
    await seat.press(*["n"] * len(changes))
    assert document.cursor == changes[-1]
    # A search in the pane takes the keys.
    await seat.press("2")
    await seat.search("step")
    await seat.press("n")
    assert document.cursor < 2


@pytest.mark.screen(size=(100, 30))
async def test_stepping_keeps_the_channel_in_the_tab(seat: Seat) -> None:
    await seat.press("enter", "g", "m", "G", "2", "n", "n")
    document = seat.document
    path = document.path
    await seat.press("escape", "k")
    assert document.path == path
