"""The rules of `backend_imports` as a contract of import-linter; see pyproject.toml."""

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output

from tests.packaging.backend_imports import forbidden, rooms_of


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
