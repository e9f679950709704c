"""Plan to copy threads to another store: what the target has of each, and what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ckpt_backends.changes.rows import Row
from ckpt_backends.model import ThreadSize
from ckpt_backends.protocol import Store
from ckpt_backends.transfer.convert import Conversion
from ckpt_backends.transfer.digests import (
    PartsSum,
    StoredParts,
    key_digest,
    part_digest,
    stored_cells,
    stored_digest,
)
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.parts import CheckpointPart, Part, ValuePart, WritePart, part_size
from ckpt_backends.transfer.routes import keeps_history
from ckpt_cli.core.copying.answers import went_on
from ckpt_cli.core.copying.outcomes import CopiedThread, CopyStep
from ckpt_cli.core.copying.part_counts import PartCounts

_TOGETHER = 8 << 20
"""Bytes of small threads that are read together."""
_PARTS_AT_ONCE, _BYTES_AT_ONCE = 100, 1 << 20
"""Parts and bytes after which the progress is told."""


class PartSource(Protocol):
    """Where threads come from: a store, or an archive."""

    def rows(self, thread_id: str) -> Iterator[Row]:
        """All rows of a thread."""
        ...

    def parts_of(self, thread_ids: Sequence[str]) -> Iterator[Part]:
        """All parts of some threads. One may be of any size; several may be in memory at once."""
        ...

    def refresh(self) -> None:
        """Make later reads see later changes."""
        ...


@runtime_checkable
class TogetherSource(PartSource, Protocol):
    """A source that may read the parts of several threads with one query."""

    batches_parts: bool

    def sizes(self, thread_ids: Sequence[str]) -> list[ThreadSize]:
        """The sizes of some threads, in the given order."""
        ...


@dataclass(frozen=True, slots=True)
class CopySides:
    """Both stores of a copy, with the conversion between them."""

    source: PartSource
    """With values as stored: neither decrypted nor redacted."""
    source_layout: str
    target: Store | None
    """None if it is not made yet."""
    target_layout: str
    conversion: Conversion
    watch: Callable[[int], None] = lambda _: None
    """Is told the bytes of values that were read from the source."""
    replaces_answers: bool = True
    """Whether a thread of the target that only has older answers is replaced."""

    def converted(self, thread_id: str, parts: Iterable[Part] | None = None) -> Iterator[Part]:
        """Yield the parts of a thread in the form of the target. Raises `CannotHold`.

        `parts` is the thread in the form of the source, if it is read.
        """
        found = self.source.parts_of([thread_id]) if parts is None else parts
        return self.conversion.of_thread(self._watched(found))

    def read_together(self, thread_ids: Sequence[str]) -> Iterator[tuple[str, list[Part] | None]]:
        """Yield threads in order with their parts in the source; None if they are not read."""
        return _read_together(self.source, thread_ids)

    def stored_together(self, thread_ids: Sequence[str]) -> Iterator[tuple[str, list[Part] | None]]:
        """Yield threads in order with their parts in the target; None if they are not read."""
        if self.target is None:
            return iter(())
        return _read_together(self.target, thread_ids)

    def unlike(self, sent: Mapping[str, Sequence[Part]]) -> set[str]:
        """Return those of some small threads of which the target has other parts than were sent.

        `sent` has the parts by thread. JSON in another spelling counts as another part, too.
        """
        cells = [] if self.target is None else list(self.target.cells_of(list(sent)))
        found = set(cells)
        wanted = {stored_cells(part) for parts in sent.values() for part in parts}
        if found == wanted and len(cells) == len(found) == sum(map(len, sent.values())):
            return set()
        numbers = Counter(str(one[0]) for one in cells)
        return {str(one[0]) for one in found ^ wanted} | {
            thread_id for thread_id, parts in sent.items() if len(parts) != numbers[thread_id]
        }

    def stored(self, thread_id: str) -> Iterator[Part]:
        """Yield the parts of a thread that the target has."""
        if self.target is None:
            return
        yield from self.target.parts_of([thread_id])

    def stored_sum(self, thread_id: str, digest: Callable[[Part], bytes]) -> PartsSum:
        """Return the sum of what the target has of a thread of any size."""
        total = PartsSum()
        for part in self.stored(thread_id):
            total.add(part, digest(part))
        return total

    def _watched(self, parts: Iterable[Part]) -> Iterator[Part]:
        size = number = 0
        for part in parts:
            size += part_size(part)
            number += 1
            if number == _PARTS_AT_ONCE or size > _BYTES_AT_ONCE:
                self.watch(size)
                size = number = 0
            yield part
        self.watch(size)

    def heads(self, thread_id: str) -> dict[str, str]:
        """Return, by namespace, the newest checkpoint that the target has of a thread."""
        heads: dict[str, str] = {}
        for one in () if self.target is None else self.target.checkpoints(thread_id):
            heads.setdefault(one.key.checkpoint_ns, one.key.checkpoint_id)
        return heads


def _read_together(
    source: PartSource, thread_ids: Sequence[str]
) -> Iterator[tuple[str, list[Part] | None]]:
    """Yield threads in order with their parts, small ones read together; None for large ones."""
    if not (isinstance(source, TogetherSource) and source.batches_parts):
        yield from ((thread_id, None) for thread_id in thread_ids)
        return
    some: list[str] = []
    total = 0
    sizes = source.sizes(thread_ids)
    for thread_id, size in zip(thread_ids, sizes, strict=True):
        if some and total + size.bytes > _TOGETHER:
            yield from _parts_of(source, some)
            some, total = [], 0
        if size.bytes > _TOGETHER:
            yield thread_id, None
            continue
        some.append(thread_id)
        total += size.bytes
    yield from _parts_of(source, some)


def _parts_of(
    source: TogetherSource, thread_ids: Sequence[str]
) -> Iterator[tuple[str, list[Part]]]:
    found: dict[str, list[Part]] = {thread_id: [] for thread_id in thread_ids}
    for part in source.parts_of(thread_ids):
        found[part.thread_id if isinstance(part, ValuePart) else part.key.thread_id].append(part)
    for thread_id in thread_ids:
        yield thread_id, found.pop(thread_id)


@dataclass(slots=True)
class ThreadComparison:
    """A thread of the source compared with what the target has of it."""

    thread_id: str
    step: CopyStep
    """`REPLACE` if the target went its own way."""
    counts: PartCounts
    """Of the thread in the source, as the target stores it."""
    total: PartsSum
    """The sum that the target has to have in the end."""
    missing: set[bytes]
    """The digests of the keys of missing parts."""
    reason: str
    """How the target has gone its own way."""
    heads: dict[str, str]
    """By namespace, the newest checkpoint in the target."""
    kept: PartCounts
    """What the target has of the thread now."""
    is_behind: bool = False
    """Whether the target only has answers and questions that the source has replaced since, or an
    older state of a thread without history."""


def equal_counts(
    sides: CopySides,
    thread_id: str,
    parts: Iterable[Part] | None = None,
    stored: Iterable[Part] | None = None,
) -> PartCounts | None:
    """Return the counts of a thread if the target has all of it in the same spelling, else None.

    `parts` is the thread in the form of the source, and `stored` what the target has of it, if they
    are read. Raises `CannotHold`.
    """
    counts = PartCounts()
    wanted: set[tuple[object, ...]] = set()
    for part in sides.converted(thread_id, parts):
        counts.add(part)
        wanted.add(stored_cells(part))
        if counts.bytes > _TOGETHER:
            wanted.clear()
            return _equal_by_digests(sides, thread_id)
    number = 0
    for part in sides.stored(thread_id) if stored is None else stored:
        if stored_cells(part) not in wanted:
            return None
        number += 1
    return counts if number == counts.parts else None


def _equal_by_digests(sides: CopySides, thread_id: str) -> PartCounts | None:
    """As `equal_counts`, for a thread of any size."""
    counts, total = PartCounts(), PartsSum()
    for part in sides.converted(thread_id):
        counts.add(part)
        total.add(part, stored_digest(part))
    return counts if sides.stored_sum(thread_id, stored_digest) == total else None


def compare_thread(sides: CopySides, thread_id: str) -> ThreadComparison:
    """Compare a thread with what the target has of it. Raises `CannotHold`."""
    stored, kept = StoredParts(), PartCounts()
    for part in sides.stored(thread_id):
        kept.add(part)
        stored.add(part)
    left = dict(stored.digests)
    counts, total = PartCounts(), PartsSum()
    missing: set[bytes] = set()
    conflict = ""
    replaced: list[WritePart] = []
    newest: dict[str, str] = {}
    for part in sides.converted(thread_id):
        key, digest = key_digest(part), part_digest(part)
        counts.add(part)
        total.add(part, digest)
        if isinstance(part, CheckpointPart):
            newest[part.key.checkpoint_ns] = part.key.checkpoint_id
        known = left.pop(key, None)
        if known is None:
            missing.add(key)
        elif known != digest and isinstance(part, WritePart) and part.idx < 0:
            replaced.append(part)
        elif known != digest and not conflict:
            conflict = f"{_words(part)} differs"
    is_behind = False
    if left and not conflict:
        conflict = f"it has {len(left)} rows that the source does not have"
        is_behind = _has_older_state(sides, thread_id, newest)
    if replaced and not conflict:
        conflict = f"{_words(replaced[0])} differs"
        before = {key_digest(part) for part in replaced}
        stored_now = sides.stored(thread_id)
        old = [
            one for one in stored_now if isinstance(one, WritePart) and key_digest(one) in before
        ]
        is_behind = sides.replaces_answers and went_on(old, replaced, has_more=bool(missing))
    step = CopyStep.ADD if missing else CopyStep.PRESENT
    if conflict:
        step = CopyStep.REPLACE
    elif not stored.digests:
        step = CopyStep.COPY
    heads = sides.heads(thread_id) if stored.digests else {}
    return ThreadComparison(
        thread_id, step, counts, total, missing, conflict, heads, kept, is_behind
    )


def _has_older_state(sides: CopySides, thread_id: str, newest: Mapping[str, str]) -> bool:
    """Return whether the target has one state of a thread, and a source without history a newer
    one. `newest` has the id of the source's checkpoint in each namespace.
    """
    if sides.target is None or keeps_history(sides.source_layout):
        return False
    found = [one.key for one in sides.target.checkpoints(thread_id)]
    return len({key.checkpoint_ns for key in found}) == len(found) and all(
        key.checkpoint_id <= newest.get(key.checkpoint_ns, key.checkpoint_id) for key in found
    )


def planned_copy(sides: CopySides, thread_id: str, *, replace: bool) -> CopiedThread:
    """Return what would become of a thread."""
    try:
        found = compare_thread(sides, thread_id)
    except CannotHold as error:
        return CopiedThread(thread_id, CopyStep.SKIP, reason=error.message)
    if found.step is CopyStep.REPLACE and not (replace or found.is_behind):
        return diverged(found)
    added = found.counts.parts if found.step is CopyStep.REPLACE else len(found.missing)
    removed = found.kept if found.step is CopyStep.REPLACE else PartCounts()
    return CopiedThread(thread_id, found.step, found.counts, added, found.reason, removed=removed)


def diverged(found: ThreadComparison) -> CopiedThread:
    """Return the outcome for a thread that the target has continued, which is left alone."""
    reason = f"the target went its own way: {found.reason}"
    return CopiedThread(found.thread_id, CopyStep.SKIP, reason=reason, is_diverged=True)


def _words(part: Part) -> str:
    match part:
        case CheckpointPart():
            return f"checkpoint '{part.key.checkpoint_id}'"
        case ValuePart():
            return f"version '{part.version}' of channel '{part.channel}'"
    return f"a write to '{part.channel}' at checkpoint '{part.key.checkpoint_id}'"
