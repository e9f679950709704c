"""Long-term memory and sessions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, tzinfo
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ckpt_backends import shell
from ckpt_backends.codec import decode, to_json
from ckpt_backends.codec.values import Value
from ckpt_backends.memory import Item, ItemKey, Namespace
from ckpt_backends.model import in_chunks
from ckpt_cli.core.conversation import content_text
from ckpt_cli.core.copying import CopiedItem, CopyStep, MemoryCopyReport
from ckpt_cli.core.memory import format_key, format_namespace, is_expired
from ckpt_cli.core.memory import text_of as text_of_fact
from ckpt_cli.core.values import clip, format_path
from ckpt_cli.queries.memory import FACTS, MemoryHit, Read
from ckpt_cli.render.fields import values_record
from ckpt_cli.render.search import excerpt
from ckpt_cli.render.table import (
    AGE,
    AGO,
    Column,
    age,
    iso,
    optional_iso,
    size,
    step_number,
    table_lines,
    when,
)
from ckpt_cli.render.text import (
    MIN_WIDTH,
    Span,
    Style,
    StyledLine,
    cell_len,
    command_field,
    field,
    fit,
    line,
    pad,
    safe_text,
    visible_id,
    wrap,
)
from ckpt_cli.render.threads import STATUS_STYLES
from ckpt_cli.render.values import block, counted, summary

if TYPE_CHECKING:
    from ckpt_cli.queries.memory import ItemOrigin, Joined


_SAYS = ("content", "summary")
"""Keys of the text in a fact or a section."""
_GAP = 2
_ALIGNED = 200
"""Maximum number of items of one namespace that are aligned with each other."""
_SHORT = 1000
"""Maximum number of characters of a value without a text."""
_STYLES: Sequence[Style] = ("head", "plain", "plain", "id")


def full_text_lines(items: Iterable[Read], width: int) -> Iterator[StyledLine]:
    """Yield items by namespace in columns, with wrapped text.

    Leaves out empty items, such as sections of DeerFlow that are not filled yet.
    """
    between = False
    for namespace, some in groupby(items, key=lambda one: one.item.key.namespace):
        speaking = ((_cells(one), said) for one in some if (said := item_text(one.value)))
        first = True
        for rows in in_chunks(speaking, _ALIGNED):
            if first and between:
                yield line("")
            if first:
                yield line((f"{safe_text(format_namespace(namespace))}/", "node"))
            first, between = False, True
            yield from _rows(rows, width)


def _rows(rows: Sequence[tuple[Sequence[str], str]], width: int) -> Iterator[StyledLine]:
    widths = [
        max(map(cell_len, column)) for column in zip(*(cells for cells, _ in rows), strict=True)
    ]
    room = max(width - sum(one + _GAP for one in widths if one) - _GAP, MIN_WIDTH)
    for cells, said in rows:
        spans: list[Span] = [(" " * _GAP, "plain")]
        for text, wide, style in zip(cells, widths, _STYLES, strict=True):
            if wide:
                spans.append((pad(text, wide + _GAP), style))
        indent = " " * sum(cell_len(text) for text, _ in spans)
        parts = (part for one in said.split("\n") for part in wrap(one, room))
        for number, part in enumerate(parts):
            yield line(*spans, part) if number == 0 else line(indent, part)


def _cells(one: Read) -> tuple[str, str, str, str]:
    """Return key, category, confidence and source, escaped; empty if there is none."""
    item = one.item
    source = item.source
    return (
        safe_text(item.key.key),
        safe_text(item.category or ""),
        "" if item.confidence is None else f"{item.confidence:.2f}",
        "" if source is None else safe_text(source.thread_id or source.kind),
    )


def item_text(value: Value) -> str:
    """Return the text of an item, escaped, or else its value on one line."""
    if isinstance(value, dict):
        for name in _SAYS:
            if isinstance(words := value.get(name), str):
                return safe_text(words.strip(), newlines=True)
    return summary(value, _SHORT)


_INDENT = 2
_WIDEST = 40
"""Keys are padded up to this width; keys are never cut."""
_TOLD = frozenset({"id", "category", "confidence", "createdAt", "updatedAt", "source"})
"""Fields of DeerFlow's facts that are already shown as facts of the item."""
_TEXT = 30
"""A table shows at least this much of a text."""
_ITEM_GAP, _LEAST = 2, 12
"""Before a text in a tree, and the least room for it."""
_LONGEST = 1000
"""Characters of a text in one line."""
_AGE, _SIZE = 8, 8
"""Columns for `12mo ago` and `1023 KiB`."""


