"""What keeps the house readable and mended: names, imports, short functions; no private names."""

import ast
import importlib
import inspect
import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from functools import cache
from typing import NamedTuple

from tests.kit.cases import cases
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


_PRODUCT = ("ckpt_cli", "backends/ckpt_backends")
_OWN = ("ckpt_cli", "ckpt_backends", "tests", "bench", "fixtures")
_DOCUMENTED = {"_asdict", "_exit", "_fields", "_make", "_replace"}
"""Public names of Python in spite of their underscore."""
_ASKED_FOR = {"_generate", "_llm_type"}
"""What LangChain's documents ask a chat model of one's own to define: `BaseChatModel`."""
_SPARED = {"ckpt_cli/core/doctor/types.py": {"_compat_pickle"}}
"""Names that nothing public tells: Python's table of what Python 2 called its modules."""
_BY_TEXT = {"getattr", "setattr", "hasattr", "delattr", "attrgetter", "patch", "object"}
"""Functions that take the name of an attribute, or a path to it."""
_DEFINED = re.compile(
    r"(?m)(?:def|class) (_\w+)|(?:self|cls)\.(_\w+)(?:: [^=\n]+)? =|^[ \w,]*\b(_\w+)[\w, ]*(?::|=)"
)
"""Private names of the code itself: functions, classes, attributes and variables."""
_SUSPECT = re.compile(
    r"(?<!self)(?<!cls)(?<!super\(\))\._[A-Za-z]"
    r"|(?:from|import) [^\n]*\b_[A-Za-z]"
    r"|[\"'][\w.]*\b_[a-z]\w*[\"']"
    r"|class \w+\((?!NamedTuple|Protocol|TypedDict|Exception|StrEnum|Enum)[\w.]"
)
"""What a module has that is looked at: to parse all would take ten seconds."""


class Module(NamedTuple):
    """What of a file matters here."""

    path: str
    place: str
    imports: dict[str, str]
    """By name in the module, what is imported under it: `pkg.module` or `pkg.module.Name`."""
    reached: set[str]
    """Private names behind a dot or in a text, except those of `self`, `cls` and `super()`."""
    classes: list[ast.ClassDef]
    defined: set[str]
    """Private names that the module itself defines."""


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name.strip("_") != ""


def _read(path: str, text: str) -> Module:
    tree = ast.parse(text)
    place = path.removeprefix("backends/").removesuffix(".py").replace("/", ".")
    defined = {one for found in _DEFINED.findall(text) for one in found if one}
    module = Module(path, place.removesuffix(".__init__"), {}, set(), [], defined)
    assigned = dict(_assigned(tree))
    for one in ast.walk(tree):
        if (
            isinstance(one, ast.Attribute)
            and _is_private(one.attr)
            and not _is_own_object(one.value)
        ):
            module.reached.add(one.attr)
        elif (
            isinstance(one, ast.Call)
            and getattr(one.func, "attr", getattr(one.func, "id", "")) in _BY_TEXT
        ):
            for word in one.args[:2]:
                found = getattr(word, "value", None)
                parts = found.split(".") if isinstance(found, str) else [""]
                if parts[0] not in _OWN:
                    module.reached.update(filter(_is_private, parts))
        elif isinstance(one, ast.ClassDef):
            module.classes.append(one)
        elif isinstance(one, ast.Import):
            for it in one.names:
                module.imports[(it.asname or it.name).partition(".")[0]] = it.name
        elif isinstance(one, ast.ImportFrom) and not one.level:
            module.imports.update(
                {it.asname or it.name: f"{one.module}.{it.name}" for it in one.names}
            )
    for name, value in assigned.items():
        if isinstance(value, ast.Name | ast.Attribute):
            module.imports.setdefault(name, _resolved(module, value))
    return module


