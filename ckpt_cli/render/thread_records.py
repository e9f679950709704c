"""Threads of lists as records; see `records`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ckpt_backends.checkpoint_ids import step_of
from ckpt_cli.core.compact_json import json_line, quoted
from ckpt_cli.render.terminal.units import iso_of, optional_iso

if TYPE_CHECKING:
    from datetime import datetime

    from ckpt_backends.model import Thread
    from ckpt_cli.queries.listed_threads import ListedThread

_STEPS_IN_ID = 8000
"""A checkpoint id contains a step of 14 bits with its sign, up to 8191."""


def thread_record(row: ListedThread) -> dict[str, Any]:
    """Return one thread of `threads list`."""
    thread = row.thread
    record = _from_index(thread)
    if row.first_message is not None:
        record["first_message"] = row.first_message
    if row.details is None:
        return record
    # Imported late: lists from the index alone need nothing of heads.
    from ckpt_backends.codec import to_json
    from ckpt_cli.core.tasks.step_nodes import asked_by

    head = row.details.head
    record["status"] = row.details.status.value
    record["conditions"] = [one.value for one in row.details.conditions]
    record["next"] = None if row.details.next is None else list(row.details.next)
    record["runs"] = None if row.details.runs is None else list(row.details.runs)
    if row.details.error is not None:
        record["error"] = row.details.error
    if row.details.question is not None:
        record["question"] = to_json(row.details.question.value)
        record["asked_by"] = list(asked_by(row.details.question))
    if isinstance(row.details.title, str):
        record["title"] = row.details.title
    if row.details.bytes is not None:
        record["bytes"] = row.details.bytes
    if row.details.expires_at is not None:
        record["expires_at"] = optional_iso(row.details.expires_at)
    if head is not None:
        record["step"] = head.step
        record["source"] = head.source
        record["parent"] = head.parent
        record["metadata"] = {name: to_json(value) for name, value in head.metadata.items()}
    return record


def thread_line(row: ListedThread) -> str:
    """Return `thread_record` as a line of JSON; if only the index was read, in half the time."""
    thread_id, head, first, last, checkpoints, namespaces, user = row.thread
    if row.details is not None or row.first_message is not None or user is not None:
        return json_line(thread_record(row))
    step, first_at, last_at = _step(head, checkpoints), _time(first), _time(last)
    return (
        f'{{"thread_id":{quoted(thread_id)},"head":{"null" if head is None else quoted(head)}'
        f',"step":{"null" if step is None else step}'
        f',"first_at":{"null" if first_at is None else quoted(first_at)}'
        f',"last_at":{"null" if last_at is None else quoted(last_at)}'
        f',"checkpoints":{checkpoints},"namespaces":{namespaces}}}'
    )


def _from_index(thread: Thread) -> dict[str, Any]:
    thread_id, head, first, last, checkpoints, namespaces, user = thread
    record = {
        "thread_id": thread_id,
        "head": head,
        "step": _step(head, checkpoints),
        "first_at": _time(first),
        "last_at": _time(last),
        "checkpoints": checkpoints,
        "namespaces": namespaces,
    }
    if user is not None:
        record["user"] = user
    return record


def _step(head: str | None, checkpoints: int) -> int | None:
    """Return the step in the head's id, unless the thread may have more steps than fit there."""
    return None if head is None or checkpoints > _STEPS_IN_ID else step_of(head)


def _time(checkpoint: str | datetime | None) -> str | None:
    """Return the time of a checkpoint; it may be in its id."""
    return iso_of(checkpoint) if isinstance(checkpoint, str) else optional_iso(checkpoint)
