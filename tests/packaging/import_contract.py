"""A contract of import-linter about imports between backends; see pyproject.toml.

A backend is every package with a module `declaration`, so a new one is covered without being
listed.

* Nothing imports a backend from outside; `declaration` loads its functions by name.
* A backend may import the engine of its folder, the one that its declaration names, and `sql`.
* An engine imports no backend, and no other engine but `sql`.
* Nothing outside backends and engines imports a driver that a declaration names.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output

from ckpt_backends.declaration import Backend

_ROOT, _SQL = "ckpt_backends", "ckpt_backends.sql"
_DECLARATION, _ENGINE = ".declaration", ".engine"


@dataclass(frozen=True)
class Rooms:
    """The packages that are kept apart."""

    backends: Mapping[str, Backend | None]
    """By package; None for a folder that only contains backends."""
    engines: Collection[str]

    def of(self, module: str) -> str:
        """The innermost backend or engine that contains a module; empty if none does."""
        found = (one for one in (*self.backends, *self.engines) if _is_in(module, one))
        return max(found, key=len, default="")

    def engines_of(self, backend: str) -> set[str]:
        """The engines that a backend may import."""
        declared = self.backends[backend]
        folder = {one for one in self.engines if _is_in(backend, one.removesuffix(_ENGINE))}
        named = {f"{_ROOT}.{declared.engine}{_ENGINE}"} if declared and declared.engine else set()
        return {_SQL} | folder | named

    @property
    def drivers(self) -> set[str]:
        found = (one.driver for one in self.backends.values() if one)
        return {one.partition(".")[0] for one in found if one}


def _is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def rooms_of(modules: Collection[str]) -> Rooms:
    """The backends and engines among these modules. Imports their declarations."""
    found: dict[str, Backend | None] = {}
    for module in modules:
        package = module.removesuffix(_DECLARATION)
        if module.endswith(_DECLARATION) and package != _ROOT:
            found.setdefault(".".join(package.split(".")[:2]), None)
            found[package] = import_module(module).BACKEND
    engines = {one for one in modules if one.startswith(_ROOT) and one.endswith(_ENGINE)}
    return Rooms(found, {_SQL, *engines})


def forbidden(rooms: Rooms, imports: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the imports that break a rule, each as importer and imported module."""
    for importer, imported in imports:
        own, other = rooms.of(importer), rooms.of(imported)
        if not other:
            if not own and imported.partition(".")[0] in rooms.drivers:
                yield importer, imported
        elif own != other and not _may_import(rooms, own, other):
            yield importer, imported


def _may_import(rooms: Rooms, own: str, other: str) -> bool:
    if other in rooms.engines:
        return (
            other in rooms.engines_of(own) if own in rooms.backends else bool(own) and other == _SQL
        )
    return own in rooms.backends and _is_in(other, own)  # the layouts in its folder


class BackendsContract(Contract):
    """Backends import no other backend, and nothing else imports one."""

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        imports = (
            (importer, imported)
            for importer in sorted(graph.modules)
            for imported in sorted(graph.find_modules_directly_imported_by(importer))
        )
        found = list(forbidden(rooms_of(graph.modules), imports))
        return ContractCheck(kept=not found, metadata={"imports": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for importer, imported in check.metadata["imports"]:
            output.print_error(f"{importer} must not import {imported}")
