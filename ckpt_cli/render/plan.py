"""The plan of a rollback, fork or undo as text and as a record."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from ckpt_backends.change import change_record
from ckpt_backends.codec.values import Value
from ckpt_backends.model import CheckpointKey
from ckpt_cli.core.changes import ChannelChange, json_size
from ckpt_cli.core.changes import change_record as channel_record
from ckpt_cli.core.inside import inside
from ckpt_cli.core.plan import Named, Plan, Touched
from ckpt_cli.core.step_nodes import asked_by, failed_at, path_text
from ckpt_cli.core.tasks import conditions_of
from ckpt_cli.render.cells import cell_len
from ckpt_cli.render.diff import diff_text
from ckpt_cli.render.lines import Line, line
from ckpt_cli.render.table import Column
from ckpt_cli.render.text import safe_text
from ckpt_cli.render.thread import field
from ckpt_cli.render.units import size
from ckpt_cli.render.value import counted, summary

_WHAT = {
    "child": ", a copy of it",
    "sibling": ", a copy of it under the same parent",
    "empty": ", without state: the subgraph had not run then",
    "clone": "",
    "removal": "",
}
_REMOVES, _ADDS, _COPIES = ("removes", "removed"), ("adds", "added"), ("copies", "copied")
"""Before the change, and after it."""
_NONE = "(none)"
_CHANNELS = 20
"""Channels that are shown."""
_OPS = 4
"""Lines of changes that are shown of one list or dict."""
_VALUE = 120
"""Cells of a value that are shown; a larger one is shown with its size."""
_QUESTION = 1000
"""Cells of a question that are shown."""


def plan_record(plan: Plan, undo: str, *, dry_run: bool, rows: bool) -> dict[str, Any]:
    """The answer of `rollback`, `fork` and `undo`; with `rows`, also the rows that change."""
    main = plan.main
    record: dict[str, Any] = {
        "action": plan.action,
        **_touched_record(main),
        "why": plan.why,
        "before": plan.before.checkpoint_id,
        "head": None if plan.head is None else plan.head.checkpoint_id,
        "step": _step(plan),
        "next": None if plan.next is None else list(plan.next),
        "again": list(plan.again),
        "asked": list(dict.fromkeys(path[0] for path in plan.asked)),
        "later": list(plan.later),
        "abandoned": plan.abandoned,
        "changes": {name: channel_record(change) for name, change in plan.changes.items()},
        "also": [_touched_record(one) for one in plan.also],
        "configurable": None if plan.configurable is None else dict(plan.configurable),
        "resume": resume_line(plan) or None,
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


def plan_lines(plan: Plan, width: int, *, undo: str = "", is_done: bool = False) -> Iterator[Line]:
    """What a plan would change, or what it has changed."""
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
    yield from _change(plan, width, is_done=is_done)
    for one in plan.also:
        verb = (_REMOVES if one.form == "removal" else _ADDS)[int(is_done)]
        what = f"{one.key.checkpoint_id} in '{one.key.checkpoint_ns}'{_WHAT[one.form]}"
        yield from field(verb, what, width)
    if plan.head is not None:
        yield from field("next", _nodes(plan.next), width, "node")
    if plan.again:
        text = f"{_nodes(plan.again)} already ran; side effects will repeat"
        yield from field("repeats", text, width, "question")
    for path in dict.fromkeys(plan.asked):
        dropped = " (the old answer is dropped)" if path[0] in plan.again else ""
        yield from field("asks", f"{path_text(path)} will ask again{dropped}", width, "question")
    if plan.later:
        text = f"{_nodes(plan.later)} ran on the abandoned branch and may run again"
        yield from field("later", text, width, "question")
    if plan.abandoned:
        text = f"the abandoned branch ({counted(plan.abandoned, 'checkpoint')}"
        yield from field("keeps", f"{text} up to {_name(plan, plan.before)})", width)
    for note in plan.notes:
        yield from field("note", note, width, "question")
    yield from _changes(plan, width)
    if undo and not is_done:
        yield from field("undo", undo, width)


def done_lines(plan: Plan, undo: str) -> Iterator[Line]:
    """What has been changed, and how to resume or undo."""
    thread = plan.main.key.thread_id
    verb = {"rollback": "rolled back", "fork": "forked", "undo": "undid the last change of"}
    if plan.head is None:
        text = f"removed thread {thread}"
    elif plan.main.form == "clone":
        text = f"forked {plan.before.thread_id} to {thread}: its head is {_name(plan, plan.head)}"
    else:
        text = f"{verb[plan.action]} {thread}: head is now {_name(plan, plan.head)}"
    yield line(safe_text(text))
    if how := resume_line(plan):
        yield Line((("resume   ", "dim"), (safe_text(how), "plain")), whole=True)
    if undo:
        yield Line((("undo     ", "dim"), (safe_text(undo), "plain")), whole=True)


def resume_line(plan: Plan) -> str:
    """The call that resumes the thread afterwards; `''` for one that an undo restored."""
    if plan.configurable is None:
        return ""
    config = json.dumps({"configurable": plan.configurable}, ensure_ascii=False)
    given, remark = ("null" if plan.is_javascript else "None"), ""
    if plan.waits is not None:
        ids = [one for one in plan.waits if one is not None]
        answers = ", ".join(f"{json.dumps(one)}: ..." for one in ids)
        answer = f"{{{answers}}}" if ids else "..."
        given = f"Command(resume={answer})"
        if plan.is_javascript:
            given = f"new Command({{resume: {answer}}})"
    elif plan.next == ():
        given, remark = "{...}", "with a new input: nothing is next"
    if plan.is_javascript:
        return f"await graph.invoke({given}, {config})" + (f"  // {remark}" if remark else "")
    return f"graph.invoke({given}, {config})" + (f"  # {remark}" if remark else "")


def _change(plan: Plan, width: int, *, is_done: bool) -> Iterator[Line]:
    """What becomes of the head."""
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
            yield from field("back to", _named(origin), width, "id")
        yield from field("new head", f"{_name(plan, main.key)}{_WHAT[main.form]}", width, "id")
        if main.form == "sibling":
            yield from field("because", plan.why, width, "dim")


def _trouble(plan: Plan, width: int) -> Iterator[Line]:
    """The errors and open questions of the head before the change."""
    if plan.now is None:
        return
    for task in (*plan.now.tasks, *plan.now.others):
        if task.error is not None and not task.finished and not task.handled:
            yield from field("error", f"{path_text(failed_at(task))}: {task.error}", width, "error")
        for one in task.questions:
            if not one.answered:
                text = f"{path_text(asked_by(one))}: {summary(one.value, _QUESTION)}"
                yield from field("question", text, width, "question")


def _changes(plan: Plan, width: int) -> Iterator[Line]:
    """The values that change, a line or a few for each channel."""
    if not plan.changes:
        if plan.head is not None:
            yield from field("state", "no channel changes", width)
        return
    yield from field("state", f"{counted(len(plan.changes), 'channel')} changed", width)
    for name, change in islice(plan.changes.items(), _CHANNELS):
        for one in _channel(name, change, max(width - 2, 1)):
            yield line("  ", *one.spans)
    if (more := len(plan.changes) - _CHANNELS) > 0:
        yield line((f"  … {counted(more, 'more channel')}", "dim"))


def _channel(name: str, change: ChannelChange, width: int) -> Iterator[Line]:
    held = inside(change.before), inside(change.after)
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
    """A value on one line, with its size where it is large."""
    text, bytes_of = summary(value, room, quote=True), json_size(value)
    return f"{text} ({size(bytes_of)})" if bytes_of > _VALUE else text


def _state(plan: Plan) -> str:
    status = ", ".join(conditions_of(plan.now))
    if plan.now is None or not plan.now.waiting:
        return status
    return f"{status} at {_nodes(plan.now.waiting)}"


def _name(plan: Plan, key: CheckpointKey) -> str:
    """A checkpoint by its short id and step."""
    known = plan.names.get(key.checkpoint_id)
    return key.checkpoint_id if known is None else _named(known)


def _named(one: Named) -> str:
    return one.ref if one.step is None else f"{one.ref}, step {one.step}"


def _nodes(nodes: Sequence[str] | None) -> str:
    """Node names; one that runs several times as `node ×N`."""
    if nodes is None:
        return "?"
    many = Counter(nodes)
    return ", ".join(node if n == 1 else f"{node} ×{n}" for node, n in many.items()) or "nothing"


def undo_command(store: Sequence[str], thread_id: str) -> str:
    """The command that undoes a change of a thread; `store` is the option that names its store."""
    guard = ["--"] if thread_id.startswith("-") else []
    return " ".join(map(quoted, ["ckpt", *store, "undo", *guard, thread_id]))


def quoted(word: str) -> str:
    """A word quoted for a shell; with escapes where it is not printable."""
    if word.isprintable():
        return shlex.quote(word)
    escaped = word.encode("unicode_escape").decode().replace("'", "\\'")
    return f"$'{escaped}'"


def _step(plan: Plan) -> int | None:
    """The step of the head afterwards."""
    known = None if plan.head is None else plan.names.get(plan.head.checkpoint_id)
    return None if known is None else known.step


def _touched_record(one: Touched) -> dict[str, Any]:
    return {
        "thread_id": one.key.thread_id,
        "checkpoint_ns": one.key.checkpoint_ns,
        "checkpoint_id": one.key.checkpoint_id,
        "parent_checkpoint_id": one.parent_checkpoint_id,
        "form": one.form,
        "forked_from": one.forked_from,
    }
