"""Read the heads of listed threads: status, next nodes, questions, titles and sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ckpt_backends.chunks import in_chunks
from ckpt_backends.codec import DEFAULT_LIMITS, Limits, decode
from ckpt_backends.codec.values import Cut
from ckpt_backends.model import CheckpointKey, Status, Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.tasks.tasks import blocking_error
from ckpt_cli.queries.listed_threads import Details, Head, ListedThread
from ckpt_cli.reading.thread import (
    Moment,
    ThreadReader,
    TriggerInference,
    expiry_times,
    read_heads,
    resume_of,
)

_LARGE = 256 * 1024
"""Bytes of messages, stored apart from their checkpoint, that are not read for a title."""
_BEGINNING = Limits(value_bytes=16 * 1024)
"""How much of them is decoded first."""


def with_details(
    store: Store, rows: Iterable[ListedThread], inference: TriggerInference
) -> Iterator[ListedThread]:
    """Yield the same threads with details; reads the heads of those that have none."""
    for some in in_chunks(rows):
        without = [row.thread for row in some if row.details is None]
        heads = heads_of(store, without, inference)
        times = expiry_times(store, [head.key for head in heads.values()])
        for row in some:
            if row.details is not None:
                yield row
                continue
            head = heads.get(row.thread.thread_id)
            details = details_of(ThreadReader(store, row.thread, inference), head)
            if head is not None and head.key in times:
                details = details._replace(expires_at=times[head.key])
            yield row._replace(details=details)


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


def heads_of(
    store: Store, threads: Sequence[Thread], inference: TriggerInference
) -> dict[str, Moment]:
    """Return the root heads of some threads by thread id; missing ones are left out."""
    return {head.key.thread_id: head for head in read_heads(store, threads, inference)}


def sizes_of(store: Store, thread_ids: Sequence[str]) -> dict[str, int]:
    """Return the stored bytes of some threads by thread id."""
    if not thread_ids:
        return {}
    found = store.sizes(thread_ids)
    return {name: size.bytes for name, size in zip(thread_ids, found, strict=True)}


def status_of_head(thread: Thread, head: Moment | None) -> Status:
    """Return the status of a thread from its root head; None if that was not found."""
    if head is not None:
        return head.status
    # An id that is not text can only be listed.
    return Status.EMPTY if thread.head is None else Status.UNKNOWN


def details_of(reader: ThreadReader, head: Moment | None, *, title: bool = True) -> Details:
    """Return the details from a head, without its expiry and the size of its thread."""
    if head is None:
        return Details((status_of_head(reader.thread, None),), None, None)
    runs = (*head.step.tasks, *head.step.others)
    questions = (one for run in runs for one in run.questions if one.is_open)
    resume = resume_of(reader, head, inside=False) if head.step.next or head.writes else None
    said = None
    if title:
        from ckpt_cli.core.conversation import title_of  # late: `show` prints the state

        said = title_of(head.body.values)
    return Details(
        head.conditions,
        Head(head.number, head.source, head.checkpoint.parent_checkpoint_id, head.metadata),
        None,
        next=head.step.waiting,
        runs=head.step.next if resume is None else resume.nodes,
        error=blocking_error(head.step),
        question=next(questions, None),
        title=said,
    )


def with_titles(
    store: Store, rows: Iterable[ListedThread], *, every: bool
) -> Iterator[ListedThread]:
    """Yield the same threads with titles: all, or only those with an id that says nothing.

    Messages that are stored apart are read here, unless they are large.
    """
    from ckpt_cli.core.conversation import says_nothing

    for some in in_chunks(rows):
        unread: list[CheckpointKey] = []
        for row in some:
            thread, title = row.thread, row.details.title if row.details else None
            wanted = every or says_nothing(thread.thread_id)
            if wanted and isinstance(title, Cut) and title.size <= _LARGE and thread.head:
                unread.append(CheckpointKey(thread.thread_id, "", thread.head))
        read = _titles_at(store, unread)
        for row in some:
            is_wanted = every or says_nothing(row.thread.thread_id)
            yield _titled(row, read.get(row.thread.thread_id), is_wanted=is_wanted)


def _titles_at(store: Store, keys: Sequence[CheckpointKey]) -> dict[str, str]:
    """Return titles by thread id; of the messages, only as much is decoded as a title needs."""
    from ckpt_cli.core.conversation import MESSAGES, title_of

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


def _titled(row: ListedThread, read: str | None, *, is_wanted: bool) -> ListedThread:
    """Return the thread with its title as text, or without one."""
    if row.details is None:
        return row
    title = read or row.details.title
    shown = title if isinstance(title, str) and is_wanted else None
    if shown is row.details.title:
        return row
    return row._replace(details=row.details._replace(title=shown))


def redacted_row(row: ListedThread) -> ListedThread:
    """Return a thread of a store with `--redact`."""
    # Imported late: most stores are read without it.
    from ckpt_cli.core.redact import redact, redact_metadata, redact_text

    details = row.details
    if details is None or details.head is None:
        return row
    head = details.head._replace(metadata=redact_metadata(details.head.metadata))
    error = None if details.error is None else redact_text(details.error)
    asked, title = details.question, details.title
    question = None if asked is None else asked._replace(value=redact(asked.value))
    hidden = redact_text(title) if isinstance(title, str) else None
    return row._replace(
        details=details._replace(head=head, error=error, question=question, title=hidden)
    )
