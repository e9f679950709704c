"""Run `ckpt` in processes that end at once, as by `kill -9`, before or after one of their calls.

The calls are those that change something outside of the process, or read the store. Started as a
program, this module reads one request on each line and runs it in a fork, which needs no imports.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

_CALLS = frozenset(
    {
        *("execute", "executemany", "commit", "rollback", "close"),
        *("write", "flush", "fsync", "truncate", "flock"),
        *("open", "mkdir", "rename", "replace", "link", "unlink"),
    }
)
_KILLED = 137


class Runner:
    """The process that forks."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def points(self, words: list[str], environment: Mapping[str, str]) -> int:
        """Run a command to its end; return how many points it has at which it can be killed."""
        answer = self._ask(words, environment, None)
        assert answer["code"] == 0, answer
        return int(answer["points"])

    def kill_at(self, words: list[str], environment: Mapping[str, str], point: int) -> bool:
        """Run a command that is killed at a point; return whether it got there."""
        return bool(self._ask(words, environment, point)["code"] == _KILLED)

    def _ask(self, words: list[str], environment: Mapping[str, str], point: int | None) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"words": words, "environment": dict(environment), "point": point}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@contextmanager
def runner() -> Iterator[Runner]:
    """Start the process that forks."""
    command = [sys.executable, "-m", "tests.kit.kill.effects"]
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Runner(process)
        assert process.stdin is not None
        process.stdin.close()


def _serve() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            os.environ.update(request["environment"])
            os._exit(_run(request["words"], request["point"], writing))
        os.close(writing)
        with os.fdopen(reading) as pipe:
            points = pipe.read()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps({"code": code, "points": int(points or 0)}), flush=True)


def _run(words: list[str], point: int | None, pipe: int) -> int:
    from ckpt_cli.run import run

    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    count = 0

    def watch(frame: object, event: str, called: object) -> None:
        nonlocal count
        if event in {"c_call", "c_return"} and getattr(called, "__name__", "") in _CALLS:
            if count == point:
                os._exit(_KILLED)
            count += 1

    sys.setprofile(watch)
    code = run(words)
    sys.setprofile(None)
    os.write(pipe, str(count).encode())
    return code


if __name__ == "__main__":
    # What most commands need is imported once, before the forks.
    for module in ("ckpt_backends.sqlite.write", "ckpt_cli.commands.ops"):
        import_module(module)
    _serve()
