"""Functions and paths for tests of several folders."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ckpt_cli.run import run

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "fixtures"
SAMPLE = ROOT / "ckpt_cli" / "data" / "sample.db"


@dataclass(frozen=True)
class Answer:
    """The output of one command line, and its exit code."""

    code: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        return self.raw.decode()

    @property
    def json(self) -> Any:
        assert self.code in {0, 1}, self.err
        return json.loads(self.out)


class _Out(io.TextIOWrapper):
    """Standard output as bytes and text, like a pipe."""

    def __init__(self) -> None:
        self.bytes = io.BytesIO()
        super().__init__(self.bytes, encoding="utf-8", newline="", write_through=True)


def ckpt(*words: str | Path) -> Answer:
    """Run `ckpt` in this process through its entry point, with its output as in a pipe."""
    out, err = _Out(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([str(word) for word in words])
    return Answer(code, out.bytes.getvalue(), err.getvalue())


def copy_store(source: Path, folder: Path) -> Path:
    """Make a private copy of a store, because opening one in WAL mode creates files next to it."""
    target = folder / "store.db"
    shutil.copyfile(source, target)
    return target


def eras() -> Iterator[Path]:
    """Yield the folders of the fixtures."""
    return (path.parent for path in sorted(FIXTURES.glob("*/truth.json")))


def first_now(values: Iterable[object]) -> list[Any]:
    """Return values for `parametrize`: the first is tested by default, the others later."""
    first, *others = values
    return [first, *later(*others)]


def later(*values: object) -> list[Any]:
    """Return values for `parametrize` that are tested with `-m engines` only."""
    return [pytest.param(value, marks=pytest.mark.engines) for value in values]
