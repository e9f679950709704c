"""Functions and paths for tests of several folders."""

import gc
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.changes import Change
from ckpt_backends.testing.command_line import CommandResult, ckpt
from ckpt_backends.url import parse_url
from ckpt_cli.apply.recording import writable_store

__all__ = ["CommandResult", "ckpt"]
"""Names of another module that tests take from here."""
ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures"
SAMPLE = ROOT / "ckpt_cli" / "data" / "sample.db"


def fork(act: Callable[[], object]) -> int:
    """Do something in a child that ends with it, without new imports. Return the child's id."""
    if child := os.fork():
        return child
    gc.freeze()  # what the parent left closes no files here
    code = 1
    try:
        act()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def ended(act: Callable[[], object]) -> int:
    """Do something in a child. Return its exit code, or its signal below zero."""
    return os.waitstatus_to_exitcode(os.waitpid(fork(act), 0)[1])


def apply_change(url: str, change: Change) -> None:
    with writable_store(parse_url(url)) as writable:
        writable.apply(change)


def ids_of(url: str | Path, thread_id: str) -> list[str]:
    """Return the checkpoints of a thread's root, as `ckpt history` lists them."""
    listed = ckpt("-s", url, "history", "-o", "json", "--", thread_id).json
    return [one["checkpoint_id"] for one in listed]


def copy_store(source: Path, folder: Path) -> Path:
    """Make a private copy of a store, because opening one in WAL mode creates files next to it."""
    target = folder / "store.db"
    shutil.copyfile(source, target)
    return target


def eras() -> Iterator[Path]:
    return (path.parent for path in sorted(FIXTURES.glob("*/truth.json")))


def agents() -> list[Path]:
    return sorted((FIXTURES / "agents").iterdir())


@cache
def program(path: str) -> Any:
    """Return a program of the project, such as `docs/generate.py`, as a module."""
    spec = spec_from_file_location(path.removesuffix(".py").replace("/", "_"), ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[spec.name] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def first_now(values: Iterable[object]) -> list[Any]:
    """Return values for `parametrize`: the first is tested by default, the others later."""
    first, *others = values
    return [first, *later(*others)]


def later(*values: object) -> list[Any]:
    """Return values for `parametrize` that are tested with `-m engines` only."""
    return [pytest.param(value, marks=pytest.mark.engines) for value in values]
