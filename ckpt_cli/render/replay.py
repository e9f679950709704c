"""Replays, and what a step wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, get_args

from ckpt_backends.codec.values import Value
from ckpt_cli.core import replay
from ckpt_cli.core.conversation import said
from ckpt_cli.core.lineage import namespace_kind
from ckpt_cli.core.reducers import NOT_STORED, is_not_stored
from ckpt_cli.queries.replay import NO_DELTA, StepChannel, StoredSizes, Written
from ckpt_cli.reading.thread import Moment
from ckpt_cli.render import table
from ckpt_cli.render.checkpoint import WRITE
from ckpt_cli.render.fields import Field, Shape, View, inside, optional
from ckpt_cli.render.text import Span, Style, StyledLine, Ui, cell_len, fit, line, safe_text
from ckpt_cli.render.types import ANY, BYTES, FLAG, INTEGER, NUMBER, TEXT, VALUE, one_of
from ckpt_cli.render.value_diff import difference_records, difference_texts
from ckpt_cli.render.values import count_marks, counted, summary

_STYLES: Mapping[str, Style] = {
    replay.Verdict.MATCH: "plain",
    replay.Verdict.MISMATCH: "error",
    replay.Verdict.UNVERIFIABLE: "change",
}
_VERDICTS: Mapping[str, Style] = {**_STYLES, replay.Verdict.MATCH: "add"}
_EFFECTS: dict[replay.Effect, tuple[str, Style]] = {
    "applied": ("", "plain"),
    "duplicate": ("changes nothing", "dim"),
    "overwritten": ("lost: replaced by an Overwrite in the same step", "remove"),
    "dropped": ("dropped: not applied to this checkpoint", "remove"),
    "ignored": ("ignored: the graph has no such channel", "remove"),
    "special": ("", "dim"),
    "unknown": ("", "plain"),
}


def _with_differences(text: str, found: replay.Differences | None) -> str:
    return text if found is None else f"{text}: {', '.join(difference_texts(found))}"


def _reason(one: replay.JudgedCheck) -> str:
    """Return why a step is no match, and where its value differs."""
    return _with_differences(one.reason, one.differences)


def _differences(one: replay.JudgedCheck | StepChannel) -> dict[str, Any] | None:
    return None if one.differences is None else difference_records(one.differences)


_VERDICT = one_of(*replay.Verdict)


def _number(verdict: replay.Verdict, found: replay.Replayed | replay.ReplayedChannel) -> int:
    return found.verdicts.get(verdict, 0)


_COUNTS = tuple(
    Field(verdict.value, INTEGER, f"Number of transitions: {verdict}.", partial(_number, verdict))
    for verdict in replay.Verdict
)
_REDUCER = (
    Field("reducer", TEXT.or_null, "Reducer; null if it is not known.", "judgement.reducer"),
    Field("evidence", INTEGER, "Steps that no other explains.", "judgement.evidence"),
    Field("candidates", TEXT.list, "All that explain the channel.", "judgement.survivors"),
    optional("told", FLAG, "The reducer was given.", "judgement.chosen"),
)
_TRANSITION = (
    Field("checkpoint_ns", TEXT, "Namespace.", "transition.checkpoint_ns"),
    Field("checkpoint_id", TEXT.or_null, "Parent, which holds the writes.", "transition.parent"),
    Field("child", TEXT, "Checkpoint that was made from them.", "transition.child"),
    Field("step", INTEGER.or_null, "Its step.", "transition.step"),
    Field("source", TEXT.or_null, "Its source.", "transition.source"),
)
_DIFFERENCES = optional("differences", ANY, "Where the stored value differs.", _differences)


def _count(name: str, one: replay.Contribution) -> int | None:
    """Return a number of items; None if it is not known."""
    return None if one.counts is None else getattr(one.counts, name)


_ITEMS = "Items of the channel that it {}; null if that is not known."
CONTRIBUTION = Shape(
    "A write of a task, and what it did.",
    *inside("placed", *WRITE),
    Field("value", VALUE, "Value."),
    Field(
        "effect",
        one_of(*get_args(replay.Effect)),
        "`applied`, `duplicate` (it changes nothing), `overwritten`, `dropped`, `ignored`,"
        " `special` (LangGraph's own) or `unknown`.",
    ),
    *(
        Field(name, INTEGER.or_null, _ITEMS.format(name), partial(_count, name))
        for name in ("added", "removed", "changed")
    ),
)


STEP_CHANNEL = Shape(
    "How one channel was made.",
    *(one for one in _REDUCER if one.key != "told"),
    Field("before", VALUE, "Value at the parent; null if there was none."),
    Field("writes", CONTRIBUTION.list, "What was written to it, in order."),
    Field("rebuilt", VALUE, "What the writes make; null if the reducer is not known."),
    Field("stored", VALUE, "What is stored."),
    Field("verdict", _VERDICT, "Whether the stored value follows from the writes."),
    Field("reason", TEXT.or_null, "Why not.", lambda one: one.reason or None),
    _DIFFERENCES,
    Field("assumed", FLAG, "The order or the choice of the writes is not stored."),
    Field(
        "bytes",
        Shape(
            "Sizes as compact JSON.",
            Field("before", BYTES, "Before."),
            Field("written", BYTES, "All writes."),
            Field("stored", BYTES, "After."),
        ),
        "Sizes as compact JSON.",
        "sizes",
    ),
)


def _saved(found: StoredSizes) -> float | None:
    return round(1 - found.kept / found.written, 4) if found.written else None


STORED = Shape(
    "What is stored for the step.",
    Field("writes", INTEGER, "Number of its writes."),
    Field("written_bytes", BYTES, "Their size.", "written"),
    Field("values", INTEGER, "Values that are stored with it, not shared with its parent."),
    Field("value_bytes", BYTES, "Their size.", "kept"),
    Field("merged_away", NUMBER.or_null, "Share that merging saved.", _saved),
)


WRITTEN = Shape(
    "How a checkpoint was made from its parent.",
    Field("thread_id", TEXT, "Thread.", "child.key.thread_id"),
    Field("checkpoint_ns", TEXT, "Namespace.", "child.key.checkpoint_ns"),
    Field(
        "checkpoint_id",
        TEXT.or_null,
        "Parent, which holds the writes; null if it is not stored.",
        lambda found: None if found.parent is None else found.parent.key.checkpoint_id,
    ),
    Field("child", TEXT, "The checkpoint.", "child.key.checkpoint_id"),
    Field("step", INTEGER.or_null, "Its step.", "child.number"),
    Field("source", TEXT.or_null, "Its source.", "child.source"),
    Field("channels", STEP_CHANNEL.by_name, "What was written to, or changed."),
    Field("others", CONTRIBUTION.list, "Writes that changed no channel."),
    optional("stored", STORED, "Sizes, where values are stored apart."),
)


def _written_rows(found: Written) -> Iterator[dict[str, Any]]:
    """Yield one row per write; a channel that changed without writes gets one row too."""
    for name, one in found.channels.items():
        record = STEP_CHANNEL.record(one)
        shared = {name: record[name] for name in ("verdict", "reason", "reducer")}
        for write in record["writes"] or [{"channel": name}]:
            yield {**write, **shared}
    yield from map(CONTRIBUTION.record, found.others)


def written_lines(found: Written, ui: Ui) -> Iterator[StyledLine]:
    """Yield a block for each channel: the value before, each write, and the value after."""
    child, parent, width = found.child, found.parent, ui.width
    yield line((safe_text(child.key.thread_id), "head"), *_origin(child, parent))
    yield line(
        ("  ", "plain"),
        (safe_text(child.key.checkpoint_id), "id"),
        (f"  step {table.step_words(child.number, child.source)}", "dim"),
    )
    for name, one in found.channels.items():
        yield line("")
        yield from _block(name, one, width)
    if found.stored is not None and found.stored.written:
        yield line("")
        is_whole = all(
            one.verdict is not replay.Verdict.MISMATCH for one in found.channels.values()
        )
        yield line((_stored_words(found.stored, is_whole=is_whole), "dim"))
    if found.others:
        yield line("")
        yield line(("other writes", "head"))
        for write in found.others:
            yield from _write_lines(write, width, channel=True)


WRITTEN_VIEW = View(
    WRITTEN.record,
    written_lines,
    _written_rows,
    table.plain_columns(
        *("channel", "node", "task_id", "task_path", "idx", "effect", "added", "removed"),
        *("changed", "bytes", "value", "reducer", "verdict", "reason"),
    ),
)


def _origin(child: Moment, parent: Moment | None) -> Iterator[Span]:
    if parent is not None:
        yield from (("  parent ", "dim"), (safe_text(parent.key.checkpoint_id), "id"))
    elif child.checkpoint.parent_checkpoint_id is None:
        yield "  first checkpoint, no parent", "dim"
    else:
        yield from (("  parent ", "dim"), ("not stored", "id"))


def _stored_words(found: StoredSizes, *, is_whole: bool) -> str:
    saved = 1 - found.kept / found.written
    # Values that are missing were not saved by merging.
    less = f": merging saved {saved:.1%}" if saved > 0 and is_whole else ""
    return (
        f"stored: {counted(found.writes, 'write')} of {table.size(found.written)},"
        f" {counted(found.values, 'value')} of {table.size(found.kept)}{less}"
    )


def _block(name: str, one: StepChannel, width: int) -> Iterator[StyledLine]:
    judgement = one.judgement
    yield line(
        (safe_text(name), "head"),
        "  ",
        (one.verdict, _VERDICTS[one.verdict]),
        f": {one.reason}" if one.reason else "",
        (" (order assumed)" if one.assumed else "", "dim"),
    )
    yield line(("  reducer ", "dim"), (fit(_reducer(judgement), max(width - 10, 20)), "dim"))
    yield _side("was", one.before, "plain", width)
    for write in one.writes:
        yield from _write_lines(write, width)
    if one.verdict is replay.Verdict.MISMATCH and judgement.reducer is not None:
        yield _side("expect", one.rebuilt, "add", width)
        yield _side("stored", one.stored, "remove", width)
    else:
        yield _side("became", _stored_value(one), "plain", width)
    for text in () if one.differences is None else difference_texts(one.differences):
        yield line(("  differs ", "dim"), (fit(text, max(width - 10, 20)), "error"))
    sizes = one.sizes
    yield line(
        (
            f"  as JSON: {counted(len(one.writes), 'write')} of {table.size(sizes.written)};"
            f" value {_size(one.before, sizes.before)} → {_size(_stored_value(one), sizes.stored)}",
            "dim",
        )
    )


def _reducer(judgement: replay.Judgement) -> str:
    if judgement.chosen:
        return f"{judgement.reducer}, given"
    if judgement.reducer is not None:
        return f"{judgement.reducer}, confirmed by {counted(judgement.evidence, 'step')}"
    return "not established" if judgement.survivors else "unknown"


def _stored_value(one: StepChannel) -> Value:
    return NOT_STORED if one.reason == NO_DELTA else one.stored


def _size(value: Value, number: int) -> str:
    return "not stored" if is_not_stored(value) else table.size(number)


def _side(word: str, value: Any, style: Style, width: int) -> StyledLine:
    if is_not_stored(value):
        return line((f"  {word:7}", "dim"), ("not stored", "dim"))
    return line((f"  {word:7}", "dim"), (summary(value, max(width - 9, 20), quote=True), style))


def _write_lines(
    one: replay.Contribution, width: int, *, channel: bool = False
) -> Iterator[StyledLine]:
    write = one.placed.write
    node = safe_text(one.placed.node or "caller" if not one.placed.path else one.placed.node or "?")
    text, style = _EFFECTS[one.effect]
    marks: list[Span] = []
    if one.counts is not None:
        marks = [(f" {mark}{n}", kind) for mark, n, kind in count_marks(one.counts)]
    name = f" {safe_text(write.channel)}" if channel else ""
    start: list[Span] = [("  ← ", "dim"), (node, "node"), (f" {write.idx}{name}", "dim"), *marks]
    room = width - sum(cell_len(part) for part, _ in start) - 2
    end = f"  ({text})" if text else ""
    value = summary(said(one.value), max(room - cell_len(end), 20), quote=True)
    yield line(*start, f"  {value}", (end, style))


_SHOWN = 20
"""Maximum number of findings with the same reason that are shown one by one."""


TRANSITION = Shape(
    "A channel that a transition wrote or changed.",
    Field("thread_id", TEXT, "Thread."),
    *_TRANSITION,
    Field("channel", TEXT, "Channel.", "check.channel"),
    Field("writes", INTEGER, "Number of writes to it.", "check.wrote"),
    Field("verdict", _VERDICT, "Whether its value follows from them."),
    Field("reason", TEXT.or_null, "Why not.", lambda one: _reason(one) or None),
    _DIFFERENCES,
    Field("assumed", FLAG, "Whether the writes match in an order that is not stored."),
    *_REDUCER,
)
FINDING = Shape(
    "A channel that does not follow from its writes, or cannot be verified.",
    *_TRANSITION,
    Field(
        "channel",
        TEXT.or_null,
        "Channel; null if the checkpoint cannot be read.",
        lambda one: one.check.channel or None,
    ),
    Field("verdict", _VERDICT, "Whether it is wrong."),
    Field("reason", TEXT, "Why.", _reason),
    _DIFFERENCES,
)
CHANNEL = Shape("One channel of one graph.", *_REDUCER, *_COUNTS)
REPLAY = Shape(
    "Whether the states of a thread follow from what its tasks wrote.",
    Field("thread_id", TEXT, "Thread."),
    Field("transitions", INTEGER, "Number of steps.", lambda found: len(found.transitions)),
    *_COUNTS,
    Field("assumed", INTEGER, "Values that match in an order of writes that is not stored."),
    Field(
        "channels",
        CHANNEL.by_name,
        "By channel; one of a subgraph is named after the node that calls it: `research/notes`.",
        lambda found: {replay.label(place): one for place, one in found.channels.items()},
    ),
    Field("findings", FINDING.list, "What does not match."),
)


def _first(found: replay.Replayed) -> str | None:
    first = found.mismatches or found.findings
    return _said(first[0]) if first else None


REPLAYED_THREAD = Shape(
    "The same of one of several threads.",
    *REPLAY,
    Field("first", TEXT.or_null, "Its first finding.", _first),
)


def _wrong(number: int) -> Style:
    return "error" if number else "plain"


_NUMBERS = (
    table.Column("MATCH", "match", right=True),
    table.Column("MISMATCH", "mismatch", right=True, style=_wrong),
    table.Column("UNVERIFIABLE", "unverifiable", right=True),
)
THREAD_COLUMNS = REPLAYED_THREAD.columns(
    table.THREAD,
    table.Column("TRANSITIONS", "transitions", right=True),
    *_NUMBERS,
    table.Column("FIRST FINDING", "first", cut=True, drop=1),
    *("channels", "findings"),
)
_CHANNEL_COLUMNS = [
    table.Column("THREAD", "thread_id", table=False),
    table.Column("NAMESPACE", "namespace", drop=1),
    table.Column("CHANNEL", "channel", style="head"),
    *CHANNEL.columns(
        table.Column("REDUCER", "reducer", empty="?"),
        table.Column("EVIDENCE", "evidence", right=True, drop=2),
        *_NUMBERS,
        "candidates",
    ),
]


def transition_columns(refs: Mapping[str, str]) -> Sequence[table.Column]:
    """Return the columns of `replay --all-steps`; `refs` are short forms of checkpoint ids."""

    def short(checkpoint_id: str) -> str:
        return refs.get(checkpoint_id, checkpoint_id)

    return TRANSITION.columns(
        "thread_id",
        table.Column("NAMESPACE", "checkpoint_ns", namespace_kind, drop=3),
        table.Column("STEP", "step", right=True),
        table.Column("SOURCE", "source", drop=4),
        table.Column("PARENT", "checkpoint_id", short, "id", drop=5),
        table.Column("CHILD", "child", short, "id"),
        table.Column("CHANNEL", "channel"),
        table.Column("WRITES", "writes", right=True, drop=6),
        table.Column("REDUCER", "reducer", drop=2, empty="?"),
        table.Column("EVIDENCE", "evidence", right=True, drop=7),
        table.Column("VERDICT", "verdict", style=lambda verdict: _STYLES[verdict]),
        *("assumed", "candidates"),
        table.Column("REASON", "reason", cut=True, drop=1),
        "differences",
    )


def _report_lines(found: replay.Replayed, ui: Ui, refs: Mapping[str, str]) -> Iterator[StyledLine]:
    """Yield the channels of one thread, what differs or cannot be verified, and the sum."""
    if found.channels:
        yield from table.table_lines(_channel_rows(found), _CHANNEL_COLUMNS, ui)
    yield from _finding_lines(found, refs)
    if found.channels:
        yield line("")
    if found.assumed:
        yield line((f"{counted(found.assumed, 'value')} matched in an assumed order", "dim"))
    sums: list[Span | str] = []
    for verdict in replay.Verdict:
        if number := found.verdicts.get(verdict, 0):
            sums += [", " if sums else ": ", (f"{number} {verdict}", _STYLES[verdict])]
    yield line(counted(len(found.transitions), "transition"), *sums)


def _channel_rows(found: replay.Replayed) -> Iterator[dict[str, Any]]:
    """Yield the channels of one thread, each with its namespace, one row each."""
    for (graph, channel), one in found.channels.items():
        place = {"thread_id": found.thread_id, "namespace": graph, "channel": channel}
        yield place | CHANNEL.record(one)


def _finding_rows(found: replay.Replayed) -> Iterator[dict[str, Any]]:
    for one in found.findings:
        yield {"thread_id": found.thread_id, **FINDING.record(one)}


def transitions(found: replay.Replayed) -> Iterator[dict[str, Any]]:
    """Yield the answer of `replay --all-steps`."""
    return map(TRANSITION.record, found.judged())


REPLAY_VIEW = View(REPLAY.record, _report_lines, _channel_rows, _CHANNEL_COLUMNS)
VERIFY_VIEW = REPLAY_VIEW._replace(
    rows=_finding_rows,
    columns=table.plain_columns(
        *("thread_id", "checkpoint_ns", "checkpoint_id", "child", "step", "source"),
        *("channel", "verdict", "reason"),
    ),
)
"""As TSV, this is a row for each finding."""


def _finding_lines(found: replay.Replayed, refs: Mapping[str, str]) -> Iterator[StyledLine]:
    for verdict in (replay.Verdict.MISMATCH, replay.Verdict.UNVERIFIABLE):
        start: Span = (f"{verdict}  ", _STYLES[verdict])
        mine = [one for one in found.findings if one.verdict is verdict]
        shown: Counter[str] = Counter()
        if mine:
            yield line("")
        for one in mine:
            shown[one.reason] += 1
            if shown[one.reason] <= _SHOWN:
                child = refs.get(one.transition.child, one.transition.child)
                yield line(start, (f"{safe_text(child)}  ", "id"), _said(one))
        for reason, number in shown.items():
            if number > _SHOWN:
                yield line(start, f"{number - _SHOWN} more: {reason}")


def _said(one: replay.JudgedCheck) -> str:
    transition = one.transition
    where = f" in {transition.checkpoint_ns}" if transition.checkpoint_ns else ""
    channel = f" {one.check.channel}" if one.check.channel else ""
    said = safe_text(f"step {table.step_number(transition.step)}{where}{channel}: {one.reason}")
    return _with_differences(said, one.differences)
