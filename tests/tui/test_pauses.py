"""What keeps the interpreter from pausing the screen."""

from __future__ import annotations

import gc

import pytest

from ckpt_cli.tui.pauses import LoadedObjects


def test_many_objects_leave_garbage_collection_once(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(len(frozen)))
    objects = LoadedObjects()
    for of, number in (("a", 10), ("a", 2000), ("a", 2001), ("a", 2400), ("a", 2500), ("b", 1500)):
        objects.loaded(of, number)
    # At first, after growing by a quarter, and for another thread.
    assert len(frozen) == 3
