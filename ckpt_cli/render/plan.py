"""Plans of changes, and what was done."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Literal, NamedTuple

from ckpt_backends import shell
from ckpt_backends.changes import change_record
from ckpt_backends.codec.values import Value
from ckpt_backends.model import CheckpointKey, Status
from ckpt_cli.core.diff import ChannelChange, json_size
from ckpt_cli.core.forking import CheckpointPlan, Repair, ShownCheckpoint, TouchedCheckpoint
from ckpt_cli.core.tasks import Question, asked_by, conditions_of, failed_at, has_failed, path_text
from ckpt_cli.core.values import unwrap
from ckpt_cli.plans.proposal import Proposal
from ckpt_cli.render.fields import Field, Part, Shape, Type, View, inside, optional
from ckpt_cli.render.show import config_text, handler_words
from ckpt_cli.render.table import THREAD, Column, plain_columns, size, table_lines
from ckpt_cli.render.text import StyledLine, Ui, cell_len, command_field, field, line, safe_text
from ckpt_cli.render.threads import counted_names, node_names
from ckpt_cli.render.types import (
    ANY,
    BYTES,
    FLAG,
    INTEGER,
    KEY,
    KEY_IN_THREAD,
    OBJECT,
    TEXT,
    VALUE,
    one_of,
)
from ckpt_cli.render.value_diff import CHANGE, diff_text
from ckpt_cli.render.values import counted, named_value, summary

_MENDING = ("repair", "migrate")
"""Actions that do not go back: what they change is told."""
_REMOVES, _ADDS, _COPIES = ("removes", "removed"), ("adds", "added"), ("copies", "copied")
"""The verb before the change, and after it."""
_NONE = "(none)"
INPUT = "__start__"
"""The node that takes the input: it has no side effects."""
_CHANNELS = 20
"""Maximum number of channels that are shown."""
_OPS = 4
"""Maximum number of changed lines that are shown for one list or dict."""
_VALUE = 120
"""Maximum columns of a value; a larger value is shown with its size."""
_QUESTION = 1000
"""Maximum columns of a question."""


class ShownPlan(NamedTuple):
    """The plan of one thread as it is shown."""

    plan: CheckpointPlan
    undo: str = ""
    """The command that takes it back; `''` if there is none."""
    dry_run: bool = False
    has_rows: bool = False
    """Whether the record has the rows that change."""
    is_done: bool = False
    """Whether it is carried out already."""
    undoes: str | None = None
    """The id of the operation that it takes back."""
    more: tuple[StyledLine, ...] = ()
    """Lines below the plan."""
    repair: Repair | None = None
    """The values that it restores."""


TOUCHED = Shape(
    "A checkpoint that is added or removed.",
    *KEY,
    Field("parent_checkpoint_id", TEXT.or_null, "Its parent."),
    Field(
        "form",
        one_of("child", "sibling", "empty", "clone", "removal"),
        "It is added as a child or as a sibling of the checkpoint that it copies, without state, or"
        " to another thread under the same id; or it is removed.",
    ),
    Field("forked_from", TEXT.or_null, "Checkpoint that it copies."),
)
_RESUME = (
    Field("configurable", TEXT.by_name.or_null, "Config to resume with.", "plan.configurable"),
    Field(
        "metadata",
        ANY.by_name.or_null,
        "What the new head has from the config of its run: give it to the resume, too.",
        lambda one: None if one.plan.configurable is None else one.plan.metadata,
    ),
    Field(
        "resume",
        TEXT.or_null,
        "A line of Python, or JavaScript, that resumes the thread.",
        lambda one: resume_line(one.plan) or None,
    ),
)
PLAN = Shape(
    "A change of a thread that adds or removes checkpoints.",
    Field(
        "action",
        one_of("rollback", "fork", "copy", "undo", "redo", "repair", "migrate"),
        "What is done.",
        "plan.action",
    ),
    *inside("plan.main", *TOUCHED),
    Field("why", TEXT, "Reason for the form.", "plan.why"),
    Field("before", TEXT, "Head before the change.", "plan.before.checkpoint_id"),
    Field(
        "head",
        TEXT.or_null,
        "Head after it; null if the thread is removed.",
        lambda one: None if one.plan.head is None else one.plan.head.checkpoint_id,
    ),
    Field("step", INTEGER.or_null, "Step of the head after it.", lambda one: _step(one.plan)),
    Field("next", TEXT.list.or_null, "Nodes that a resume runs; null if unknown.", "plan.next"),
    Field("saved", TEXT.list, "Nodes whose results a resume uses without a run.", "plan.saved"),
    Field("again", TEXT.list, "Nodes that ran already and run again.", "plan.again"),
    Field(
        "asked",
        TEXT.list,
        "Nodes that ask their questions again.",
        lambda one: dict.fromkeys(asked_by(asked)[0] for asked in one.plan.asked),
    ),
    Field("later", TEXT.list, "Nodes that ran on the abandoned branch after these.", "plan.later"),
    Field("abandoned", INTEGER, "Number of checkpoints of that branch.", "plan.abandoned"),
    Field("changes", CHANGE.by_name, "As `channels` of `diff`.", "plan.changes"),
    Field("also", TOUCHED.list, "Checkpoints of other namespaces.", "plan.also"),
    *_RESUME,
    Field("undo", TEXT.or_null, "Command that takes it back.", lambda one: one.undo or None),
    Field("notes", TEXT.list, "Limits and warnings.", "plan.notes"),
    Field("dry_run", FLAG, "Whether nothing was written."),
    optional("mends", TEXT.list, "What it mends or migrates, one phrase each.", "plan.mends"),
    optional(
        "change",
        OBJECT.converted_by(change_record),
        "The rows that change, with their bytes in base64; with `--dry-run`.",
        lambda one: one.plan.change if one.has_rows else None,
    ),
    optional("undoes", TEXT, "Operation that it takes back."),
)


def lines_of(
    plan: CheckpointPlan,
    width: int,
    *,
    undo: str = "",
    is_done: bool = False,
    is_whole: bool = False,
) -> Iterator[StyledLine]:
    """Yield what a plan would change, or what it has changed; with `is_whole`, every line."""
    main = plan.main
    is_clone = main.form == "clone"
    yield from field("thread", main.key.thread_id, width, "head")
    if is_clone:
        yield from field(
            "copy of", f"{plan.before.thread_id}, {_name(plan, main.key)}", width, "id"
        )
    else:
        yield from field(
            "was" if is_done else "now", f"{_name(plan, plan.before)}, {_state(plan)}", width, "id"
        )
        yield from _trouble(plan, width)
    verbs = ("changes", "changed") if plan.action == "migrate" else ("mends", "mended")
    for mended in plan.mends:
        yield from field(verbs[is_done], mended, width)
    yield from _change(plan, width, is_done=is_done)
    for one in plan.also:
        verb = (_REMOVES if one.form == "removal" else _ADDS)[int(is_done)]
        what = f"{one.key.checkpoint_id} in '{one.key.checkpoint_ns}'{_origin(plan, one)}"
        yield from field(verb, what, width)
    if plan.head is not None:
        yield from field("next", node_names(plan.next), width, "node")
    if plan.saved:
        text = f"the result of {node_names(plan.saved)}: a resume uses it without running the node"
        yield from field("saved", text, width)
    if again := [node for node in plan.again if node != INPUT]:
        text = f"{counted_names(list(map(_ran, again)))} already ran; side effects will repeat"
        yield from field("repeats", text, width, "warn")
    for path, value in dict.fromkeys((asked_by(one), _question(one)) for one in plan.asked):
        dropped = " (the old answer is dropped)" if path[0] in plan.again else ""
        text = f"{path_text(path)} will ask again{dropped}{value}"
        yield from field("asks", text, width, "question")
    if plan.later:
        text = f"{node_names(plan.later)} ran on the abandoned branch and may run again"
        yield from field("later", text, width, "warn")
    if plan.abandoned:
        text = f"the abandoned branch ({counted(plan.abandoned, 'checkpoint')}"
        text += f" up to {_name(plan, plan.before)}){_left_with(plan)}"
        yield from field("keeps", text, width)
    for note in plan.notes:
        yield from field("note", note, width, "warn")
    yield from _changes(plan, width, is_done=is_done, is_whole=is_whole)
    if undo and not is_done:
        yield command_field("undo", undo)


def plan_lines(found: ShownPlan, ui: Ui) -> Iterator[StyledLine]:
    """Yield what a plan would change, or what it has changed."""
    return chain(lines_of(found.plan, ui.width, undo=found.undo, is_done=found.is_done), found.more)


PLAN_VIEW = View(
    PLAN.record,
    plan_lines,
    lambda found: map(TOUCHED.record, (found.plan.main, *found.plan.also)),
    TOUCHED.columns(),
)


def _question(asked: Question) -> str:
    """Return what is asked, as the end of a line; nothing if that is not known."""
    return "" if asked.value is None else f": {summary(asked.value, _QUESTION)}"


def _ran(node: str) -> str:
    return handler_words((node,)) if "error_handler__" in node else node


def done_lines(plan: CheckpointPlan, undo: str) -> Iterator[StyledLine]:
    """Yield what was changed, and how to resume or undo."""
    thread = plan.main.key.thread_id
    verb = {
        "rollback": "rolled back",
        "fork": "forked",
        "copy": "copied",
        "undo": "undid the last change of",
        "redo": "took back the undo of",
        "repair": "repaired",
        "migrate": "migrated",
    }
    if plan.head is None:
        text = f"removed thread {thread}"
    elif plan.main.form == "clone":
        made = f"{verb[plan.action]} {plan.before.thread_id} to {thread}"
        text = f"{made}: its head is {_name(plan, plan.head)}"
    else:
        text = f"{verb[plan.action]} {thread}: head is now {_name(plan, plan.head)}"
    yield line(safe_text(text))
    if how := resume_line(plan):
        yield StyledLine((("resume   ", "dim"), (safe_text(how), "plain")), whole=True)
    if undo:
        yield command_field("undo", undo)


def resume_line(plan: CheckpointPlan) -> str:
    """Return the call that resumes the thread after the change; `''` if an undo restored the
    thread.
    """
    if plan.configurable is None:
        return ""
    config = config_text(plan.configurable, plan.metadata, is_javascript=plan.is_javascript)
    given, remark = ("null" if plan.is_javascript else "None"), ""
    if plan.waits is not None:
        ids = [one for one in plan.waits if one is not None]
        answers = ", ".join(f"{json.dumps(one)}: ..." for one in ids)
        answer = f"{{{answers}}}" if ids else "..."
        given = f"Command(resume={answer})"
        if plan.is_javascript:
            given = f"new Command({{resume: {answer}}})"
    elif plan.is_over:
        given, remark = "{...}", "with a new input: nothing is next"
    if plan.is_javascript:
        return f"await graph.invoke({given}, {config})" + (f"  // {remark}" if remark else "")
    return f"graph.invoke({given}, {config})" + (f"  # {remark}" if remark else "")


def _change(plan: CheckpointPlan, width: int, *, is_done: bool) -> Iterator[StyledLine]:
    """Yield how the head changes."""
    main, tense = plan.main, int(is_done)
    if main.form == "removal":
        what = "the whole thread" if plan.head is None else f"{_name(plan, main.key)}"
        yield from field(_REMOVES[tense], f"{what}: {plan.why}", width, "id")
        if plan.head is not None:
            yield from field("new head", _name(plan, plan.head), width, "id")
    elif main.form == "clone":
        yield from field(_COPIES[tense], plan.why, width)
    else:
        origin = plan.names.get(main.forked_from or "")
        if origin is not None:
            label = "from" if plan.action in ("fork", "repair", "migrate") else "back to"
            yield from field(label, _named(origin), width, "id")
        yield from field("new head", f"{_name(plan, main.key)}{_origin(plan, main)}", width, "id")
        if main.form == "sibling":
            yield from field("because", plan.why, width, "dim")


def _origin(plan: CheckpointPlan, one: TouchedCheckpoint) -> str:
    """What an added checkpoint is a copy of."""
    if one.form == "empty":
        return ", without state: the subgraph had not run then"
    if one.form == "removal" or one.forked_from is None:
        return ""
    known = plan.names.get(one.forked_from)
    under = " under the same parent" if one.form == "sibling" else ""
    return f", a copy of {known.ref if known else one.forked_from}{under}"


def _trouble(plan: CheckpointPlan, width: int) -> Iterator[StyledLine]:
    """Yield the errors and open questions of the head before the change."""
    if plan.now is None:
        return
    for task in filter(has_failed, plan.now.runs):
        yield from field("error", f"{path_text(failed_at(task))}: {task.error}", width, "error")
    for one in plan.now.open_questions:
        text = f"{path_text(asked_by(one))}: {summary(one.value, _QUESTION)}"
        yield from field("question", text, width, "question")


def _changes(
    plan: CheckpointPlan, width: int, *, is_done: bool, is_whole: bool
) -> Iterator[StyledLine]:
    """Yield the values that change, one or a few lines for each channel unless all are wanted."""
    if not plan.changes:
        if plan.head is not None:
            yield from field("state", "no channel changes", width)
        return
    number = counted(len(plan.changes), "channel")
    verb = "changed" if is_done else "changes" if len(plan.changes) == 1 else "change"
    yield from field("state", f"{number} {verb}", width)
    if is_whole:
        for one in diff_text(plan.changes, width=max(width - 2, 1)):
            yield line("  ", *one.spans)
        return
    for name, change in islice(plan.changes.items(), _CHANNELS):
        for one in _channel(name, change, max(width - 2, 1)):
            yield line("  ", *one.spans)
    if (more := len(plan.changes) - _CHANNELS) > 0:
        yield line((f"  … {counted(more, 'more channel')}", "dim"))


def _channel(name: str, change: ChannelChange, width: int) -> Iterator[StyledLine]:
    held = unwrap(change.before), unwrap(change.after)
    if change.change == "changed" and None not in held:
        found = list(islice(diff_text({name: change}, width=width), _OPS + 2))
        yield from found[: _OPS + 1]
        if len(found) > _OPS + 1:
            yield line(("  …", "dim"))
        return
    room = min(max((width - cell_len(name)) // 2 - 12, 10), _VALUE)
    before = _NONE if change.change == "added" else _value(change.before, room)
    after = _NONE if change.change == "removed" else _value(change.after, room)
    yield line((safe_text(name), "head"), ": ", (before, "remove"), " → ", (after, "add"))


def _value(value: Value, room: int) -> str:
    """Return a value on one line, with its size if it is large."""
    text, bytes_of = summary(value, room, quote=True), json_size(value)
    return f"{text} ({size(bytes_of)})" if bytes_of > _VALUE else text


def _state(plan: CheckpointPlan) -> str:
    """The conditions of the head, each with its nodes: `error at pay, interrupted at ask`."""
    conditions = conditions_of(plan.now)
    if plan.now is None:
        return ", ".join(conditions)
    nodes: dict[Status, Sequence[str]] = {
        Status.ERROR: [path_text(failed_at(one)) for one in plan.now.runs if has_failed(one)],
        Status.INTERRUPTED: [path_text(asked_by(one)) for one in plan.now.open_questions],
    }
    waiting = plan.now.waiting or ()
    return ", ".join(
        f"{one} at {node_names(at)}" if (at := nodes.get(one) or waiting) else one
        for one in conditions
    )


def _left_with(plan: CheckpointPlan) -> str:
    """The errors and open questions of the head, which stay on the abandoned branch."""
    if plan.now is None:
        return ""
    parts = {
        "error": any(map(has_failed, plan.now.runs)),
        "question": bool(plan.now.open_questions),
    }
    found = " and ".join(f"its {name}" for name, holds in parts.items() if holds)
    return f" with {found}" if found else ""


def _name(plan: CheckpointPlan, key: CheckpointKey) -> str:
    """Return a checkpoint's short id and step."""
    known = plan.names.get(key.checkpoint_id)
    return key.checkpoint_id if known is None else _named(known)


