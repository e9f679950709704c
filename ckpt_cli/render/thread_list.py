"""The columns of lists of threads."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from ckpt_cli.render.status import counted_names, marks_style
from ckpt_cli.render.terminal.styled_text import Span
from ckpt_cli.render.terminal.table import THREAD, Column, Record
from ckpt_cli.render.terminal.units import ago, left, size

if TYPE_CHECKING:
    from ckpt_backends.codec.values import Value

_WHY = 200
"""Maximum width of a question in a list."""
_QUESTION_KEYS = ("question", "query", "prompt", "message", "instruction", "text")
"""Keys under which agents put the text of a question."""


def thread_columns(
    now: datetime,
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
        Column("ACTIVE", "last_at", ago(now), style="time", right=True, drop=1),
        Column("STEP", "step", right=True, drop=6),
        Column("CHECKPOINTS", "checkpoints", right=True, drop=7),
        Column("NAMESPACES", "namespaces", right=True, drop=8),
        Column("FIRST", "first_at", table=False),
        Column("HEAD", "head", table=False),
    ]
    if expires:
        columns += [Column("EXPIRES", "expires_at", left(now), style="time", right=True)]
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
    from ckpt_cli.core.tasks.error_kinds import error_start
    from ckpt_cli.core.tasks.step_nodes import path_text
    from ckpt_cli.render.values.one_line import summary

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
