"""Stepping through a thread of 10,000 checkpoints."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from ckpt_backends.protocol import Store
from ckpt_backends.sql.store import SqlStore
from ckpt_backends.testing.screen import Seat, sit
from ckpt_cli.queries.diff import ChannelChanges
from tests.tui import budget_thread

_BUDGET = ("1", "slash", "b", "u", "enter")
"""The keys that lead to `budget` in State."""


@dataclass
class LongThread:
    store: Path
    ids: list[str]
    """Oldest first."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> LongThread:
    store = tmp_path_factory.mktemp("long") / "agent.db"
    return LongThread(store, budget_thread.fill(store))


@pytest.fixture
def long(written: LongThread, tmp_path: Path) -> LongThread:
    return LongThread(Path(shutil.copy(written.store, tmp_path / "agent.db")), written.ids)


@pytest.mark.engines
def test_steps_lead_back_and_forward_inside_folds_from_any_pane(long: LongThread) -> None:
    async def look(seat: Seat) -> None:
        main = seat.main
        at = budget_thread.STEPS - 1

        async def goes(key: str, by: int) -> None:
            nonlocal at
            at += by
            focused = main.focused
            await seat.press(key)
            assert main.place is not None
            assert main.place.checkpoint_id == long.ids[at]
            assert main.inspector.shown == (main.place, "state")
            assert main.focused is focused
            # It has a line of its own.
            picture = main.tree_pane.rows.picture
            assert picture is not None
            assert len(picture.holds[main.tree_pane.rows.cursor]) == 1

        for _ in range(6):
            await goes("less_than_sign", -1)
        await seat.press("1")
        await goes("less_than_sign", -1)
        await goes("greater_than_sign", 1)
        await seat.press("2", "1", "tab", "tab")
        await goes("greater_than_sign", 1)
        assert len(main.tree_pane.rows.lines) < 10

    sit(long.store, look)


@pytest.mark.slow
def test_a_step_reads_a_few_checkpoints_and_no_list_of_them(
    long: LongThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Collection[str] | None] = []
    checkpoints = SqlStore.checkpoints

    def noted(self: SqlStore, thread_id: str, **options: Any) -> Any:
        asked.append(options.get("checkpoint_ids"))
        return checkpoints(self, thread_id, **options)

    async def look(seat: Seat) -> None:
        await seat.press("enter", "less_than_sign")
        monkeypatch.setattr(SqlStore, "checkpoints", noted)
        for key in ("less_than_sign",) * 3 + ("greater_than_sign", "left_curly_bracket"):
            asked.clear()
            await seat.press(key)
            assert None not in asked
            assert sum(len(ids) for ids in asked if ids is not None) < 30

    sit(long.store, look)


@pytest.mark.slow
def test_the_step_that_made_a_value_wrong_is_found_with_six_keys(long: LongThread) -> None:
    async def look(seat: Seat) -> None:
        await seat.press(*_BUDGET, "left_square_bracket")
        assert seat.main.place is not None
        assert seat.main.place.checkpoint_id == long.ids[budget_thread.WRONG]
        assert seat.sees("budget", "-40")

    sit(long.store, look)


@pytest.mark.slow
def test_changes_are_found_in_both_directions_and_read_once(
    long: LongThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    bodies = ChannelChanges._bodies

    def noted(self: ChannelChanges, store: Store, ids: Collection[str], values: Any) -> Any:
        asked.extend(ids)
        return bodies(self, store, ids, values)

    monkeypatch.setattr(ChannelChanges, "_bodies", noted)

    async def look(seat: Seat) -> None:
        main = seat.main

        async def goes(key: str, number: int) -> None:
            await seat.press(key)
            assert main.place is not None
            assert main.place.checkpoint_id == long.ids[number]

        last = budget_thread.STEPS - 1
        await seat.press("left_square_bracket")
        assert seat.said == "choose a channel first: move the cursor in State (1) to its value"
        await seat.press(*_BUDGET, "escape")
        await goes("left_square_bracket", budget_thread.WRONG)
        # It reads what is on the way, and little more.
        assert last - budget_thread.WRONG <= len(set(asked)) < 1.3 * (last - budget_thread.WRONG)
        await goes("left_square_bracket", budget_thread.BUDGET_SET)
        await goes("left_square_bracket", 0)
        await seat.press("left_square_bracket")
        assert seat.said == "no earlier step of this branch changed 'budget'"
        # Only the ends of two queries are read twice.
        assert len(asked) < 1.02 * budget_thread.STEPS
        asked.clear()
        await goes("right_square_bracket", budget_thread.BUDGET_SET)
        await seat.press("2")
        await goes("right_square_bracket", budget_thread.WRONG)
        await goes("left_square_bracket", budget_thread.BUDGET_SET)
        assert asked == []

    sit(long.store, look)


@pytest.mark.engines
def test_a_search_for_changes_is_stopped_by_escape(
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

    async def look(seat: Seat) -> None:
        main = seat.main
        await seat.press(*_BUDGET)
        before, focused = main.place, main.focused
        for _ in range(3):
            await seat.press_at_once("left_square_bracket")
        await seat.until(lambda: seat.sees("Looking for changes of budget"))
        await seat.press_at_once("escape")
        answer.set()
        await seat.rest()
        assert (main.place, main.focused) == (before, focused)
        assert len(begun) == 1
        assert not seat.sees("Looking for changes")

    sit(long.store, look)