def _named(one: ShownCheckpoint) -> str:
    return one.ref if one.step is None else f"{one.ref}, step {one.step}"


def undo_command(store: Sequence[str], thread_id: str) -> str:
    """Return the command that undoes a change of a thread; `store` is the option that names its
    store.
    """
    return shell.command("ckpt", *store, "undo", ids=[thread_id])


def _step(plan: CheckpointPlan) -> int | None:
    """Return the step of the head after the change."""
    known = None if plan.head is None else plan.names.get(plan.head.checkpoint_id)
    return None if known is None else known.step


_WAYS = {
    "go on": "resume each of these with its config and the input None:",
    "answer": "answer the question of each of these with its config:",
    "new input": "nothing is next in these; continue each with its config and a new input:",
}
"""What to do with threads, by how they are resumed."""


@dataclass(frozen=True, slots=True)
class ChangeWords:
    """The words of a command that changes many threads."""

    action: str
    """The name of the operation."""
    verb: str
    done: str
    """The past participle of the verb."""
    doing: str
    new_id: Callable[[str], str] | None = None
    """Returns the id of the new thread, for a fork to new threads."""

    @property
    def question(self) -> str:
        """The beginning of the question whether to go on."""
        return self.verb.capitalize()


def outcome_columns(words: ChangeWords) -> list[Column]:
    """Return the columns of the table and of TSV."""
    forked = [Column("FROM", "forked_from_thread", style="head", drop=3)]
    steps = [
        Column("COPY OF" if words.new_id else "BACK TO", "target_step", "step {}".format, drop=4),
        Column("NEXT", "next", node_names, style="node", drop=2),
        Column("REPEATS", "again", _repeated, style="question", drop=5),
        Column("ASKS", "asked", counted_names, style="question", drop=6),
    ]
    title = "CHANGES" if words.action == "migrate" else "MENDS"
    mends = Column(title, "mends", "; ".join, cut=True, least=30)
    return [
        *(forked if words.new_id else ()),
        THREAD,
        Column("STATE", "state", style="change"),
        *((steps[1], mends) if words.action in _MENDING else steps),
        Column("REASON", "reason", cut=True, least=30, drop=1),
        Column("CHECKPOINT", "checkpoint_id", table=False),
        Column("CONFIGURABLE", "configurable", table=False),
        Column("METADATA", "metadata", table=False),
    ]


