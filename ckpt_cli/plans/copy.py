"""Plans copies of threads and of memory to another store, and new encryption."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path

from ckpt_backends import shell
from ckpt_backends.archive import Bundle, Header
from ckpt_backends.errors import CkptError, Refused, StoreChanged, Unreadable, Unsupported
from ckpt_backends.memory import Item, ItemKey, MemoryStore, Namespace, digest_of, near
from ckpt_backends.model import Kind, Record, TypedBytes
from ckpt_backends.protocol import Store
from ckpt_backends.rows import PlacedValue, Restored, Row, RowEdit, compare, not_of
from ckpt_backends.transfer.convert import Conversion
from ckpt_backends.transfer.copying import (
    RecordsSum,
    created_layout,
    edited_rows,
    form_of,
    keeps_history,
    key_digest,
    record_digest,
    record_size,
    records_of_rows,
    refusal,
    route,
)
from ckpt_backends.transfer.form import CannotHold, Language, Serializer
from ckpt_backends.transfer.sealing import AsStored, RekeyCounts, Rekeying, WithKeys
from ckpt_backends.url import StoreUrl
from ckpt_cli.core.copying import CopiedItem, CopiedThread, CopyStep, RekeyedThread, went_on
from ckpt_cli.core.memory import ItemFilter, format_key, is_expired
from ckpt_cli.queries.stores import language_of_record

_TOGETHER = 8 << 20
"""Bytes of small threads that are read together."""
_PARTS_AT_ONCE, _BYTES_AT_ONCE = 100, 1 << 20
"""Parts and bytes after which the progress is told."""


@dataclass(frozen=True, slots=True)
class ArchivedRows:
    """The rows of one archive, in the place of a store."""

    bundle: Bundle

    def rows(self, thread_id: str) -> Iterator[Row]:  # noqa: ARG002 - it holds one thread
        """All rows."""
        return self.bundle.rows()

    def records_of(self, thread_ids: Sequence[str]) -> Iterator[Record]:  # noqa: ARG002
        """All records."""
        return records_of_rows(self.bundle.header.layout, self.bundle.rows())

    def refresh(self) -> None:
        """Do nothing: each reading reads the file again."""


@dataclass(frozen=True, slots=True)
class CopySides:
    """Both stores of a copy, with the conversion between them."""

    source: Store | ArchivedRows
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
    has_expired: bool = False
    """Whether the target would remove something of an archive at once."""

    def converted(
        self, thread_id: str, records: Iterable[Record] | None = None
    ) -> Iterator[Record]:
        """Yield the records of a thread in the form of the target. Raises `CannotHold`.

        `records` is the thread in the form of the source, if it is read.
        """
        found = self.source.records_of([thread_id]) if records is None else records
        return self.conversion.of_thread(self._watched(found))

    def read_together(self, thread_ids: Sequence[str]) -> Iterator[tuple[str, list[Record] | None]]:
        """Yield threads in order with their records in the source; None if they are not read."""
        return _read_together(self.source, thread_ids)

    def stored_together(
        self, thread_ids: Sequence[str]
    ) -> Iterator[tuple[str, list[Record] | None]]:
        """Yield threads in order with their records in the target; None if they are not read."""
        if self.target is None:
            return iter(())
        return _read_together(self.target, thread_ids)

    def unlike(self, sent: Mapping[str, Sequence[Record]]) -> set[str]:
        """Return those of some small threads of which the target has other records than were sent.

        `sent` has the records by thread. JSON in another spelling counts as another record, too.
        """
        stored = [] if self.target is None else list(map(_held, self.target.records_of(list(sent))))
        found = set(stored)
        wanted = set(map(_held, chain.from_iterable(sent.values())))
        if found == wanted and len(stored) == len(found) == sum(map(len, sent.values())):
            return set()
        numbers = Counter(record.key.thread_id for record in stored)
        return {record.key.thread_id for record in found ^ wanted} | {
            thread_id for thread_id, records in sent.items() if len(records) != numbers[thread_id]
        }

    def stored(self, thread_id: str) -> Iterator[Record]:
        """Yield the records of a thread that the target has."""
        if self.target is None:
            return
        yield from self.target.records_of([thread_id])

    def _watched(self, records: Iterable[Record]) -> Iterator[Record]:
        size = number = 0
        for record in records:
            size += record_size(record)
            number += 1
            if number == _PARTS_AT_ONCE or size > _BYTES_AT_ONCE:
                self.watch(size)
                size = number = 0
            yield record
        self.watch(size)

    def heads(self, thread_id: str) -> dict[str, str]:
        """Return, by namespace, the newest checkpoint that the target has of a thread."""
        heads: dict[str, str] = {}
        for one in () if self.target is None else self.target.checkpoints(thread_id):
            heads.setdefault(one.key.checkpoint_ns, one.key.checkpoint_id)
        return heads


def _held(record: Record) -> Record:
    """The record with what every store holds of it, thus without its time of expiry."""
    if record.expires_at is None and not record.order:
        return record
    return record._replace(expires_at=None, order="")


def sum_of(records: Iterable[Record], *, any_order: bool = False) -> RecordsSum:
    """Return the sum of records of any number, with digests as of `record_digest`."""
    total = RecordsSum()
    for record in records:
        total.add(record, record_digest(record, any_order=any_order))
    return total


def _read_together(
    source: Store | ArchivedRows, thread_ids: Sequence[str]
) -> Iterator[tuple[str, list[Record] | None]]:
    """Yield threads in order with their records, small ones read together; None for large ones."""
    if isinstance(source, ArchivedRows) or not source.batches_parts:
        yield from ((thread_id, None) for thread_id in thread_ids)
        return
    some: list[str] = []
    total = 0
    sizes = source.sizes(thread_ids)
    for thread_id, size in zip(thread_ids, sizes, strict=True):
        if some and total + size.bytes > _TOGETHER:
            yield from _records_of(source, some)
            some, total = [], 0
        if size.bytes > _TOGETHER:
            yield thread_id, None
            continue
        some.append(thread_id)
        total += size.bytes
    yield from _records_of(source, some)


def _records_of(source: Store, thread_ids: Sequence[str]) -> Iterator[tuple[str, list[Record]]]:
    found: dict[str, list[Record]] = {thread_id: [] for thread_id in thread_ids}
    for record in source.records_of(thread_ids):
        found[record.key.thread_id].append(record)
    for thread_id in thread_ids:
        yield thread_id, found.pop(thread_id)


@dataclass(slots=True)
class ThreadComparison:
    """A thread of the source compared with what the target has of it."""

    thread_id: str
    step: CopyStep
    """`REPLACE` if the target went its own way."""
    total: RecordsSum
    """Of the thread in the source, as the target has to store it in the end."""
    missing: set[bytes]
    """The digests of the keys of missing records."""
    reason: str
    """How the target has gone its own way."""
    heads: dict[str, str]
    """By namespace, the newest checkpoint in the target."""
    kept: RecordsSum
    """What the target has of the thread now."""
    is_behind: bool = False
    """Whether the target only has answers and questions that the source has replaced since, or an
    older state of a thread without history."""


def equal_counts(
    sides: CopySides,
    thread_id: str,
    records: Iterable[Record] | None = None,
    stored: Iterable[Record] | None = None,
) -> RecordsSum | None:
    """Return the numbers of a thread if the target has all of it in the same spelling, else None.

    `records` is the thread in the form of the source, and `stored` what the target has of it, if
    they are read. Raises `CannotHold`.
    """
    counts = RecordsSum()
    wanted: set[Record] = set()
    for record in sides.converted(thread_id, records):
        counts.add(record)
        wanted.add(_held(record))
        if counts.size > _TOGETHER:
            wanted.clear()
            return _equal_by_digests(sides, thread_id)
    number = 0
    for record in sides.stored(thread_id) if stored is None else stored:
        if _held(record) not in wanted:
            return None
        number += 1
    return counts if number == counts.records else None


def _equal_by_digests(sides: CopySides, thread_id: str) -> RecordsSum | None:
    """As `equal_counts`, for a thread of any size."""
    total = sum_of(sides.converted(thread_id))
    return total if sum_of(sides.stored(thread_id)) == total else None


def compare_thread(sides: CopySides, thread_id: str) -> ThreadComparison:
    """Compare a thread with what the target has of it. Raises `CannotHold`."""
    left: dict[bytes, bytes] = {}  # by digest of its key, the digest of a record of the target
    kept, total = RecordsSum(), RecordsSum()
    for record in sides.stored(thread_id):
        kept.add(record)
        left[key_digest(record)] = record_digest(record, any_order=True)
    missing: set[bytes] = set()
    conflict = ""
    replaced: list[Record] = []
    newest: dict[str, str] = {}
    for record in sides.converted(thread_id):
        key, digest = key_digest(record), record_digest(record, any_order=True)
        total.add(record, digest)
        if record.kind is Kind.CHECKPOINT:
            newest[record.key.checkpoint_ns] = record.key.checkpoint_id
        known = left.pop(key, None)
        if known is None:
            missing.add(key)
        elif known != digest and record.kind is Kind.WRITE and record.idx < 0:
            replaced.append(record)
        elif known != digest and not conflict:
            conflict = f"{_words(record)} differs"
    is_behind = False
    if left and not conflict:
        conflict = f"it has {len(left)} rows that the source does not have"
        is_behind = _has_older_state(sides, thread_id, newest)
    if replaced and not conflict:
        conflict = f"{_words(replaced[0])} differs"
        before = {key_digest(record) for record in replaced}
        stored_now = sides.stored(thread_id)
        old = [one for one in stored_now if one.kind is Kind.WRITE and key_digest(one) in before]
        is_behind = sides.replaces_answers and went_on(old, replaced, has_more=bool(missing))
    step = CopyStep.ADD if missing else CopyStep.PRESENT
    if conflict:
        step = CopyStep.REPLACE
    elif not kept.records:
        step = CopyStep.COPY
    heads = sides.heads(thread_id) if kept.records else {}
    return ThreadComparison(thread_id, step, total, missing, conflict, heads, kept, is_behind)


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
    made = CopiedThread(thread_id, found.step, found.total, len(found.missing), found.reason)
    if found.step is CopyStep.REPLACE:
        made.added, made.removed = found.total.records, found.kept
    return made


def diverged(found: ThreadComparison) -> CopiedThread:
    """Return the outcome for a thread that the target has continued, which is left alone."""
    reason = f"the target went its own way: {found.reason}"
    return CopiedThread(found.thread_id, CopyStep.SKIP, reason=reason, is_different=True)


def _words(record: Record) -> str:
    match record.kind:
        case Kind.CHECKPOINT:
            return f"checkpoint '{record.key.checkpoint_id}'"
        case Kind.VALUE:
            return f"version '{record.version}' of channel '{record.channel}'"
    return f"a write to '{record.channel}' at checkpoint '{record.key.checkpoint_id}'"


class ArchivedRecords:
    """Checks the rows of an archive, and remembers what they are."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.language: Language | None = None
        """None before a checkpoint was seen."""
        self.expires_at: int | None = None
        """When the first record expires, in milliseconds since 1970."""

    def has_expired(self) -> bool:
        """Return whether the time to live of a record has ended."""
        return self.expires_at is not None and self.expires_at <= time.time() * 1000

    def checked(self, header: Header, rows: Iterator[Row]) -> Iterator[Row]:
        """Read all rows of an archive; yield none.

        Raises `Refused` if something is of another thread, `Unreadable` if the rows have not the
        form of their layout, and `Unsupported` if it is not known.
        """
        with refusing_malformed(self._path):
            for record in records_of_rows(header.layout, rows):
                _check_form(record)
                found = record.key.thread_id
                if found != header.thread_id:
                    raise not_of(record.kind, found, str(header.thread_id))
                if record.kind is Kind.CHECKPOINT and self.language is None:
                    self.language = language_of_record(record)
                if record.expires_at is not None:
                    known = self.expires_at
                    self.expires_at = min(record.expires_at, known or record.expires_at)
            for _ in rows:
                pass
        yield from ()


