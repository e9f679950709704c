"""Threads of a list, with what was read of their heads: status, nodes, questions, titles, sizes."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias

from ckpt_backends.codec import DEFAULT_LIMITS, Limits, decode
from ckpt_backends.codec.values import Cut, Value
from ckpt_backends.model import CheckpointKey, Status, Thread, in_chunks
from ckpt_backends.protocol import Store
from ckpt_cli.core.conversation import MESSAGES, says_nothing, title_of
from ckpt_cli.core.redact import redact, redact_metadata, redact_text
from ckpt_cli.core.resume import Why
from ckpt_cli.core.tasks import Question, blocking_error
from ckpt_cli.reading.thread import (
    Moment,
    ThreadReader,
    TriggerInference,
    expiry_times,
    read_heads,
    resume_of,
    why_of,
)
from ckpt_cli.reading.users import users_of

Watch: TypeAlias = Callable[[Iterable[Thread]], Iterable[Thread]]
"""Gets each thread that is returned, or whose head must be read first, to show progress."""
_LARGE = 256 * 1024
"""Bytes of messages, stored apart from their checkpoint, that are not read for a title."""
_BEGINNING = Limits(value_bytes=16 * 1024)
"""How much of them is decoded first."""


class Head(NamedTuple):
    """A thread's head without its values."""

    step: int | None
    source: str | None
    parent: str | None
    metadata: Mapping[str, Value]


class Details(NamedTuple):
    """The facts about a thread that are read from its head."""

    conditions: tuple[Status, ...]
    """All conditions of the thread, the worst first; at least one."""
    head: Head | None
    bytes: int | None
    """None if the size was not requested."""
    expires_at: datetime | None = None
    """When the head expires; None if it does not."""
    next: tuple[str, ...] | None = None
    """The nodes of the tasks that wait, as `get_state` gives them; None if not known."""
    runs: tuple[str, ...] | None = None
    """The nodes and error handlers that run first in a resume; None if not known."""
    error: str | None = None
    """The error of the first task that failed, and was neither retried nor handled."""
    question: Question | None = None
    """The first question that waits for an answer."""
    why: Why | None = None
    """Why it does not go on, as far as rows tell; None if an error or a question says it."""
    title: str | Cut | None = None
    """The first thing that a person said; a `Cut` if the messages were not read."""
    user: str | None = None
    """The user of the thread, where the layout does not record it; None if none is known."""

    @property
    def status(self) -> Status:
        return self.conditions[0]


class ListedThread(NamedTuple):
    """One thread of a list; `details` is None if its head was not read."""

    thread: Thread
    details: Details | None = None
    first_message: str | None = None
    """The first human message, if it was requested."""

    def redacted(self) -> "ListedThread":
        """Return it with types and sizes in place of values, and without texts."""
        details = self.details
        if details is None or details.head is None:
            return self
        head = details.head._replace(metadata=redact_metadata(details.head.metadata))
        error = None if details.error is None else redact_text(details.error)
        asked, title = details.question, details.title
        question = None if asked is None else asked._replace(value=redact(asked.value))
        hidden = redact_text(title) if isinstance(title, str) else None
        details = details._replace(head=head, error=error, question=question)
        return self._replace(details=details._replace(title=hidden, user=None))


def heads_of(
    store: Store, threads: Sequence[Thread], inference: TriggerInference
) -> dict[str, Moment]:
    """Return the root heads of some threads by thread id; missing ones are left out."""
    return {head.key.thread_id: head for head in read_heads(store, threads, inference)}


def status_of_head(thread: Thread, head: Moment | None) -> Status:
    """Return the status of a thread from its root head; None if that was not found."""
    if head is not None:
        return head.status
    # An id that is not text can only be listed.
    return Status.EMPTY if thread.head is None else Status.UNKNOWN