def _assigned(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """The variables of a module with their values."""
    for one in tree.body:
        if isinstance(one, ast.AnnAssign) and one.value is not None:
            yield ast.unparse(one.target), one.value
        elif isinstance(one, ast.Assign):
            for target in one.targets:
                yield ast.unparse(target), one.value


def _resolved(module: Module, value: ast.expr) -> str:
    """The place of what is imported, or of what the module itself defines."""
    first, dot, rest = ast.unparse(value).partition("[")[0].partition(".")
    return module.imports.get(first, f"{module.place}.{first}") + dot + rest


def _is_own_object(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        value = value.func
    return isinstance(value, ast.Name) and value.id in {"self", "cls", "super"}


def _suspects() -> list[Module]:
    """The modules of the product that may use a private name of others."""
    found = {path: text for folder in _PRODUCT for path, text in texts(folder).items()}
    return [
        _read(path, text)
        for path, text in found.items()
        if "/testing/" not in path and _SUSPECT.search(text)
    ]


def _imported(module: Module) -> Iterator[str]:
    for one in module.imports.values():
        root, *rest = one.split(".")
        if root not in _OWN and any(map(_is_private, [root, *rest])):
            yield one


def _overridden(modules: list[Module]) -> Iterator[str]:
    """Names of library classes that their subclasses define or use themselves."""
    known = {
        f"{module.place}.{one.name}": (module, one) for module in modules for one in module.classes
    }

    def of_libraries(place: str) -> Iterator[type]:
        if place not in known:
            package, _, name = place.rpartition(".")
            if package and package.partition(".")[0] not in (*_OWN, "builtins"):
                found = getattr(importlib.import_module(package), name, None)
                yield from getattr(found, "__mro__", ())
            return
        module, one = known[place]
        for base in one.bases:
            yield from of_libraries(_resolved(module, base))

    for place, (module, one) in known.items():
        used = {name for name in _used_inside(one) if _is_private(name)} if one.bases else set()
        for base in set(of_libraries(place)) if used else ():
            yield from (f"{module.path}: {base.__name__}.{it}" for it in used & _names_of(base))


def _used_inside(scope: ast.ClassDef) -> Iterator[str]:
    for one in ast.walk(scope):
        if isinstance(one, ast.Attribute) and _is_own_object(one.value):
            yield one.attr
        elif isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            yield one.name


@cache
def _names_of(base: type) -> set[str]:
    """What a class of a library itself defines, or sets on its objects."""
    if base.__module__.partition(".")[0] in (*_OWN, "builtins", "typing", "abc"):
        return set()
    try:
        source = inspect.getsource(base)
    except (OSError, TypeError):  # in C
        source = ""
    return {*vars(base), *re.findall(r"self\.(_\w+)(?:: [^=\n]+)? =[^=]", source)}


def _found(modules: list[Module]) -> list[str]:
    overridden = _overridden(modules)
    found = {one for one in overridden if one.rpartition(".")[2] not in _ASKED_FOR}
    for module in modules:
        named = {*_imported(module), *(module.reached - _DOCUMENTED - module.defined)}
        found |= {
            f"{module.path}: {one}"
            for one in named
            if one.partition(".")[0] not in _SPARED.get(module.path, ())
        }
    return sorted(found)


def test_the_product_uses_no_private_name_of_a_library() -> None:
    assert _found(_suspects()) == []


@cases(
    "text",
    "from redis._parsers import BaseParser",
    "def ask(connection): return connection._parser",
    "import pymongo\nsetattr(pymongo.auth, '_parse_scram_response', None)",
    "import pymysql\nclass A(pymysql.connections.Connection):\n"
    "    def close(self): self._sock = None",
    "from pymysql import connections\n_Driver: object = connections.Connection\n"
    "class A(_Driver): pass\nclass B(A):\n    def _read_bytes(self): pass",
)
def test_each_way_is_noticed(text: str) -> None:
    assert _found([_read("ckpt_cli/example.py", text)])
    own = "class A:\n    def x(self, other): return other._mine, self._replace()\n    _mine = 1"
    assert _found([_read("ckpt_cli/example.py", own)]) == []
