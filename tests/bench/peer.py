"""The peer `langgraph-checkpoint-cli`, in a separate environment."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

from tests.bench.declared import Made
from tests.bench.measure import Command
from tests.bench.stores import CACHE

PEER = "langgraph-checkpoint-cli[sqlite]==0.1.0"
_FOLDER = CACHE / "peer"


@cache
def peer_python() -> Path:
    """Return the Python of its environment, which is created when it is first asked for."""
    stamp, python = _FOLDER / "installed", _FOLDER / "bin" / "python"
    if not stamp.exists() or stamp.read_text("utf-8") != PEER:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(_FOLDER)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", PEER]
        subprocess.run(pip, check=True)
        stamp.write_text(PEER, encoding="utf-8")
    return python


def peer_threads(made: Made) -> Command:
    """Return its command that lists the threads of a SQLite file. It may write to the file."""
    return [peer_python().with_name("langgraph-checkpoint"), "threads", "--db", made.url]
