"""Comparing two checkpoints: by the tab, side by side, and by the command line."""

import shlex
from pathlib import Path

import pytest

from ckpt_backends.testing.screen import Seat, sitting
from ckpt_cli.tui.tabs.checkpoint import SidesRows
from tests.kit.command import ckpt
from tests.screen.stores import stored

pytestmark = pytest.mark.engines


@pytest.mark.screen(size=(200, 40))
async def test_steps_are_named_alike_in_both_kinds_of_diff_and_changes_are_a_key_away(
    seat: Seat,
) -> None:
    inspector = seat.main.inspector
    await seat.press("enter")
    assert str(inspector.border_title) == "step 12 · reply · f169"
    await seat.press("k", "k", "m", "2")
    assert str(inspector.border_title) == "step 8 · input · d8ee"
    await seat.press("escape", "G")
    assert str(inspector.border_title) == "step 8 · input · d8ee → step 12 · reply · f169"
    assert seat.sees("--- step 8 · input · d8ee", "+++ step 12 · reply · f169")
    await seat.press("d")
    left, right = seat.lines[1].split("│")
    assert left.split() == ["step", "8", "·", "input", "·", "d8ee"]
    assert right.split() == ["step", "12", "·", "reply", "·", "f169"]
    assert seat.sees("Diff of trip-to-kyoto", "itinerary")
    await seat.press("escape", "2")
    printed = ckpt(*shlex.split(seat.main.command_lines()[0])[1:], "-o", "table").out.splitlines()
    assert printed[0].endswith("step 8")
    assert printed[1].endswith("step 12")
    # On the mark, the base is the parent.
    await seat.press("escape", "k", "k")
    assert seat.sees("--- step 7", "+++ step 8 · input · d8ee")
    await seat.press("G")
    # Only the bytes are about the full id.
    await seat.press("9")
    assert str(inspector.border_title) == "step 12 · reply · f169"
    assert seat.place.checkpoint_id in seat.text
    (seat.tree.cursor,) = seat.picture.inner
    await seat.press("escape", "enter", "2")
    assert seat.place.checkpoint_ns
    assert seat.sees("--- step 8 · input · d8ee", "+++ planner > step ")
    # The command compares inside one namespace.
    assert not any(" diff " in one for one in seat.main.command_lines())
    await seat.press("1")
    assert str(inspector.border_title).startswith("planner > step ")
    await seat.press("escape", "escape", "G", "m", "g", "d")
    await changes_are_a_key_away(seat)


async def changes_are_a_key_away(seat: Seat) -> None:
    """Side by side, and then in the tab."""
    await seat.see("right_square_bracket", "change 1 of 8", "- Booking")
    await seat.press(*["right_square_bracket"] * 7)
    assert seat.sees("change 8 of 8", "offers")
    # There is no change after the last one.
    await seat.see("right_square_bracket left_square_bracket", "change 7 of 8", "messages")
    await seat.press("escape", "2", "escape")
    document = seat.document
    changes = document.document.changes
    assert len(changes) > 2
    for at in changes:
        *_, (_, style) = document.lines[at].spans
        if style in {"added", "removed"}:
            # The tint goes to the end of the line.
            assert len(document.lines[at].text) >= document.width
    # The tree has the focus.
    await seat.press("n")
    assert document.cursor == changes[0]
    await seat.press("n", "n", "N")
    assert document.cursor == changes[1]
    assert str(seat.main.inspector.border_title).endswith(f": change 2 of {len(changes)}")
    path = document.path
    await seat.press("escape", "k")
    assert document.path == path
    # A search in the pane takes the keys.
    await seat.press("2")
    await seat.search("step")
    await seat.press("n")
    assert document.cursor < 2


async def test_long_lists_are_compared_by_items_and_texts_by_words(tmp_path: Path) -> None:
    long = " ".join(["word"] * 15)
    items = [{"n": n, "m": n} for n in range(3000)]
    notes = (
        "Arrive on Monday at noon, and stay for two nights at the Kanra hotel.",
        "Arrive on Wednesday at noon, and stay for two nights at the Gracery hotel.",
    )
    before, after = ({"note": one} for one in notes)
    store = stored(tmp_path / "agent.db", {"items": items, **before}, {"items": [long], **after})
    async with sitting(store, size=(160, 30)) as seat:
        await seat.press("enter", "d")
        beside = list(seat.app.screen.query_one(SidesRows).lines)
        assert [one.text.rstrip() for one in beside][:3] == [
            *("items", "… 3000 equal items", f"+ - {long}")
        ]
        await seat.press("escape", "2")
        for lines in (beside, seat.document.lines):
            spans = [one for line in lines for one in line.spans]
            assert [text for text, style in spans if style == "removed-part"] == ["Monday", "Kanra"]
            added = [text for text, style in spans if style == "added-part"]
            assert added == ["Wednesday", "Gracery"]
