"""Without `--write` there is no way to change anything."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from ckpt_cli.tui.keys import READING_GROUPS, keys_of
from tests.deerflow.project import make
from tests.support import ROOT

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
    for pane in (seat.main.rows, seat.main.tree_rows, seat.main.inspector.document):
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


def test_the_keys_that_change_are_of_the_other_screen() -> None:
    from ckpt_cli.tui.app import CkptApp
    from ckpt_cli.tui.screens.main import MainScreen
    from ckpt_cli.tui.writing import CHANGING, WritingApp, WritingScreen

    assert CHANGING.keys
    for key in CHANGING.keys:
        assert not hasattr(MainScreen, f"action_{key.action}")
        assert hasattr(WritingScreen, f"action_{key.action}")
        assert key not in keys_of(READING_GROUPS)
    assert not hasattr(CkptApp, "apply")
    assert hasattr(WritingApp, "apply")


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
