"""What keeps the house readable: unique names, imports in one direction, short functions."""

import ast
import re
from collections import defaultdict
from collections.abc import Collection

from tests.kit.command import ROOT
from tests.unit.sources import parsed, texts

_LINES_OF_FUNCTION = 60
_PACKAGES = ("ckpt_cli", "backends/ckpt_backends")
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _modules() -> dict[str, ast.Module]:
    found = {path: tree for package in _PACKAGES for path, tree in parsed(package).items()}
    # Stored values name the classes in `stored_types`.
    return {path: found[path] for path in found if "/stored_types/" not in path}


def test_no_two_public_classes_have_the_same_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in _modules().items():
        for one in tree.body:
            if isinstance(one, ast.ClassDef) and not one.name.startswith("_"):
                places[one.name].append(path)
    assert len(places) > 100
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_no_function_is_longer_than_60_lines() -> None:
    found = {
        f"{path}:{one.name}": length
        for path, tree in _modules().items()
        for one in ast.walk(tree)
        if isinstance(one, _Function) and (length := _length(path, one)) > _LINES_OF_FUNCTION
    }
    assert found == {}


def _length(path: str, function: _Function) -> int:
    """Number of lines; for a command, those after its table of options."""
    start = function.lineno
    if path.startswith("ckpt_cli/") and not function.name.startswith("_"):
        start = function.body[0].lineno
    end = function.end_lineno
    assert end is not None
    return end - start + 1


def _imports(tree: ast.Module, known: Collection[str]) -> set[str]:
    """What a module imports of the others: at its top, in functions, and for types alone."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [f"{node.module}.{one.name}" for one in node.names]
            found.update(one if one in known else node.module for one in names)
        elif isinstance(node, ast.Import):
            found.update(one.name for one in node.names)
    return found & {*known}


def test_no_modules_import_each_other_in_a_circle() -> None:
    known = {
        path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): tree
        for path, tree in parsed("ckpt_cli").items()
    }
    left = {name: _imports(tree, known) - {name} for name, tree in known.items()}
    assert len(left) > 100
    # What imports nothing that is left is in no circle.
    while free := [name for name, imported in left.items() if not imported & left.keys()]:
        for name in free:
            del left[name]
    assert left == {}


_SUSPECT = re.compile(
    r"from tests\S*(?:\.test_|\.conftest| import (?:\([^)]*|[^\n]*)\b(?:test_|conftest))"
)
"""What a module has that may import a test module: to parse all takes seconds."""


def test_no_test_module_imports_another() -> None:
    """What they share is in `tests/kit`, or in a module of their folder."""
    wrong = [
        f"{path}: {name}"
        for path, text in texts("tests").items()
        if _SUSPECT.search(text)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tests")
        for name in (node.module, *(f"{node.module}.{one.name}" for one in node.names))
        if name.rpartition(".")[2] == "conftest" or _is_test_module(name)
    ]
    assert wrong == []


def _is_test_module(name: str) -> bool:
    place = ROOT.joinpath(*name.split("."))
    return place.name.startswith("test_") and place.with_suffix(".py").exists()
