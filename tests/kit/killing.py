"""Run a `ckpt` process that is killed from outside, while a server works on for it."""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path


def run_and_kill(
    words: list[str | Path],
    dice: random.Random,
    longest: float,
    begun: Callable[[], bool] = lambda: True,
) -> bool:
    """Kill a command line within `longest` seconds after `begun()`. Return if it had ended."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ckpt_cli", *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not begun() and process.poll() is None:
        time.sleep(0.005)
    try:
        process.wait(dice.uniform(0, longest))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return False
    return True


def seconds_of(words: list[str | Path]) -> float:
    start = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "ckpt_cli", *map(str, words)], check=True, capture_output=True
    )
    return time.monotonic() - start
