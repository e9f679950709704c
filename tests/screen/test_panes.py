"""The panes: their sizes, one alone, and what the screen remembers of its last use."""

from datetime import UTC
from pathlib import Path

import pytest

from ckpt_backends.testing.screen import Seat, sitting
from ckpt_backends.url import parse_url
from ckpt_cli.reading.store import Opening
from ckpt_cli.tui.app import CkptApp
from ckpt_cli.tui.context import RememberedLook, ScreenContext, read_look, write_look
from ckpt_cli.tui.panes.body import ChosenShares
from ckpt_cli.tui.panes.tree import TreePane

pytestmark = pytest.mark.engines


async def test_panes_are_as_large_as_needed_and_a_border_is_dragged_with_the_mouse(
    seat: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = seat.main
    for size, (threads, tree), shown in (
        # The row of threads is longer than its share of the screen.
        ((80, 24), (50, 40), (26, 9, False)),
        # Side by side where there is space.
        ((200, 60), (90, 50), (60, 26, False)),
        ((300, 90), (500, 500), (72, 113, True)),
        # As large as needed, within bounds.
        ((120, 40), (30, 14), (30, 14, False)),
    ):
        await seat.pilot.resize_terminal(*size)
        await seat.rest()
        monkeypatch.setattr(TreePane, "needed", tree)
        main.threads_pane.longest = threads
        for _ in range(2):
            main.body.fit()
            await seat.rest()
        outer, is_beside = main.tree_pane.outer_size, main.body.has_class("beside")
        part = outer.width if is_beside else outer.height
        assert (main.threads_pane.outer_size.width, part, is_beside) == shown

    async def drag(first: tuple[int, int], last: tuple[int, int]) -> None:
        await seat.pilot.mouse_down(offset=first)
        await seat.pilot.hover(offset=last)
        await seat.pilot.mouse_up(offset=last)
        await seat.rest()

    await drag((main.body.right.region.x, 9), (50, 12))
    assert main.threads_pane.region.width == pytest.approx(50, abs=1)
    y = main.inspector.region.y
    await drag((70, y), (70, y + 5))
    assert main.inspector.region.y == pytest.approx(y + 5, abs=1)
    # The mouse beside a border changes nothing.
    y = main.inspector.region.y
    await drag((70, y - 3), (70, y - 6))
    assert main.inspector.region.y == y


async def test_keys_change_the_pane_with_the_focus_and_what_was_chosen_comes_back(
    sample: Path, tmp_path: Path
) -> None:
    look = tmp_path / "state" / "look.json"
    before: list[tuple[int, ...]] = []

    def sizes(seat: Seat) -> tuple[int, ...]:
        main = seat.main
        return main.threads_pane.size.width, main.tree_pane.size.height, main.inspector.size.height

    async with sitting(sample, look=look) as seat:
        threads, tree, inspector = sizes(seat)
        await seat.press("plus", "equals_sign")
        wider, *same = sizes(seat)
        assert wider == threads + 12
        assert same == [tree, inspector]
        await seat.press("minus", "tab", "plus")
        assert sizes(seat)[0] == threads + 6
        assert sizes(seat)[1] == pytest.approx(tree + 2, abs=1)
        await seat.press("tab", "plus", "plus")
        before.append(sizes(seat))
        await seat.press("z", "plus")
        assert "press z" in seat.said
        await seat.press("z")
        assert sizes(seat) == before[0]
        await seat.press("1", "escape", "escape", "s", "o", "4", "z")
        seat.app.theme = "nord"
    assert look.stat().st_mode & 0o777 == 0o600
    assert look.parent.stat().st_mode & 0o777 == 0o700
    async with sitting(sample, look=look) as seat:
        assert seat.app.theme == "nord"
        found = seat.main.look
        assert (found.sort, found.tab, found.is_zoomed) == ("first", "messages", True)
        assert seat.sees("oldest first")
        await seat.press("z")
        assert sizes(seat) == before[0]
        await seat.press("underscore")
        assert sizes(seat) != before[0]
        assert seat.main.body.chosen == ChosenShares()
        # A remembered file may hold any number.
        seat.main.body.chosen = ChosenShares(10**9, -7)
        seat.main.body.fit()
        await seat.rest()
        assert sizes(seat)[0] < 100
    async with sitting(sample, look=look, start="memory alone") as seat:
        assert seat.app.theme == "nord"
        seat.app.theme = "dracula"
    assert (read_look(look).theme, read_look(look).sort) == ("dracula", "first")


@pytest.mark.screen(size=(40, 12))
async def test_a_narrow_screen_shows_one_pane_after_the_other(seat: Seat) -> None:
    main = seat.main
    # A checkpoint is shown where its tree never was.
    await seat.see("j 8", "step 3 · check_policy")
    await seat.see("escape", "● 8d9f")
    await seat.see("escape", "refund-4711")
    assert not main.body.right.region.area
    await seat.see("enter", "● 8d9f")
    assert not main.threads_pane.region.area
    await seat.press("escape", "G")
    await seat.pilot.resize_terminal(120, 40)
    await seat.rest()
    assert all(one.region.area for one in (main.threads_pane, main.tree_pane, main.inspector))
    assert seat.threads.cursor in seat.threads.seen
    await seat.pilot.resize_terminal(80, 8)
    await seat.rest()
    assert seat.threads.cursor in seat.threads.seen
    assert seat.threads.seen.stop < 9


async def test_escape_leads_out_of_one_thing_after_the_other(seat: Seat) -> None:
    main = seat.main
    panes = [main.threads_pane, main.tree_pane, main.inspector]
    for pane, rows in zip(panes, (seat.threads, seat.tree, seat.document), strict=True):
        main.body.go(rows)
        await seat.press("z")
        assert [one for one in panes if one.region.area] == [pane]
        await seat.press("escape")
        assert not main.body.is_zoomed
        assert main.focused is rows
        assert rows.region.area
    await seat.press("escape")
    assert seat.tree.has_focus
    await seat.press("escape")
    assert seat.threads.has_focus
    # A tab that is asked for is shown, whatever stood alone before.
    await seat.press("z", "7")
    assert main.inspector.region.area
    assert not main.threads_pane.region.area
    await seat.press("right_parenthesis", "left_parenthesis", "left_parenthesis")
    assert main.inspector.tab == "errors"


async def test_a_screen_that_ends_at_its_start_keeps_what_was_remembered(
    sample: Path, tmp_path: Path
) -> None:
    class Ending(CkptApp):
        def on_load(self) -> None:
            super().on_load()
            self.exit()

    look = tmp_path / "look.json"
    write_look(look, RememberedLook("", "first", "diff"))
    context = ScreenContext(Opening(parse_url(str(sample))), [], UTC, 0)
    await Ending(context, look=look).run_async(headless=True)
    assert (read_look(look).sort, read_look(look).tab) == ("first", "diff")


@pytest.mark.parametrize("text", ["{", "[" * 4000, '{"tab": 3, "is_zoomed": "yes"}', " " * 5000])
def test_a_broken_file_is_ignored(tmp_path: Path, text: str) -> None:
    look = tmp_path / "look.json"
    look.write_text(text)
    assert read_look(look) == RememberedLook()
    assert read_look(tmp_path / "none" / "look.json") == RememberedLook()
    # A folder in the place of the file.
    write_look(tmp_path, RememberedLook())


async def test_what_a_file_names_and_nobody_knows_is_ignored(sample: Path, tmp_path: Path) -> None:
    look = tmp_path / "look.json"
    write_look(look, RememberedLook("no-such", "no-such", "no-such"))
    async with sitting(sample, look=look) as seat:
        assert seat.main.look == RememberedLook("", "last", "state")
