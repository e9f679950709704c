"""What the list of threads shows of their heads: conditions and titles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ckpt_backends.model import Status, Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.conversation import title_of
from ckpt_cli.queries.head_details import with_titles
from ckpt_cli.queries.listed_threads import Details, ListedThread
from ckpt_cli.reading.redaction import is_redacted
from ckpt_cli.reading.thread import TriggerInference, read_heads


@dataclass(frozen=True, slots=True)
class HeadFacts:
    """The facts about a thread that its line shows, other than those of the index."""

    conditions: Sequence[Status]
    """All conditions, the worst first; at least one."""
    title: str = ""
    """The first line that a person said; `''` if there is none, and with `--redact`."""


def read_head_facts(store: Store, threads: Sequence[Thread]) -> list[HeadFacts]:
    """Return what is shown of the head of each thread."""
    heads = {one.key.thread_id: one for one in read_heads(store, threads, TriggerInference(store))}
    rows = []
    for thread in threads:
        head = heads.get(thread.thread_id)
        if head is not None:
            found = Details(head.conditions, None, None, title=title_of(head.body.values))
        else:
            # An id that is not text can only be listed.
            found = Details((Status.EMPTY if thread.head is None else Status.UNKNOWN,), None, None)
        rows.append(ListedThread(thread, found))
    if is_redacted(store):
        return [HeadFacts(row.details.conditions) for row in rows if row.details is not None]
    titled = with_titles(store, rows, every=True)
    return [_facts(row.details) for row in titled if row.details is not None]


def _facts(details: Details) -> HeadFacts:
    title = details.title
    return HeadFacts(details.conditions, title if isinstance(title, str) else "")
