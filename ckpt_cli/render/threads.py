"""Lists of threads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from ckpt_backends.codec import from_json
from ckpt_backends.model import Status, step_of
from ckpt_cli.core.resume import WHY_CODES
from ckpt_cli.core.tasks import asked_by, error_start, path_text
from ckpt_cli.core.values import json_line, quoted
from ckpt_cli.render.fields import Field, Part, Shape, known
from ckpt_cli.render.table import AGE, AGO, THREAD, Column, Record, iso_of, optional_iso, size, span
from ckpt_cli.render.text import Span, Style, safe_text
from ckpt_cli.render.types import BYTES, INTEGER, TEXT, TIME, VALUE, VALUES, one_of
from ckpt_cli.render.values import summary

if TYPE_CHECKING:
    from ckpt_backends.codec.values import Value
    from ckpt_cli.core.resume import Unsaved, Why
    from ckpt_cli.core.state import Join
    from ckpt_cli.queries.heads import Details, ListedThread


_STEPS_IN_ID = 8000
"""A checkpoint id contains a step of 14 bits with its sign, up to 8191."""


def _step(head: str | None, checkpoints: int) -> int | None:
    """Return the step in the head's id, unless the thread may have more steps than fit there."""
    return None if head is None or checkpoints > _STEPS_IN_ID else step_of(head)


def _time(checkpoint: str | datetime | None) -> str | None:
    """Return the time of a checkpoint; it may be in its id."""
    return iso_of(checkpoint) if isinstance(checkpoint, str) else optional_iso(checkpoint)


_TIME = TIME.or_null.converted_by(_time)
"""Almost all times are in ids, whose text takes half the time without a `datetime`."""


def _head_step(row: ListedThread) -> int | None:
    """Return the step in the head's id, unless the thread may have more steps than fit there."""
    return _step(row.thread.head, row.thread.checkpoints)


def user_of(row: ListedThread) -> str | None:
    """Return the user that the layout records, or else the one that was found."""
    return row.thread.user or (row.details.user if row.details is not None else None)


def _title(found: Details) -> str | None:
    """Return the title, unless the messages are not read."""
    return found.title if isinstance(found.title, str) else None


STATUS = one_of(*Status)
_QUESTION = Shape(
    "The first question that waits for an answer.",
    Field("question", VALUE, "First question that waits for an answer.", "value"),
    Field("asked_by", TEXT.list, "Nodes from the root to the one that asks.", asked_by),
)


def why_text(why: Why) -> str:
    """Return in words why a thread does not go on; a question mark says that rows do not prove
    it.
    """
    nodes = counted_names(why.nodes)
    idle = None if why.idle is None else span(int(why.idle.total_seconds()))
    silent = "silent" if idle is None else f"silent for {idle}"
    match why.code:
        case "running":
            return f"a run may be in progress (last checkpoint {idle} ago)"
        case "not-resumed":
            return "nothing ran since an update" + ("" if idle is None else f" {idle} ago")
        case "recursion-limit":
            return f"{why.number} steps without an end: recursion limit?"
        case "joins":
            return "; ".join(map(join_text, why.joins))
        case "cannot-save" if why.unsaved is not None:
            return _unsaved_text(why, why.unsaved)
    if why.unsaved is not None:
        return f"{silent} after {nodes} (killed?)"
    if why.may_wait:
        return f"{silent} before {nodes} (killed, or a breakpoint?)"
    return f"{silent} in {nodes} (killed?)"


def _unsaved_text(why: Why, unsaved: Unsaved) -> str:
    step = "the step" if why.number is None else f"step {why.number}"
    cause = f": {safe_text(unsaved.cause)}?" if unsaved.cause else ""
    return f"{step} could not be saved{unsaved.times}{cause}"


def join_text(join: Join) -> str:
    """Return for which branches a node waits, and which came: `close waits for b, c; a came`."""
    waits, has = counted_names(join.waits_for), counted_names(join.has)
    return f"{safe_text(join.node)} waits for {waits}; {has} came"


