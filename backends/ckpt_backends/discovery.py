"""Finds the declarations of all backends. Importing this module imports no backend.

Bundled backends are found by their folders, installed ones by their entry points. Both are declared
alike, but bundled ones take precedence: reading the entry points takes 30 ms, so it is done only
for a scheme or a path that no bundled backend claims.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module

from ckpt_backends.declaration import Backend
from ckpt_backends.model import Capability

DISTRIBUTION = "langgraph-ckpt"
"""The distribution of `ckpt` and of the bundled backends."""


def bundled() -> tuple[Backend, ...]:
    """The backends of this package. Applications come before the engines that they use."""
    return (*_inner(), *_outer())


def _outer() -> Iterator[Backend]:
    """The backends in the folders of this package."""
    return map(_declaration, _packages("ckpt_backends"))


def _inner() -> Iterator[Backend]:
    """The backends one folder deeper: applications, and the layouts of an engine."""
    root = os.path.dirname(__file__)
    rooms = sorted(one.name for one in os.scandir(root) if one.is_dir())
    packages = (one for room in rooms for one in _packages(f"ckpt_backends.{room}"))
    return map(_declaration, packages)


@cache
def _packages(parent: str) -> tuple[str, ...]:
    """The packages in a folder that declare a backend.

    Who looks for one backend stops at the first that fits, and imports no other. So the order,
    from the last name to the first, begins with the files and servers that are used most.
    """
    folder = os.path.join(os.path.dirname(__file__), *parent.split(".")[1:])
    names = sorted(os.listdir(folder), reverse=True)
    return tuple(
        f"{parent}.{name}"
        for name in names
        if os.path.exists(os.path.join(folder, name, "declaration.py"))
    )


def _declaration(package: str) -> Backend:
    backend: Backend = import_module(f"{package}.declaration").BACKEND
    return backend


def installed() -> tuple[Backend, ...]:
    """The backends of other packages that can be used, sorted by name; see `plugins`."""
    # Here and below, since bundled backends need no entry points.
    from ckpt_backends.plugins import plugins

    return tuple(one.backend for one in plugins() if one.backend is not None)


def known_backends() -> tuple[Backend, ...]:
    """All backends, bundled ones first. For hints and lists: this looks for installed ones."""
    return (*bundled(), *installed())


def package_of(backend: Backend) -> str:
    """The distribution that brings a backend, as `pip` names it."""
    if any(one is backend for one in bundled()):
        return DISTRIBUTION
    from ckpt_backends.plugins import plugins

    found = (one.package for one in plugins() if one.backend is backend)
    return next(found, DISTRIBUTION)


def layouts(backends: Iterable[Backend] | None = None) -> dict[str, Capability]:
    """The layouts of these backends, else of all bundled ones, sorted by name, with what each can
    do. If two have one name, the first counts.
    """
    found: dict[str, Capability] = {}
    for one in bundled() if backends is None else backends:
        found = {**one.layouts, **found}
    return dict(sorted(found.items()))


def declared_for(engine: str) -> Iterator[Backend]:
    """The backends that recognise databases of an engine, bundled ones first."""
    for group in (bundled, installed):
        yield from (one for one in group() if one.engine == engine)


def param_form(scheme: str, name: str) -> str | None:
    """The pattern of a URL parameter's harmless values; None if it has none.

    The backend of the scheme declares it, or that of an application in databases of this engine.
    """
    backend = backend_of(scheme)
    if backend is None or name in backend.params:
        return None if backend is None else backend.params[name]
    applications = (one for engine in backend.schemes for one in declared_for(engine))
    return next((one.params[name] for one in applications if name in one.params), None)


def backend_of(scheme: str) -> Backend | None:
    """The backend for a URL scheme; None if there is none."""
    found = (one for group in (_outer, _inner, installed) for one in group())
    return next((one for one in found if scheme in one.schemes), None)


def backend_claiming(path: str) -> Backend | None:
    """The backend that recognises a path as its store; None if none does.

    A folder is an application's first. A file is found more quickly among the engines.
    """
    first = (_inner, _outer) if os.path.isdir(path) else (_outer, _inner)
    found = (one for group in first for one in group())
    ours = next((one for one in found if one.claims_path and one.claims_path(path)), None)
    return ours or next((one for one in installed() if _claims(one, path)), None)


def _claims(backend: Backend, path: str) -> bool:
    """Whether an installed backend claims a path; False if its function fails."""
    with suppress(Exception):
        return backend.claims_path is not None and bool(backend.claims_path(path))
    return False


def backend_at(path: str) -> Backend:
    """The backend that opens a path."""
    found = backend_claiming(path)
    return found or next(one for one in _outer() if one.opens_other_paths)
