"""Without `--write` there is no way to change anything."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from ckpt_backends.testing.screen import Seat, sit
from ckpt_cli.tui.keys import CHANGING, READING_GROUPS, Key, keys_of
from tests.kit.command import ROOT
from tests.kit.savers.deerflow import make

_EVERY_KEY = """
import string, sys
from pathlib import Path
from ckpt_backends.testing.screen import sit

keys = [*string.ascii_letters, *string.digits, "enter", "space", "delete", "backspace", "insert",
        "tab", "shift+tab", "escape", "home", "end", "pageup", "pagedown", "up", "down", "left",
        "right", *(f"f{n}" for n in range(1, 13)),
        *(f"ctrl+{one}" for one in string.ascii_lowercase if one not in "cqz"),
        *("plus minus asterisk equals_sign full_stop comma semicolon exclamation_mark at"
          " number_sign dollar_sign percent_sign ampersand left_parenthesis right_parenthesis"
          " underscore tilde").split()]

async def look(seat):
    for pane in (seat.main.threads_pane.rows, seat.main.tree_pane.rows, seat.main.inspector.rows):
        for key in keys:
            if key == "q":
                continue
            pane.focus()
            await seat.press_at_once(key)
            while seat.app.screen is not seat.main:
                await seat.press_at_once("escape")
    await seat.press("escape", "escape", "escape")

sit(Path(sys.argv[1]), look)
changing = [name for name in sys.modules if name in {"ckpt_cli.tui.writing", "ckpt_cli.tui.plans"}]
assert not changing, changing
"""


@pytest.mark.engines
def test_no_key_changes_the_store_or_loads_what_could(sample: Path) -> None:
    before = hashlib.sha256(sample.read_bytes()).hexdigest()
    command = [sys.executable, "-c", _EVERY_KEY, str(sample)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr[-3000:]
    assert hashlib.sha256(sample.read_bytes()).hexdigest() == before


def test_the_keys_that_change_say_what_to_type(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        assert seat.main.changes is None
        for key in [*keys_of([CHANGING]), Key("R", "", "", "")]:
            assert key not in keys_of(READING_GROUPS)
            await seat.press("question_mark")
            assert not seat.sees(f" {key.shown} ", key.help)
            await seat.press("escape", key.keys.split(",")[0])
            assert seat.said == f"read-only: start with `ckpt -s {sample} tui --write`"
            assert seat.app.screen is seat.main
        assert not seat.sees("Roll back")

    sit(sample, look)


def test_r_rolls_back_with_write(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("enter", "k", "R")
        assert seat.sees("Roll back this thread?")
        await seat.press("n")
        assert seat.sees("Roll back")

    sit(sample, look, writes=True)


@pytest.mark.parametrize("option", ["--copy", "--redact"])
def test_nothing_is_written_to_what_is_no_store(sample: Path, option: str) -> None:
    command = [sys.executable, "-m", "ckpt_cli", option, "-s", str(sample), "tui", "--write"]
    script = ["script", "-qec", " ".join(command), "/dev/null"]
    found = subprocess.run(script, capture_output=True, text=True, check=False, cwd=ROOT)
    assert found.returncode == 2
    assert "--write cannot be combined with --copy or --redact" in found.stdout


def test_a_memory_is_only_looked_at(tmp_path: Path) -> None:
    make(tmp_path)
    command = [sys.executable, "-m", "ckpt_cli", "-s", str(tmp_path), "tui", "--write"]
    script = ["script", "-qec", " ".join(command), "/dev/null"]
    found = subprocess.run(script, capture_output=True, text=True, check=False, cwd=ROOT)
    assert found.returncode == 2
    assert "--write changes threads" in found.stdout
