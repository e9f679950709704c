"""`ckpt tui THREAD` opens the screen there."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

from ckpt_backends.model import CheckpointKey
from ckpt_backends.testing.screen import Seat, sit
from tests.kit.command import ROOT, ckpt


def test_the_screen_opens_at_a_checkpoint(sample: Path) -> None:
    wanted = ckpt("-s", sample, "show", "refund-4711@~2", "-o", "json").json
    goal = CheckpointKey("refund-4711", "", wanted["checkpoint_id"])

    async def look(seat: Seat) -> None:
        assert seat.main.place == goal
        assert seat.main.tree_pane.rows.has_focus
        assert seat.main.threads_pane.rows.thread is not None
        assert seat.main.threads_pane.rows.thread.thread_id == "refund-4711"
        # It is left as any other.
        await seat.press("G")
        assert seat.main.place != goal
        await seat.press("r")
        assert seat.main.place != goal
        await seat.press("escape", "g")
        assert seat.main.tree_pane.view.thread_id == "trip-to-kyoto"

    sit(sample, look, goal=goal)


def run(*words: object) -> subprocess.CompletedProcess[str]:
    """Run `ckpt` on a terminal, which ends it after a while."""
    command = ["timeout", "20", sys.executable, "-m", "ckpt_cli", *map(str, words)]
    script = ["script", "-qec", f"stty cols 120 rows 40; {shlex.join(command)}", "/dev/null"]
    return subprocess.run(script, capture_output=True, text=True, check=False, cwd=ROOT)


def test_an_unknown_thread_is_told_before_the_screen_starts(sample: Path) -> None:
    for target in ("no-such-thread", "trip-to-kyoto@ffff0000"):
        shown = ckpt("-s", sample, "show", target)
        found = run("-s", sample, "tui", target)
        assert found.returncode == shown.code == 3
        assert found.stdout.splitlines()[0] == shown.err.splitlines()[0]
        assert "\x1b[?1049h" not in found.stdout


def test_a_memory_has_no_thread_to_open(tmp_path: Path) -> None:
    (tmp_path / "memory.json").write_text('{"version": "1.0", "facts": []}')
    found = run("-s", tmp_path / "memory.json", "tui", "trip-to-kyoto")
    assert found.returncode == 2
    assert "this store holds memory only" in found.stdout