def _check_form(record: Record) -> None:
    """Raise TypeError for a record with cells of other types than a saver stores."""
    values = record.value, record.metadata
    texts = (
        *record.key,
        record.parent or "",
        record.task_id,
        record.task_path,
        record.channel,
        record.version,
    )
    if type(record.idx) is not int:
        raise TypeError("idx")
    if not all(isinstance(one, str) for one in (*texts, *(value.type for value in values))):
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


def restored_of(one: CopiedThread) -> Restored:
    """Return how much of an archive was restored. Raises the reason if nothing was."""
    if one.step is CopyStep.SKIP:
        if one.is_different:
            raise StoreChanged(one.reason, hint="restore it into another store: --to STORE")
        raise Unsupported(one.reason)
    return Restored(one.added, one.counts.records - one.added)


class ArchiveImport:
    """The archives of one import, and the store into which they are restored.

    An archive of the store's own layout is checked by the store; of another one, by its records.
    """

    def __init__(self, url: StoreUrl, store: Store | None, rows: Store | None) -> None:
        """`rows` has its rows as stored. Both are None if the store is to be made."""
        self.url = url
        self.store = store
        self.rows = rows
        self._parts: dict[Path, ArchivedRecords] = {}

    @property
    def layout(self) -> str:
        """The layout of the store; `''` if it is to be made."""
        return "" if self.store is None else self.store.describe().layout

    def fitting(self, path: Path, header: Header, rows: Iterator[Row]) -> Iterator[Row]:
        """Yield the rows of a bundle that fits the store, if all belong to its thread."""
        if header.thread_id is None:
            raise Refused(
                f"cannot import '{path}': it holds long-term memory",
                hint=shell.command("ckpt", "memory", "import", ids=[str(path)]),
            )
        try:
            if self.store is not None and header.layout == self.layout:
                yield from self.store.own_rows(header.thread_id, rows)
                return
            found = self._parts[path] = ArchivedRecords(path)
            if self.store is not None:  # else the layout depends on the language, not known yet
                self._check_way(header, self.store)
            yield from found.checked(header, rows)
        except (Refused, Unsupported) as error:
            error.message = f"cannot import '{path}': {error.message}"
            error.hint = error.hint or f"look at its rows: zcat {shell.word(str(path))} | less"
            raise

    def _check_way(self, header: Header, store: Store) -> None:
        """Raise `Refused` if there is no way from a layout to that of the store."""
        reasons = []
        for language in Language:
            try:
                reason = refusal(header.layout, self.layout, language)
            except CkptError as error:
                reason = error.message
            if not reason:
                return
            reasons.append(reason)
        raise Refused(
            f"its layout is '{header.layout}', '{store.describe().url}' has"
            f" '{self.layout}': {reasons[0]}",
            hint="import it into a store of the same layout",
        )

    def language_of(self, bundle: Bundle) -> Language:
        """Return whose saver wrote a thread."""
        found = self._parts.get(bundle.path)
        return (found and found.language) or Language.PYTHON

    def sides_of(self, bundle: Bundle) -> CopySides | None:
        """Return an archive and the store; None if it has the layout of the store.

        Raises `Unsupported` if there is no way between their layouts.
        """
        found = self._parts.get(bundle.path)
        if found is None:
            return None
        here, language = bundle.header.layout, self.language_of(bundle)
        layout = self.layout or created_layout(self.url, language)
        way = route(here, layout, language)
        return CopySides(
            ArchivedRows(bundle),
            here,
            self.store,
            layout,
            Conversion(way.source, way.target, AsStored()),
            # An import never removes anything.
            replaces_answers=False,
            has_expired=way.target.expires and found.has_expired(),
        )

    def compared(self, before: Sequence[Bundle], bundle: Bundle) -> Restored:
        """Return what an import would do after other bundles. Raises what it would raise."""
        sides, thread_id = self.sides_of(bundle), bundle.header.thread_id or ""
        if sides is not None and sides.has_expired:
            return Restored(0, 0, bundle.size)
        if sides is not None:
            with refusing_malformed(bundle.path):
                return restored_of(planned_copy(sides, thread_id, replace=False))
        if self.rows is None:
            raise ValueError("an archive of the own layout needs a store")
        same = [one.rows() for one in before if one.header.thread_id == thread_id]
        stored = chain(self.rows.rows(thread_id), *same)
        return compare(bundle.rows(), stored, self.rows.row_key)