def text_of(item: Item) -> str | None:
    """Return the text of a fact or a section; None if it has none, or if no value was read.

    DeerFlow's facts have it in `content`, its sections in `summary`.
    """
    value = None if item.value is None else decode(item.value)
    if not isinstance(value, dict):
        return None
    found = (value.get(name) for name in ("content", "summary"))
    return next((one for one in found if isinstance(one, str)), None)


def _one_line(text: str) -> str:
    return " ".join(text[:_LONGEST].split())


def listed_record(item: Item, now: datetime) -> dict[str, Any]:
    """Return one item of `memory list` as JSON, with its text if its value was read with it."""
    text = text_of(item)
    return item_record(item, now) | ({} if text is None else {"text": text})


def item_record(item: Item, now: datetime) -> dict[str, Any]:
    """Return one item as JSON, without its value."""
    record: dict[str, Any] = {
        "namespace": list(item.key.namespace),
        "key": item.key.key,
        "created_at": optional_iso(item.created_at),
        "updated_at": optional_iso(item.updated_at),
        "expires_at": optional_iso(item.expires_at),
        "expired": is_expired(item, now),
        "bytes": item.size,
        "vectors": [{"field": one.field, "bytes": one.size} for one in item.vectors],
    }
    if item.category is not None:
        record["category"] = item.category
    if item.confidence is not None:
        record["confidence"] = item.confidence
    if item.source is not None:
        record["source"] = asdict(item.source)
    return record


def read_record(read: Read, now: datetime) -> dict[str, Any]:
    """Return one item of `memory show` and `memory export` as JSON."""
    return {**item_record(read.item, now), "value": to_json(read.value)}


def row_record(item: Item, now: datetime) -> dict[str, Any]:
    """Return an item as a row of a table or TSV, with its namespace in the form of
    `--namespace`.
    """
    record = item_record(item, now)
    source = item.source
    return {
        **record,
        "namespace": format_namespace(item.key.namespace),
        "vectors": [one.field for one in item.vectors],
        "expired": True if record["expired"] else None,
        "source": None if source is None else source.thread_id or source.kind,
    }


def listed_row(item: Item, now: datetime) -> dict[str, Any]:
    """Return an item as a row of `memory list`."""
    return {**row_record(item, now), "text": text_of(item)}


def item_columns(*, marked: bool = False, texts: bool = False) -> Sequence[Column]:
    """Return the columns of `memory list` and `memory delete`; `marked` adds those of problems,
    `texts` that of the text of facts.
    """
    faults = [
        Column("SAME AS", "duplicate_of", style="warn"),
        Column("THREAD", "orphan", lambda _: "missing", style="warn"),
    ]
    return [
        *(faults if marked else ()),
        Column("NAMESPACE", "namespace", style="node"),
        Column("KEY", "key", style="head"),
        Column("UPDATED", "updated_at", AGO, style="time", right=True),
        Column("SIZE", "bytes", size, right=True),
        Column("EXPIRES", "expires_at", AGE, style="time", right=True, drop=3),
        Column("EXPIRED", "expired", lambda _: "yes", style="error", drop=4),
        Column("VECTORS", "vectors", ", ".join, style="dim", cut=True, drop=2),
        Column("CATEGORY", "category", drop=6),
        Column("CONFIDENCE", "confidence", right=True, drop=5),
        Column("SOURCE", "source", style="id", drop=1),
        Column("CREATED", "created_at", table=False),
        *([Column("TEXT", "text", _one_line, cut=True, least=_TEXT, drop=1)] if texts else ()),
    ]


def tree_lines(
    items: Iterable[Item],
    now: datetime,
    faults: Mapping[ItemKey, Mapping[str, Any]] = MappingProxyType({}),
    width: int = 0,
) -> Iterator[StyledLine]:
    """Yield items below their namespaces, with their problems, and their text up to `width`."""
    return (found for _, found in tree_rows(items, now, faults, width))


