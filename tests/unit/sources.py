"""The source of the project, read and parsed once for all tests that look at it."""

import ast
from functools import cache

from tests.kit.command import ROOT


@cache
def texts(folder: str) -> dict[str, str]:
    """Return the text of each module below a folder by its path."""
    paths = sorted((ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths}


@cache
def parsed(folder: str) -> dict[str, ast.Module]:
    return {path: ast.parse(text) for path, text in texts(folder).items()}
