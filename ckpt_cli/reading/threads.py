"""Listing threads: which ones, in which order, with what their heads tell."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import translate
from itertools import islice
from typing import Any, Literal

from ckpt_backends.codec import to_json
from ckpt_backends.codec.values import Value
from ckpt_backends.errors import NotFound, Unreadable, UsageError
from ckpt_backends.model import Status, Thread, ThreadSize
from ckpt_backends.protocol import Store
from ckpt_cli.core.redact import redact_metadata
from ckpt_cli.core.refs import tips
from ckpt_cli.reading import redacted
from ckpt_cli.reading.expiry import Lifetime, expires_at, lifetime
from ckpt_cli.reading.heads import read_heads, some_at_once
from ckpt_cli.reading.lessons import Lessons
from ckpt_cli.reading.thread import Moment, ThreadReader

Sort = Literal["last", "first", "id", "checkpoints", "namespaces", "step", "bytes"]
SORTS: tuple[Sort, ...] = ("last", "first", "id", "checkpoints", "namespaces", "step", "bytes")

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Head:
    """What is kept of a thread's head; its values are not."""

    step: int | None
    source: str | None
    parent: str | None
    metadata: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Details:
    """What reading a thread's head tells beyond the index."""

    conditions: tuple[Status, ...]
    """All that holds of the thread, the worst first: there is at least one."""
    head: Head | None
    bytes: int | None
    """None where it was not asked for."""
    expires_at: datetime | None = None
    """When the head expires; None where it stays."""

    @property
    def status(self) -> Status:
        return self.conditions[0]


@dataclass(frozen=True, slots=True)
class Row:
    """One thread of a listing; `details` is None where its head was not read."""

    thread: Thread
    details: Details | None = None
    first_message: str | None = None
    """What a person first said, where that was asked for."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which threads are wanted. Every condition that is given must hold."""

    match: str | None = None
    """Shell pattern that the whole thread id fits."""
    since: datetime | None = None
    until: datetime | None = None
    """Bounds of the thread's newest checkpoint, both included."""
    status: frozenset[Status] = frozenset()
    """A condition that the thread is in; any if empty."""
    user: str | None = None
    """Whose it is, in layouts that say so."""
    where: tuple[tuple[tuple[str, ...], str], ...] = ()
    """(path in the head's metadata, wanted value as text)."""

    @property
    def needs_heads(self) -> bool:
        """Whether each head must be read to decide."""
        return bool(self.status or self.where)


def parse_where(text: str) -> tuple[tuple[str, ...], str]:
    """`metadata.user_id=42` or `user_id=42` as (("user_id",), "42"). Raises `UsageError`."""
    name, equals, wanted = text.partition("=")
    path = tuple(name.removeprefix("metadata.").split("."))
    if not equals or not all(path):
        raise UsageError(f"'{text}' is not a condition", hint="write it as metadata.KEY=VALUE")
    return path, wanted


def parse_status(text: str) -> Status:
    """A status by its name. Raises `UsageError`."""
    try:
        return Status(text)
    except ValueError:
        raise UsageError(f"no status '{text}'", hint=f"known: {', '.join(Status)}") from None


def list_threads(
    store: Store,
    wanted: Selection,
    *,
    sort: Sort = "last",
    details: bool = False,
    sizes: bool = True,
    first_messages: bool = False,
    skip: int = 0,
    limit: int | None = None,
    watch: Callable[[Iterable[Thread]], Iterable[Thread]] = iter,
) -> Iterator[Row]:
    """The threads wanted, in the order asked for; a stream where that order is the store's own.

    After the first `skip` of them; with `limit`, no more than one beyond it. Details come with
    the thread's size unless `sizes` is false. `watch` sees each thread whose head is about to be
    read, to show progress.
    """
    as_stored = wanted == Selection() and sort == "last"
    most = skip + limit + 1 if as_stored and limit is not None else None
    threads = filter(_index_filter(wanted), store.threads(limit=most))
    lessons = Lessons(store)
    rows: Iterator[Row]
    heads_decide = wanted.needs_heads or sort in {"step", "bytes"}
    if heads_decide:
        rows = _detailed(store, watch(threads), lessons, sizes=sizes)
        rows = (row for row in rows if row.details and _fits(row.details, wanted))
    else:
        rows = (Row(thread) for thread in threads)
    if sort != "last":
        rows = iter(sorted(rows, key=lambda row: _order(row, sort)))
    rows = islice(rows, skip, None if limit is None else skip + limit + 1)
    if details and not heads_decide:
        rows = _detailed(store, (row.thread for row in rows), lessons, sizes=sizes)
    for row in rows:
        found = row
        if first_messages:
            found = replace(found, first_message=first_message(store, row.thread))
        yield _shown(store, found)


def first_message(store: Store, thread: Thread) -> str | None:
    """The first thing that a person said in a thread; None where its head has no messages."""
    from ckpt_cli.reading.messages import conversation
    from ckpt_cli.reading.target import Target

    if thread.head is None:
        return None
    head = Target(ThreadReader(store, thread), "", thread.head, chosen=False)
    try:
        said = [one.message for one in conversation(head, None).turns]
    except (NotFound, Unreadable):
        return None
    return next((_as_text(one.content) for one in said if one.role == "human"), None)