def _repeated(nodes: Sequence[str]) -> str:
    return counted_names([one for one in nodes if one != INPUT])


class ShownOutcome(NamedTuple):
    """What is to be done with one of many threads, or became of it, as it is shown."""

    one: Proposal
    words: ChangeWords
    store: Sequence[str]
    """The options that name the store."""
    dry_run: bool
    op: str | None = None
    """The operation."""

    @property
    def thread_id(self) -> str | None:
        """The thread that is changed."""
        new_id, chosen = self.words.new_id, self.one.thread_id
        return chosen if new_id is None or chosen is None else new_id(chosen)

    @property
    def plan(self) -> ShownPlan | None:
        """The plan of the thread, if there is one."""
        plan = self.one.plan
        if plan is None:
            return None
        undo = undo_command(self.store, plan.main.key.thread_id) if plan.is_undoable else ""
        return ShownPlan(plan, undo, self.dry_run)

    @property
    def state(self) -> str:
        """What happened to the thread: `rolled back`, `ready`, `skipped`."""
        return self.words.done if self.one.state == "done" else self.one.state


def _if(is_so: Callable[[ShownOutcome], object]) -> Callable[[ShownOutcome], ShownOutcome | None]:
    return lambda found: found if is_so(found) else None


def _nothing(_: object) -> None:
    """Return what a thread that only goes on is resumed with."""


