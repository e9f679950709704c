"""List what can be opened: the layouts of all backends, bundled and installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec

from ckpt_backends.check_declaration import name_conflicts
from ckpt_backends.declaration import Backend, is_read_only
from ckpt_backends.discovery import bundled, known_backends, package_of
from ckpt_backends.model import Capability
from ckpt_backends.plugins import plugins
from ckpt_backends.registry import driver_requirement
from ckpt_cli.core.support_matrix import LIMITS, limit


@dataclass(frozen=True, slots=True)
class OpenableLayout:
    """One layout with its backend, or a backend without layouts, or one that cannot be loaded."""

    layout: str
    """Empty for a backend that has no layouts of checkpoints."""
    title: str
    package: str
    """The distribution that brings it."""
    schemes: tuple[str, ...] = ()
    engine: str = ""
    """The engine in whose databases it is found, if it has no schemes of its own."""
    file_names: tuple[str, ...] = ()
    capabilities: Capability | None = None
    commands: Mapping[str, str] = field(default_factory=dict)
    """The cell of each command in the support matrix, such as `yes`."""
    needs: str = ""
    """The requirement that brings its driver, if that is missing."""
    notes: tuple[str, ...] = ()
    error: str = ""
    """Why a plug-in cannot be loaded."""


def openable_layouts() -> Iterator[OpenableLayout]:
    """Yield the layouts of the bundled backends, by name, then those of each plug-in."""
    ours = [one for backend in bundled() for one in _layouts(backend)]
    yield from sorted(ours, key=lambda one: (one.layout or one.title.casefold(), one.title))
    for plugin in plugins():
        if plugin.backend is None:
            yield OpenableLayout("", plugin.name, plugin.package, error=plugin.problem)
        else:
            yield from _layouts(plugin.backend)


def all_name_conflicts() -> Iterator[str]:
    """Yield one line for each name of a plug-in that a backend before it has, too."""
    for plugin in plugins():
        if plugin.backend is not None:
            yield from _name_conflicts(plugin.backend)


def _layouts(backend: Backend) -> Iterator[OpenableLayout]:
    read_only = is_read_only(backend)
    found: Mapping[str, Capability | None] = backend.layouts or {"": None}
    for name, can in found.items():
        cells = {} if can is None else {one: limit(one, can, read_only=read_only) for one in LIMITS}
        yield OpenableLayout(
            name,
            backend.title,
            package_of(backend),
            backend.schemes,
            "" if backend.schemes else backend.engine,
            backend.file_names,
            can,
            {one: "yes" if found is None else found.cell for one, found in cells.items()},
            "" if _has_driver(backend) else driver_requirement(backend),
            tuple(_name_conflicts(backend)),
        )


def _name_conflicts(backend: Backend) -> list[str]:
    """The names of a plug-in that backends before it have, which are opened in its place."""
    plugin = next((one for one in plugins() if one.backend is backend), None)
    if plugin is None:
        return []  # bundled backends share no names
    backends = known_backends()
    place = next(number for number, one in enumerate(backends) if one is backend)
    label = f"backend '{plugin.name}' (package {plugin.package})"
    return name_conflicts(backend, backends[:place], label)


def _has_driver(backend: Backend) -> bool:
    if not backend.driver:
        return True
    try:
        return find_spec(backend.driver) is not None
    except (ImportError, ValueError):  # of the package around it
        return False