_ITEMS, _BYTES = 100, 8 << 20
"""Items, and bytes of their values, in memory at a time."""


@dataclass(frozen=True, slots=True)
class MemoryCopyTerms:
    """Which items are copied, when, and between which stores."""

    source: StoreUrl
    target: StoreUrl
    prefix: Namespace
    wanted: ItemFilter
    now: datetime
    create: bool = False
    replace: bool = False

    def chosen(self, memory: MemoryStore, *, values: bool) -> Iterator[Item]:
        """Yield the chosen items of a store."""
        found = memory.items(prefix=self.prefix, values=values)
        return (one for one in found if self.wanted.fits(one, self.now))


def planned_items(
    terms: MemoryCopyTerms, source: MemoryStore, target: MemoryStore | None
) -> Iterator[CopiedItem]:
    """Yield what is to be done with each item. Without a target, all are new to it."""
    seen: dict[Hashable, ItemKey] = {}
    for batch in batches(terms.chosen(source, values=True)):
        if target is None:
            yield from (_new(one) for one in batch)
            continue
        there = {one.key: one for one in target.items(keys=[x.key for x in batch], values=True)}
        removes_expired = target.describe().removes_expired
        for one in batch:
            if removes_expired and is_expired(one, terms.now):
                yield CopiedItem(one.key, CopyStep.SKIP, has_expired=True)
                continue
            first = seen.setdefault(target.identity_of(one.key), one.key)
            if first != one.key:
                reason = f"the target cannot tell it from '{format_key(first)}'"
                yield CopiedItem(one.key, CopyStep.SKIP, reason=reason)
                continue
            yield _compared(one, target, there.get(one.key), replace=terms.replace)