def _waits(found: ShownOutcome) -> Iterable[str | None]:
    at = found.one.plan or found.one.resume
    return (at.waits if at is not None else None) or ()


_QUESTION_ID = Shape(
    "A question.", Field("id", TEXT.or_null, "Id; null if none is needed.", lambda one: one)
)
_OF_READY = ("step", "next", "configurable", "metadata")
_OF_PLAN = (one for key, one in PLAN.fields.items() if key not in {"changes", "change", "undoes"})
OUTCOME = Shape(
    "What is to be done with one of many threads, or what became of it. A thread that is skipped"
    " has only its id, the state and the reason; one that is ready to be resumed has no plan.",
    Field("thread_id", TEXT, "Thread."),
    optional(
        "forked_from_thread",
        TEXT,
        "Thread that is copied.",
        lambda found: found.one.thread_id if found.words.new_id else None,
    ),
    Part(
        Shape(
            "",
            *_OF_PLAN,
            Field(
                "target_step",
                INTEGER.or_null,
                "Step of the checkpoint that is copied.",
                lambda found: _target_step(found.plan),
            ),
        ),
        "plan",
    ),
    Part(
        Shape("", Field("op", TEXT.or_null, "Operation; null if it is not recorded.")),
        _if(lambda found: found.one.plan is not None and found.one.state == "done"),
    ),
    Part(
        Shape(
            "",
            *(one._replace(of=f"head.{one.key}") for one in KEY),
            Field("head", TEXT, "Head from which it is resumed.", "head.checkpoint_id"),
            *(PLAN.fields[key]._replace(of=key) for key in _OF_READY),
        ),
        "one.resume",
    ),
    Part(
        Shape("", Field("input", Type({"type": "null"}), "Resume it with None.", _nothing)),
        _if(lambda found: _way_on(found.one) == "go on"),
    ),
    Part(
        Shape("", Field("interrupts", _QUESTION_ID.list, "Questions to answer.", _waits)),
        _if(lambda found: _way_on(found.one) == "answer"),
    ),
    Field(
        "state",
        one_of(
            "planned", "rolled back", "forked", "copied", "repaired", "migrated", "ready", "skipped"
        ),
        "What becomes of it; `ready`: it only has to be resumed.",
    ),
    Field(
        "reason",
        TEXT.or_null,
        "Why it is skipped or ready, or what cannot be mended.",
        lambda found: found.one.reason or None,
    ),
    Part(
        Shape(
            "",
            Field("mends", TEXT.list, "What is mended or migrated, one phrase each.", "one.mends"),
        ),
        _if(lambda found: found.words.action in _MENDING),
    ),
    PLAN.fields["dry_run"],
)


