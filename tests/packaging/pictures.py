"""Make the pictures of the screen for the documents, from the sample store.

After an intended change, run `python -m tests.packaging.pictures` and check what changed. A test
compares the pictures.
"""

import asyncio
import json
import os
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import chdir, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from ckpt_backends.testing.screen import Seat
from ckpt_backends.url import parse_url
from ckpt_cli.reading.store import Opening
from ckpt_cli.tui.app import CkptApp
from ckpt_cli.tui.context import MemoryNamed, ScreenContext
from tests.kit.command import ROOT, SAMPLE
from tests.kit.savers.deerflow import fact

FOLDER = ROOT / "docs" / "pictures"
_NOW = datetime(2026, 11, 22, 8, 0, tzinfo=UTC)
_HOME = ".deer-flow"


_AT = {"createdAt": "2026-11-21T22:30:00Z"}
_PLANS = {"summary": "Is about to travel to Kyoto in April, for five nights."}
_SPENDS = "Spends up to 2000 euros on Kyoto"
_FACTS = [
    fact("fact_3f9a01bc", "Wants a refund for shoes", "goal", 0.7, source="refund-4711", **_AT),
    fact("fact_a1b2c3d4", _SPENDS, "goal", 0.95, source="trip-to-kyoto", **_AT),
    fact("fact_c81d22e0", "Reads answers on a phone", "context", 0.8, source="manual", **_AT),
]
_MEMORY = {
    "version": "1.0",
    "lastUpdated": _AT["createdAt"],
    "user": {"topOfMind": {**_PLANS, "updatedAt": _AT["createdAt"]}},
    "facts": _FACTS,
}
"""The memory, as DeerFlow's first release writes it."""


_DAMAGE = """
    DELETE FROM checkpoints WHERE checkpoint_id = (
        SELECT parent_checkpoint_id FROM checkpoints
        WHERE thread_id = 'trip-to-kyoto' AND checkpoint_ns = ''
        ORDER BY checkpoint_id DESC LIMIT 1)
"""
"""Removes the parent of the head, and not its writes."""


_VALUES = ("slash", *"messages", "enter", "p", *["j"] * 5, "right")
"""Pin the messages, and unfold one of them."""


@dataclass(frozen=True, slots=True)
class Picture:
    """The keys to press before a picture is taken, and its size."""

    name: str
    size: tuple[int, int]
    keys: Sequence[str] = ()
    remembers: bool = False
    """Whether there is a DeerFlow memory with facts from these threads."""
    damage: str = ""
    """A statement that damages the store."""
    theme: str = "textual-dark"


PICTURES = (
    Picture("main-120x40", (120, 40), ("enter",)),
    Picture("main-80x24", (80, 24), ("j",)),
    Picture("messages-120x40", (120, 40), ("j", "j", "4")),
    Picture("main-200x60", (200, 60), ("enter", "k", "k")),
    Picture("light-120x40", (120, 40), ("enter", "k", "k"), theme="textual-light"),
    Picture("values-120x40", (120, 40), ("enter", "1", "less_than_sign", *_VALUES)),
    Picture("findings-120x40", (120, 40), ("enter", "7"), damage=_DAMAGE),
    Picture("diff-120x40", (120, 40), ("enter", "k", "k", "m", "G", "d")),
    Picture("memory-120x40", (120, 40), ("M", "j"), remembers=True),
    Picture("help-80x24", (80, 24), ("question_mark",)),
)


def take(picture: Picture) -> str:
    """Return one picture as SVG."""

    async def run() -> str:
        opening = Opening(parse_url("sample.db"))
        memory = MemoryNamed(parse_url(_HOME), ["-s", _HOME]) if picture.remembers else None
        app = CkptApp(ScreenContext(opening, ["-s", "sample.db"], UTC, 0, lambda: _NOW, memory))
        async with app.run_test(size=picture.size) as pilot:
            app.theme = picture.theme
            seat = Seat(app, pilot)
            await seat.rest()
            await seat.press(*picture.keys)
            return app.export_screenshot()

    with TemporaryDirectory() as folder, chdir(folder):
        shutil.copyfile(SAMPLE, "sample.db")
        with closing(sqlite3.connect("sample.db")) as store, store:
            store.execute(picture.damage)
        if picture.remembers:
            os.mkdir(_HOME)
            Path(_HOME, "memory.json").write_text(json.dumps(_MEMORY), encoding="utf-8")
        return asyncio.run(run())


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for one in PICTURES:
        (FOLDER / f"{one.name}.svg").write_text(take(one), encoding="utf-8")
