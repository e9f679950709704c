"""A thread, its status, and what a resume does."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any

from ckpt_backends import shell
from ckpt_backends.model import Status
from ckpt_cli.core.resume import UserMetadata, handler_of, user_metadata
from ckpt_cli.core.tasks import (
    HANDLED,
    RETRIED,
    asked_by,
    error_start,
    failed_at,
    next_paths,
    path_text,
    waiting_paths,
)
from ckpt_cli.render.table import Column, age, size, table_lines, when
from ckpt_cli.render.text import Style, StyledLine, command_field, field, line, safe_text, short_ns
from ckpt_cli.render.threads import STATUS_STYLES, counted_names, next_node_names
from ckpt_cli.render.values import counted, summary

if TYPE_CHECKING:
    from ckpt_cli.core.resume import Resume
    from ckpt_cli.core.state import Join
    from ckpt_cli.core.tasks import NodePath, Question, Step, Task
    from ckpt_cli.queries.show import Lifetime, WholeThread
    from ckpt_cli.reading.thread import Moment


_OWN_HANDLER, _DEFAULT_HANDLER = "__error_handler__", "__default_error_handler__"


@dataclass(frozen=True, slots=True)
class ResumeCall:
    """The call that resumes a thread from its head, in the language of the application."""

    config: str
    """What `config` stands for in the call."""
    call: str | None
    """With `...` for each answer to a question, or for a new input; None if it is not known
    whether anything is left to resume."""
    does: Sequence[str]
    """What it does: a few sentences without a subject."""


def resume_call(head: Moment, found: Resume) -> ResumeCall:
    """Return the call that resumes a thread, and what it does."""
    is_javascript = head.body.is_javascript
    given = "null" if is_javascript else "None"
    # Several tasks of one call store the same question.
    asked = list(
        {
            one.interrupt_id or (one.task_id, place): one
            for run in head.step.runs
            for place, one in enumerate(run.questions)
            if one.is_open
        }.values()
    )
    if asked and found.stored_answer != "next":
        given = _answer(asked, is_javascript=is_javascript)
    elif found.runs == () and not (found.applies or found.handlers):
        given = "{...}"
    call = f"{'await ' if is_javascript else ''}graph.invoke({given}, config)"
    at = {"thread_id": head.key.thread_id}
    config = config_text(at, user_metadata(head.metadata), is_javascript=is_javascript)
    if head.conditions == (Status.UNKNOWN,):
        return ResumeCall(config, None, ("the store does not say whether a node is left to run",))
    return ResumeCall(config, call, tuple(_sentences(head, found, asked)))


def _sentences(head: Moment, found: Resume, asked: Sequence[Question]) -> Iterator[str]:
    if asked and found.stored_answer == "next":
        yield "gives the answer that is stored already to the first question"
    elif asked:
        yield "answers the question" if len(asked) == 1 else f"answers the {len(asked)} questions"
    if found.applies:
        results, them = ("results", "them") if len(found.applies) > 1 else ("result", "it")
        yield f"uses the saved {results} of {_names(found.applies)} without running {them}"
    yield from _runs(head, found)
    if found.saved_inside:
        yield "before LangGraph 1.2.16, a subgraph does not use its saved results: nodes run again"
    if found.answered:
        yield (
            f"gives {_names(found.answered)} the same answer again: it is stored, and comes before"
            " any other"
        )
    if found.stored_answer == "again" and asked:
        yield "without an answer, the last one is used again"
    elif found.stored_answer in ("again", "next") and not asked:
        yield "if a node asks, it gets the answer that was given last"
    elif found.stored_answer == "unused":
        yield "the answer that was given last is stored, too, but no question gets it"
    if head.conditions == (Status.PENDING,):
        yield "first make sure that no run is in progress"


def _runs(head: Moment, found: Resume) -> Iterator[str]:
    """Yield which nodes and error handlers run."""
    if head.step.next is None and Status.ERROR in head.conditions:
        yield "runs the failed task again; the store does not say whether others run"
        return
    if found.possible:
        yield (
            f"runs {_names(found.possible)}; those that are deferred run later, and the store does"
            " not say which they are"
        )
        return
    if found.runs is None:
        yield "goes on, but the store does not say which node runs"
        return
    repeats = set(found.repeats)
    again = [path for path in found.runs if path in repeats]
    fresh = [path for path in found.runs if path not in repeats]
    parts = []
    if again:
        parts.append(f"{_names(again)} again")
    if fresh:
        parts.append(_names(fresh))
    for path in found.handlers:
        parts.append(handler_words(path) + (" again" if path in repeats else ""))
    if parts:
        yield "runs " + ", and ".join(parts)
    elif found.applies:
        yield "ends there: no node is left to run"
    else:
        yield "starts a new run with a new input"


def handler_words(path: NodePath) -> str:
    """Return the name of an error handler for people: `the error handler of charge`."""
    name = path[-1]
    if name == _DEFAULT_HANDLER:
        words = "the default error handler"
    else:
        words = f"the error handler of {safe_text(name.removeprefix(_OWN_HANDLER))}"
    return words if len(path) == 1 else f"{words} in {_names([path[:-1]])}"


def resume_lines(head: Moment, found: Resume, width: int) -> Iterator[StyledLine]:
    """Yield the call that resumes a thread from its head, and what it does."""
    call = resume_call(head, found)
    if call.call is not None:
        yield from field("resume", call.call, width)
        for sentence in call.does:
            yield from field("", sentence, width, "dim")


def config_lines(head: Moment, found: Resume) -> Iterator[StyledLine]:
    """Yield what `config` stands for in that call."""
    call = resume_call(head, found)
    if call.call is not None:
        yield command_field("config", call.config)


def resume_record(head: Moment, found: Resume) -> dict[str, Any]:
    """Return the same for JSON; `runs` is null if it cannot be told."""
    call = resume_call(head, found)
    return {
        "configurable": {"thread_id": head.key.thread_id},
        "metadata": dict(user_metadata(head.metadata)),
        "call": call.call,
        "does": "; ".join(call.does),
        "runs": None if found.runs is None else _texts(found.runs),
        "applies": _texts(found.applies),
        "asks": _texts(found.asks),
        "handlers": _texts(found.handlers),
        "repeats": _texts(found.repeats),
        **({"possible": _texts(found.possible)} if found.possible else {}),
        **({"assumed": True} if found.assumed else {}),
        **({"answered": _texts(found.answered)} if found.answered else {}),
        **({"stored_answer": found.stored_answer} if found.stored_answer else {}),
    }


def _names(paths: Collection[NodePath]) -> str:
    return counted_names(_texts(paths))


def _texts(paths: Collection[NodePath]) -> list[str]:
    return [path_text(path) for path in paths]


def config_text(
    configurable: Mapping[str, str], metadata: UserMetadata, *, is_javascript: bool
) -> str:
    """Return a config as a literal of the language, with `...` for each value that is hidden."""
    parts = {"configurable": configurable, **({"metadata": metadata} if metadata else {})}
    shown = {name: _mapping(part, is_javascript=is_javascript) for name, part in parts.items()}
    keys = {name: name if is_javascript else f'"{name}"' for name in parts}
    return f"{{{', '.join(f'{keys[name]}: {text}' for name, text in shown.items())}}}"


def _mapping(found: UserMetadata, *, is_javascript: bool) -> str:
    def key(name: str) -> str:
        is_bare = is_javascript and name.isascii() and name.isidentifier()
        return name if is_bare else literal(name, is_javascript=is_javascript)

    def value(one: str | int | float | bool | None) -> str:
        if isinstance(one, str):
            return literal(one, is_javascript=is_javascript)
        if one is None:
            return "..."
        return json.dumps(one) if is_javascript else repr(one)

    return f"{{{', '.join(f'{key(name)}: {value(one)}' for name, one in found.items())}}}"


def _answer(asked: Sequence[Question], *, is_javascript: bool) -> str:
    """Return the command that answers questions, with `...` for each answer."""
    ids = [one.interrupt_id for one in asked]
    texts = [literal(one, is_javascript=is_javascript) for one in ids if one is not None]
    answers = ", ".join(f"{text}: ..." for text in texts)
    answer = f"{{{answers}}}" if len(texts) == len(ids) else "..."
    return f"new Command({{resume: {answer}}})" if is_javascript else f"Command(resume={answer})"


def literal(text: str, *, is_javascript: bool) -> str:
    """Return a text that a store holds as a string of the language: pasted, it does nothing."""
    if text.isprintable() and not set(text) & {'"', "\\"}:
        return f'"{text}"'
    return json.dumps(text) if is_javascript else repr(text)


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
    for task in step.runs:
        if task.error is not None:
            became = RETRIED if task.finished else HANDLED if _is_over(task, step) else ""
            text = f"{path_text(failed_at(task))}: {error_start(task.error)}"
            yield from field("error", text + (f"  ({became})" if became else ""), width, "error")
    for question in step.questions:
        mark = "question" if question.is_open else "answered"
        style: Style = "question" if question.is_open else "dim"
        asked = f"{path_text(asked_by(question))}: {summary(question.value, _QUESTION)}"
        yield from field(mark, asked, width, style)
        if question.response_schema is not None:
            schema = summary(question.response_schema, _QUESTION, quote=True)
            yield from field("answer", f"must fit {schema}", width, "dim")
    if resume is not None:
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