def _way_on(one: Proposal) -> Literal["go on", "answer", "new input"] | None:
    """Return how a thread is resumed; None if it is not to be resumed."""
    at = one.plan or one.resume
    if at is None or at.configurable is None:
        return None
    if at.waits is not None:
        return "answer"
    return "new input" if at.is_over else "go on"


def _target_step(plan: CheckpointPlan) -> int | None:
    known = plan.names.get(plan.main.forked_from or "")
    return None if known is None else known.step


def outcome_lines(found: Sequence[ShownOutcome], ui: Ui) -> Iterator[StyledLine]:
    """Yield a table of the threads, how to resume those that were changed, and the counts."""
    if not found:
        return
    words, store, op = found[0].words, found[0].store, found[0].op
    outcomes = [one.one for one in found]
    yield from table_lines(map(OUTCOME.record, found), outcome_columns(words), ui)
    notes = Counter(note for one in outcomes if one.plan is not None for note in one.plan.notes)
    if notes:
        yield line("")
    for note, number in notes.items():
        yield from field("note", f"{counted(number, 'thread')}: {note}", ui.width, "question")
    if not any(one.state == "planned" for one in outcomes):
        yield from _resume_lines(outcomes)
    yield line("")
    yield line(count_text(outcomes, words))
    if op is not None:
        yield command_field("undo", shell.command("ckpt", *store, "undo", op))


