"""Check archives before they are restored, and compare them with the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from ckpt_backends import shell
from ckpt_backends.changes.bundle import Bundle, Header
from ckpt_backends.changes.rows import Restored, Row, compare
from ckpt_backends.errors import CkptError, Refused, Unsupported
from ckpt_backends.protocol import Store
from ckpt_backends.transfer.form import Language
from ckpt_backends.transfer.routes import created_layout, refusal
from ckpt_backends.url import StoreUrl
from ckpt_cli.plans.archived_thread import ArchivedParts, ArchiveSides, archive_sides, compared


class ImportTarget:
    """The store into which archives are restored."""

    def __init__(self, url: StoreUrl, store: Store | None, rows: Store | None) -> None:
        """`rows` has its rows as stored. Both are None if the store is to be made."""
        self.url = url
        self.store = store
        self.rows = rows
        self.layout = "" if store is None else store.describe().layout


class ArchiveChecks:
    """Checks the archives of one import.

    An archive of the store's own layout is checked by the store; of another one, by its parts.
    """

    def __init__(self, target: ImportTarget) -> None:
        self.target = target
        self._parts: dict[Path, ArchivedParts] = {}

    def fitting(self, path: Path, header: Header, rows: Iterator[Row]) -> Iterator[Row]:
        """Yield the rows of a bundle that fits the store, if all belong to its thread."""
        if header.thread_id is None:
            raise Refused(
                f"cannot import '{path}': it holds long-term memory",
                hint=shell.command("ckpt", "memory", "import", ids=[str(path)]),
            )
        store = self.target.store
        try:
            if store is not None and header.layout == self.target.layout:
                yield from store.own_rows(header.thread_id, rows)
                return
            found = self._parts[path] = ArchivedParts(path)
            self._check_layout(header)
            yield from found.checked(header, rows)
        except (Refused, Unsupported) as error:
            error.message = f"cannot import '{path}': {error.message}"
            error.hint = error.hint or f"look at its rows: zcat {shell.word(str(path))} | less"
            raise

    def _check_layout(self, header: Header) -> None:
        """Raise `Refused` if there is no way from a layout to that of the store."""
        target = self.target
        if target.store is None:
            return  # which layout is made depends on the language, which is not known yet
        reasons = []
        for language in Language:
            try:
                reason = refusal(header.layout, target.layout, language)
            except CkptError as error:
                reason = error.message
            if not reason:
                return
            reasons.append(reason)
        raise Refused(
            f"its layout is '{header.layout}', '{target.store.describe().url}' has"
            f" '{target.layout}': {reasons[0]}",
            hint="import it into a store of the same layout",
        )

    def language_of(self, bundle: Bundle) -> Language:
        """Return whose saver wrote a thread."""
        found = self._parts.get(bundle.path)
        return Language.PYTHON if found is None else found.language or Language.PYTHON

    def is_made(self, store: Store) -> None:
        """Use the store that was made."""
        self.target = ImportTarget(self.target.url, store, store)

    def sides_of(self, bundle: Bundle) -> ArchiveSides | None:
        """Return an archive and the store; None if it has the layout of the store.

        Raises `Unsupported` if there is no way between their layouts.
        """
        found, target = self._parts.get(bundle.path), self.target
        if found is None:
            return None
        layout = target.layout
        if target.store is None:
            layout = created_layout(target.url, self.language_of(bundle))
        return archive_sides(bundle, found, target.store, layout)

    def compared(self, before: Sequence[Bundle], bundle: Bundle) -> Restored:
        """Return what an import would do after other bundles. Raises what it would raise."""
        sides = self.sides_of(bundle)
        if sides is not None:
            return compared(sides, bundle)
        store, thread_id = self.target.rows, bundle.header.thread_id or ""
        if store is None:
            raise ValueError("an archive of the own layout needs a store")
        same = [one.rows() for one in before if one.header.thread_id == thread_id]
        stored = chain(store.rows(thread_id), *same)
        return compare(bundle.rows(), stored, store.row_key)
