"""No private name of a library is imported, reached or overridden: it may change in any release.

The tests may use those of LangGraph and LangChain, whose formats and judgements are the truth here.
"""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from tests.kit.cases import cases
from tests.unit.sources import texts

_PRODUCT = ("ckpt_cli", "backends/ckpt_backends")
_TESTING = "backends/ckpt_backends/testing"
_OTHERS = (_TESTING, "tests", "bench", "fixtures", "docs", "completions", "examples")
_OWN = ("ckpt_cli", "ckpt_backends", "tests", "bench", "fixtures")
_DOCUMENTED = {"_asdict", "_exit", "_fields", "_make", "_replace"}
"""Public names of Python in spite of their underscore."""
_ASKED_FOR = {"_generate", "_llm_type"}
"""What LangChain's documents ask a chat model of one's own to define: `BaseChatModel`."""
_SPARED = {"ckpt_cli/core/doctor/types.py": {"_compat_pickle"}}
"""Names that nothing public tells: Python's table of what Python 2 called its modules."""
_TRUTH = ("langgraph", "langchain_core", "langgraph_checkpoint_plainredis")
_OF_TRUTH = {
    *("_decode_blob", "_deserialize_channel_values", "_dump_checkpoint"),
    *("_parse_checkpoint_payload", "_redis"),
}
"""Names of LangGraph's savers that tests reach."""
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
    named = {name: one.value for name, one in assigned.items() if isinstance(one, ast.Constant)}
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
                found = getattr(word, "value", None) or named.get(getattr(word, "id", ""))
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
                if isinstance(target, ast.Tuple) and isinstance(one.value, ast.Tuple):
                    yield from zip(map(ast.unparse, target.elts), one.value.elts, strict=False)
                yield ast.unparse(target), one.value


def _resolved(module: Module, value: ast.expr) -> str:
    """The place of what is imported, or of what the module itself defines."""
    first, dot, rest = ast.unparse(value).partition("[")[0].partition(".")
    return module.imports.get(first, f"{module.place}.{first}") + dot + rest


def _is_own_object(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        value = value.func
    return isinstance(value, ast.Name) and value.id in {"self", "cls", "super"}


def _texts(folders: tuple[str, ...]) -> dict[str, str]:
    found = {path: text for folder in folders for path, text in texts(folder).items()}
    is_testing = folders == _OTHERS
    return {one: text for one, text in found.items() if is_testing or _TESTING not in one}


def _modules(folders: tuple[str, ...]) -> list[Module]:
    """The modules that may use a private name of others."""
    return [_read(path, text) for path, text in _texts(folders).items() if _SUSPECT.search(text)]


def _imported(module: Module, spared: tuple[str, ...]) -> Iterator[str]:
    for one in module.imports.values():
        root, *rest = one.split(".")
        if root not in (*_OWN, *spared) and any(map(_is_private, [root, *rest])):
            yield one


def _overridden(modules: list[Module], spared: tuple[str, ...]) -> Iterator[str]:
    """Names of library classes that their subclasses define or use themselves."""
    known = {
        f"{module.place}.{one.name}": (module, one) for module in modules for one in module.classes
    }

    def of_libraries(place: str) -> Iterator[type]:
        if place not in known:
            package, _, name = place.rpartition(".")
            if package and package.partition(".")[0] not in (*_OWN, *spared, "builtins"):
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


def _found(modules: list[Module], own: set[str], spared: tuple[str, ...]) -> list[str]:
    overridden = _overridden(modules, spared)
    found = {one for one in overridden if one.rpartition(".")[2] not in _ASKED_FOR}
    for module in modules:
        found |= {
            f"{module.path}: {one}"
            for one in {*_imported(module, spared), *(module.reached - own - module.defined)}
            if one.partition(".")[0] not in _SPARED.get(module.path, ())
        }
    return sorted(found)


def test_the_product_uses_no_private_name_of_a_library() -> None:
    assert _found(_modules(_PRODUCT), _DOCUMENTED, ()) == []


def test_the_tests_use_none_of_a_driver() -> None:
    every = [*_texts(_PRODUCT).values(), *_texts(_OTHERS).values()]
    own = {one for text in every for found in _DEFINED.findall(text) for one in found}
    assert _found(_modules(_OTHERS), _DOCUMENTED | _OF_TRUTH | own, _TRUTH) == []


@cases(
    "text",
    "from redis._parsers import BaseParser",
    "import textual._wait",
    "from langgraph.checkpoint.serde import _msgpack",
    "def ask(connection): return connection._parser",
    "from pymongo import pool\npool._x = 1",
    "import pymongo\nsetattr(pymongo.auth, '_parse_scram_response', None)",
    "import pymongo\n_PARSE = '_parse_scram_response'\nsetattr(pymongo.auth, _PARSE, None)",
    "from unittest.mock import patch\npatch('textual._wait.SLEEP_IDLE', 0)",
    "from pymysql.connections import Connection\nclass A(Connection):\n"
    "    def _read_bytes(self): pass",
    "import pymysql\nclass A(pymysql.connections.Connection):\n"
    "    def close(self): self._sock = None",
    "from pymongo import auth\n_PARSE, _X = '_parse_scram_response', 1\n"
    "setattr(auth, _PARSE, None)",
    "from pymysql import connections\n_Driver: object = connections.Connection\n"
    "class A(_Driver):\n    def _read_bytes(self): pass",
    "from redis import Connection\nclass A(Connection): pass\nclass B(A):\n"
    "    def x(self): return self._sock",
    "from textual.driver import Driver\nclass A(Driver):\n    def x(self): self._app.exit()",
    "from typer.core import TyperGroup\nclass A(TyperGroup):\n"
    "    def x(self): return super()._main_shell_completion",
)
def test_each_way_is_noticed(text: str) -> None:
    assert _found([_read("ckpt_cli/example.py", text)], _DOCUMENTED, ())


def test_own_names_are_free() -> None:
    text = (
        "import os\nfrom pymysql.connections import Connection\n"
        "class A(Connection):\n    def __init__(self, other): self._mine = other._mine\n"
        "    def x(self): return self._replace(), os._exit(0)\n"
    )
    assert _found([_read("ckpt_cli/example.py", text)], _DOCUMENTED, ()) == []