def details_of(
    reader: ThreadReader, head: Moment | None, now: datetime, *, title: bool = True
) -> Details:
    """Return the details from a head, without its expiry and the size of its thread.

    `now` tells for how long the thread is silent.
    """
    if head is None:
        return Details((status_of_head(reader.thread, None),), None, None)
    questions = head.step.open_questions
    resume = resume_of(reader, head, inside=False) if head.step.next or head.writes else None
    said = None
    if title:
        said = title_of(head.body.values)
    return Details(
        head.conditions,
        Head(head.number, head.source, head.checkpoint.parent_checkpoint_id, head.metadata),
        None,
        next=head.step.waiting,
        runs=head.step.next if resume is None else resume.nodes,
        error=blocking_error(head.step),
        question=questions[0] if questions else None,
        why=why_of(reader, head, now),
        title=said,
    )


def with_details(
    store: Store, rows: Iterable[ListedThread], inference: TriggerInference, now: datetime
) -> Iterator[ListedThread]:
    """Yield the same threads with details; reads the heads of those that have none."""
    for some in in_chunks(rows):
        without = [row.thread for row in some if row.details is None]
        heads = heads_of(store, without, inference)
        times = expiry_times(store, [head.key for head in heads.values()])
        for row in some:
            details = row.details
            if details is None:
                head = heads.get(row.thread.thread_id)
                details = details_of(ThreadReader(store, row.thread, inference), head, now)
                if head is not None and head.key in times:
                    details = details._replace(expires_at=times[head.key])
            yield row._replace(details=details)


def with_users(store: Store, rows: Iterable[ListedThread]) -> Iterator[ListedThread]:
    """Yield the same threads with their users in their details, as far as these are known."""
    for some in in_chunks(rows):
        heads = {
            row.thread.thread_id: row.details.head.metadata
            for row in some
            if row.details is not None and row.details.head is not None
        }
        users = users_of(store, heads) if heads else {}
        for row in some:
            user = users.get(row.thread.thread_id)
            if user is not None and row.details is not None:
                yield row._replace(details=row.details._replace(user=user))
            else:
                yield row


def with_sizes(store: Store, rows: Iterable[ListedThread]) -> Iterator[ListedThread]:
    """Yield the same threads with sizes in their details; reads those that are missing."""
    for some in in_chunks(rows):
        ids = [row.thread.thread_id for row in some if row.details and row.details.bytes is None]
        sizes = sizes_of(store, ids)
        for row in some:
            size = sizes.get(row.thread.thread_id)
            if size is not None and row.details is not None:
                yield row._replace(details=row.details._replace(bytes=size))
            else:
                yield row


def sizes_of(store: Store, thread_ids: Sequence[str]) -> dict[str, int]:
    """Return the stored bytes of some threads by thread id."""
    found = store.sizes(thread_ids) if thread_ids else ()
    return {name: size.bytes for name, size in zip(thread_ids, found, strict=True)}


def with_titles(
    store: Store, rows: Iterable[ListedThread], *, every: bool
) -> Iterator[ListedThread]:
    """Yield the same threads with titles: all, or only those with an id that says nothing.

    Messages that are stored apart are read here, unless they are large.
    """
    for some in in_chunks(rows):
        ids = [row.thread.thread_id for row in some]
        wanted = set(ids if every else filter(says_nothing, ids))
        unread: list[CheckpointKey] = []
        for thread, details, _ in some:
            title = details.title if details and thread.thread_id in wanted else None
            if isinstance(title, Cut) and title.size <= _LARGE and thread.head:
                unread.append(CheckpointKey(thread.thread_id, "", thread.head))
        read = _titles_at(store, unread)
        for row in some:
            thread_id, details = row.thread.thread_id, row.details
            if details is not None:
                title = read.get(thread_id) or details.title
                shown = title if isinstance(title, str) and thread_id in wanted else None
                details = details._replace(title=shown)
            yield row._replace(details=details)


def _titles_at(store: Store, keys: Sequence[CheckpointKey]) -> dict[str, str]:
    """Return titles by thread id; of the messages, only as much is decoded as a title needs."""
    titles = {}
    for one in store.checkpoints_at(keys, body=True, values=[MESSAGES]) if keys else ():
        blob = (one.blobs or {}).get(MESSAGES)
        if blob is not None and blob.value is not None:
            for limits in (_BEGINNING, DEFAULT_LIMITS):
                title = title_of({MESSAGES: decode(blob.value, limits)})
                if isinstance(title, str):
                    titles[one.key.thread_id] = title
                    break
    return titles
