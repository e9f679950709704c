"""Print what a command did to many threads, as a table, as text and as records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ckpt_backends import shell
from ckpt_cli.core.forking.plan import CheckpointPlan
from ckpt_cli.core.forking.thread_change import ChangeOutcome, ResumePoint
from ckpt_cli.render.plan import INPUT, plan_record, undo_command
from ckpt_cli.render.resume import config_text
from ckpt_cli.render.status import counted_names, node_names
from ckpt_cli.render.terminal.fields import command_field, field
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import StyledLine, line
from ckpt_cli.render.terminal.table import THREAD, Column, table_lines
from ckpt_cli.render.values.one_line import counted

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

    def state(self, one: ChangeOutcome) -> str:
        """Return what happened to a thread: `rolled back`, `ready`, `skipped`."""
        return self.done if one.state == "done" else one.state


def outcome_columns(words: ChangeWords) -> list[Column]:
    """Return the columns of the table and of TSV."""
    forked = [Column("FROM", "forked_from_thread", style="head", drop=3)]
    steps = [
        Column("COPY OF" if words.new_id else "BACK TO", "target_step", "step {}".format, drop=4),
        Column("NEXT", "next", node_names, style="node", drop=2),
        Column("REPEATS", "again", _repeated, style="question", drop=5),
        Column("ASKS", "asked", counted_names, style="question", drop=6),
    ]
    mends = Column("MENDS", "mends", "; ".join, cut=True, least=30)
    return [
        *(forked if words.new_id else ()),
        THREAD,
        Column("STATE", "state", style="change"),
        *((steps[1], mends) if words.action == "repair" else steps),
        Column("REASON", "reason", cut=True, least=30, drop=1),
        Column("CHECKPOINT", "checkpoint_id", table=False),
        Column("CONFIGURABLE", "configurable", table=False),
        Column("METADATA", "metadata", table=False),
    ]


def _repeated(nodes: Sequence[str]) -> str:
    return counted_names([one for one in nodes if one != INPUT])


def outcome_record(
    one: ChangeOutcome,
    words: ChangeWords,
    store: Sequence[str],
    *,
    dry_run: bool,
    op: str | None,
) -> dict[str, Any]:
    """Return one thread as JSON: what happened, how to resume it, and the plan without values.

    `store` are the options that name the store, `op` is the operation.
    """
    about: dict[str, Any] = {"thread_id": one.thread_id}
    if words.new_id is not None:
        about = {"thread_id": words.new_id(one.thread_id), "forked_from_thread": one.thread_id}
    if one.plan is not None:
        undo = undo_command(store, one.plan.main.key.thread_id) if one.plan.is_undoable else ""
        about |= plan_record(one.plan, undo, dry_run=dry_run, rows=False)
        del about["changes"]
        about["target_step"] = _target_step(one.plan)
        if one.state == "done":
            about["op"] = op
    elif one.resume is not None:
        about |= _ready_record(one.resume)
    about |= _input(one)
    about |= {"state": words.state(one), "reason": one.reason or None}
    if words.action == "repair":
        about["mends"] = list(one.mends)
    return {**about, "dry_run": dry_run}


def _ready_record(at: ResumePoint) -> dict[str, Any]:
    """Return the keys of a thread that needs no change."""
    return {
        **at.head._asdict(),
        "head": at.head.checkpoint_id,
        "step": at.step,
        "next": None if at.next is None else list(at.next),
        "configurable": dict(at.configurable),
        "metadata": dict(at.metadata),
    }


def _input(one: ChangeOutcome) -> dict[str, Any]:
    """Return the input to resume a thread with: null to go on, or else the open questions.

    There is neither if nothing is next: the application has to give a new input.
    """
    match _way_on(one):
        case "go on":
            return {"input": None}
        case "answer":
            return {"interrupts": [{"id": waiting} for waiting in _waits(one) or ()]}
        case _:
            return {}


def _way_on(one: ChangeOutcome) -> Literal["go on", "answer", "new input"] | None:
    """Return how a thread is resumed; None if it is not to be resumed."""
    at = one.plan or one.resume
    if at is None or at.configurable is None:
        return None
    if at.waits is not None:
        return "answer"
    return "new input" if at.is_over else "go on"


def _waits(one: ChangeOutcome) -> tuple[str | None, ...] | None:
    at = one.plan or one.resume
    return None if at is None else at.waits


def _target_step(plan: CheckpointPlan) -> int | None:
    known = plan.names.get(plan.main.forked_from or "")
    return None if known is None else known.step


def outcome_lines(
    outcomes: Sequence[ChangeOutcome],
    words: ChangeWords,
    store: Sequence[str],
    width: int,
    *,
    dry_run: bool,
    op: str | None,
) -> Iterator[StyledLine]:
    """Yield a table of the threads, how to resume those that were changed, and the counts."""
    rows = [outcome_record(one, words, store, dry_run=dry_run, op=op) for one in outcomes]
    if not rows:
        return
    yield from table_lines(rows, outcome_columns(words), width)
    notes = Counter(note for one in outcomes if one.plan is not None for note in one.plan.notes)
    if notes:
        yield line("")
    for note, number in notes.items():
        yield from field("note", f"{counted(number, 'thread')}: {note}", width, "question")
    if not any(one.state == "planned" for one in outcomes):
        yield from _resume_lines(outcomes)
    yield line("")
    yield line(count_text(outcomes, words))
    if op is not None:
        yield command_field("undo", shell.command("ckpt", *store, "undo", op))


def _resume_lines(outcomes: Sequence[ChangeOutcome]) -> Iterator[StyledLine]:
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


def count_text(outcomes: Sequence[ChangeOutcome], words: ChangeWords) -> str:
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
