"""Print what holds at the head of a thread, and for the thread as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from ckpt_backends import shell
from ckpt_backends.model import Status
from ckpt_cli.core.tasks.error_kinds import error_start
from ckpt_cli.core.tasks.resume import handler_of
from ckpt_cli.core.tasks.step_nodes import (
    HANDLED,
    RETRIED,
    asked_by,
    failed_at,
    next_paths,
    path_text,
    waiting_paths,
)
from ckpt_cli.render.status import STATUS_STYLES, counted_names, next_node_names
from ckpt_cli.render.terminal.fields import command_field, field
from ckpt_cli.render.terminal.safe_text import short_ns
from ckpt_cli.render.terminal.styled_text import Style, StyledLine, line
from ckpt_cli.render.terminal.table import Column, table_lines
from ckpt_cli.render.terminal.units import age, size, when
from ckpt_cli.render.values.one_line import counted, summary

if TYPE_CHECKING:
    from ckpt_cli.core.tasks.resume import Resume
    from ckpt_cli.core.tasks.tasks import Step, Task
    from ckpt_cli.core.tasks.triggers import Join
    from ckpt_cli.queries.show import WholeThread
    from ckpt_cli.threads.checkpoint import Moment
    from ckpt_cli.threads.expiry import Lifetime

_QUESTION = 1000
"""Maximum width of a question."""


_MEANINGS: dict[Status, str] = {
    Status.PENDING: "  (still running, or stopped before it finished)",
    Status.EMPTY: "  (no checkpoint in the root namespace)",
}
"""What a status leaves open."""

_NOT_STORED = "this store does not say which nodes read the last values"

PLAINTEXT = "stored unencrypted, in a thread with encrypted checkpoints"


def thread_lines(
    found: WholeThread, words: Sequence[str], now: datetime, zone: tzinfo, width: int
) -> Iterator[StyledLine]:
    """Yield how old and how large a thread is, and what `ckpt` changed in it.

    `words` are the options that name its store.
    """
    thread = found.row.thread
    for name, moment in (("created", thread.first_at), ("active", thread.last_at)):
        if moment is not None:
            yield from field(name, f"{when(moment, now, zone)}  ({age(moment, now)} ago)", width)
    holds = counted(thread.checkpoints, "checkpoint")
    if thread.namespaces > 1:
        holds += f" of {thread.namespaces} namespaces"
    if found.size is not None:
        holds = f"{size(found.size.bytes)} in {holds} and {counted(found.size.writes, 'write')}"
    yield from field("size", holds, width)
    yield from _operation_lines(found, words, now, width)
    if found.in_namespaces is not None:
        yield line("")
        spaces = [one._asdict() for one in found.in_namespaces]
        yield from table_lines(spaces, _namespace_columns(), width)


def _namespace_columns() -> Sequence[Column]:
    return [
        Column("NAMESPACE", "checkpoint_ns", lambda ns: short_ns(ns) or "(root)"),
        Column("CHECKPOINTS", "checkpoints", right=True),
        Column("FORKS", "forks", right=True, drop=2),
        Column("TIPS", "tips", right=True, drop=2),
        Column("HEAD", "head", style="id", drop=1),
    ]


def rollback_lines(
    found: WholeThread, resume: Resume | None, words: Sequence[str], width: int
) -> Iterator[StyledLine]:
    """Yield the command that goes back to before a failed step, where `ckpt` can roll back."""
    if not found.can_roll_back:
        return
    ids = [found.row.thread.thread_id]
    yield command_field("or", shell.command("ckpt", *words, "rollback", "--last-good", ids=ids))
    yield from field(
        "", "goes back to before the failed step; all of its tasks run again", width, "dim"
    )
    if resume is not None and resume.answered:
        yield command_field("or", shell.command("ckpt", *words, "repair", "writes", ids=ids))
        yield from field(
            "", "drops the answer that failed, so that the node asks again", width, "dim"
        )


def join_lines(joins: Sequence[Join], width: int) -> Iterator[StyledLine]:
    """Yield the nodes that wait for others, of which some have finished."""
    for one in joins:
        waits, has = (counted_names(names) for names in (one.waits_for, one.has))
        yield from field("join", f"{one.node} waits for {waits}; has {has}", width)


def _operation_lines(
    found: WholeThread, words: Sequence[str], now: datetime, width: int
) -> Iterator[StyledLine]:
    """Yield what `ckpt` changed, and the command that takes back the newest change."""
    for place, one in enumerate(found.operations):
        operation = one.operation
        text = f"{operation.op}  {operation.action}, {age(operation.at, now)} ago"
        text += f", undone by {one.undone_by}" if one.undone_by else ""
        text += f": {operation.reason}" if operation.reason else ""
        yield from field("changes" if place == 0 else "", text, width, "dim" if place else "plain")
    # To take back an undo is to redo.
    changes = (one for one in found.operations if one.operation.undoes is None)
    newest = next((one for one in changes if one.is_undoable), None)
    if newest is not None:
        undo = shell.command("ckpt", *words, "undo", ids=[newest.op])
        yield command_field("undo", undo)


def status_lines(conditions: Sequence[Status], width: int) -> Iterator[StyledLine]:
    """Yield all conditions of a thread, the worst first."""
    text = ", ".join(conditions) + _MEANINGS.get(conditions[0], "")
    yield from field("status", text, width, STATUS_STYLES[conditions[0]])


def lifetime_lines(
    found: Lifetime | None, now: datetime, zone: tzinfo, width: int
) -> Iterator[StyledLine]:
    """Yield when a checkpoint expires, and what expires before it."""
    if found is None:
        return
    text = "never"
    if found.at is not None:
        text = f"{when(found.at, now, zone)}  ({age(found.at, now)})"
    yield from field("expires", text, width, "time")
    for remark in found.remarks:
        yield from field("note", remark, width, "dim")


def step_lines(
    moment: Moment, width: int, *, live: bool, resume: Resume | None
) -> Iterator[StyledLine]:
    """Yield what is next after a checkpoint, with the errors and questions of its tasks.

    `live`: it is the head, so only tasks without a saved result are next. `resume` is what a resume
    from it does, if it is the head of the root graph.
    """
    step = moment.step
    yield from field("next", _next_words(moment, live=live), width)
    if live and resume is None and any(task.finished for task in step.tasks):
        saved = [task.node for task in step.tasks if task.finished and task.node is not None]
        results = "result" if len(saved) == 1 else "results"
        yield from field("saved", f"the {results} of {counted_names(saved)}", width)
    runs = (*step.tasks, *step.others)
    for task in runs:
        if task.error is not None:
            became = RETRIED if task.finished else HANDLED if _is_over(task, step) else ""
            text = f"{path_text(failed_at(task))}: {error_start(task.error)}"
            yield from field("error", text + (f"  ({became})" if became else ""), width, "error")
    for task in runs:
        for question in task.questions:
            mark = "question" if question.is_open else "answered"
            style: Style = "question" if question.is_open else "dim"
            asked = f"{path_text(asked_by(question))}: {summary(question.value, _QUESTION)}"
            yield from field(mark, asked, width, style)
            if question.response_schema is not None:
                schema = summary(question.response_schema, _QUESTION, quote=True)
                yield from field("answer", f"must fit {schema}", width, "dim")
    if resume is not None:
        from ckpt_cli.render.resume import resume_lines

        yield from resume_lines(moment, resume, width)


def _is_over(task: Task, step: Step) -> bool:
    """Return whether the error handler of a failed task has finished."""
    handler = handler_of(task, step)
    return task.handled and handler is not None and handler.finished


def _next_words(moment: Moment, *, live: bool) -> str:
    """The nodes that are next; if they are unknown or likely only, with the reason."""
    step = moment.step
    if step.next is None:
        problem = moment.body.problem
        return f"unknown: {_NOT_STORED if problem is None else 'the checkpoint cannot be read'}"
    text = next_node_names(waiting_paths(step) if live else next_paths(step))
    return f"{text}  (assumed: {_NOT_STORED})" if step.assumed else text
