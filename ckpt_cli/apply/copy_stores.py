"""Open both stores of a copy, and make the target if it is to be made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ckpt_backends.errors import StoreUnavailable, UnknownLayout, UsageError
from ckpt_backends.open_for_writing import create_store, open_writable
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_store
from ckpt_backends.transfer.convert import Conversion
from ckpt_backends.transfer.form import Language
from ckpt_backends.transfer.routes import route
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

    def prepare(self) -> None:
        """Make the target if it is to be made. Raises `Refused` if something else is there."""
        if self.create:
            create_store(self.target, self.language)


@contextmanager
def opened_sides(terms: CopyTerms) -> Iterator[CopySides]:
    """Open both stores for reading. Raises `Unsupported` if there is no way between them."""
    with open_store(terms.source) as source, _opened_target(terms) as target:
        here, there = source.describe(), target.describe()
        if here.url == there.url:
            raise UsageError("the source and the target are the same store")
        way = route(here.layout, there.layout, terms.language)
        conversion = Conversion(way.source, way.target, terms.sealing)
        yield CopySides(source, here.layout, target, there.layout, conversion)


def _opened_target(terms: CopyTerms) -> Store:
    try:
        return open_store(terms.target)
    except (UnknownLayout, StoreUnavailable) as error:
        if not terms.create and _can_create(terms.target):
            error.hint = "; ".join(filter(None, (error.hint, _CREATE)))
        raise


def _can_create(url: StoreUrl) -> bool:
    """Return whether ckpt can make stores with URLs of this scheme."""
    from ckpt_backends.discovery import backend_of

    backend = backend_of(url.scheme)
    return backend is not None and bool(backend.create)


@contextmanager
def copying(terms: CopyTerms) -> Iterator[Callable[[Sequence[str]], Iterator[CopiedThread]]]:
    """Return a function that copies some threads. Raises what opening the stores raises."""
    refuse_copy(terms.target)
    with opened_sides(terms) as sides:
        sides.target.refresh()
        with open_writable(terms.target) as writable:
            yield ThreadCopier(sides, writable, replace=terms.replace).copy