def tree_rows(
    items: Iterable[Item],
    now: datetime,
    faults: Mapping[ItemKey, Mapping[str, Any]] = MappingProxyType({}),
    width: int = 0,
) -> Iterator[tuple[Item | Namespace, StyledLine]]:
    """Yield the same lines, each with its item or namespace."""
    before: Namespace = ()
    for namespace, some in groupby(items, key=lambda one: one.key.namespace):
        yield from _labels(namespace, before)
        before = namespace
        for batch in in_chunks(some, _ALIGNED):
            lines = _items(batch, " " * _INDENT * len(namespace), now, faults, width)
            yield from zip(batch, lines, strict=True)


def _labels(namespace: Namespace, before: Namespace) -> Iterator[tuple[Namespace, StyledLine]]:
    """Yield the labels of a namespace that differ from the previous one."""
    same = 0
    while same < min(len(namespace), len(before)) and namespace[same] == before[same]:
        same += 1
    for depth in range(same, len(namespace)):
        label = safe_text(format_namespace(namespace[depth : depth + 1]))
        text = line(" " * _INDENT * depth, (f"{label}/", "node"))
        yield namespace[: depth + 1], text


def _items(
    items: Sequence[Item],
    indent: str,
    now: datetime,
    faults: Mapping[ItemKey, Mapping[str, Any]],
    most: int,
) -> Iterator[StyledLine]:
    keys = [safe_text(one.key.key) for one in items]
    width = min(max(map(cell_len, keys)), _WIDEST)
    for item, key in zip(items, keys, strict=True):
        at = "" if item.updated_at is None else f"{age(item.updated_at, now)} ago"
        spans: list[Span] = [(indent, "plain"), (key, "head")]
        spans.append((pad("", max(width - cell_len(key), 0)), "plain"))
        spans += [(f"  {at:>{_AGE}}", "time"), (f"  {size(item.size):>{_SIZE}}", "plain")]
        spans += [*_marks(item, now), *_faults(faults.get(item.key, {}))]
        room = most - sum(cell_len(text) for text, _ in spans) - _ITEM_GAP
        if room >= _LEAST and (text := text_of(item)):
            spans.append((f"  {fit(safe_text(_one_line(text)), room)}", "plain"))
        yield line(*spans)


def _marks(item: Item, now: datetime) -> Iterator[Span]:
    """Yield expiry, vectors, facts and source of an item, for the end of its line."""
    if item.expires_at is not None:
        yield _expiry(item.expires_at, now)
    if item.vectors:
        noun = "vector" if len(item.vectors) == 1 else "vectors"
        yield (f"  {noun} {safe_text(', '.join(one.field for one in item.vectors))}", "dim")
    for text in fact_words(item):
        yield (f"  {safe_text(text)}", "plain")
    if item.source is not None:
        yield (f"  from {safe_text(item.source.thread_id or item.source.kind)}", "id")


def _faults(found: Mapping[str, Any]) -> Iterator[Span]:
    if "duplicate_of" in found:
        yield f"  duplicate of {safe_text(found['duplicate_of'])}", "warn"
    if "orphan" in found:
        yield "  thread missing", "warn"


def fact_words(item: Item) -> Iterator[str]:
    """Yield the category and confidence of a fact; the text is not escaped yet."""
    if item.category is not None:
        yield item.category
    if item.confidence is not None:
        yield f"confidence {item.confidence:.2f}"


def _expiry(at: datetime, now: datetime) -> Span:
    if at < now:
        return f"  expired {age(at, now)} ago", "error"
    return f"  expires {age(at, now)}", "time"


def item_lines(read: Read, now: datetime, zone: tzinfo, width: int) -> Iterator[StyledLine]:
    """Yield one item as text, with its whole value."""
    item = read.item
    yield from field("ns", format_namespace(item.key.namespace), width, "node")
    yield from field("key", item.key.key, width, "head")
    for name, moment in (("created", item.created_at), ("updated", item.updated_at)):
        if moment is not None:
            text = f"{when(moment, now, zone)} ({age(moment, now)} ago)"
            yield from field(name, text, width)
    if item.expires_at is not None:
        is_over = item.expires_at < now
        text = f"{age(item.expires_at, now)} ago" if is_over else age(item.expires_at, now)
        yield from field(
            "expired" if is_over else "expires",
            f"{when(item.expires_at, now, zone)} ({text})",
            width,
            "error" if is_over else "time",
        )
    yield from field("size", size(item.size), width)
    for one in item.vectors:
        yield from field("vector", f"{one.field}, {size(one.size)}", width, "dim")
    if facts := ", ".join(fact_words(item)):
        yield from field("fact", facts, width)
    if item.source is not None:
        thread = "" if item.source.thread_id is None else f" {item.source.thread_id}"
        yield from field("source", item.source.kind + thread, width, "id")
    yield line("")
    yield from map(line, block(_untold(read), 0, width))


