"""A key that is held down: a running read goes on, and only the last checkpoint is read next."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

import pytest

from ckpt_backends.model import CheckpointKey
from ckpt_backends.testing.screen import Seat, sit
from ckpt_cli.tui.tabs import checkpoint
from ckpt_cli.tui.tabs.checkpoint import read_document


def test_the_running_read_is_shown_and_only_the_last_step_is_read_after_it(
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

    async def look(seat: Seat) -> None:
        main = seat.main
        await seat.press("enter")
        read.clear()
        go.clear()
        began.clear()
        await seat.press_at_once("k")
        first = main.place
        await seat.until(began.is_set)
        await seat.press_at_once("k", "k", "k")
        shown = []
        step = main.inspector.rows.show_step

        def noted(*args: Any, **options: Any) -> None:
            shown.append(args[2][0])
            step(*args, **options)

        monkeypatch.setattr(main.inspector.rows, "show_step", noted)
        go.set()
        await seat.rest()
        assert first != main.place
        assert read == shown == [first, main.place]

    sit(sample, look)
