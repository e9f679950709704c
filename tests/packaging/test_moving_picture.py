"""The moving picture of the README shows what a terminal shows."""

import re
import runpy

import pytest

from tests.kit.command import ROOT

pytestmark = pytest.mark.release
_MADE_ANEW = re.compile(
    r"[0-9a-f]{8}-[0-9a-f-]+|\b[0-9a-f]{4,8}\b|\d\d:\d\d:\d\d|\w+ \d+ \w+ \d{4}"
)
"""What differs from run to run: the ids of new checkpoints, and when the graph went on."""


def _shown(picture: str) -> list[str]:
    texts = re.findall(r"<text [^>]*>([^<]*)</text>", picture)
    return [_MADE_ANEW.sub("*", one) for one in texts]


def test_it_is_what_the_commands_print_today_and_small() -> None:
    program = runpy.run_path(str(ROOT / "share" / "picture" / "record.py"))
    stored = program["TARGET"].read_text("utf-8")
    assert len(stored) < 1_500_000
    shown = _shown(stored)
    assert "book: Ryokan Yachiyo is booked from 7 April" in "\n".join(shown)
    assert _shown(program["record"]()) == shown
