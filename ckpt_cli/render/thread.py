"""Threads as a table, and one thread as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, tzinfo

from ckpt_backends.model import Status
from ckpt_cli.reading.thread import Moment
from ckpt_cli.reading.threads import Summary
from ckpt_cli.render.lines import Line, Style, line
from ckpt_cli.render.table import Column, table_lines
from ckpt_cli.render.text import safe_text
from ckpt_cli.render.units import age, size, when
from ckpt_cli.render.value import counted, summary

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


def thread_columns(now: datetime, *, details: bool) -> Sequence[Column]:
    """The columns of `threads list`; those of the head only where heads are read."""
    columns = [
        Column("THREAD", "thread_id", style="head"),
        Column("ACTIVE", "last_at", ago(now), style="time", right=True),
        Column("STEP", "step", right=True),
        Column("CHECKPOINTS", "checkpoints", right=True),
        Column("NAMESPACES", "namespaces", right=True),
        Column("FIRST", "first_at", table=False),
        Column("HEAD", "head", table=False),
    ]
    if details:
        columns[1:1] = [Column("STATUS", "status", style="change")]
        columns += [
            Column("SIZE", "bytes", size, right=True),
            Column("SOURCE", "source", table=False),
        ]
    return columns


def namespace_columns() -> Sequence[Column]:
    """The columns of the namespaces in `threads show`."""
    return [
        Column("NAMESPACE", "checkpoint_ns"),
        Column("CHECKPOINTS", "checkpoints", right=True),
        Column("FORKS", "forks", right=True),
        Column("TIPS", "tips", right=True),
        Column("HEAD", "head", style="id"),
    ]


def summary_lines(found: Summary, now: datetime, zone: tzinfo) -> Iterator[Line]:
    """One thread as text."""
    thread, details = found.row.thread, found.row.details
    yield line(("thread ", "dim"), (safe_text(thread.thread_id), "head"))
    if details is not None:
        yield field("status", details.status, STATUS_STYLES[details.status])
        if details.head is not None:
            yield from head_lines(details.head)
    if found.plaintext:
        yield field("warning", f"the head is {PLAINTEXT}", "error")
    for name, moment in (("first", thread.first_at), ("last", thread.last_at)):
        if moment is not None:
            yield field(name, f"{when(moment, now, zone)}  ({age(moment, now)} ago)")
    yield field(
        "size",
        f"{size(found.size.bytes)} in {counted(found.size.checkpoints, 'checkpoint')}"
        f" and {counted(found.size.writes, 'write')}",
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
    yield from table_lines(rows, namespace_columns(), 0)


def head_lines(head: Moment) -> Iterator[Line]:
    """What a checkpoint leads to: what is next, what waits, questions and errors."""
    yield field("head", f"{head.key.checkpoint_id}  step {head.number}", "id")
    yield from step_lines(head, live=True)


def step_lines(moment: Moment, *, live: bool) -> Iterator[Line]:
    """What is next after a checkpoint, with questions and errors of its tasks.

    `live` tells that the thread stands there, so that tasks may still wait.
    """
    step = moment.step
    yield field("next", names(step.next) + ("  (assumed)" if step.assumed else ""))
    if live and step.waiting != step.next:
        yield field("waiting", names(step.waiting))
    for task in (*step.tasks, *step.others):
        node = safe_text(task.node or "?")
        for question in task.questions:
            mark = "answered" if question.answered else "question"
            style: Style = "dim" if question.answered else "question"
            yield field(mark, f"{node}: {summary(question.value, 200)}", style)
        if task.error is not None:
            yield field("error", f"{node}: {safe_text(task.error)}", "error")


def names(nodes: Sequence[str] | None) -> str:
    """Node names as text; `?` where they cannot be known."""
    if nodes is None:
        return "?"
    return ", ".join(map(safe_text, nodes)) or "nothing"


def field(name: str, text: str, style: Style = "plain") -> Line:
    """A named fact; the text is made safe to print."""
    return line((f"{name:<8} ", "dim"), (safe_text(text), style))
