"""Finds the backends of other packages by their entry points. The search takes 30 ms."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from ckpt_backends.declaration import Backend, load
from ckpt_backends.model import Capability
from ckpt_backends.transfer.form import Form, Language

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


ENTRY_POINTS = "ckpt.backends"
"""The entry point group for backends of other packages."""
_LONGEST = 300
"""Maximum number of characters of another package's error."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """A backend of another package, or the reason why it cannot be used."""

    name: str
    """The name of its entry point."""
    package: str
    """The distribution that brings it, as `pip` names it."""
    backend: Backend | None
    """None if there is a problem."""
    problem: str = ""

    def __str__(self) -> str:
        text = f"backend '{self.name}' of package {self.package}"
        return f"{text} cannot be loaded: {self.problem}" if self.problem else text


@cache
def plugins() -> tuple[Plugin, ...]:
    """The backends of other packages, sorted by name, with those that cannot be used."""
    from importlib.metadata import entry_points

    found = map(_loaded, entry_points(group=ENTRY_POINTS))
    return tuple(sorted(found, key=lambda one: (one.name, one.package)))


def _loaded(entry: EntryPoint) -> Plugin:

    package = _package(entry)
    try:
        backend = entry.load()
        problems = check_declaration(backend)
    except (Exception, SystemExit) as error:  # any code may run there
        return Plugin(entry.name, package, None, error_line(error))
    if problems:
        return Plugin(entry.name, package, None, f"wrong declaration: {'; '.join(problems)}")
    return Plugin(entry.name, package, backend)


