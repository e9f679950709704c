"""An archived thread in the place of a thread of a store, for a store of another layout.

The archive may come from a stranger, so its rows may be anything.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ckpt_backends.changes.bundle import Bundle, Header
from ckpt_backends.changes.rows import Restored, Row, not_of
from ckpt_backends.errors import CkptError, StoreChanged, Unreadable, Unsupported
from ckpt_backends.protocol import Store
from ckpt_backends.transfer.convert import Conversion
from ckpt_backends.transfer.form import Language
from ckpt_backends.transfer.parts import CheckpointPart, Part, ValuePart, WritePart
from ckpt_backends.transfer.routes import parts_of_rows, route
from ckpt_backends.transfer.sealing import AsStored
from ckpt_cli.core.copying.outcomes import CopiedThread, CopyStep
from ckpt_cli.plans.copy_between import CopySides, planned_copy
from ckpt_cli.queries.language import language_of_part


class ArchivedParts:
    """Checks the rows of an archive, and remembers what they are."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.language: Language | None = None
        """None before a checkpoint was seen."""
        self.expires_at: int | None = None
        """When the first part expires, in milliseconds since 1970."""

    def has_expired(self) -> bool:
        """Return whether the time to live of a part has ended."""
        return self.expires_at is not None and self.expires_at <= time.time() * 1000

    def checked(self, header: Header, rows: Iterator[Row]) -> Iterator[Row]:
        """Read all rows of an archive; yield none.

        Raises `Refused` if something is of another thread, `Unreadable` if the rows have not the
        form of their layout, and `Unsupported` if it is not known.
        """
        with refusing_malformed(self._path):
            for part in parts_of_rows(header.layout, rows):
                _check_form(part)
                found = part.thread_id if isinstance(part, ValuePart) else part.key.thread_id
                if found != header.thread_id:
                    raise not_of(type(part).__name__, found, str(header.thread_id))
                if isinstance(part, CheckpointPart) and self.language is None:
                    self.language = language_of_part(part)
                if part.expires_at is not None:
                    known = self.expires_at
                    self.expires_at = min(part.expires_at, known or part.expires_at)
            for _ in rows:
                pass
        yield from ()


def _check_form(part: Part) -> None:
    """Raise TypeError for a part with cells of other types than a saver stores."""
    match part:
        case ValuePart():
            texts, values = [part.checkpoint_ns, part.channel, part.version], [part.value]
        case WritePart():
            texts = [part.task_id, part.task_path, part.channel]
            values = [part.value]
            if type(part.idx) is not int:
                raise TypeError("idx")
        case CheckpointPart():
            texts = [] if part.parent is None else [part.parent]
            values = [part.body, part.metadata]
    if not isinstance(part, ValuePart):
        texts += [part.key.checkpoint_ns, part.key.checkpoint_id]
    texts += [value.type for value in values]
    if not all(isinstance(one, str) for one in texts):
        raise TypeError("text")
    if not all(isinstance(value.data, bytes) for value in values):
        raise TypeError("value")


@contextmanager
def refusing_malformed(path: Path) -> Iterator[None]:
    """Raise `Unreadable` for whatever goes wrong with rows that no saver wrote."""
    try:
        yield
    except (CkptError, MemoryError):
        raise
    except Exception as error:
        raise Unreadable(
            f"cannot read the archive '{path}': its rows have not the form of their layout"
            f" ({type(error).__name__})",
            hint="nothing of it was restored; use another copy of the file",
        ) from error


@dataclass(frozen=True, slots=True)
class ArchivedRows:
    """The rows of one archive, in the place of a store."""

    bundle: Bundle

    def rows(self, thread_id: str) -> Iterator[Row]:  # noqa: ARG002 - it holds one thread
        """All rows."""
        return self.bundle.rows()

    def parts_of(self, thread_ids: Sequence[str]) -> Iterator[Part]:  # noqa: ARG002
        """All parts."""
        return parts_of_rows(self.bundle.header.layout, self.bundle.rows())

    def refresh(self) -> None:
        """Do nothing: each reading reads the file again."""


@dataclass(frozen=True, slots=True)
class ArchiveSides(CopySides):
    """An archive and the store into which it is restored."""

    path: Path = Path()
    """Of the archive."""
    has_expired: bool = False
    """Whether the target would remove something of it at once."""

    def converted(self, thread_id: str, parts: Iterable[Part] | None = None) -> Iterator[Part]:
        with refusing_malformed(self.path):
            yield from CopySides.converted(self, thread_id, parts)


def archive_sides(
    bundle: Bundle, parts: ArchivedParts, target: Store | None, layout: str
) -> ArchiveSides:
    """Return an archive and the store into which it is restored; None if it is to be made.

    Raises `Unsupported` if there is no way between their layouts.
    """
    way = route(bundle.header.layout, layout, parts.language or Language.PYTHON)
    conversion = Conversion(way.source, way.target, AsStored())
    has_expired = way.target.expires and parts.has_expired()
    return ArchiveSides(
        ArchivedRows(bundle),
        bundle.header.layout,
        target,
        layout,
        conversion,
        # An import never removes anything.
        replaces_answers=False,
        path=bundle.path,
        has_expired=has_expired,
    )


def compared(sides: ArchiveSides, bundle: Bundle) -> Restored:
    """Return what restoring an archive would do. Raises what it would raise."""
    if sides.has_expired:
        return Restored(0, 0, bundle.size)
    return restored_of(planned_copy(sides, bundle.header.thread_id or "", replace=False))


def restored_of(one: CopiedThread) -> Restored:
    """Return how much of an archive was restored. Raises the reason if nothing was."""
    if one.step is CopyStep.SKIP:
        if one.is_diverged:
            raise StoreChanged(one.reason, hint="restore it into another store: --to STORE")
        raise Unsupported(one.reason)
    return Restored(one.added, one.counts.parts - one.added)
