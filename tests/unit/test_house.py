"""What keeps the house readable: names, imports, short functions."""

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


def _named_modules() -> dict[str, Path]:
    """The modules of `ckpt_cli`, by their names."""
    found = {}
    for path in (ROOT / "ckpt_cli").rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


def _imports(path: Path, known: dict[str, Path]) -> set[str]:
    """What a module imports of the others: at its top, in functions, and for types alone."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [f"{node.module}.{one.name}" for one in node.names]
            found.update(one if one in known else node.module for one in names)
        elif isinstance(node, ast.Import):
            found.update(one.name for one in node.names)
    return found & known.keys()


def test_no_modules_import_each_other_in_a_circle() -> None:
    known = _named_modules()
    left = {name: _imports(path, known) - {name} for name, path in known.items()}
    assert len(left) > 100
    # What imports nothing that is left is in no circle.
    while free := [name for name, imported in left.items() if not imported & left.keys()]:
        for name in free:
            del left[name]
    assert left == {}