def _untold(read: Read) -> Value:
    """Return the value without the fields already shown for a fact; its text comes first."""
    item, value = read.item, read.value
    is_fact = item.category is not None and item.source is not None
    if not is_fact or not isinstance(value, dict):
        return value
    said = {name: value[name] for name in ("content",) if name in value}
    return said | {name: part for name, part in value.items() if name not in _TOLD}


def hit_record(hit: MemoryHit) -> dict[str, Any]:
    """Return one line of `memory search` as JSON."""
    match = hit.match
    return {
        "namespace": list(hit.item.key.namespace),
        "key": hit.item.key.key,
        "updated_at": optional_iso(hit.item.updated_at),
        "in": hit.place,
        "path": format_path(match.path) if hit.place == "value" else None,
        "line_number": match.number,
        "line": match.line,
        "start": match.start,
        "end": match.end,
    }


def hit_row(hit: MemoryHit, *, table: bool) -> dict[str, Any]:
    """Return the same as a row; a table shows the text around the match."""
    record = {**hit_record(hit), "namespace": format_namespace(hit.item.key.namespace)}
    if table:
        record["line"] = excerpt(hit.match.line, hit.match.start, hit.match.end)
    return record


def hit_columns() -> Sequence[Column]:
    """Return the columns of `memory search`."""
    return [
        Column("NAMESPACE", "namespace", style="node"),
        Column("KEY", "key", style="head"),
        Column("IN", "in", style="dim"),
        Column("PATH", "path", style="node", drop=1),
        Column("LINE", "line", cut=True),
        Column("UPDATED", "updated_at", table=False),
        Column("LINE_NUMBER", "line_number", table=False),
        Column("START", "start", table=False),
        Column("END", "end", table=False),
    ]


def sum_record(items: Iterable[Item]) -> dict[str, int]:
    """Return the totals of some items."""
    total = {"items": 0, "vectors": 0, "bytes": 0}
    for one in items:
        total["items"] += 1
        total["vectors"] += len(one.vectors)
        total["bytes"] += one.size + sum(vector.size for vector in one.vectors)
    return total


def removal_lines(
    items: Sequence[Item],
    now: datetime,
    *,
    more: bool,
    done: bool = False,
    bundle: Path | None = None,
) -> Iterator[StyledLine]:
    """Yield the items of a removal, planned or done, and their archive; nothing without items."""
    if not items:
        return
    # Values are read for comparison here, even where they must not be shown.
    yield from tree_lines((replace(one, value=None) for one in items), now)
    yield line("")
    rest = "; more items match" if more else ""
    yield line((f"{'Removed' if done else 'Would remove'} {amount(items)}{rest}", "bold"))
    if bundle is not None:
        restore = shell.command("ckpt", "memory", "import", ids=[str(bundle)])
        text = safe_text(f"archive  {shell.word(str(bundle))}; `{restore}` restores it")
        yield StyledLine(((text, "plain"),), whole=True)


def amount(items: Iterable[Item]) -> str:
    """The number of items, of their vectors, and their size."""
    total = sum_record(items)
    numbers = [counted(total["items"], "item")]
    if total["vectors"]:
        numbers.append(counted(total["vectors"], "vector"))
    return f"{', '.join(numbers)} ({size(total['bytes'])})"


def origin_record(found: ItemOrigin) -> dict[str, Any]:
    """Return the origin of an item as JSON; `message` is a guess."""
    record: dict[str, Any] = {"thread_id": found.thread_id, "store": found.store}
    record["checkpoint_id"] = found.checkpoint_id
    if found.checkpoint_id is not None:
        record |= {"ts": optional_iso(found.at), "step": found.step}
        record["human_messages"] = found.people
    if found.turn is not None and found.likeness is not None:
        message = found.turn.message
        record["message"] = {
            "index": found.turn.index,
            "id": message.id,
            "content": content_text(message.content),
            "sentence": found.likeness.sentence,
            "shared": round(found.likeness.shared, 3),
            "assumed": True,
        }
    if found.remark:
        record["remark"] = found.remark
    return record


