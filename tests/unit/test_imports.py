"""The modules of the program import each other in one direction, also where they do it late."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.kit.command import ROOT


def _modules() -> dict[str, Path]:
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
    known = _modules()
    left = {name: _imports(path, known) - {name} for name, path in known.items()}
    assert len(left) > 100
    # What imports nothing that is left is in no circle.
    while free := [name for name, imported in left.items() if not imported & left.keys()]:
        for name in free:
            del left[name]
    assert left == {}
