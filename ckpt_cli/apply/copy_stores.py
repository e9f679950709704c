"""Open both stores of a copy, and make the target if it is to be made."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace

from ckpt_backends.discovery import backend_of
from ckpt_backends.errors import StoreUnavailable, UnknownLayout, UsageError
from ckpt_backends.open_for_writing import create_store, open_writable
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_store
from ckpt_backends.transfer.convert import Conversion
from ckpt_backends.transfer.form import Language
from ckpt_backends.transfer.routes import created_layout, route
from ckpt_backends.transfer.sealing import Sealing
from ckpt_backends.url import StoreUrl
from ckpt_cli.apply.copy_between import ThreadCopier
from ckpt_cli.apply.writable import refuse_copy
from ckpt_cli.core.copying.outcomes import CopiedThread
from ckpt_cli.plans.copy_between import CopySides

_CREATE = "to make an empty store there, add --create"


@dataclass(frozen=True, slots=True)
class CopyTerms:
    """What is copied where. Picklable, for copies in several processes."""

    source: StoreUrl
    target: StoreUrl
    language: Language
    sealing: Sealing
    create: bool = False
    replace: bool = False

    def prepared(self) -> CopyTerms:
        """Make the target if it is to be made; return the terms with the URL that opens it.

        Raises `Refused` if something else is there.
        """
        if not self.create:
            return self
        return replace(self, target=create_store(self.target, self.language))


@contextmanager
def opened_sides(
    terms: CopyTerms, watch: Callable[[int], None] = lambda _: None
) -> Iterator[CopySides]:
    """Open both stores for reading. Raises `Unsupported` if there is no way between them.

    `watch` is told the number of bytes of each row that is read from the source.
    """
    _check_different(terms)
    with ExitStack() as stack:
        source = stack.enter_context(open_store(terms.source))
        here = source.describe()
        target = opened_target(terms.target, create=terms.create)
        if target is None:
            layout = created_layout(terms.target, terms.language)
        else:
            layout = stack.enter_context(target).describe().layout
        way = route(here.layout, layout, terms.language)
        conversion = Conversion(way.source, way.target, terms.sealing)
        yield CopySides(source, here.layout, target, layout, conversion, watch)


def _check_different(terms: CopyTerms) -> None:
    """Raise `UsageError` if both stores are the same."""
    is_same = terms.source == terms.target
    paths = terms.source.path, terms.target.path
    with suppress(OSError):
        is_same |= all(map(os.path.exists, paths)) and os.path.samefile(*paths)
    if is_same:
        raise UsageError("the source and the target are the same store")


def opened_target(url: StoreUrl, *, create: bool) -> Store | None:
    """Return the target; None if it is not there yet and would be made."""
    try:
        return open_store(url)
    except (UnknownLayout, StoreUnavailable) as error:
        backend = backend_of(url.scheme)
        if backend is None or not backend.create:
            raise
        is_missing = isinstance(error, UnknownLayout) or (
            backend.is_local and not os.path.exists(url.path)
        )
        if create and is_missing:
            return None
        if not create:
            error.hint = "; ".join(filter(None, (error.hint, _CREATE)))
        raise


def make_target(url: StoreUrl, language: Language) -> Store:
    """Make an empty store and open it. Raises `Refused` if something else is there."""
    create_store(url, language)
    return open_store(url)


@contextmanager
def copying(
    terms: CopyTerms, watch: Callable[[int], None] = lambda _: None
) -> Iterator[Callable[[Sequence[str]], Iterator[CopiedThread]]]:
    """Return a function that copies some threads. Raises what opening the stores raises."""
    refuse_copy(terms.target)
    with opened_sides(terms, watch) as sides:
        if sides.target is None:
            raise ValueError("the target is made before threads are copied")
        sides.target.refresh()
        with open_writable(terms.target) as writable:
            try:
                yield ThreadCopier(sides, sides.target, writable, replace=terms.replace).copy
            finally:
                # A writer that removed rows empties the log when it is closed, which waits for
                # readers.
                sides.target.refresh()