WHY = Shape(
    "Why a thread does not go on, as far as its rows tell.",
    Field("code", one_of(*WHY_CODES), "The reason."),
    Field("text", TEXT, "The same in words.", why_text),
)
_HEAD = Shape(
    "The head of a thread.",
    Field("step", INTEGER.or_null, "Step of the head."),
    Field("source", TEXT.or_null, "How the head was made: input, loop, update, fork."),
    Field("parent", TEXT.or_null, "Parent of the head."),
    Field("metadata", VALUES, "Metadata of the head."),
)
_DETAILS = Shape(
    "What the head of a thread tells.",
    Field("status", STATUS, "The worst of `conditions`."),
    Field("conditions", STATUS.list, "All that hold, the worst first."),
    Field("next", TEXT.list.or_null, "Nodes of the tasks that wait, as get_state."),
    Field("runs", TEXT.list.or_null, "Nodes that run first in a resume; null if not known."),
    known("error", TEXT, "Error of a task that failed."),
    known("why", WHY, "Why it does not go on, unless an error or a question says it."),
    Part(_QUESTION, "question"),
    known("title", TEXT, "First line of what a person said first.", _title),
    known("bytes", BYTES, "Stored size."),
    known("expires_at", TIME, "When the head expires."),
    Part(_HEAD, "head"),
)
LISTED = Shape(
    "A thread. What is read from its head is absent if that is not read.",
    Field("thread_id", TEXT, "Thread.", "thread.thread_id"),
    Field("head", TEXT.or_null, "Checkpoint from which LangGraph resumes.", "thread.head"),
    Field("step", INTEGER.or_null, "Step of the head.", _head_step),
    Field("first_at", _TIME, "Time of the oldest checkpoint.", "thread.first"),
    Field("last_at", _TIME, "Time of the newest checkpoint.", "thread.last"),
    Field("checkpoints", INTEGER, "Checkpoints in all namespaces.", "thread.checkpoints"),
    Field("namespaces", INTEGER, "Namespaces, with the root.", "thread.namespaces"),
    known("user", TEXT, "User, as the layout or the metadata say.", user_of),
    known("first_message", TEXT, "First message by a human, with --first-message."),
    Part(_DETAILS, "details"),
)


def thread_line(row: ListedThread) -> str:
    """Return the record as a line of JSON; if only the index was read, in half the time."""
    thread_id, head, first, last, checkpoints, namespaces, user = row.thread
    if row.details is not None or row.first_message is not None or user is not None:
        return json_line(LISTED.record(row))
    step, first_at, last_at = _step(head, checkpoints), _time(first), _time(last)
    return (
        f'{{"thread_id":{quoted(thread_id)},"head":{"null" if head is None else quoted(head)}'
        f',"step":{"null" if step is None else step}'
        f',"first_at":{"null" if first_at is None else quoted(first_at)}'
        f',"last_at":{"null" if last_at is None else quoted(last_at)}'
        f',"checkpoints":{checkpoints},"namespaces":{namespaces}}}'
    )


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
    heads = [
        Column("USER", "user", cut=True, drop=4),
        "status",
        Column("STATUS", "conditions", ", ".join, style=marks_style, cut=True, least=14),
        "next",
        Column("NEXT", "runs", counted_names, style="node", cut=True, drop=4),
        Column("WHY", "", cut=True, least=28 if wide else 16, room=40, drop=2, combine=_why),
        "error",
        Column("WHY", "why", lambda why: why["text"], table=False),
        "question",
        Column("TITLE", "title", cut=True, least=20, drop=3),
    ]
    return LISTED.columns(
        THREAD,
        *(heads if details else ()),
        Column("ACTIVE", "last_at", AGO, style="time", right=True, drop=1),
        Column("STEP", "step", right=True, drop=6),
        Column("CHECKPOINTS", "checkpoints", right=True, drop=7),
        Column("NAMESPACES", "namespaces", right=True, drop=8),
        *("first_at", "head"),
        *([Column("EXPIRES", "expires_at", AGE, style="time", right=True)] if expires else ()),
        *([Column("SIZE", "bytes", size, right=True, drop=5)] if details and sizes else ()),
        *(["source"] if details else ()),
        *([Column("FIRST MESSAGE", "first_message", cut=True)] if first_message else ()),
    )


def _why(record: Record, shown: Collection[str]) -> Span:
    """Return the error or else the question for which a thread waits, on one line; without one,
    why it does not go on.

    The node comes before it, unless it is the only one in the column NEXT.
    """
    names = set(record.get("runs") or ())
    known = names.pop() if "runs" in shown and len(names) == 1 else None
    error = record.get("error")
    if error is not None:
        text = error_start(error)
        return text if known is None else text.removeprefix(f"{known}: "), "error"
    if "question" not in record:
        why = record.get("why")
        return ("", "plain") if why is None else (why["text"], "change")
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
