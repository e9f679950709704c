"""Threads as a table, and one thread as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from ckpt_backends.model import Status
from ckpt_cli.render.cells import longest_part, wrap
from ckpt_cli.render.lines import Line, Style, line
from ckpt_cli.render.table import Column, table_lines
from ckpt_cli.render.text import safe_text
from ckpt_cli.render.units import age, size, step_number, when
from ckpt_cli.render.value import counted, summary

if TYPE_CHECKING:
    from ckpt_cli.reading.expiry import Lifetime
    from ckpt_cli.reading.thread import Moment
    from ckpt_cli.reading.threads import Summary

_LABEL = 9
"""Cells of a fact's name."""
_BELOW = 2
_QUESTION = 1000
"""Cells of a question that are shown."""

STATUS_STYLES: dict[Status, Style] = {
    Status.INTERRUPTED: "question",
    Status.ERROR: "error",
    Status.PENDING: "change",
    Status.DONE: "plain",
    Status.UNKNOWN: "dim",
    Status.EMPTY: "dim",
}


PLAINTEXT = "stored unencrypted, in a thread with encrypted checkpoints"


def ago(now: datetime) -> Callable[[str], str]:
    """How long ago the time of a record was, as `3h ago`."""
    return lambda text: f"{age(datetime.fromisoformat(text), now)} ago"


def left(now: datetime) -> Callable[[str], str]:
    """How soon the time of a record is, as `in 3h`."""
    return lambda text: age(datetime.fromisoformat(text), now)


def thread_columns(
    now: datetime,
    *,
    details: bool,
    sizes: bool = True,
    first_message: bool = False,
    expires: bool = False,
) -> Sequence[Column]:
    """The columns of `threads list`; those of the head only where heads are read.

    `sizes` tells that the details come with the thread's size.
    `expires` tells that threads of the store may.
    """
    columns = [
        Column("THREAD", "thread_id", style="head"),
        Column("ACTIVE", "last_at", ago(now), style="time", right=True),
        Column("STEP", "step", right=True, drop=2),
        Column("CHECKPOINTS", "checkpoints", right=True, drop=3),
        Column("NAMESPACES", "namespaces", right=True, drop=4),
        Column("FIRST", "first_at", table=False),
        Column("HEAD", "head", table=False),
    ]
    if expires:
        columns += [Column("EXPIRES", "expires_at", left(now), style="time", right=True)]
    if details:
        columns[1:1] = [Column("STATUS", "status", style=lambda text: STATUS_STYLES[Status(text)])]
        if sizes:
            columns += [Column("SIZE", "bytes", size, right=True, drop=1)]
        columns += [Column("SOURCE", "source", table=False)]
    if first_message:
        columns += [Column("FIRST MESSAGE", "first_message", cut=True)]
    return columns


def namespace_columns() -> Sequence[Column]:
    """The columns of the namespaces in `threads show`."""
    return [
        Column("NAMESPACE", "checkpoint_ns"),
        Column("CHECKPOINTS", "checkpoints", right=True),
        Column("FORKS", "forks", right=True, drop=2),
        Column("TIPS", "tips", right=True, drop=2),
        Column("HEAD", "head", style="id", drop=1),
    ]


def summary_lines(found: Summary, now: datetime, zone: tzinfo, width: int) -> Iterator[Line]:
    """One thread as text."""
    thread, details = found.row.thread, found.row.details
    yield line(("thread ", "dim"), (safe_text(thread.thread_id), "head"))
    if details is not None:
        yield from field("status", details.status, width, STATUS_STYLES[details.status])
    if found.head is not None:
        yield from head_lines(found.head, width)
    yield from lifetime_lines(found.lifetime, now, zone, width)
    if found.plaintext:
        yield from field("warning", f"the head is {PLAINTEXT}", width, "error")
    for name, moment in (("first", thread.first_at), ("last", thread.last_at)):
        if moment is not None:
            yield from field(name, f"{when(moment, now, zone)}  ({age(moment, now)} ago)", width)
    yield from field(
        "size",
        f"{size(found.size.bytes)} in {counted(found.size.checkpoints, 'checkpoint')}"
        f" and {counted(found.size.writes, 'write')}",
        width,
    )
    yield line("")
    rows = [
        {
            "checkpoint_ns": ns.checkpoint_ns or "(root)",
            "checkpoints": ns.checkpoints,
            "forks": ns.forks,
            "tips": ns.tips,
            "head": ns.head,
        }
        for ns in found.in_namespaces
    ]
    yield from table_lines(rows, namespace_columns(), width)


def lifetime_lines(
    found: Lifetime | None, now: datetime, zone: tzinfo, width: int
) -> Iterator[Line]:
    """When a checkpoint expires, and what does before it."""
    if found is None:
        return
    text = "never"
    if found.at is not None:
        text = f"{when(found.at, now, zone)}  ({age(found.at, now)})"
    yield from field("expires", text, width, "time")
    for remark in found.remarks:
        yield from field("note", remark, width, "dim")


def head_lines(head: Moment, width: int) -> Iterator[Line]:
    """What a checkpoint leads to: what is next, what waits, questions and errors."""
    text = f"{head.key.checkpoint_id}  step {step_number(head.number)}"
    yield from field("head", text, width, "id")
    yield from step_lines(head, width, live=True)


def step_lines(moment: Moment, width: int, *, live: bool) -> Iterator[Line]:
    """What is next after a checkpoint, with questions and errors of its tasks.

    `live` tells that the thread stands there, so that tasks may still wait.
    """
    step = moment.step
    yield from field("next", names(step.next) + ("  (assumed)" if step.assumed else ""), width)
    if live and step.waiting != step.next:
        yield from field("waiting", names(step.waiting), width)
    for task in (*step.tasks, *step.others):
        node = safe_text(task.node or "?")
        for question in task.questions:
            mark = "answered" if question.answered else "question"
            style: Style = "dim" if question.answered else "question"
            yield from field(mark, f"{node}: {summary(question.value, _QUESTION)}", width, style)
            if live and not question.answered and question.interrupt_id is not None:
                answer = f'Command(resume={{"{question.interrupt_id}": ...}})'
                yield from field("answer", answer, width, "dim")
        if task.error is not None:
            yield from field("error", f"{node}: {task.error}", width, "error")


def names(nodes: Sequence[str] | None) -> str:
    """Node names as text; `?` where they cannot be known."""
    if nodes is None:
        return "?"
    return ", ".join(map(safe_text, nodes)) or "nothing"


def field(name: str, text: str, width: int, style: Style = "plain") -> Iterator[Line]:
    """A named fact, wrapped under itself; below its name if an id would be broken beside it."""
    text, label = safe_text(text), f"{name:<{_LABEL}}"
    if name and width - _LABEL < longest_part(text) <= width - _BELOW:
        yield line((name, "dim"))
        label = " " * _BELOW
    for part in wrap(text, width - len(label)):
        yield line((label, "dim"), (part, style))
        label = " " * len(label)