def _new(one: Item) -> CopiedItem:
    return CopiedItem(one.key, CopyStep.COPY, one.size, len(one.vectors))


def _compared(one: Item, target: MemoryStore, found: Item | None, *, replace: bool) -> CopiedItem:
    made = _new(one)
    try:
        fitted = target.fitted(one)
    except CannotHold as error:
        made.step, made.reason = CopyStep.SKIP, error.message
        return made
    made.digest, made.expires_at = digest_of(fitted), fitted.expires_at
    if found is None:
        return made
    if is_equal(made, found):
        made.step = CopyStep.PRESENT
        return made
    made.step = CopyStep.REPLACE if replace else CopyStep.SKIP
    made.there = digest_of(found)
    made.is_different, made.reason = True, _difference(fitted, found)
    return made


def is_equal(planned: CopiedItem, found: Item) -> bool:
    """Return whether the target has an item as planned."""
    return digest_of(found) == planned.digest and near(found.expires_at, planned.expires_at)


def _difference(fitted: Item, found: Item) -> str:
    """Return how the item of the target differs."""
    if fitted.updated_at is not None and found.updated_at is not None:
        if found.updated_at > fitted.updated_at:
            return "the target has a newer one"
        if found.updated_at < fitted.updated_at:
            return "the target has an older one"
    if not near(fitted.expires_at, found.expires_at):
        return "the target has one that expires at another time"
    return "the target has another one"


