"""List threads: filter, sort and page them, and read their heads."""

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
from ckpt_cli.core.redact import redact_metadata, redact_text
from ckpt_cli.core.refs import tips
from ckpt_cli.core.tasks.step_nodes import failures
from ckpt_cli.threads import redaction
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.expiry import Lifetime, expires_at, lifetime
from ckpt_cli.threads.heads import read_heads, some_at_once
from ckpt_cli.threads.thread import ThreadReader
from ckpt_cli.threads.trigger_inference import TriggerInference

Sort = Literal["last", "first", "id", "checkpoints", "namespaces", "step", "bytes"]
SORTS: tuple[Sort, ...] = ("last", "first", "id", "checkpoints", "namespaces", "step", "bytes")

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Head:
    """A thread's head without its values."""

    step: int | None
    source: str | None
    parent: str | None
    metadata: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Details:
    """The facts about a thread that are read from its head."""

    conditions: tuple[Status, ...]
    """All conditions of the thread, the worst first; at least one."""
    head: Head | None
    bytes: int | None
    """None if the size was not requested."""
    expires_at: datetime | None = None
    """When the head expires; None if it does not."""
    next: tuple[str, ...] | None = None
    """The nodes that run next; None if not known."""
    error: str | None = None
    """The error of the first task that failed, and was neither retried nor handled."""

    @property
    def status(self) -> Status:
        return self.conditions[0]


@dataclass(frozen=True, slots=True)
class ListedThread:
    """One thread of a list; `details` is None if its head was not read."""

    thread: Thread
    details: Details | None = None
    first_message: str | None = None
    """The first human message, if it was requested."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions for threads; all that are given must hold."""

    match: str | None = None
    """Shell pattern that the whole thread id must match."""
    since: datetime | None = None
    until: datetime | None = None
    """Bounds of the time of the newest checkpoint, both inclusive."""
    status: frozenset[Status] = frozenset()
    """The thread must be in one of these conditions; any if empty."""
    user: str | None = None
    """The owner of the thread, in layouts that store one."""
    where: tuple[tuple[tuple[str, ...], str], ...] = ()
    """Paths in the head's metadata, each with the wanted value as text."""

    @property
    def needs_heads(self) -> bool:
        """Whether each head must be read to decide."""
        return bool(self.status or self.where)


def parse_where(text: str) -> tuple[tuple[str, ...], str]:
    """Parse `metadata.user_id=42` or `user_id=42` to (("user_id",), "42").

    Raises `UsageError` if it is not KEY=VALUE.
    """
    name, equals, wanted = text.partition("=")
    path = tuple(name.removeprefix("metadata.").split("."))
    if not equals or not all(path):
        raise UsageError(
            f"cannot filter by '{text}': no KEY=VALUE",
            hint="write it as metadata.KEY=VALUE, such as metadata.user_id=42",
        )
    return path, wanted


def parse_status(text: str) -> Status:
    """Return a status by its name. Raises `UsageError` if there is none."""
    try:
        return Status(text)
    except ValueError:
        raise UsageError(f"no status '{text}'", hint=f"use one of {', '.join(Status)}") from None


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
) -> Iterator[ListedThread]:
    """Yield the selected threads in the requested order; streams them if the store has this order.

    The first `skip` are left out. With `limit`, at most one more than that is returned, to show
    that there are more. Details include the thread's size unless `sizes` is false. `watch` gets
    each thread before its head is read, to show progress.
    """
    as_stored = wanted == Selection() and sort == "last"
    most = skip + limit + 1 if as_stored and limit is not None else None
    threads = matching(store.threads(limit=most), wanted)
    inference = TriggerInference(store)
    rows: Iterator[ListedThread]
    heads_decide = wanted.needs_heads or sort in {"step", "bytes"}
    if heads_decide:
        rows = _detailed(store, watch(threads), inference, sizes=sizes)
        rows = (row for row in rows if row.details and _fits(row.details, wanted))
    else:
        rows = (ListedThread(thread) for thread in threads)
    if sort != "last":
        rows = iter(sorted(rows, key=lambda row: _order(row, sort)))
    rows = islice(rows, skip, None if limit is None else skip + limit + 1)
    if details and not heads_decide:
        rows = _detailed(store, (row.thread for row in rows), inference, sizes=sizes)
    for row in rows:
        found = row
        if first_messages:
            found = replace(found, first_message=first_message(store, row.thread))
        yield _shown(store, found)


