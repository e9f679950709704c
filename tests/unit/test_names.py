"""One class for each name, and short functions: what keeps the house readable."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.kit.command import ROOT

_LINES_OF_FUNCTION = 60
_PACKAGES = ("ckpt_cli", "backends/ckpt_backends")
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def _modules() -> list[tuple[Path, ast.Module]]:
    return list(_read())


def _read() -> Iterator[tuple[Path, ast.Module]]:
    for package in _PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.parent.name == "stored_types":  # Stored values name these classes.
                continue
            yield path.relative_to(ROOT), ast.parse(path.read_text("utf-8"))


def test_no_two_public_classes_have_the_same_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in _modules():
        for one in tree.body:
            if isinstance(one, ast.ClassDef) and not one.name.startswith("_"):
                places[one.name].append(str(path))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_no_function_is_longer_than_60_lines() -> None:
    found = {
        f"{path}:{one.name}": length
        for path, tree in _modules()
        for one in ast.walk(tree)
        if isinstance(one, _Function) and (length := _length(path, one)) > _LINES_OF_FUNCTION
    }
    assert found == {}


def _length(path: Path, function: _Function) -> int:
    """Number of lines; for a command, those after its table of options."""
    start = function.lineno
    if path.parts[0] == "ckpt_cli" and not function.name.startswith("_"):
        start = function.body[0].lineno
    end = function.end_lineno
    assert end is not None
    return end - start + 1
