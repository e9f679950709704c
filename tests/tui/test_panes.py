"""The sizes of the panes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckpt_backends.testing.screen import Seat, sit
from ckpt_cli.tui.panes.body import ChosenShares
from ckpt_cli.tui.panes.tree import TreePane

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("size", "threads", "tree", "columns", "part", "is_beside"),
    [
        # The row of threads is longer than its share of the screen.
        ((80, 24), 50, 40, 26, 9, False),
        ((120, 40), 50, 40, 36, 17, False),
        # As large as needed, within bounds.
        ((120, 40), 30, 14, 30, 14, False),
        ((120, 40), 9, 3, 26, 11, False),
        # Side by side where there is space.
        ((200, 60), 90, 50, 60, 26, False),
        ((240, 32), 90, 50, 72, 83, True),
        ((300, 90), 500, 500, 72, 113, True),
    ],
)
def test_panes_are_as_large_as_needed(
    sample: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: tuple[int, int],
    threads: int,
    tree: int,
    columns: int,
    part: int,
    is_beside: bool,
) -> None:
    async def look(seat: Seat) -> None:
        main = seat.main
        main.threads_pane.longest = threads
        main.body.fit()
        await seat.rest()
        main.body.fit()
        await seat.rest()
        assert main.threads_pane.outer_size.width == columns
        shown = main.tree_pane.outer_size
        assert (shown.width if is_beside else shown.height) == part
        assert main.body.has_class("beside") == is_beside

    monkeypatch.setattr(TreePane, "needed", tree)
    sit(sample, look, size=size)


def test_chosen_shares_stay_on_the_screen(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        main = seat.main

        def sizes() -> tuple[int, int]:
            return main.threads_pane.outer_size.width, main.tree_pane.outer_size.height

        await seat.press(*["plus"] * 15, "tab", "tab", *["plus"] * 15)
        assert sizes() == (40, 4)
        # A remembered file may hold any number.
        main.body.chosen = ChosenShares(10**9, -7)
        main.body.fit()
        await seat.rest()
        assert sizes()[0] == 40

    sit(sample, look, size=(80, 24))


def test_keys_change_the_pane_with_the_focus_and_the_sizes_come_back(
    sample: Path, tmp_path: Path
) -> None:
    look = tmp_path / "look.json"
    before: list[tuple[int, ...]] = []

    def sizes(seat: Seat) -> tuple[int, ...]:
        main = seat.main
        return main.threads_pane.size.width, main.tree_pane.size.height, main.inspector.size.height

    async def change(seat: Seat) -> None:
        threads, tree, inspector = sizes(seat)
        await seat.press("plus", "equals_sign")
        wider, *same = sizes(seat)
        assert wider == threads + 12
        assert same == [tree, inspector]
        await seat.press("minus", "tab", "plus")
        assert sizes(seat)[0] == threads + 6
        assert sizes(seat)[1] == pytest.approx(tree + 2, abs=1)
        await seat.press("tab", "plus", "plus")
        assert sizes(seat)[1] == pytest.approx(tree - 2, abs=1)
        before.append(sizes(seat))
        await seat.press("z", "plus")
        assert "press z" in seat.said
        await seat.press("z")
        assert sizes(seat) == before[0]

    async def again(seat: Seat) -> None:
        assert sizes(seat) == before[0]
        await seat.press("underscore")
        assert sizes(seat) != before[0]
        assert seat.main.body.chosen == ChosenShares()

    sit(sample, change, look=look)
    sit(sample, again, look=look)


def test_a_border_is_dragged_with_the_mouse(sample: Path) -> None:
    async def drag(seat: Seat, *offsets: tuple[int, int]) -> None:
        (first, *rest) = offsets
        await seat.pilot.mouse_down(offset=first)
        for offset in rest:
            await seat.pilot.hover(offset=offset)
        await seat.pilot.mouse_up(offset=offsets[-1])
        await seat.rest()

    async def look(seat: Seat) -> None:
        main = seat.main
        await drag(seat, (main.body.right.region.x, 9), (45, 9), (50, 12))
        assert main.threads_pane.region.width == pytest.approx(50, abs=1)
        y = main.inspector.region.y
        await drag(seat, (70, y), (70, y + 5))
        assert main.inspector.region.y == pytest.approx(y + 5, abs=1)
        # The mouse alone changes nothing.
        y = main.inspector.region.y
        await seat.pilot.hover(offset=(70, y - 5))
        await drag(seat, (70, y - 3), (70, y - 6))
        assert main.inspector.region.y == y

    sit(sample, look)


@pytest.mark.parametrize("size", [(80, 24), (300, 90)])
def test_the_checkpoint_is_beside_its_tree_on_a_wide_screen(
    sample: Path, size: tuple[int, int]
) -> None:
    async def look(seat: Seat) -> None:
        main = seat.main
        tree, inspector = main.tree_pane.region, main.inspector.region
        assert tree.overlaps(inspector) is False
        is_beside = size[0] == 300
        assert (tree.y == inspector.y) == is_beside
        assert inspector.right == size[0]
        assert inspector.bottom == size[1] - 1
        assert seat.sees("Five nights in Kyoto") == is_beside
        await seat.pilot.resize_terminal(120, 40)
        await seat.rest()
        assert main.tree_pane.region.y < main.inspector.region.y

    sit(sample, look, size=size)
