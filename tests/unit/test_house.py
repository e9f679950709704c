"""What keeps the house readable and mended: names, imports, short functions; no private names."""

import ast
import importlib
import inspect
import re
from collections import defaultdict
from collections.abc import Collection
from functools import cache

from pymysql.connections import Connection

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


_OWN = ("ckpt_cli", "ckpt_backends")
_DOCUMENTED = {"_asdict", "_exit", "_fields", "_make", "_replace"}
"""Public names of Python in spite of their underscore."""
_ASKED_FOR = {"_generate", "_llm_type"}
"""What LangChain's documents ask a chat model of one's own to define: `BaseChatModel`."""
_SPARED = {"ckpt_cli/core/doctor/types.py": {"_compat_pickle"}}
"""Names that nothing public tells: Python's table of what Python 2 called its modules."""
_BY_TEXT = {"getattr", "setattr", "hasattr", "delattr"}
_DEFINED = re.compile(
    r"(?m)(?:def|class) (_\w+)|(?:self|cls)\.(_\w+)(?:: [^=\n]+)? =|^[ \w,]*\b(_\w+)[\w, ]*(?::|=)"
)
"""Private names of the code itself: functions, classes, attributes and variables."""
_OF_SELF = re.compile(r"(?:\b(?:self|cls|super\(\))\.|def )(_[a-z]\w*)")


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name.strip("_") != ""


def _is_own(place: str | None) -> bool:
    return place is None or place.partition(".")[0] in _OWN


def _reached(text: str) -> set[str]:
    """Private names that a module imports, has behind a dot or gives as a text, and not its own."""
    found: set[str] = set()
    for one in ast.walk(ast.parse(text)):
        match one:
            case ast.Attribute(attr=name, value=value):
                owner = getattr(getattr(value, "func", value), "id", "")
                found |= set() if owner in {"self", "cls", "super"} else {name}
            case ast.Call(func=ast.Name(id=asked), args=[_, ast.Constant(value=str(name)), *_]):
                found |= {name} if asked in _BY_TEXT else set()
            case ast.Import(names=names):
                found.update(part for it in names for part in it.name.split("."))
            case ast.ImportFrom(module=place, names=names) if not _is_own(place):
                found.update([*str(place).split("."), *(it.name for it in names)])
    defined = {one for it in _DEFINED.findall(text) for one in it}
    return {*filter(_is_private, found)} - _DOCUMENTED - defined


@cache
def _names_of(base: type) -> set[str]:
    """What a class of a library itself defines, or sets on its objects."""
    if _is_own(base.__module__) or base.__module__ in {"builtins", "typing", "abc"}:
        return set()
    try:
        source = inspect.getsource(base)
    except (OSError, TypeError):  # in C
        source = ""
    return {*vars(base), *re.findall(r"self\.(_\w+)(?:: [^=\n]+)? =[^=]", source)}


def _overridden(one: type) -> set[str]:
    """Private names of library classes that a subclass defines or uses itself."""
    try:
        used = {*filter(_is_private, _OF_SELF.findall(inspect.getsource(one)))} - _ASKED_FOR
    except (OSError, TypeError):  # made by a decorator
        return set()
    return {f"{base.__name__}.{it}" for base in one.__mro__[1:] for it in used & _names_of(base)}


def _classes(place: object) -> list[type]:
    return [one for one in vars(place).values() if isinstance(one, type)]


def test_the_product_uses_no_private_name_of_a_library() -> None:
    """It may change in any release."""
    found: dict[str, set[str]] = {}
    for package in _PACKAGES:
        for path, text in texts(package).items():
            if re.search(r"/testing/|/data/|__main__|/stored_types/", path):
                continue
            names = _reached(text) - _SPARED.get(path, set())
            place = path.removeprefix("backends/").removesuffix(".py").replace("/", ".")
            if "\nclass " in text or "    class " in text:
                module = importlib.import_module(place.removesuffix(".__init__"))
                for one in _classes(module):
                    if one.__module__ == module.__name__:
                        names |= _overridden(one).union(*map(_overridden, _classes(one)))
            if names:
                found[path] = names
    assert found == {}


class _Example(Connection):
    def close(self) -> None:
        self._sock = None


def test_each_way_is_noticed() -> None:
    assert _overridden(_Example) == {"Connection._sock"}
    assert _reached("from redis._parsers import BaseParser") == {"_parsers"}
    assert _reached("def ask(connection): return connection._parser") == {"_parser"}
    assert _reached("import pymongo\nsetattr(pymongo.auth, '_scram', None)") == {"_scram"}
    own = "class A:\n    def x(self, other): return other._mine, self._replace()\n    _mine = 1"
    assert _reached(own) == set()