def outcomes_view(words: ChangeWords) -> View:
    """Return how the outcomes of many threads are printed."""
    return View(
        lambda found: list(map(OUTCOME.record, found)),
        outcome_lines,
        lambda found: map(OUTCOME.record, found),
        outcome_columns(words),
    )


def _resume_lines(outcomes: Sequence[Proposal]) -> Iterator[StyledLine]:
    """Yield the config of each thread that can be resumed now, by the input that it needs."""
    resumed = [one for one in outcomes if one.state in {"done", "ready"}]
    for way, text in _WAYS.items():
        found = [one for one in resumed if _way_on(one) == way]
        if found:
            yield line("")
            yield line((text, "dim"))
        for one in found:
            at = one.plan or one.resume
            if at is None or at.configurable is None:
                continue
            shown = config_text(at.configurable, at.metadata, is_javascript=at.is_javascript)
            yield StyledLine(((f"  {safe_text(shown)}", "plain"),), whole=True)


def count_text(outcomes: Sequence[Proposal], words: ChangeWords) -> str:
    """Return the number of threads by what happened: `repaired 2 threads, skipped 1 thread`."""
    numbers = Counter[str](one.state for one in outcomes)
    known = {"planned": f"would {words.verb}", "done": words.done}
    parts = [
        f"{known.get(state, state)} {counted(numbers[state], 'thread')}"
        for state in ("planned", "done", "skipped")
        if numbers[state]
    ]
    if numbers["ready"]:
        parts.insert(-1 if numbers["skipped"] else len(parts), _ready_text(numbers["ready"]))
    return ", ".join(parts)


