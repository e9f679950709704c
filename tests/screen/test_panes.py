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
async def test_panes_are_as_large_as_needed(
    sample: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: tuple[int, int],
    threads: int,
    tree: int,
    columns: int,
    part: int,
    is_beside: bool,
) -> None:
    monkeypatch.setattr(TreePane, "needed", tree)
    async with sitting(sample, size=size) as seat:
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


@pytest.mark.screen(size=(80, 24))
async def test_chosen_shares_stay_on_the_screen(seat: Seat) -> None:
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


async def test_keys_change_the_pane_with_the_focus_and_the_sizes_come_back(
    sample: Path, tmp_path: Path
) -> None:
    look = tmp_path / "look.json"
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
        assert sizes(seat)[1] == pytest.approx(tree - 2, abs=1)
        before.append(sizes(seat))
        await seat.press("z", "plus")
        assert "press z" in seat.said
        await seat.press("z")
        assert sizes(seat) == before[0]
    async with sitting(sample, look=look) as seat:
        assert sizes(seat) == before[0]
        await seat.press("underscore")
        assert sizes(seat) != before[0]
        assert seat.main.body.chosen == ChosenShares()


async def test_a_border_is_dragged_with_the_mouse(sample: Path) -> None:
    async def drag(seat: Seat, *offsets: tuple[int, int]) -> None:
        (first, *rest) = offsets
        await seat.pilot.mouse_down(offset=first)
        for offset in rest:
            await seat.pilot.hover(offset=offset)
        await seat.pilot.mouse_up(offset=offsets[-1])
        await seat.rest()

    async with sitting(sample) as seat:
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


@pytest.mark.parametrize("size", [(80, 24), (300, 90)])
async def test_the_checkpoint_is_beside_its_tree_on_a_wide_screen(
    seat: Seat, size: tuple[int, int]
) -> None:
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


async def test_one_pane_alone_and_all_again(seat: Seat) -> None:
    main = seat.main
    panes = [main.threads_pane, main.tree_pane, main.inspector]
    for pane in panes:
        await seat.press("z")
        assert [one for one in panes if one.region.area] == [pane]
        await seat.press("z")
        assert all(one.region.area for one in panes)
        await seat.press("tab")


@pytest.mark.screen(size=(40, 12))
async def test_a_narrow_screen_shows_one_pane_after_the_other(seat: Seat) -> None:
    main = seat.main
    await seat.see("j", "refund-4711")
    assert not main.body.right.region.area
    await seat.see("enter", "● 8d9f")
    assert not main.threads_pane.region.area
    await seat.see("enter", "1 State", "question")
    await seat.press("tab")
    assert main.threads_pane.region.area
    await seat.pilot.resize_terminal(120, 40)
    await seat.rest()
    assert all(one.region.area for one in (main.threads_pane, main.tree_pane, main.inspector))


async def test_escape_leads_out_of_one_thing_after_the_other(seat: Seat) -> None:
    main = seat.main
    for rows in (seat.threads, seat.tree, seat.document):
        main.body.go(rows)
        await seat.press("z", "escape")
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


async def test_a_terminal_that_shrinks_keeps_the_cursor_in_view(seat: Seat) -> None:
    rows = seat.threads
    await seat.press("G")
    assert rows.cursor in rows.seen
    await seat.pilot.resize_terminal(80, 8)
    await seat.rest()
    assert rows.cursor in rows.seen
    assert rows.seen.stop < 9


@pytest.mark.parametrize("writes", [False, True])
async def test_theme_sort_tab_fold_and_zoom_come_back(
    sample: Path, tmp_path: Path, writes: bool
) -> None:
    look = tmp_path / "state" / "look.json"
    async with sitting(sample, look=look, writes=writes) as seat:
        await seat.press("s", "o", "4", "z")
        seat.app.theme = "nord"
    assert look.stat().st_mode & 0o777 == 0o600
    assert look.parent.stat().st_mode & 0o777 == 0o700
    async with sitting(sample, look=look, writes=writes) as seat:
        assert seat.app.theme == "nord"
        assert seat.main.look == RememberedLook("", "first", "messages", True, True)
        assert seat.sees("oldest first")


async def test_the_screen_of_a_memory_alone_remembers_the_theme(
    sample: Path, tmp_path: Path
) -> None:
    look = tmp_path / "look.json"
    write_look(look, RememberedLook("nord", "first"))
    async with sitting(sample, look=look, start="memory alone") as seat:
        assert seat.app.theme == "nord"
        seat.app.theme = "dracula"
    assert read_look(look) == RememberedLook("dracula", "first")


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


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "[" * 4000, '{"tab": 3, "is_zoomed": "yes"}', '{"more": null}', " " * 5000],
)
def test_a_broken_file_is_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / "look.json").write_text(text)
    assert read_look(tmp_path / "look.json") == RememberedLook()


async def test_a_file_that_cannot_be_used_is_ignored(sample: Path, tmp_path: Path) -> None:
    look = tmp_path / "look.json"
    write_look(look, RememberedLook("no-such", "no-such", "no-such"))
    async with sitting(sample, look=look) as seat:
        assert seat.main.look == RememberedLook("", "last", "state")
    assert read_look(tmp_path / "none" / "look.json") == RememberedLook()
    # A folder in the place of the file.
    write_look(tmp_path, RememberedLook())
