"""Lists of threads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ckpt_backends.checkpoint_ids import step_of
from ckpt_backends.model import Status
from ckpt_cli.core.tasks import asked_by, error_start, path_text
from ckpt_cli.core.values import json_line, quoted
from ckpt_cli.render.table import AGE, AGO, THREAD, Column, Record, iso_of, optional_iso, size
from ckpt_cli.render.text import Span, Style, safe_text
from ckpt_cli.render.values import summary

if TYPE_CHECKING:
    from ckpt_backends.codec.values import Value
    from ckpt_backends.model import Thread
    from ckpt_cli.queries.heads import ListedThread


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


_WHY = 200
"""Maximum width of a question in a list."""
_QUESTION_KEYS = ("question", "query", "prompt", "message", "instruction", "text")
"""Keys under which agents put the text of a question."""


def thread_columns(
    *,
    details: bool,
    wide: bool = False,
    sizes: bool = True,
    first_message: bool = False,
    expires: bool = False,
) -> Sequence[Column]:
    """Return the columns of `threads list`; those of the head only if `details` were read.

    `sizes` adds the size of each thread, and `expires` its expiry. With `wide`, errors and
    questions get more room.
    """
    columns = [
        THREAD,
        Column("ACTIVE", "last_at", AGO, style="time", right=True, drop=1),
        Column("STEP", "step", right=True, drop=6),
        Column("CHECKPOINTS", "checkpoints", right=True, drop=7),
        Column("NAMESPACES", "namespaces", right=True, drop=8),
        Column("FIRST", "first_at", table=False),
        Column("HEAD", "head", table=False),
    ]
    if expires:
        columns += [Column("EXPIRES", "expires_at", AGE, style="time", right=True)]
    if details:
        columns[1:1] = [
            Column("STATUS", "status", table=False),
            Column("STATUS", "conditions", ", ".join, style=marks_style, cut=True, least=14),
            Column("NEXT", "next", table=False),
            Column("NEXT", "runs", counted_names, style="node", cut=True, drop=4),
            Column("WHY", "", cut=True, least=28 if wide else 16, room=40, drop=2, combine=_why),
            Column("ERROR", "error", table=False),
            Column("QUESTION", "question", table=False),
            Column("TITLE", "title", cut=True, least=20, drop=3),
        ]
        if sizes:
            columns += [Column("SIZE", "bytes", size, right=True, drop=5)]
        columns += [Column("SOURCE", "source", table=False)]
    if first_message:
        columns += [Column("FIRST MESSAGE", "first_message", cut=True)]
    return columns


def _why(record: Record, shown: Collection[str]) -> Span:
    """Return the error or else the question for which a thread waits, on one line.

    The node comes before it, unless it is the only one in the column NEXT.
    """
    # Imported late: only tables have this column.
    from ckpt_backends.codec import from_json
    from ckpt_cli.core.tasks import path_text

    names = set(record.get("runs") or ())
    known = names.pop() if "runs" in shown and len(names) == 1 else None
    error = record.get("error")
    if error is not None:
        text = error_start(error)
        return text if known is None else text.removeprefix(f"{known}: "), "error"
    if "question" not in record:
        return "", "plain"
    asked = summary(_asked(from_json(record["question"])), _WHY)
    by = path_text(tuple(record["asked_by"]))
    return asked if by == known else f"{by}: {asked}", "question"


def _asked(question: Value) -> Value:
    """Return the text of a question for people, if a usual key holds it, else the question."""
    if isinstance(question, dict):
        for key in _QUESTION_KEYS:
            text = question.get(key)
            if isinstance(text, str) and text.strip():
                return text
    return question


STATUS_STYLES: dict[Status, Style] = {
    Status.ERROR: "error",
    Status.INTERRUPTED: "question",
    Status.PENDING: "change",
    Status.DONE: "plain",
    Status.UNKNOWN: "dim",
    Status.EMPTY: "dim",
}


def node_names(nodes: Sequence[str] | None) -> str:
    """Return the nodes that are next, in words; `?` if they are not known."""
    if nodes is None:
        return "?"
    return counted_names(nodes) or "nothing"


def next_node_names(paths: Sequence[Sequence[str]] | None) -> str:
    """Return the same for paths into subgraphs."""

    return node_names(None if paths is None else [path_text(tuple(path)) for path in paths])


def counted_names(nodes: Sequence[str]) -> str:
    """Return the nodes, each once: `agent, search ×3`."""
    return ", ".join(
        f"{safe_text(node)} ×{n}" if n > 1 else safe_text(node)
        for node, n in Counter(nodes).items()
    )


def marks_style(marks: Sequence[str]) -> Style:
    """Return the style of the worst of some conditions."""
    known = [Status(mark) for mark in marks if mark in set(Status)]
    if known:
        return STATUS_STYLES[known[0]]
    return "warn" if marks else "plain"