def origin_lines(
    found: ItemOrigin, now: datetime, zone: tzinfo, width: int
) -> Iterator[StyledLine]:
    """Yield the origin of an item, as text."""
    yield line("")
    place = f" in {found.store}" if found.store else ""
    yield from field("from", f"thread {found.thread_id}{place}", width, "id")
    if found.checkpoint_id is not None:
        at = "" if found.at is None else f", {when(found.at, now, zone)}"
        text = f"{found.checkpoint_id}  step {step_number(found.step)}{at}"
        yield from field("as of", text, width, "id")
    if found.turn is not None and found.likeness is not None:
        yield from field("said", found.likeness.sentence, width, "bold")
        yield from field(
            "",
            f"message {found.turn.index}, one of {found.people} human messages; assumed, as it has"
            f" {found.likeness.shared:.0%} of the item's words",
            width,
            "dim",
        )
    if found.remark:
        yield from field("note", found.remark, width, "warn")
    if found.checkpoint_id is not None:
        words = ["-s", found.store, "messages", "--at", found.checkpoint_id]
        yield command_field("read", shell.command("ckpt", *words, ids=[found.thread_id]))


def memory_rows(
    memories: Mapping[str, Sequence[Item]], *, redacted: bool = False
) -> list[dict[str, Any]]:
    """Return items that came from threads, one row each; redacted ones without their text."""
    rows = []
    for thread_id, items in memories.items():
        for item in items:
            row: dict[str, Any] = {
                "thread_id": thread_id,
                "namespace": list(item.key.namespace),
                "key": item.key.key,
            }
            if not redacted:
                row["category"], row["confidence"] = item.category, item.confidence
                row["content"] = text_of_fact(item)
            rows.append(row)
    return rows


def memory_lines(rows: Sequence[Mapping[str, Any]], width: int) -> Iterator[StyledLine]:
    """Yield a table of the items that came from a thread."""
    shown = [{**row, "item": _name(row)} for row in rows]
    yield line("")
    yield from table_lines(
        shown,
        [
            Column("MEMORY ITEM", "item", style="head"),
            Column("CATEGORY", "category", drop=2),
            Column("CONFIDENCE", "confidence", lambda found: f"{found:.2f}", right=True, drop=1),
            Column("CONTENT", "content", cut=True),
        ],
        width,
    )


def from_thread_lines(
    item: Item, now: datetime, zone: tzinfo, width: int, *, redacted: bool
) -> Iterator[StyledLine]:
    """Yield one item that came from a thread: key, facts, time and text.

    A redacted item is shown without its text and category.
    """
    yield line((safe_text(format_key(item.key)), "head"))
    facts = [] if redacted else list(fact_words(item))
    if (at := item.created_at or item.updated_at) is not None:
        facts.append(f"{when(at, now, zone)} ({age(at, now)} ago)")
    if facts:
        yield line((safe_text(", ".join(facts)), "dim"))
    if not redacted:
        said = None if item.value is None else clip(decode(item.value))
        for part in item_text(said).split("\n"):
            yield from map(line, wrap(part, width))


def going_lines(rows: Sequence[Mapping[str, Any]], width: int) -> Iterator[StyledLine]:
    """Yield notes on the memory items of removed threads; the items are kept."""
    for row in rows:
        text = f"{_name(row)} came from {row['thread_id']}; it is kept, but its source will be gone"
        yield from field("memory", text, width, "warn")


def _name(row: Mapping[str, Any]) -> str:
    return format_key(ItemKey(tuple(row["namespace"]), row["key"]))


def memory_copy_record(report: MemoryCopyReport) -> dict[str, Any]:
    """Return the whole answer as a JSON object."""
    return {
        "source": report.source,
        "target": report.target,
        "dry_run": report.is_dry_run,
        "items": report.number,
        "bytes": report.bytes,
        "added": report.added,
        "present": report.number - report.added,
        "replaced": [_address(one) for one in report.items if one.step is CopyStep.REPLACE],
        "expired": report.expired,
        "without_vectors": report.embedded,
        "skipped": [{**_address(one), "reason": one.reason} for one in report.skipped],
        "verified": report.is_verified,
    }