def _ready_text(number: int) -> str:
    return f"{counted(number, 'thread')} ready to resume"


class ShownRepair(NamedTuple):
    """Values that are stored again, as they are shown."""

    repair: Repair
    undo: str
    """The command that takes it back; `''` if nothing is restored."""
    dry_run: bool


PLACE = Shape(
    "A value, and the first checkpoint that names it.",
    *KEY_IN_THREAD,
    Field("step", INTEGER.or_null, "Step of this checkpoint."),
    Field("channel", TEXT, "Channel."),
    Field("version", TEXT, "Version of the value."),
)
RESTORED = Shape(
    "A value that is restored; the checkpoint is the first that names it.",
    *inside("place", *PLACE),
    Field(
        "reducer",
        TEXT.or_null,
        "Reducer that made it; null if it is as in the step before.",
        lambda one: one.reducers[0] if one.reducers else None,
    ),
    Field("candidates", TEXT.list, "All reducers that agree on it.", "reducers"),
    Field("evidence", INTEGER, "Number of steps that other reducers do not explain."),
    Field("bytes", BYTES, "Size."),
    Field("replaces", FLAG, "Whether it replaces an unreadable value."),
    Field("value", VALUE, "The value."),
)
REFUSED = Shape(
    "A value that cannot be restored.", *inside("place", *PLACE), Field("reason", TEXT, "Why not.")
)
REPAIRED = Shape(
    "Values that are restored.",
    Field("thread_id", TEXT, "Thread.", "repair.thread_id"),
    Field("repaired", RESTORED.list, "Values that are restored.", "repair.rebuilt"),
    Field("refused", REFUSED.list, "Values that cannot be restored.", "repair.refused"),
    Field("dry_run", FLAG, "Whether nothing was written."),
    Field("undo", TEXT.or_null, "Command that takes it back.", lambda one: one.undo or None),
)
REPAIR = Shape(
    "Values that are restored. Where a copy of the head has them, also what is said of it.",
    Part(PLAN, lambda found: found if isinstance(found, ShownPlan) else None),
    *REPAIRED,
)


def _repair_rows(found: ShownRepair) -> Iterator[dict[str, Any]]:
    """Yield one row per value."""
    for rebuilt in found.repair.rebuilt:
        yield {**RESTORED.record(rebuilt), "action": "put back"}
    for refused in found.repair.refused:
        yield {**REFUSED.record(refused), "action": "refused"}


def repair_lines(found: Repair, width: int, undo: str = "") -> Iterator[StyledLine]:
    """Yield what a repair would do."""
    yield line(("thread   ", "dim"), (safe_text(found.thread_id), "head"))
    for one in found.rebuilt:
        yield line(("restore  ", "add"), *named_value(one.place))
        what = "replaces an unreadable value" if one.replaces else "fills in a missing value"
        how = f"{one.reducers[0]}, evidence {one.evidence}" if one.reducers else "as in the parent"
        yield line(f"         {size(one.bytes)}, {what}; {how}")
        yield line(f"         {summary(one.value, max(width - 9, 20), quote=True)}")
    yield from refused_lines(found)
    if undo:
        yield command_field("undo", undo)


REPAIR_VIEW = View(
    REPAIR.record,
    lambda found, ui: repair_lines(found.repair, ui.width, found.undo),
    _repair_rows,
    plain_columns(
        *("action", *PLACE.fields), *("reducer", "evidence", "bytes", "replaces", "value", "reason")
    ),
)


def refused_lines(found: Repair) -> Iterator[StyledLine]:
    """Yield the values that cannot be restored, with the reasons."""
    for refusal in found.refused:
        yield line(("refused  ", "error"), *named_value(refusal.place))
        yield line(f"         {safe_text(refusal.reason)}")
