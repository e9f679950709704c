"""Print the writes that made a checkpoint, as text, as a record and as rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ckpt_backends.codec import to_json
from ckpt_backends.codec.values import Value
from ckpt_cli.core.conversation.messages import said
from ckpt_cli.core.replay.contribution import Contribution, Effect
from ckpt_cli.core.replay.elimination import Judgement, Verdict
from ckpt_cli.core.replay.reducers import NOT_STORED, is_not_stored
from ckpt_cli.queries.replay_checks import NO_DELTA
from ckpt_cli.queries.step_writes import StepChannel, StoredSizes, Written
from ckpt_cli.render.records import write_record
from ckpt_cli.render.terminal.cell_width import cell_len, fit
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import Span, Style, StyledLine, line
from ckpt_cli.render.terminal.table import plain_columns
from ckpt_cli.render.terminal.units import size, step_words
from ckpt_cli.render.values.differences import difference_records, difference_texts
from ckpt_cli.render.values.one_line import counted, summary
from ckpt_cli.threads.checkpoint import Moment

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
