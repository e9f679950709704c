"""Runs `ckpt` in the process of the tests."""

import contextlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ckpt_cli.run import run


@dataclass(frozen=True)
class CommandResult:
    """The output of one command line, and its exit code."""

    code: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        return self.raw.decode()

    @property
    def json(self) -> Any:
        """The output as JSON. Fails the test if the command failed."""
        assert self.code in {0, 1}, self.err
        return json.loads(self.out)

    def ends_cleanly(self, *codes: int) -> None:
        """Fail the test unless it ended with one of these codes and, if it failed, said why.

        For data that may be damaged in a way that a command does not look at.
        """
        assert self.code in codes, self.err
        for text in (self.raw.decode(errors="replace"), self.err):
            assert "Traceback" not in text
            assert "internal error" not in text
        if self.code > 1:
            assert "ckpt: " in self.err or '"exit_code": ' in self.err, self.err


class _Out(io.TextIOWrapper):
    """Standard output as bytes and text, like a pipe."""

    def __init__(self) -> None:
        self.bytes = io.BytesIO()
        super().__init__(self.bytes, encoding="utf-8", newline="", write_through=True)


Check = Callable[[list[str], CommandResult], None]
CHECKS: list[Check] = []
"""What a project checks of each command that its tests run."""


def ckpt(
    *words: str | Path, code: int | None = None, says: str = "", out: str | None = None
) -> CommandResult:
    """Run `ckpt` in this process through its entry point, with its output as in a pipe.

    Fails the test if it ends with another exit code than `code`, does not say `says` on stderr, or
    prints other than `out`.
    """
    printed, err = _Out(), io.StringIO()
    argv = [str(word) for word in words]
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(err):
        ended = run([*argv])
    result = CommandResult(ended, printed.bytes.getvalue(), err.getvalue())
    for check in CHECKS:
        check(argv, result)
    assert code in {None, ended}, (argv, result.err)
    assert says in result.err, (argv, result.err)
    assert out is None or result.out == out, (argv, result.err)
    return result
