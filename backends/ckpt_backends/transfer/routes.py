"""Which layouts threads can be copied between, by the declarations of their backends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

from ckpt_backends.changes.rows import Row
from ckpt_backends.declaration import Backend
from ckpt_backends.discovery import backend_of, known_backends, load
from ckpt_backends.erasing.stored import EditRow
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import Capability
from ckpt_backends.transfer.form import Form, Language
from ckpt_backends.transfer.parts import Part, PartsOfRows
from ckpt_backends.url import StoreUrl


@dataclass(frozen=True, slots=True)
class Route:
    """The forms of threads on both sides."""

    source: Form
    target: Form


def route(source: str, target: str, language: Language) -> Route:
    """The forms for copying threads from one layout to another.

    Raises `Unsupported` with the reason if this cannot be done.
    """
    if reason := refusal(source, target, language):
        raise Unsupported(f"cannot copy from '{source}' to '{target}': {reason}")
    return Route(_forms(source)[language], _forms(target)[language])


def refusal(source: str, target: str, language: Language) -> str:
    """Why threads cannot be copied from one layout to another; `''` if they can."""
    here, there = _forms(source), _forms(target)
    if language not in here:
        if Capability.VALUES_ONLY in _backend(source).layouts[source]:
            return "it stores no channel versions and no metadata, which savers need to go on"
        if not here:
            return "its adapter does not describe its rows"
        return f"it stores no threads of {_TITLES[language]}"
    if not there:
        return "threads cannot be copied into this layout"
    if language not in there:
        return f"the target stores no threads of {_TITLES[language]}"
    if not there[language].receives:
        return "threads cannot be copied into this layout"
    return ""


def parts_of_rows(layout: str, rows: Iterable[Row]) -> Iterator[Part]:
    """The parts that the rows of one thread hold. The layout has a form."""
    return _parser(layout)(layout, rows)


def row_editor(layout: str) -> EditRow | None:
    """The function that changes values in the rows of a layout; None if its parts are changed.

    Raises `Unsupported` if the backend does not describe its rows.
    """
    backend = _backend(layout)
    if backend.edits:
        return cast("EditRow", load(backend.edits))
    if not backend.parts:
        raise Unsupported(
            f"values in a store of layout '{layout}' cannot be changed",
            hint="its adapter does not describe its rows",
        )
    return None


def languages_of(layout: str) -> tuple[Language, ...]:
    """The languages whose threads a layout may store."""
    return tuple(_forms(layout))


def form_of(layout: str, language: Language) -> Form | None:
    """The form in which a layout stores the threads of a language; None if it has none."""
    return _forms(layout).get(language)


def created_layout(url: StoreUrl, language: Language) -> str:
    """The layout that is made at a URL for threads of a language. Raises `Unsupported`."""
    backend = backend_of(url.scheme)
    if backend is None or language not in backend.creates:
        raise Unsupported(f"cannot make a store for threads of {_TITLES[language]} in '{url}'")
    return backend.creates[language]


def keeps_history(layout: str) -> bool:
    """Whether a layout keeps more than the newest checkpoint of each namespace."""
    return Capability.HISTORY in _backend(layout).layouts[layout]


_TITLES = {Language.PYTHON: "LangGraph for Python", Language.JAVASCRIPT: "LangGraph.js"}


def _parser(layout: str) -> PartsOfRows:
    return cast("PartsOfRows", load(_backend(layout).parts))


def _forms(layout: str) -> dict[Language, Form]:
    return {one.language: one for one in _backend(layout).forms.get(layout, ())}


def _backend(layout: str) -> Backend:
    for backend in known_backends():
        if layout in backend.layouts:
            return backend
    raise Unsupported(f"no backend has the layout '{layout}'")