def error_line(error: BaseException) -> str:
    """An error of another package in one line, such as `ImportError: No module named 'x'`."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _package(entry: EntryPoint) -> str:
    try:
        name = entry.dist and entry.dist.name
    except Exception:  # a package without readable metadata
        name = None
    return str(name or entry.value.partition(".")[0].partition(":")[0])


# Checks a declaration as a person may fill it in. A plug-in is checked when it is loaded.


FACETS = (
    *("checkpoints", "changes", "memory", "memory_changes", "memory_edits"),
    *("sessions", "session_changes"),
)
"""The fields that name functions which open a store."""
_FUNCTIONS = (
    *FACETS,
    "threads_of_memory",
    "recognise",
    "records",
    "edits",
    "create",
    "memory_create",
)
_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_LAYOUT = re.compile(r"[a-z0-9][a-z0-9_-]*", re.ASCII)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*", re.ASCII)
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_PARAM = re.compile(r"\w+", re.ASCII)
_NEEDS = {
    "changes": "checkpoints",
    "memory_changes": "memory",
    "memory_create": "memory_changes",
    "memory_edits": "memory_changes",
    "session_changes": "sessions",
    "engine": "recognise",
    "recognise": "engine",
    "extra": "driver",
    "claims_path": "schemes",
    "file_names": "schemes",
    "memory_near": "schemes",
    "opens_other_paths": "schemes",
    "forms": "records",
    "records": "forms",
    "create": "creates",
    "creates": "create",
}
"""Fields that have no effect without another."""
_NO_STORE = "ckpt-no-such-store"
"""A path of a kind that no backend may claim."""


def check_declaration(backend: object, others: Iterable[Backend] = ()) -> list[str]:
    """What is wrong with a declaration, one line for each problem; empty if nothing is.

    Reads no driver and opens no store. With `others`, names that one of them has are problems, too.
    """
    if not isinstance(backend, Backend):
        return [f"it is of type {type(backend).__name__}, not Backend"]
    wrong = list(_wrong_types(backend))
    if wrong:
        return wrong  # the other checks would fail
    return [
        *_wrong_names(backend),
        *_missing(backend),
        *_too_broad(backend),
        *name_conflicts(backend, others),
    ]


def name_conflicts(backend: Backend, others: Iterable[Backend], label: str = "") -> list[str]:
    """One line for each scheme and layout name of a backend that one of the others has.

    The other one is opened in its place. `label` names the backend in the lines.
    """
    label = label or f"backend '{backend.title}'"
    given = list(others)
    return [
        *(
            f"{one.title} opens {name}://, not {label}"
            for name in backend.schemes
            for one in given
            if name in one.schemes
        ),
        *(
            f"layout name '{name}' of {label} is already used by {one.title}"
            for name in backend.layouts
            for one in given
            if name in one.layouts
        ),
    ]


def missing_functions(backend: Backend) -> list[str]:
    """Which functions of a declaration do not exist. This imports drivers."""
    found = []
    for name, place in _places(backend):
        try:
            is_missing = not callable(load(place))
        except (ImportError, AttributeError) as error:
            found.append(f"{name}: '{place}' cannot be imported: {error}")
        else:
            found += [f"{name}: '{place}' is not a function"] * is_missing
    return found


def _places(backend: Backend) -> Iterator[tuple[str, str]]:
    found = ((name, getattr(backend, name)) for name in _FUNCTIONS)
    return ((name, place) for name, place in found if place)


def _wrong_types(backend: Backend) -> Iterator[str]:
    for name, kind in field_types().items():
        value = getattr(backend, name)
        expected, is_right = TYPES[kind]
        if not is_right(value):
            yield f"{name} must be {expected}, not {value!r:.60}"


def field_types() -> dict[str, object]:
    """The type of each field of a declaration."""
    return dict(Backend.__annotations__)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are_texts(value: object) -> bool:
    return isinstance(value, tuple) and all(map(_is_text, value))


def _is_map(value: object, of: type) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and isinstance(one, of) for name, one in value.items()
    )


def _are_forms(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(one, Form) for one in value)


def _may_be_called(value: object) -> bool:
    return value is None or callable(value)


TYPES: Mapping[object, tuple[str, Callable[[object], bool]]] = {
    str: ("a text", _is_text),
    bool: ("True or False", lambda value: isinstance(value, bool)),
    tuple[str, ...]: ("a tuple of texts, such as ('toy',)", _are_texts),
    Mapping[str, Capability]: (
        "a dict of names to Capability values",
        lambda value: _is_map(value, Capability),
    ),
    Mapping[str, tuple[Form, ...]]: (
        "a dict of layouts to tuples of Form values",
        lambda value: _is_map(value, tuple) and all(_are_forms(one) for one in value.values()),  # type: ignore[attr-defined]
    ),
    Mapping[Language, str]: (
        "a dict of Language values to texts",
        lambda value: _is_map(value, str) and all(isinstance(one, Language) for one in value),  # type: ignore[attr-defined]
    ),
    Mapping[str, str]: ("a dict of texts", lambda value: _is_map(value, str)),
    Callable[[str], bool] | None: ("a function or None", _may_be_called),
    Callable[[str], str | None] | None: ("a function or None", _may_be_called),
}
"""For each type of a field, its name for people and its test."""


def _wrong_names(backend: Backend) -> Iterator[str]:
    if not backend.title.strip():
        yield "title is empty"
    for name in backend.layouts:
        if not _LAYOUT.fullmatch(name):
            yield f"layout '{name}' must consist of a-z, 0-9, - and _"
    # The layouts of an engine may be declared by others.
    made = backend.creates.values() if backend.layouts else ()
    for name in (*backend.forms, *made):
        if name not in backend.layouts:
            yield f"'{name}' in forms or creates is not among the layouts"
    for name in backend.schemes:
        if not _SCHEME.fullmatch(name):
            yield f"scheme '{name}' must consist of a-z, 0-9, +, . and -, without ://"
    if backend.driver and not _MODULE.fullmatch(backend.driver):
        yield f"driver '{backend.driver}' is not the name of a module"
    for name, place in _places(backend):
        if not _FUNCTION.fullmatch(place):
            yield f"{name} '{place}' must have the form module:function"
    for name, pattern in backend.params.items():
        if not _PARAM.fullmatch(name):
            yield f"parameter '{name}' must consist of letters, digits and _"
        try:
            re.compile(pattern, re.ASCII)
        except re.error as error:
            yield f"the pattern of parameter '{name}' is not a valid regular expression: {error}"


def _missing(backend: Backend) -> Iterator[str]:
    for name, needed in _NEEDS.items():
        if getattr(backend, name) and not getattr(backend, needed):
            yield f"{name} needs {needed}"
    if not backend.schemes and not backend.recognise:
        yield "schemes is empty, and so is recognise: nothing can be opened"
    if backend.schemes and not any(getattr(backend, name) for name in FACETS):
        yield f"none of {', '.join(FACETS)} is set: nothing can be opened"


def _too_broad(backend: Backend) -> Iterator[str]:
    if backend.claims_path is not None:
        try:
            claims = backend.claims_path(_NO_STORE)
        except Exception as error:
            yield f"claims_path fails: {error_line(error)}"
        else:
            if claims:
                yield f"claims_path claims any path, even '{_NO_STORE}'"
    if "*" in backend.file_names:
        yield "file_names has '*', which is any file"
