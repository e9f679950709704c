"""Finds the declarations of all backends. Importing this module imports no backend.

Bundled backends are found by their folders, installed ones by their entry points. Both are declared
alike, but bundled ones take precedence: reading the entry points takes 30 ms, so it is done only
for a scheme or a path that no bundled backend claims.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

from ckpt_backends.declaration import Backend
from ckpt_backends.model import Capability

ENTRY_POINTS = "ckpt.backends"
"""The entry point group for backends of other packages."""


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


@cache
def installed() -> tuple[Backend, ...]:
    """The backends of other packages, sorted by name. One that cannot be imported is left out."""
    from importlib.metadata import entry_points

    found: list[Backend] = []
    for one in sorted(entry_points(group=ENTRY_POINTS), key=lambda one: one.name):
        try:
            backend = one.load()
        except Exception:  # noqa: S112  (any code may run there)
            continue
        if isinstance(backend, Backend):
            found.append(backend)
    return tuple(found)


def layouts() -> dict[str, Capability]:
    """The layouts of all bundled backends, sorted by name, with what each can do."""
    return dict(sorted(pair for one in bundled() for pair in one.layouts.items()))


def declared_for(engine: str) -> Iterator[Backend]:
    """The backends that recognise databases of an engine, bundled ones first."""
    for group in (bundled, installed):
        yield from (one for one in group() if one.engine == engine)


def load(place: str) -> Any:
    """What `module:name` of a declaration names."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def backend_of(scheme: str) -> Backend | None:
    """The backend for a URL scheme; None if there is none."""
    found = (one for group in (_outer, _inner, installed) for one in group())
    return next((one for one in found if scheme in one.schemes), None)


def backend_claiming(path: str) -> Backend | None:
    """The backend that recognises a path as its store; None if none does.

    A folder is an application's first. A file is found more quickly among the engines.
    """
    first = (_inner, _outer) if os.path.isdir(path) else (_outer, _inner)
    found = (one for group in (*first, installed) for one in group())
    return next((one for one in found if one.claims_path and one.claims_path(path)), None)


def backend_at(path: str) -> Backend:
    """The backend that opens a path."""
    found = backend_claiming(path)
    return found or next(one for one in _outer() if one.opens_other_paths)
