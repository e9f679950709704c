"""What may change a store: only with `--write`, after a plan was shown; and the operations."""

import asyncio
import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.testing.screen import Seat, sitting
from ckpt_cli.tui.keys import CHANGING, READING_GROUPS, Key, keys_of
from ckpt_cli.tui.screens.dialogs import PlanScreen
from ckpt_cli.tui.writing import Writing
from tests.kit.command import ROOT, ckpt

pytestmark = pytest.mark.engines


def recorded() -> Any:
    """The recorded operations, the newest first."""
    return ckpt("ops", "list", "-o", "json").json


@pytest.mark.screen(writes=True)
async def test_another_look_does_not_end_the_wait_for_a_change(seat: Seat) -> None:
    main = seat.main
    assert isinstance(main.changes, Writing)
    waiting = asyncio.create_task(main.changes.listed_anew())
    await asyncio.sleep(0)
    main.threads_pane.load()
    await waiting
    assert len(main.threads_pane.listing.threads) == 8


async def test_the_keys_that_change_say_what_to_type(seat: Seat, sample: Path) -> None:
    assert seat.main.changes is None
    for key in [*keys_of([CHANGING]), Key("R", "", "", "")]:
        assert key not in keys_of(READING_GROUPS)
        await seat.press("question_mark")
        assert not seat.sees(f" {key.shown} ", key.help)
        await seat.press("escape", key.keys.split(",")[0])
        assert seat.said == f"read-only: start with `ckpt -s {sample} tui --write`"
        assert seat.app.screen is seat.main
    assert not seat.sees("Roll back")


@pytest.mark.screen(writes=True)
async def test_r_rolls_back_with_write(seat: Seat) -> None:
    await seat.see("enter k R", "Roll back this thread?")
    await seat.see("n", "Roll back")


_EVERY_KEY = """
import sys
from pathlib import Path
from ckpt_backends.testing.screen import Seat, sit

async def look(seat):
    pressed = set()
    for pane in (seat.threads, seat.tree, seat.document):
        pane.focus()
        await seat.rest()
        bound = seat.app.screen.active_bindings.items()
        keys = {(key, one.node) for key, one in bound if key not in {"q", "ctrl+c", "ctrl+q"}}
        for key, _ in sorted(keys - pressed, key=str):
            pane.focus()
            await seat.press_at_once(key)
            while seat.app.screen is not seat.main:
                await seat.press_at_once("escape")
        pressed |= keys
        assert len(pressed) > 80
    await seat.press("escape", "escape", "escape")

sit(Path(sys.argv[1]), look)
changing = [name for name in sys.modules if name in {"ckpt_cli.tui.writing", "ckpt_cli.tui.plans"}]
assert not changing, changing
"""


def test_no_key_changes_the_store_or_loads_what_could(sample: Path) -> None:
    """Each key of a pane, and those of the screen once."""
    before = hashlib.sha256(sample.read_bytes()).hexdigest()
    command = [sys.executable, "-c", _EVERY_KEY, str(sample)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr[-3000:]
    assert hashlib.sha256(sample.read_bytes()).hexdigest() == before


@pytest.mark.screen(writes=True)
async def test_n_closes_a_plan(seat: Seat) -> None:
    for key in ("n", "escape", "q"):
        await seat.press("B")
        assert isinstance(seat.app.screen, PlanScreen)
        await seat.press(key)
        assert not isinstance(seat.app.screen, PlanScreen)


async def test_operations_of_a_thread_are_listed_and_the_last_one_undone(sample: Path) -> None:
    async with sitting(sample, writes=True) as seat:
        await seat.press("O")
        await seat.until(lambda: seat.sees("ckpt recorded no change of this thread"))
        await seat.hear("escape enter k k B y", ": head is now ")
        await seat.press("O")
        await seat.until(lambda: seat.sees("on trip-to-kyoto: 1", "rollback"))
        await seat.see("U", "Undo this operation?")
        await seat.hear("y", "undid the last change")
    async with sitting(sample) as seat:
        await seat.press("O")
        await seat.until(lambda: seat.sees("on trip-to-kyoto: 2", "UNDOES", "UNDONE BY"))
        await seat.press("u")
        assert f"read-only: start with `ckpt -s {sample} tui --write`" in seat.said
        await seat.press("j", "u")
        assert "cannot undo rollback " in seat.said
        assert "it was taken back by operation" in seat.said


async def test_an_earlier_operation_is_undone(sample: Path) -> None:
    async with sitting(sample, writes=True) as seat:
        await seat.press("enter", "k", "k", "B", "y")
        await seat.until(lambda: len(recorded()) == 1)
        await seat.rest()
        await seat.press("k", "k", "k", "k", "B", "y")
        await seat.until(lambda: len(recorded()) == 2)
        await seat.rest()
        newer, older = recorded()
        await seat.press("O")
        await seat.until(lambda: seat.sees("on trip-to-kyoto: 2"))
        await seat.see("j u", "Undo this operation?")
        await seat.hear("y", f"undid rollback {older['op']}")
        assert [one["undone_by"] is None for one in recorded()] == [True, True, False]
        assert recorded()[1]["op"] == newer["op"]
