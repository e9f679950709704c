"""What keeps the interpreter from pausing the screen."""

from __future__ import annotations

import gc

import pytest

from ckpt_cli.tui.reading import LoadedObjects


def test_many_objects_leave_garbage_collection_once(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(len(frozen)))
    objects = LoadedObjects()
    for number in (10, 2000, 2001, 2400, 2500, 1500, 2500):
        objects.loaded(number)
    # At first, and after growing by a quarter; not for another thread of the same length.
    assert len(frozen) == 2