def first_message(store: Store, thread: Thread) -> str | None:
    """Return the first human message in a thread; None if its head has no messages."""
    from ckpt_cli.queries.messages import conversation
    from ckpt_cli.threads.target import Target

    if thread.head is None:
        return None
    head = Target(ThreadReader(store, thread), "", thread.head, chosen=False)
    try:
        said = [one.message for one in conversation(head, None).turns]
    except (NotFound, Unreadable):
        return None
    return next((_as_text(one.content) for one in said if one.role == "human"), None)


def _shown(store: Store, row: ListedThread) -> ListedThread:
    if not redaction.is_redacted(store) or row.details is None or row.details.head is None:
        return row
    head = replace(row.details.head, metadata=redact_metadata(row.details.head.metadata))
    error = None if row.details.error is None else redact_text(row.details.error)
    return replace(row, details=replace(row.details, head=head, error=error))


def first(rows: Iterator[ListedThread], limit: int) -> tuple[list[ListedThread], bool]:
    """Return the first rows up to a limit, and whether there are more."""
    found = list(islice(rows, limit + 1))
    return found[:limit], len(found) > limit


def matching(threads: Iterable[Thread], wanted: Selection) -> Iterator[Thread]:
    """Yield the threads that a selection accepts, as far as the index shows."""
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

    return filter(fits, threads)


def _detailed(
    store: Store, threads: Iterable[Thread], inference: TriggerInference, *, sizes: bool
) -> Iterator[ListedThread]:
    """Yield the same threads with the details from their heads."""
    for some in some_at_once(threads):
        found = {
            head.key.thread_id: _details(store, head) for head in read_heads(store, some, inference)
        }
        ids = [one.thread_id for one in some]
        bytes_of = (
            {thread_id: size.bytes for thread_id, size in zip(ids, store.sizes(ids), strict=True)}
            if sizes
            else {}
        )
        for one in some:
            # An id that is not text can only be listed.
            without = Status.EMPTY if one.head is None else Status.UNKNOWN
            details = found.get(one.thread_id, Details((without,), None, None))
            yield ListedThread(one, replace(details, bytes=bytes_of.get(one.thread_id)))


def _details(store: Store, head: Moment) -> Details:
    """Return the details from a head, without the size of its thread."""
    facts = Head(head.number, head.source, head.checkpoint.parent_checkpoint_id, head.metadata)
    failed = [run for run in failures(head.step) if not (run.finished or run.handled)]
    return Details(
        head.conditions,
        facts,
        None,
        expires_at(store, head.key),
        head.step.next,
        next((f"{run.node or '?'}: {run.error}" for run in failed), None),
    )


def _fits(details: Details, wanted: Selection) -> bool:
    if wanted.status and wanted.status.isdisjoint(details.conditions):
        return False
    metadata = details.head.metadata if details.head is not None else {}
    return all(_as_text(_at(metadata, path)) == text for path, text in wanted.where)


def _at(metadata: Mapping[str, Value], path: tuple[str, ...]) -> Value:
    """Return the value at a path; a single key that contains the dots is tried first."""
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
    """Return a metadata value as a user would type it: text unchanged, the rest as JSON."""
    import json

    if value is None or isinstance(value, str):
        return value
    return json.dumps(to_json(value), ensure_ascii=False)


def _order(row: ListedThread, sort: Sort) -> tuple[Any, ...]:
    """Return a sort key: newest or largest first, ids alphabetically."""
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

    row: ListedThread
    head: Moment | None
    size: ThreadSize
    in_namespaces: tuple[NamespaceSummary, ...]
    lifetime: Lifetime | None = None
    """How long the head remains usable; None if nothing of it expires."""
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


def summarize(reader: ThreadReader) -> Summary:
    """Return everything that the index and the head show about a thread."""
    store = reader.store
    head = None if reader.thread.head is None else reader.moment("", reader.thread.head)
    (row,) = _detailed(store, [reader.thread], TriggerInference(store), sizes=True)
    return Summary(
        row=_shown(store, row),
        head=redaction.moment(head) if head and redaction.is_redacted(store) else head,
        size=store.size(reader.thread_id),
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