def _shown(store: Store, row: Row) -> Row:
    if not redacted.is_redacted(store) or row.details is None or row.details.head is None:
        return row
    head = replace(row.details.head, metadata=redact_metadata(row.details.head.metadata))
    return replace(row, details=replace(row.details, head=head))


def first(rows: Iterator[Row], limit: int) -> tuple[list[Row], bool]:
    """The first so many rows, and whether there are more."""
    found = list(islice(rows, limit + 1))
    return found[:limit], len(found) > limit


def _index_filter(wanted: Selection) -> Callable[[Thread], bool]:
    pattern = None if wanted.match is None else re.compile(translate(wanted.match))

    def fits(thread: Thread) -> bool:
        if pattern is not None and pattern.match(thread.thread_id) is None:
            return False
        if wanted.user is not None and thread.user != wanted.user:
            return False
        if wanted.since is not None and (thread.last_at or _NEVER) < wanted.since:
            return False
        return wanted.until is None or (
            thread.last_at is not None and thread.last_at <= wanted.until
        )

    return fits


def _detailed(
    store: Store, threads: Iterable[Thread], lessons: Lessons, *, sizes: bool
) -> Iterator[Row]:
    """The same threads with what their heads tell."""
    for some in some_at_once(threads):
        found = {
            head.key.thread_id: _details(store, head) for head in read_heads(store, some, lessons)
        }
        ids = [one.thread_id for one in some]
        bytes_of = (
            {thread_id: size.bytes for thread_id, size in zip(ids, store.sizes(ids), strict=True)}
            if sizes
            else {}
        )
        for one in some:
            # An id that is not text is listed, and not looked up.
            without = Status.EMPTY if one.head is None else Status.UNKNOWN
            details = found.get(one.thread_id, Details((without,), None, None))
            yield Row(one, replace(details, bytes=bytes_of.get(one.thread_id)))


def _details(store: Store, head: Moment) -> Details:
    """What a head tells, but for the size of its thread."""
    facts = Head(head.number, head.source, head.checkpoint.parent_checkpoint_id, head.metadata)
    return Details(head.conditions, facts, None, expires_at(store, head.key))


def _fits(details: Details, wanted: Selection) -> bool:
    if wanted.status and wanted.status.isdisjoint(details.conditions):
        return False
    metadata = details.head.metadata if details.head is not None else {}
    return all(_as_text(_at(metadata, path)) == text for path, text in wanted.where)


def _at(metadata: Mapping[str, Value], path: tuple[str, ...]) -> Value:
    """The value at a path; a key that itself holds dots is tried first."""
    whole = ".".join(path)
    if whole in metadata:
        return metadata[whole]
    found: Any = metadata
    for key in path:
        if not isinstance(found, Mapping) or key not in found:
            return None
        found = found[key]
    return found  # type: ignore[no-any-return]


def _as_text(value: Value) -> str | None:
    """A metadata value as a user would type it: text as it is, the rest as JSON."""
    import json

    if value is None or isinstance(value, str):
        return value
    return json.dumps(to_json(value), ensure_ascii=False)


def _order(row: Row, sort: Sort) -> tuple[Any, ...]:
    """A key that puts the most interesting row first: newest, largest; ids from a to z."""
    thread, details = row.thread, row.details
    keys: dict[Sort, Any] = {
        "first": -(thread.first_at or _NEVER).timestamp(),
        "id": 0,
        "checkpoints": -thread.checkpoints,
        "namespaces": -thread.namespaces,
        "step": -((details.head.step if details and details.head else None) or 0),
        "bytes": -((details.bytes if details else None) or 0),
    }
    return keys[sort], thread.thread_id


@dataclass(frozen=True, slots=True)
class Summary:
    """One thread as a whole."""

    row: Row
    head: Moment | None
    size: ThreadSize
    in_namespaces: tuple[NamespaceSummary, ...]
    lifetime: Lifetime | None = None
    """How long the head stays; None where nothing of it expires."""
    plaintext: bool = False
    """The head is stored unencrypted, in a thread with encrypted checkpoints."""


@dataclass(frozen=True, slots=True)
class NamespaceSummary:
    """One namespace of a thread."""

    checkpoint_ns: str
    checkpoints: int
    tips: int
    forks: int
    head: str | None


def summarize(store: Store, thread_id: str) -> Summary:
    """Everything that the index and the head tell of a thread. Raises `NotFound`."""
    reader = ThreadReader(store, thread_id)
    head = None if reader.thread.head is None else reader.moment("", reader.thread.head)
    (row,) = _detailed(store, [reader.thread], Lessons(store), sizes=True)
    return Summary(
        row=_shown(store, row),
        head=redacted.moment(head) if head and redacted.is_redacted(store) else head,
        size=store.size(thread_id),
        in_namespaces=tuple(_namespace(reader, ns) for ns in reader.namespaces),
        lifetime=None if head is None else lifetime(reader, head.key),
        plaintext=head is not None and reader.is_plaintext(head),
    )


def _namespace(reader: ThreadReader, checkpoint_ns: str) -> NamespaceSummary:
    index = reader.index(checkpoint_ns)
    children = Counter(one.parent_checkpoint_id for one in index)
    return NamespaceSummary(
        checkpoint_ns,
        checkpoints=len(index),
        tips=len(tips(index)),
        forks=sum(n > 1 for parent, n in children.items() if parent is not None),
        head=reader.head(checkpoint_ns),
    )
