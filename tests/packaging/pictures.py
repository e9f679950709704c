"""Takes the pictures of the screen that the documents show, from the sample store.

Run it after a change that is meant: `python -m tests.packaging.pictures`, and look at what
changed. A test compares.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from contextlib import chdir
from dataclasses import dataclass
from datetime import UTC, datetime
from tempfile import TemporaryDirectory

from ckpt_backends.url import parse_url
from ckpt_cli.reading.opening import Opening
from ckpt_cli.tui.app import CkptApp
from ckpt_cli.tui.desk import Desk
from tests.support import ROOT, SAMPLE
from tests.tui.seat import Seat

FOLDER = ROOT / "docs" / "pictures"
_NOW = datetime(2026, 11, 22, 8, 0, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Picture:
    """What is pressed before a picture is taken, and how large it is."""

    name: str
    size: tuple[int, int]
    keys: Sequence[str] = ()


PICTURES = (
    Picture("main-120x40", (120, 40), ("enter",)),
    Picture("main-80x24", (80, 24), ("j",)),
    Picture("messages-120x40", (120, 40), ("j", "j", "4")),
    Picture("diff-120x40", (120, 40), ("enter", "k", "k", "m", "G", "d")),
    Picture("help-80x24", (80, 24), ("question_mark",)),
)


def take(picture: Picture) -> str:
    """One picture, as SVG."""

    async def run() -> str:
        opening = Opening(parse_url("sample.db"))
        app = CkptApp(Desk(opening, ["-s", "sample.db"], UTC, 0, lambda: _NOW))
        async with app.run_test(size=picture.size) as pilot:
            seat = Seat(app, pilot)
            await seat.rest()
            await seat.press(*picture.keys)
            return app.export_screenshot()

    with TemporaryDirectory() as folder, chdir(folder):
        shutil.copyfile(SAMPLE, "sample.db")
        return asyncio.run(run())


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for one in PICTURES:
        (FOLDER / f"{one.name}.svg").write_text(take(one), encoding="utf-8")