def batches(items: Iterable[Item]) -> Iterator[Sequence[Item]]:
    """Yield items in lists of a few megabytes."""
    some: list[Item] = []
    size = 0
    for one in items:
        some.append(one)
        size += one.size
        if len(some) >= _ITEMS or size >= _BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


@dataclass(frozen=True, slots=True)
class RekeySide:
    """A store with the keys that it has and is to have."""

    store: Store
    """With rows as stored: neither decrypted nor redacted."""
    layout: str
    rekeying: Rekeying

    def edits(self, thread_id: str, counts: RekeyCounts) -> Iterator[RowEdit]:
        """Yield what changes in a thread. Raises `CannotHold` for a value that no key opens."""
        rows = self.store.rows(thread_id)
        for one in edited_rows(self.layout, rows, lambda one: self.rekeying.of(one, counts)):
            if one.new is not one.stored:
                yield one
        # In a file that is not in WAL mode, an open read would block the commit.
        self.store.refresh()


def rekey_side(rows: Store, language: Language, keys: WithKeys) -> RekeySide:
    """Return a store with its keys. Raises `Unsupported` if nothing in it can be encrypted."""
    layout = rows.describe().layout
    form = form_of(layout, language)
    if form is None or form.serializer is not Serializer.TYPED or not form.can_encrypt:
        raise Unsupported(
            f"a store of layout '{layout}' cannot be rekeyed",
            hint="LangGraph's EncryptedSerializer cannot be used with it",
        )
    return RekeySide(rows, layout, Rekeying(form, keys))


def check_keys(side: RekeySide, thread_ids: Iterable[str]) -> None:
    """Open the first encrypted value of each thread. Raises `Refused` if no key opens it."""
    for thread_id in thread_ids:
        with needs_key(thread_id):
            _check_key(side, thread_id)


def _check_key(side: RekeySide, thread_id: str) -> None:
    is_opened = False

    def open_one(stored: PlacedValue) -> TypedBytes:
        nonlocal is_opened
        is_opened = is_opened or side.rekeying.check(stored)
        return stored.value

    any(is_opened for _ in edited_rows(side.layout, side.store.rows(thread_id), open_one))


def planned_rekey(side: RekeySide, thread_id: str) -> RekeyedThread:
    """Return what would change in a thread. Raises `Refused` for a value that no key opens."""
    counts = RekeyCounts()
    with needs_key(thread_id):
        for _ in side.edits(thread_id, counts):
            pass
    return RekeyedThread(thread_id, counts)


@contextmanager
def needs_key(thread_id: str) -> Iterator[None]:
    """Raise `Refused` if a value of a thread turns out to be one that no key opens."""
    try:
        yield
    except CannotHold as error:
        raise Refused(
            f"thread '{thread_id}' was left as it is: {error.message}",
            hint="give the key that the store has now with --aes-key-file or LANGGRAPH_AES_KEY",
        ) from error
