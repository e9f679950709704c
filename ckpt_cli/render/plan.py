"""A plan as text and as a record."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from ckpt_backends.change import change_record
from ckpt_cli.core.changes import change_record as channel_record
from ckpt_cli.core.plan import Plan, Touched
from ckpt_cli.render.diff import diff_text
from ckpt_cli.render.lines import Line, line
from ckpt_cli.render.table import Column
from ckpt_cli.render.text import safe_text
from ckpt_cli.render.thread import field, names

_WHAT = {
    "child": "as its child",
    "sibling": "beside it, under the same parent",
    "empty": "without state, as the namespace had none then",
    "clone": "under the same ids",
    "removal": "with its writes",
}


def plan_record(plan: Plan, undo: str, *, dry_run: bool, rows: bool) -> dict[str, Any]:
    """The answer of `rollback`, `fork` and `undo`; with `rows`, what is stored where too."""
    main = plan.main
    record: dict[str, Any] = {
        "action": plan.action,
        **_touched_record(main),
        "why": plan.why,
        "before": plan.before.checkpoint_id,
        "head": None if plan.head is None else plan.head.checkpoint_id,
        "next": None if plan.next is None else list(plan.next),
        "again": list(plan.again),
        "asked": list(plan.asked),
        "changes": {name: channel_record(change) for name, change in plan.changes.items()},
        "also": [_touched_record(one) for one in plan.also],
        "configurable": None if plan.configurable is None else dict(plan.configurable),
        "undo": undo or None,
        "notes": list(plan.notes),
        "dry_run": dry_run,
    }
    if rows:
        record["change"] = change_record(plan.change)
    return record


def plan_rows(plan: Plan) -> list[dict[str, Any]]:
    """The checkpoints that are added or removed, one row each."""
    return [_touched_record(one) for one in (plan.main, *plan.also)]


def plan_columns() -> Sequence[Column]:
    """The columns of a plan as TSV."""
    keys = ("thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "form")
    return [Column(key.upper(), key) for key in (*keys, "forked_from")]


def plan_lines(plan: Plan, width: int) -> Iterator[Line]:
    """What is about to happen."""
    main = plan.main
    verb = "remove" if main.form == "removal" else "add"
    yield line(("thread   ", "dim"), (safe_text(main.key.thread_id), "head"))
    if main.form == "clone":
        yield from field("from", plan.before.thread_id, width, "head")
        yield from field("copy", f"{main.key.checkpoint_id}  {_WHAT[main.form]}", width, "id")
        yield from field("with", plan.why, width)
    else:
        yield from field("head", plan.before.checkpoint_id, width, "id")
        if main.forked_from is not None and main.form != "removal":
            yield from field("back to", main.forked_from, width, "id")
        yield from field(verb, f"{main.key.checkpoint_id}  {_WHAT[main.form]}", width, "id")
        yield from field("because", plan.why, width, "dim")
    for one in plan.also:
        yield from field(
            verb, f"{one.key.checkpoint_id}  in '{one.key.checkpoint_ns}', {_WHAT[one.form]}", width
        )
    yield from field("next", names(plan.next), width, "node")
    if plan.again:
        text = f"{', '.join(plan.again)}: finished before, and what they did outside happens twice"
        yield from field("again", text, width, "question")
    if plan.asked:
        yield from field("asks", f"{', '.join(plan.asked)}: the question is new", width, "question")
    for note in plan.notes:
        yield from field("note", note, width, "question")
    if plan.changes:
        yield line("")
        yield line(("what changes from the head now", "dim"))
        yield from diff_text(plan.changes, stat=True, width=width)
    else:
        yield from field("state", "as at the head now", width)


def done_lines(plan: Plan, undo: str) -> Iterator[Line]:
    """What to do next."""
    if plan.configurable is not None:
        config = json.dumps({"configurable": plan.configurable}, ensure_ascii=False)
        yield line(("resume   ", "dim"), safe_text(f"graph.invoke(None, {config})"))
    if undo:
        yield line(("undo     ", "dim"), safe_text(undo))


def undo_command(store: Sequence[str], thread_id: str) -> str:
    """The command line that takes a change of a thread back; `store` names it, if need be."""
    guard = ["--"] if thread_id.startswith("-") else []
    return " ".join(map(quoted, ["ckpt", *store, "undo", *guard, thread_id]))


def quoted(word: str) -> str:
    """A word for a shell; with escapes where it could not be printed as it is."""
    if word.isprintable():
        return shlex.quote(word)
    escaped = word.encode("unicode_escape").decode().replace("'", "\\'")
    return f"$'{escaped}'"


def _touched_record(one: Touched) -> dict[str, Any]:
    return {
        "thread_id": one.key.thread_id,
        "checkpoint_ns": one.key.checkpoint_ns,
        "checkpoint_id": one.key.checkpoint_id,
        "parent_checkpoint_id": one.parent_checkpoint_id,
        "form": one.form,
        "forked_from": one.forked_from,
    }
