"""Replays, and what a step wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ckpt_backends.codec import to_json
from ckpt_backends.codec.values import Value
from ckpt_cli.core.conversation import said
from ckpt_cli.core.elimination import Contribution, Effect, Judgement, Verdict, differences_of
from ckpt_cli.core.lineage import namespace_kind
from ckpt_cli.core.reducers import NOT_STORED, is_not_stored
from ckpt_cli.core.replay import (
    ChannelReport,
    FailedCheck,
    Place,
    Replayed,
    ReplayReport,
    Transition,
    label,
    verdicts,
)
from ckpt_cli.queries.replay import StepChannel, StoredSizes, Written
from ckpt_cli.queries.replay_checks import NO_DELTA
from ckpt_cli.reading.thread import Moment
from ckpt_cli.render.records import write_record
from ckpt_cli.render.table import (
    THREAD,
    Column,
    plain_columns,
    size,
    step_number,
    step_words,
    table_lines,
)
from ckpt_cli.render.text import Span, Style, StyledLine, cell_len, fit, line, safe_text
from ckpt_cli.render.value_diff import difference_records, difference_texts
from ckpt_cli.render.values import counted, summary

if TYPE_CHECKING:
    from ckpt_cli.core.elimination import Differences


_VERDICTS: dict[Verdict, Style] = {
    Verdict.MATCH: "add",
    Verdict.MISMATCH: "error",
    Verdict.UNVERIFIABLE: "change",
}
_EFFECTS: dict[Effect, tuple[str, Style]] = {
    "applied": ("", "plain"),
    "duplicate": ("changes nothing", "dim"),
    "overwritten": ("lost: replaced by an Overwrite in the same step", "remove"),
    "dropped": ("dropped: not applied to this checkpoint", "remove"),
    "ignored": ("ignored: the graph has no such channel", "remove"),
    "special": ("", "dim"),
    "unknown": ("", "plain"),
}


def written_record(found: Written) -> dict[str, Any]:
    """Return the answer of `diff --writes` as JSON."""
    key = found.child.key
    return {
        "thread_id": key.thread_id,
        "checkpoint_ns": key.checkpoint_ns,
        "checkpoint_id": None if found.parent is None else found.parent.key.checkpoint_id,
        "child": key.checkpoint_id,
        "step": found.child.number,
        "source": found.child.source,
        "channels": {name: _channel(one) for name, one in found.channels.items()},
        "others": [_write(one) for one in found.others],
        **({} if found.stored is None else {"stored": _stored(found.stored)}),
    }


def _stored(found: StoredSizes) -> dict[str, Any]:
    saved = 1 - found.kept / found.written if found.written else None
    return {
        "writes": found.writes,
        "written_bytes": found.written,
        "values": found.values,
        "value_bytes": found.kept,
        "merged_away": None if saved is None else round(saved, 4),
    }


def written_rows(found: Written) -> Iterator[dict[str, Any]]:
    """Yield one row per write; a channel that changed without writes gets one row too."""
    for name, one in found.channels.items():
        record = _channel(one)
        shared = {name: record[name] for name in ("verdict", "reason", "reducer")}
        for write in record["writes"] or [{"channel": name}]:
            yield {**write, **shared}
    yield from map(_write, found.others)


WRITTEN_COLUMNS = plain_columns(
    *("channel", "node", "task_id", "task_path", "idx", "effect", "added", "removed"),
    *("changed", "bytes", "value", "reducer", "verdict", "reason"),
)


def written_lines(found: Written, width: int) -> Iterator[StyledLine]:
    """Yield a block for each channel: the value before, each write, and the value after."""
    child, parent = found.child, found.parent
    yield line((safe_text(child.key.thread_id), "head"), *_origin(child, parent))
    yield line(
        ("  ", "plain"),
        (safe_text(child.key.checkpoint_id), "id"),
        (f"  step {step_words(child.number, child.source)}", "dim"),
    )
    for name, one in found.channels.items():
        yield line("")
        yield from _block(name, one, width)
    if found.stored is not None and found.stored.written:
        yield line("")
        is_whole = all(one.verdict is not Verdict.MISMATCH for one in found.channels.values())
        yield line((_stored_words(found.stored, is_whole=is_whole), "dim"))
    if found.others:
        yield line("")
        yield line(("other writes", "head"))
        for write in found.others:
            yield from _write_lines(write, width, channel=True)


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
        f"stored: {counted(found.writes, 'write')} of {size(found.written)},"
        f" {counted(found.values, 'value')} of {size(found.kept)}{less}"
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
    if one.verdict is Verdict.MISMATCH and judgement.reducer is not None:
        yield _side("expect", one.rebuilt, "add", width)
        yield _side("stored", one.stored, "remove", width)
    else:
        yield _side("became", _stored_value(one), "plain", width)
    for text in () if one.differences is None else difference_texts(one.differences):
        yield line(("  differs ", "dim"), (fit(text, max(width - 10, 20)), "error"))
    sizes = one.sizes
    yield line(
        (
            f"  as JSON: {counted(len(one.writes), 'write')} of {size(sizes.written)};"
            f" value {_size(one.before, sizes.before)} → {_size(_stored_value(one), sizes.stored)}",
            "dim",
        )
    )


def _reducer(judgement: Judgement) -> str:
    if judgement.chosen:
        return f"{judgement.reducer}, given"
    if judgement.reducer is not None:
        return f"{judgement.reducer}, confirmed by {counted(judgement.evidence, 'step')}"
    return "not established" if judgement.survivors else "unknown"


def _stored_value(one: StepChannel) -> Value:
    return NOT_STORED if one.reason == NO_DELTA else one.stored


def _size(value: Value, number: int) -> str:
    return "not stored" if is_not_stored(value) else size(number)


def _side(word: str, value: Any, style: Style, width: int) -> StyledLine:
    if is_not_stored(value):
        return line((f"  {word:7}", "dim"), ("not stored", "dim"))
    return line((f"  {word:7}", "dim"), (summary(value, max(width - 9, 20), quote=True), style))


def _write_lines(one: Contribution, width: int, *, channel: bool = False) -> Iterator[StyledLine]:
    write = one.placed.write
    node = safe_text(one.placed.node or "caller" if not one.placed.path else one.placed.node or "?")
    text, style = _EFFECTS[one.effect]
    marks: list[Span] = []
    if one.counts is not None:
        tally: list[tuple[str, int, Style]] = [
            ("+", one.counts.added, "add"),
            ("-", one.counts.removed, "remove"),
            ("~", one.counts.changed, "change"),
        ]
        marks = [(f" {mark}{n}", kind) for mark, n, kind in tally if n]
    name = f" {safe_text(write.channel)}" if channel else ""
    start: list[Span] = [("  ← ", "dim"), (node, "node"), (f" {write.idx}{name}", "dim"), *marks]
    room = width - sum(cell_len(part) for part, _ in start) - 2
    end = f"  ({text})" if text else ""
    value = summary(said(one.value), max(room - cell_len(end), 20), quote=True)
    yield line(*start, f"  {value}", (end, style))


def _channel(one: StepChannel) -> dict[str, Any]:
    judgement = one.judgement
    return {
        "reducer": judgement.reducer,
        "evidence": judgement.evidence,
        "candidates": list(judgement.survivors),
        "before": to_json(one.before),
        "writes": [_write(write) for write in one.writes],
        "rebuilt": to_json(one.rebuilt),
        "stored": to_json(one.stored),
        "verdict": one.verdict.value,
        "reason": one.reason or None,
        **({} if one.differences is None else {"differences": difference_records(one.differences)}),
        "assumed": one.assumed,
        "bytes": asdict(one.sizes),
    }


def _write(one: Contribution) -> dict[str, Any]:
    counts = dict.fromkeys(("added", "removed", "changed"))
    return {
        **write_record(one.placed),
        "value": to_json(one.value),
        "effect": one.effect,
        **(counts if one.counts is None else asdict(one.counts)),
    }


_STYLES: Mapping[str, Style] = {
    Verdict.MATCH: "plain",
    Verdict.MISMATCH: "error",
    Verdict.UNVERIFIABLE: "change",
}
_SHOWN = 20
"""Maximum number of findings with the same reason that are shown one by one."""


def transition_rows(
    found: Replayed, judgements: Mapping[Place, Judgement]
) -> Iterator[dict[str, Any]]:
    """Yield one row for each channel of a transition that was written to, or that changed."""
    for transition in found.transitions:
        kind = namespace_kind(transition.checkpoint_ns)
        for check, verdict, reason in verdicts(transition, judgements):
            judgement = judgements[kind, check.channel]
            differs = differences_of(check, judgement)
            yield {
                "thread_id": found.thread_id,
                **_transition(transition),
                "channel": check.channel,
                "writes": check.wrote,
                "verdict": verdict.value,
                "reason": _with_differences(reason, differs) or None,
                **_differences(differs),
                "assumed": verdict is Verdict.MATCH and bool(check.assumed & judgement.mask),
                **_reducer_of(judgement),
            }


def transition_columns(refs: Mapping[str, str]) -> Sequence[Column]:
    """Return the columns of `replay`; `refs` are the short forms of checkpoint ids."""

    def short(checkpoint_id: str) -> str:
        return refs.get(checkpoint_id, checkpoint_id)

    return [
        Column("THREAD", "thread_id", table=False),
        Column("NAMESPACE", "checkpoint_ns", namespace_kind, drop=3),
        Column("STEP", "step", right=True),
        Column("SOURCE", "source", drop=4),
        Column("PARENT", "checkpoint_id", short, "id", drop=5),
        Column("CHILD", "child", short, "id"),
        Column("CHANNEL", "channel"),
        Column("WRITES", "writes", right=True, drop=6),
        Column("REDUCER", "reducer", drop=2, empty="?"),
        Column("EVIDENCE", "evidence", right=True, drop=7),
        Column("VERDICT", "verdict", style=lambda verdict: _STYLES[verdict]),
        Column("ASSUMED", "assumed", table=False),
        Column("CANDIDATES", "candidates", table=False),
        Column("REASON", "reason", cut=True, drop=1),
        Column("DIFFERENCES", "differences", table=False),
    ]


def report_record(found: ReplayReport) -> dict[str, Any]:
    """Return the answer of `replay` as JSON."""
    return {
        "thread_id": found.thread_id,
        "transitions": found.transitions,
        **_counts(found.verdicts),
        "assumed": found.assumed,
        "channels": {label(place): _channel_row(one) for place, one in found.channels.items()},
        "findings": [_finding(one) for one in found.findings],
    }


def report_rows(found: ReplayReport) -> Iterator[dict[str, Any]]:
    """Yield the findings of `replay --verify`, one row each."""
    for one in found.findings:
        yield {"thread_id": found.thread_id, **_finding(one)}


REPORT_COLUMNS = plain_columns(
    *("thread_id", "checkpoint_ns", "checkpoint_id", "child", "step", "source"),
    *("channel", "verdict", "reason"),
)


def thread_rows(found: ReplayReport) -> dict[str, Any]:
    """Return one thread of `replay --all`: the answer of `--verify`, and its first finding."""
    record = report_record(found)
    first = [one for one in found.findings if one.verdict is Verdict.MISMATCH] or found.findings
    return record | {"first": None if not first else _said(first[0])}


THREAD_COLUMNS = [
    THREAD,
    Column("TRANSITIONS", "transitions", right=True),
    Column("MATCH", "match", right=True),
    Column("MISMATCH", "mismatch", right=True, style=lambda n: "error" if n else "plain"),
    Column("UNVERIFIABLE", "unverifiable", right=True),
    Column("FIRST FINDING", "first", cut=True, drop=1),
    Column("CHANNELS", "channels", table=False),
    Column("FINDINGS", "findings", table=False),
]


def report_lines(found: ReplayReport, refs: Mapping[str, str], width: int) -> Iterator[StyledLine]:
    """Yield the channels of one thread, what differs or cannot be verified, and the sum."""
    if found.channels:
        yield from table_lines(channel_rows(found), CHANNEL_COLUMNS, width)
    yield from _finding_lines(found, refs)
    if found.channels:
        yield line("")
    if found.assumed:
        yield line((f"{counted(found.assumed, 'value')} matched in an assumed order", "dim"))
    yield line(counted(found.transitions, "transition"), *_sum_spans(_counts(found.verdicts)))


def _sum_spans(counts: Mapping[str, int]) -> Iterator[Span]:
    before = ": "
    for name, n in counts.items():
        if n:
            yield (before, "plain")
            yield (f"{n} {name}", _STYLES[name])
            before = ", "


def channel_rows(found: ReplayReport) -> Iterator[dict[str, Any]]:
    """Yield the channels of one thread, each with its namespace, one row each."""
    for (graph, channel), one in found.channels.items():
        yield {
            "thread_id": found.thread_id,
            "namespace": graph,
            "channel": channel,
            **_channel_row(one),
        }


CHANNEL_COLUMNS = [
    Column("THREAD", "thread_id", table=False),
    Column("NAMESPACE", "namespace", drop=1),
    Column("CHANNEL", "channel", style="head"),
    Column("REDUCER", "reducer", empty="?"),
    Column("EVIDENCE", "evidence", right=True, drop=2),
    Column("MATCH", "match", right=True),
    Column("MISMATCH", "mismatch", right=True, style=lambda n: "error" if n else "plain"),
    Column("UNVERIFIABLE", "unverifiable", right=True),
    Column("CANDIDATES", "candidates", table=False),
]


def _finding_lines(found: ReplayReport, refs: Mapping[str, str]) -> Iterator[StyledLine]:
    for verdict in (Verdict.MISMATCH, Verdict.UNVERIFIABLE):
        mine = [one for one in found.findings if one.verdict is verdict]
        of_reason = Counter(one.reason for one in mine)
        shown: Counter[str] = Counter()
        if mine:
            yield line("")
        for one in mine:
            shown[one.reason] += 1
            if shown[one.reason] <= _SHOWN:
                child = refs.get(one.transition.child, one.transition.child)
                yield line(
                    (f"{verdict}  ", _STYLES[verdict]), (f"{safe_text(child)}  ", "id"), _said(one)
                )
        for reason, n in of_reason.items():
            if n > _SHOWN:
                yield line((f"{verdict}  ", _STYLES[verdict]), f"{n - _SHOWN} more: {reason}")


def _said(one: FailedCheck) -> str:
    transition = one.transition
    where = f" in {transition.checkpoint_ns}" if transition.checkpoint_ns else ""
    channel = f" {one.channel}" if one.channel else ""
    said = safe_text(f"step {step_number(transition.step)}{where}{channel}: {one.reason}")
    return _with_differences(said, one.differences)


def _with_differences(text: str, found: Differences | None) -> str:
    if found is None:
        return text
    from ckpt_cli.render.value_diff import difference_texts  # late: most values match

    return f"{text}: {', '.join(difference_texts(found))}"


def _differences(found: Differences | None) -> dict[str, Any]:
    if found is None:
        return {}
    from ckpt_cli.render.value_diff import difference_records  # late: most values match

    return {"differences": difference_records(found)}


def _transition(one: Transition) -> dict[str, Any]:
    return {
        "checkpoint_ns": one.checkpoint_ns,
        "checkpoint_id": one.parent,
        "child": one.child,
        "step": one.step,
        "source": one.source,
    }


def _finding(one: FailedCheck) -> dict[str, Any]:
    return {
        **_transition(one.transition),
        "channel": one.channel or None,
        "verdict": one.verdict.value,
        "reason": _with_differences(one.reason, one.differences),
        **_differences(one.differences),
    }


def _channel_row(one: ChannelReport) -> dict[str, Any]:
    return {**_reducer_of(one.judgement), **_counts(one.verdicts)}


def _reducer_of(judgement: Judgement) -> dict[str, Any]:
    return {
        "reducer": judgement.reducer,
        "evidence": judgement.evidence,
        "candidates": list(judgement.survivors),
        **({"told": True} if judgement.chosen else {}),
    }


def _counts(found: Mapping[Verdict, int]) -> dict[str, int]:
    return {verdict.value: found.get(verdict, 0) for verdict in Verdict}