def _address(one: CopiedItem) -> dict[str, Any]:
    return {"namespace": list(one.key.namespace), "key": one.key.key}


def memory_copy_columns() -> Sequence[Column]:
    """Return the columns of the items."""
    return [
        Column("NAMESPACE", "namespace", style="node"),
        Column("KEY", "key", style="head"),
        Column("ACTION", "action", style="change"),
        Column("STEP", "step", table=False),
        Column("SIZE", "bytes", size, right=True),
        Column("WHY", "reason", cut=True, style="dim"),
    ]


def memory_copy_rows(report: MemoryCopyReport) -> Iterator[dict[str, Any]]:
    """Yield one row for each item that is not merely present."""
    for one in report.items:
        yield {
            "namespace": format_namespace(one.key.namespace),
            "key": one.key.key,
            "action": one.step.value,
            "step": one.step.value,
            "bytes": one.size,
            "reason": one.reason,
        }


def memory_copy_lines(report: MemoryCopyReport, width: int) -> Iterator[StyledLine]:
    """Yield a table of the items that need a look, and the sums; all items in a dry run."""
    shown = [
        row
        for row in memory_copy_rows(report)
        if report.is_dry_run or row["action"] != CopyStep.COPY.value
    ]
    if shown:
        yield from table_lines(shown, memory_copy_columns(), width)
        yield line("")
    done = "Would copy" if report.is_dry_run else "Copied"
    what = f"{counted(report.number, 'item')}, {size(report.bytes)}"
    yield line(f"{done} {what}, to {safe_text(report.target)}")
    yield line(f"{report.added} new, {report.number - report.added} were there before")
    if report.is_verified and report.number:
        yield line("verified: the target was read back and is equal")


def session_record(found: Joined) -> dict[str, Any]:
    """Return one session as JSON; its other fields only if they were read."""
    one = found.session
    record: dict[str, Any] = {
        "session_id": one.session_id,
        "user_id": one.user_id,
        "thread_id": one.thread_id,
        "created_at": one.created_at,
        "updated_at": one.updated_at,
        "bytes": one.size,
        "key": one.key,
    }
    if one.expires_at is not None:
        record["expires_at"] = iso(one.expires_at)
    if found.thread is not None:
        record |= {"status": found.status, "head": found.thread.head}
    if one.fields:
        rest = {name: value for name, value in one.fields.items() if name not in FACTS}
        record["fields"] = values_record(rest)
    return record


def session_columns() -> Sequence[Column]:
    """Return the columns of `memory sessions`."""
    return [
        Column("SESSION", "session_id", style="head"),
        Column("USER", "user_id"),
        Column("THREAD", "thread_id", visible_id, style="id"),
        Column("STATUS", "status"),
        Column("UPDATED", "updated_at", style="time", drop=2),
        Column("EXPIRES", "expires_at", AGE, style="time", right=True, drop=1),
        Column("SIZE", "bytes", size, right=True, drop=3),
        Column("CREATED", "created_at", table=False),
        Column("HEAD", "head", table=False),
        Column("KEY", "key", table=False),
    ]


def session_lines(found: Joined, now: datetime, zone: tzinfo, width: int) -> Iterator[StyledLine]:
    """Yield one session as text."""
    one = found.session
    yield from field("session", one.session_id, width, "head")
    yield from field("user", one.user_id, width)
    yield from field("key", one.key, width)
    if one.thread_id is not None:
        there = "" if found.thread is not None else "  (not in this store)"
        yield from field("thread", one.thread_id + there, width, "id")
    if found.status is not None:
        yield from field("status", found.status, width, STATUS_STYLES[found.status])
    for name, text in (("created", one.created_at), ("updated", one.updated_at)):
        if text is not None:
            yield from field(name, text, width)
    if one.expires_at is not None:
        expires = f"{when(one.expires_at, now, zone)}  ({age(one.expires_at, now)})"
        yield from field("expires", expires, width, "time")
    for name, value in one.fields.items():
        if name not in FACTS:
            yield line("")
            yield line((safe_text(name), "head"))
            yield from map(line, block(value, 2, width))
