"""A thread, one of its checkpoints with its state, and what a resume does."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ckpt_backends import shell
from ckpt_backends.codec import to_json
from ckpt_backends.codec.values import Cut, Value
from ckpt_backends.model import NULL_TASK_ID, Status
from ckpt_cli.core import tasks
from ckpt_cli.core.conversation import said
from ckpt_cli.core.resume import Resume, UserMetadata, handler_of, user_metadata
from ckpt_cli.core.state import MEANINGS, NOT_STORED, Join
from ckpt_cli.core.values import Selected, clip_state, format_path
from ckpt_cli.queries.show import CheckpointView, Lifetime, Summary, WholeThread
from ckpt_cli.render import table
from ckpt_cli.render.checkpoint import CHECKPOINT, OPERATION, WRITE, checkpoint_fields
from ckpt_cli.render.fields import Field, Part, Shape, View, inside, known, optional
from ckpt_cli.render.text import (
    Span,
    Style,
    StyledLine,
    Ui,
    cell_len,
    command_field,
    field,
    line,
    pad,
    safe_text,
    short_ns,
)
from ckpt_cli.render.threads import (
    LISTED,
    STATUS_STYLES,
    counted_names,
    join_text,
    next_node_names,
    user_of,
    why_text,
)
from ckpt_cli.render.types import ANY, FLAG, INTEGER, TEXT, TIME, VALUE, VALUES, one_of
from ckpt_cli.render.values import block, counted, summary, value_text

if TYPE_CHECKING:
    from ckpt_cli.core.resume import Why
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


def _sentences(head: Moment, found: Resume, asked: Sequence[tasks.Question]) -> Iterator[str]:
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


def handler_words(path: tasks.NodePath) -> str:
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


class _Resumed(NamedTuple):
    """What a resume from a head does, and the call."""

    head: Moment
    found: Resume
    call: ResumeCall


def _resumed(view: CheckpointView) -> _Resumed | None:
    head, found = view.moment, view.resume
    return None if found is None else _Resumed(head, found, resume_call(head, found))


def _joins(found: Summary) -> Sequence[Join]:
    return () if found.head is None else found.head.joins


def _names(paths: Collection[tasks.NodePath]) -> str:
    return counted_names(_texts(paths))


def _texts(paths: Collection[tasks.NodePath]) -> list[str]:
    return [tasks.path_text(path) for path in paths]


def _configurable(one: _Resumed) -> dict[str, str]:
    return {"thread_id": one.head.key.thread_id}


def _metadata(one: _Resumed) -> UserMetadata:
    return user_metadata(one.head.metadata)


_ANSWERS = one_of("next", "again", "unused")
_PATHS = TEXT.list.converted_by(_texts)
RESUME = Shape(
    "The call that resumes a thread, and what the newest LangGraph does then.",
    Field("configurable", TEXT.by_name, "Of the config of the call.", _configurable),
    Field("metadata", ANY.by_name, "Of that config; null for what is hidden.", _metadata),
    Field("call", TEXT.or_null, "The call; null if the status is `unknown`.", "call.call"),
    Field("does", TEXT, "What it does, in words.", lambda one: "; ".join(one.call.does)),
    *inside(
        "found",
        Field("runs", _PATHS.or_null, "Nodes that run first; null if the store does not tell."),
        Field("applies", _PATHS, "Nodes whose saved result is used without running them."),
        Field("asks", _PATHS, "Nodes that ask again, if resumed without an answer."),
        Field("handlers", _PATHS, "Error handlers that run, by the names of their nodes."),
        Field("repeats", _PATHS, "Those of `runs` and `handlers` that had begun before."),
        optional("possible", _PATHS, "Where `runs` is null: one or more of these run."),
        optional("assumed", FLAG, "The name of a handler is not proven."),
        optional("answered", _PATHS, "Nodes that failed with a stored answer, and get it again."),
        optional("stored_answer", _ANSWERS, "What becomes of the answer that was given last."),
    ),
)
_REBUILT = "state.rebuilt"
_JOIN = Shape(
    "A node that waits for several others, of which some have finished.",
    Field("node", TEXT, "Node."),
    Field("waits_for", TEXT.list, "Nodes that it waits for."),
    Field("has", TEXT.list, "Those that have finished."),
)
_LIFETIME = Shape(
    "When a checkpoint expires.",
    known("expires_at", TIME, "When it expires.", "at"),
    known("writes_expire_at", TIME, "When its writes expire, if before.", "writes_at"),
    known("ancestor_expires_at", TIME, "When an ancestor expires, if before.", "ancestor_at"),
)
_NAMESPACE = Shape(
    "A namespace of a thread.",
    Field("checkpoint_ns", TEXT, "Namespace; '' is the root graph."),
    Field("checkpoints", INTEGER, "Its checkpoints."),
    Field("tips", INTEGER, "Those without children."),
    Field("forks", INTEGER, "Those with several."),
    Field("head", TEXT.or_null, "Its head."),
)
_WHOLE = (
    known("in_namespaces", _NAMESPACE.list, "Each namespace, with --long."),
    optional("operations", OPERATION.list, "What changed the thread last, with --long."),
)
WHOLE = Shape(
    "A thread as a whole.",
    Part(LISTED, "row"),
    Part(Shape("", Field("all_writes", INTEGER, "Writes in it, with --long.", "writes")), "size"),
    *_WHOLE,
)
_ENDS = (
    known("input", VALUE, "The input that waits there for the next step.", "given"),
    optional("unloaded", TEXT, "What the saver does instead of loading this head."),
    Part(_LIFETIME, "lifetime"),
    optional("plaintext", FLAG, "It is stored plain, in a thread with encrypted checkpoints."),
)
SHOW = Shape(
    "A checkpoint with its state; at the head of the root graph, with the thread as a whole.",
    # What holds for the thread has no key of the checkpoint, such as `next`.
    Part(WHOLE, "thread"),
    *checkpoint_fields("write_count"),
    Field("values", VALUES, "Channel to value.", "state.values"),
    Field("rebuilt", TEXT.by_name, "How values were rebuilt that are not stored.", _REBUILT),
    Field("writes", WRITE.list, "What the tasks of the step after it wrote, in order."),
    optional("joins", _JOIN.list, "Nodes that wait for several others."),
    optional("writes_dropped", FLAG, "A new input came first: they were not applied.", "dropped"),
    optional("unstored", TEXT.list, "Channels whose value is lost, or never stored."),
    known("resume", RESUME, "What a resume does, at the head of the root graph.", _resumed),
    *_ENDS,
    known("memories", ANY.list, "Long-term memory made from the thread."),
)
_NEXT = ("next", "next_paths", "waiting", "tasks", "interrupts")
SUMMARY = Shape(
    "A thread as a whole, without its state.",
    Part(LISTED, "thread.row"),
    *inside("thread", *_WHOLE),
    Field("writes", INTEGER, "Writes in the thread.", "thread.size.writes"),
    Part(
        Shape(
            "What is next.",
            *map(CHECKPOINT.fields.__getitem__, _NEXT),
            known("resume", RESUME, "What a resume does.", _resumed),
        ),
        "head",
    ),
    Field("joins", _JOIN.list, "Nodes that wait for several others.", _joins),
    Part(Shape("How it is stored.", *_ENDS[1:]), "head"),
)


class Sources(NamedTuple):
    """Where a checkpoint is stored."""

    store: str
    """URL without secrets."""
    queries: Sequence[str]


SOURCES = Shape(
    "Where a checkpoint is stored.",
    Field("store", TEXT, "URL without secrets."),
    Field("queries", TEXT.list, "Queries that find it there."),
)
SOURCES_VIEW = View(
    SOURCES.record,
    lambda found, _: (
        StyledLine(((safe_text(query), "plain"),), whole=True) for query in found.queries
    ),
    lambda found: ({"query": query} for query in found.queries),
    table.plain_columns("query"),
)
PICKED = Shape(
    "A part of the state.",
    Field("path", TEXT, "Where it is.", lambda one: format_path(one.path)),
    Field("value", VALUE, "Value."),
)
_WRITE_COLUMNS = WRITE.columns(
    table.Column("NODE", "node", style="node"),
    table.Column("TASK", "task_id", lambda text: text[:8], style="dim"),
    table.Column("IDX", "idx", right=True),
    table.Column("CHANNEL", "channel", style="head"),
    table.Column("TYPE", "type"),
    table.Column("SIZE", "bytes", table.size, right=True),
    table.Column("VALUE", "value", value_text, cut=True),
)


def _channel_rows(found: CheckpointView) -> Iterator[dict[str, Any]]:
    """Yield one row for each channel."""
    for name, value in table.values_record(found.state.values).items():
        yield {"channel": name, "value": value, "rebuilt": found.state.rebuilt.get(name)}


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


def _answer(asked: Sequence[tasks.Question], *, is_javascript: bool) -> str:
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


def thread_lines(found: WholeThread, words: Sequence[str], ui: Ui) -> Iterator[StyledLine]:
    """Yield how old and how large a thread is, and what `ckpt` changed in it.

    `words` are the options that name its store.
    """
    thread = found.row.thread
    if (user := user_of(found.row)) is not None:
        yield from field("user", safe_text(user), ui.width)
    for name, moment in (("created", thread.first_at), ("active", thread.last_at)):
        if moment is not None:
            at = f"{table.when(moment, ui.now, ui.zone)}  ({table.age(moment, ui.now)} ago)"
            yield from field(name, at, ui.width)
    holds = counted(thread.checkpoints, "checkpoint")
    if thread.namespaces > 1:
        holds += f" of {thread.namespaces} namespaces"
    if found.size is not None:
        holds = (
            f"{table.size(found.size.bytes)} in {holds} and {counted(found.size.writes, 'write')}"
        )
    yield from field("size", holds, ui.width)
    yield from _operation_lines(found, words, ui)
    if found.in_namespaces is not None:
        yield line("")
        spaces = map(_NAMESPACE.record, found.in_namespaces)
        yield from table.table_lines(spaces, _NAMESPACE_COLUMNS, ui)


_NAMESPACE_COLUMNS = _NAMESPACE.columns(
    table.Column("NAMESPACE", "checkpoint_ns", lambda ns: short_ns(ns) or "(root)"),
    table.Column("CHECKPOINTS", "checkpoints", right=True),
    table.Column("FORKS", "forks", right=True, drop=2),
    table.Column("TIPS", "tips", right=True, drop=2),
    table.Column("HEAD", "head", style="id", drop=1),
)


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
        yield from field("join", join_text(one), width)


def _operation_lines(found: WholeThread, words: Sequence[str], ui: Ui) -> Iterator[StyledLine]:
    """Yield what `ckpt` changed, and the command that takes back the newest change."""
    for place, one in enumerate(found.operations):
        operation = one.operation
        text = f"{operation.op}  {operation.action}, {table.age(operation.at, ui.now)} ago"
        text += f", undone by {one.undone_by}" if one.undone_by else ""
        text += f": {operation.reason}" if operation.reason else ""
        style: Style = "dim" if place else "plain"
        yield from field("changes" if place == 0 else "", text, ui.width, style)
    # To take back an undo is to redo.
    changes = (one for one in found.operations if one.operation.undoes is None)
    newest = next((one for one in changes if one.is_undoable), None)
    if newest is not None:
        undo = shell.command("ckpt", *words, "undo", ids=[newest.op])
        yield command_field("undo", undo)


def status_lines(
    conditions: Sequence[Status], width: int, why: Why | None = None
) -> Iterator[StyledLine]:
    """Yield all conditions of a thread, the worst first, and why it does not go on."""
    text = ", ".join(conditions) + ("" if why else _MEANINGS.get(conditions[0], ""))
    yield from field("status", text, width, STATUS_STYLES[conditions[0]])
    yield from why_lines(why, width)


def why_lines(why: Why | None, width: int) -> Iterator[StyledLine]:
    """Yield why a thread does not go on; joins have lines of their own."""
    if why is not None and not why.joins:
        yield from field("why", why_text(why), width, "change")


def lifetime_lines(found: Lifetime | None, ui: Ui) -> Iterator[StyledLine]:
    """Yield when a checkpoint expires, and what expires before it."""
    if found is None:
        return
    text = "never"
    if found.at is not None:
        text = f"{table.when(found.at, ui.now, ui.zone)}  ({table.age(found.at, ui.now)})"
    yield from field("expires", text, ui.width, "time")
    for remark in found.remarks:
        yield from field("note", remark, ui.width, "dim")


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
            became = (
                tasks.RETRIED if task.finished else tasks.HANDLED if _is_over(task, step) else ""
            )
            text = f"{tasks.path_text(tasks.failed_at(task))}: {tasks.error_start(task.error)}"
            yield from field("error", text + (f"  ({became})" if became else ""), width, "error")
    for question in step.questions:
        mark = "question" if question.is_open else "answered"
        style: Style = "question" if question.is_open else "dim"
        asked = f"{tasks.path_text(tasks.asked_by(question))}: {summary(question.value, _QUESTION)}"
        yield from field(mark, asked, width, style)
        if question.response_schema is not None:
            schema = summary(question.response_schema, _QUESTION, quote=True)
            yield from field("answer", f"must fit {schema}", width, "dim")
    if resume is not None:
        yield from resume_lines(moment, resume, width)


def _is_over(task: tasks.Task, step: tasks.Step) -> bool:
    """Return whether the error handler of a failed task has finished."""
    handler = handler_of(task, step)
    return task.handled and handler is not None and handler.finished


def _next_words(moment: Moment, *, live: bool) -> str:
    """The nodes that are next; if they are unknown or likely only, with the reason."""
    step = moment.step
    if step.next is None:
        problem = moment.body.problem
        return f"unknown: {_NOT_STORED if problem is None else 'the checkpoint cannot be read'}"
    text = next_node_names(tasks.waiting_paths(step) if live else tasks.next_paths(step))
    return f"{text}  (assumed: {_NOT_STORED})" if step.assumed else text


_INDENT = 2
_SIZE_CELLS = 16
"""Columns for the size and the gaps in the line of a write."""
_TIME_CELLS = 14
"""Columns of a time such as `  10:00:30.100`."""
_WORTH = 20
"""Minimum columns of a value; if fewer are left, times are not shown."""
_WIDEST = 30
"""Maximum width of the node and channel columns of writes; longer names are not cut."""


def show_lines(
    found: CheckpointView,
    ui: Ui,
    *,
    writes: bool,
    metadata: bool,
    whole: bool = True,
    words: Sequence[str] = (),
) -> Iterator[StyledLine]:
    """Yield a checkpoint with its values, and optionally its writes and metadata.

    With the thread as a whole, it begins with what is wrong and how to go on; `words` are the
    options that name the store. If not `whole`, long values are cut, and say how to see all of
    them.
    """
    width = ui.width
    if found.thread is None:
        yield from standing_lines(found, ui)
        yield from _trouble_lines(found, ui)
    else:
        yield from _urgent_lines(found, found.thread, words, width)
        yield from _trouble_lines(found, ui)
        yield from _place_lines(found, ui)
        yield from thread_lines(found.thread, words, ui)
    if found.memories:
        from ckpt_cli.render.memory import memory_lines  # late: most threads have none

        yield from memory_lines(found.memories, ui)
    yield from given_lines(found, width)
    for name, value in found.state.values.items():
        yield line("")
        remark = found.state.rebuilt.get(name) or MEANINGS.get(name)
        shown, is_cut = (value, False) if whole else clip_state(value)
        if is_cut:
            how = f"cut; --channel {shell.word(name)} or --full shows all"
            remark = f"{remark}; {how}" if remark else how
        yield from value_lines(name, shown, width, remark)
    if writes:
        yield line("")
        yield from placed_lines(found.writes, ui, dropped=found.dropped)
    if metadata:
        yield line("")
        stored = cast("Value", dict(found.moment.metadata))
        shown, is_cut = (stored, False) if whole else clip_state(stored)
        remark = "cut; --full shows all" if is_cut else None
        yield from value_lines("metadata", shown, width, remark)


SHOW_VIEW = View(
    SHOW.record, show_lines, _channel_rows, table.plain_columns("channel", "value", "rebuilt")
)
WRITES_VIEW = SHOW_VIEW._replace(
    rows=lambda found: map(WRITE.record, found.writes), columns=_WRITE_COLUMNS
)
"""Of `--writes`, whose rows are the writes."""


def _urgent_lines(
    found: CheckpointView, thread: WholeThread, words: Sequence[str], width: int
) -> Iterator[StyledLine]:
    """Yield what is wrong with a thread or what it waits for, and how it goes on."""
    moment, resume = found.moment, found.resume
    yield from field("thread", moment.key.thread_id, width, "head")
    details = thread.row.details
    yield from status_lines(moment.conditions, width, None if details is None else details.why)
    yield from step_lines(moment, width, live=True, resume=resume)
    if resume is not None:
        yield from config_lines(moment, resume)
    yield from rollback_lines(thread, resume, words, width)
    yield from join_lines(found.joins, width)


def _trouble_lines(found: CheckpointView, ui: Ui) -> Iterator[StyledLine]:
    """Yield what of a checkpoint cannot be read, and what else a reader should know of it."""
    width = ui.width
    if found.moment.body.problem is not None:
        reason = found.moment.body.problem.reason
        reason = reason if reason.startswith(NOT_STORED) else f"not readable: {reason}"
        yield from field("problem", reason, width, "error")
    if found.unstored:
        names = ", ".join(found.unstored)
        yield from field("missing", f"{names}: written, but the value is not stored", width, "warn")
    yield from lifetime_lines(found.lifetime, ui)
    if found.plaintext:
        yield from field("warning", PLAINTEXT, width, "error")
    if found.unloaded:
        yield from field("warning", found.unloaded, width, "error")


def picked_lines(found: Sequence[Selected], width: int) -> Iterator[StyledLine]:
    """Yield parts of a state in full, below their paths if there are several."""
    for one in found:
        if len(found) > 1:
            yield line((safe_text(format_path(one.path)), "head"))
        if isinstance(one.value, str):
            yield from (line(text) for text in safe_text(one.value, newlines=True).split("\n"))
        else:
            yield from map(line, block(one.value, 0, width))


def picked_view(*, many: bool) -> View:
    """Return how parts of a state are printed: with `many` as a list, else the first one alone."""

    def record(found: Sequence[Selected]) -> Any:
        values = [to_json(one.value) for one in found]
        return values if many else values[0]

    return View(
        record,
        lambda found, ui: picked_lines(found, ui.width),
        lambda found: map(PICKED.record, found),
        PICKED.columns(),
    )


def standing_lines(found: CheckpointView, ui: Ui) -> Iterator[StyledLine]:
    """Yield the ids of a checkpoint, its place in the thread, and what comes after it."""
    moment, width = found.moment, ui.width
    yield from field("thread", moment.key.thread_id, width, "head")
    yield from _place_lines(found, ui)
    if found.is_head:
        yield from status_lines(moment.conditions, width)
    yield from step_lines(moment, width, live=found.is_head, resume=found.resume)
    yield from join_lines(found.joins, width)


def _place_lines(found: CheckpointView, ui: Ui) -> Iterator[StyledLine]:
    """Yield the ids of a checkpoint and its place in the thread."""
    moment = found.moment
    key, parent = moment.key, moment.checkpoint.parent_checkpoint_id
    facts: list[tuple[str, str | None, Style]] = [
        ("ns", key.checkpoint_ns or None, "plain"),
        ("ckpt", key.checkpoint_id + ("  (head)" if found.is_head else ""), "id"),
        ("parent", "none" if parent is None else parent, "plain"),
        ("children", ", ".join(found.children) if len(found.children) > 1 else None, "plain"),
        ("step", table.step_at(moment.number, moment.source, moment.at, ui), "plain"),
    ]
    for name, text, style in facts:
        if text is not None:
            yield from field(name, text, ui.width, style)


def given_lines(found: CheckpointView, width: int) -> Iterator[StyledLine]:
    """Yield the input that waits at a checkpoint, if there is one."""
    given = found.given
    if given is None:
        return
    if isinstance(given, dict):
        given = {name: said(value) for name, value in given.items()}
    yield line("")
    yield from value_lines("input", given, width, "the next step takes it in")


def value_lines(name: str, value: Value, width: int, remark: str | None) -> Iterator[StyledLine]:
    """Yield a named value in full, with a remark."""
    title = safe_text(name)
    note: Span = (f"  {remark}" if remark else "", "dim")
    if not _long(value):
        short = summary(value, width)
        if len(title) + 2 + cell_len(short) < width:
            yield line((f"{title}: ", "head"), short, note)
            return
    yield line((title, "head"), note)
    for text in block(value, _INDENT, width):
        yield line(text)


def _long(value: Value) -> bool:
    """Return whether a value is printed below its name."""
    if isinstance(value, Cut):
        return _long(value.kept)
    if isinstance(value, str):
        return "\n" in value
    return isinstance(value, list | dict) and bool(value)


def placed_lines(
    writes: Sequence[tasks.TaskWrite], ui: Ui, *, dropped: bool
) -> Iterator[StyledLine]:
    """Yield the writes of a checkpoint's tasks, one per line, with times if known."""
    remark = "  dropped: a new input came before all tasks had finished" if dropped else ""
    yield line((f"writes  {len(writes)}", "head"), (remark, "dim"))
    whose = [
        "(caller)" if one.write.task_id == NULL_TASK_ID else safe_text(one.node or "?")
        for one in writes
    ]
    where = [safe_text(one.write.channel) for one in writes]
    named, put = (min(max(map(cell_len, one), default=0), _WIDEST) for one in (whose, where))
    # If there is not enough space for both, values are shown and times are not.
    is_wide = ui.width - named - put - _SIZE_CELLS - _TIME_CELLS >= _WORTH
    for placed, who, channel in zip(writes, whose, where, strict=True):
        write, at = placed.write, ""
        if is_wide and write.at is not None:
            at = f"  {write.at.astimezone(ui.zone):%H:%M:%S.%f}"[:_TIME_CELLS]
        first, second = pad(who, named), pad(channel, put)
        room = ui.width - len(at) - cell_len(first) - cell_len(second) - _SIZE_CELLS
        value = "" if write.value is None else summary(said(placed.value), max(room, _INDENT))
        spans: list[Span | str] = [(at, "time"), "  ", (first, "node"), "  ", (second, "head")]
        yield line(*spans, (f"  {table.size(write.size):>8}", "dim"), f"  {value}" if value else "")
