"""Answer the question of a command on a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

_SECONDS = 30.0


def on_terminal(
    words: Sequence[str], answer: bytes, meanwhile: Callable[[], None]
) -> tuple[int, str]:
    """Run `ckpt` with something that happens while it asks; return its code and its answer."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "ckpt_cli", *words]
    process = subprocess.Popen(command, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE)
    os.close(theirs)
    said, end = b"", time.monotonic() + _SECONDS
    while b"[y/N]" not in said and time.monotonic() < end:
        said += os.read(ours, 1000)
    meanwhile()
    os.write(ours, answer)
    assert process.stdout is not None
    out = process.stdout.read().decode()
    code = process.wait(_SECONDS)
    os.close(ours)
    return code, out
