"""Long-term memory and sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from ckpt_backends import shell
from ckpt_backends.archive import Bundle
from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Value
from ckpt_backends.memory import Item, ItemKey, Namespace, Vector
from ckpt_backends.model import in_chunks
from ckpt_backends.rows import Restored
from ckpt_cli.core.conversation import content_text
from ckpt_cli.core.copying import CopyStep, MemoryCopyReport
from ckpt_cli.core.memory import format_key, format_namespace
from ckpt_cli.core.memory import text_of as text_of_fact
from ckpt_cli.core.values import clip, format_path
from ckpt_cli.queries.memory import FACTS, FoundItem, ItemOrigin, JoinedSession, MemoryHit
from ckpt_cli.render.fields import Field, Part, Shape, View, known, optional
from ckpt_cli.render.search import excerpt
from ckpt_cli.render.table import AGE, AGO, Column, age, size, step_number, table_lines, when
from ckpt_cli.render.text import (
    MIN_WIDTH,
    Span,
    Style,
    StyledLine,
    Ui,
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
from ckpt_cli.render.types import BYTES, FLAG, INTEGER, NUMBER, TEXT, TIME, VALUE, one_of
from ckpt_cli.render.values import block, counted, summary

_GAP = 2
_ALIGNED = 200
"""Maximum number of items of one namespace that are aligned with each other."""
_SHORT = 1000
"""Maximum number of characters of a value without a text."""
_STYLES: Sequence[Style] = ("head", "plain", "plain", "id")
_WIDEST = 40
"""Keys are padded up to this width; keys are never cut."""
_TOLD = frozenset({"id", "category", "confidence", "createdAt", "updatedAt", "source"})
"""Fields of DeerFlow's facts that are already shown as facts of the item."""
_TEXT = 30
"""A table shows at least this much of a text."""
_LEAST = 12
"""The least room for a text in a tree."""
_LONGEST = 1000
"""Characters of a text in one line."""
_AGE, _SIZE = 8, 8
"""Columns for `12mo ago` and `1023 KiB`."""
_NAMED = 5
"""Namespaces of an archive that are named."""


def _address(key: str) -> tuple[Field, Field]:
    """Return the keys that name an item; `key` is the attribute with its `ItemKey`."""
    return (
        Field("namespace", TEXT.list, "Labels of its namespace.", f"{key}.namespace"),
        Field("key", TEXT, "Key.", f"{key}.key"),
    )


def _text(found: FoundItem) -> str | None:
    """Return the text of a fact or a section; None if it has none, or if no value was read."""
    return None if found.item.value is None else _said(decode(found.item.value))


def _said(value: Value) -> str | None:
    """Return the text of a value: DeerFlow's facts have it in `content`, sections in `summary`."""
    if not isinstance(value, dict):
        return None
    found = (value.get(name) for name in ("content", "summary"))
    return next((one for one in found if isinstance(one, str)), None)


_VECTOR = Shape(
    "A vector of an item.",
    Field("field", TEXT, "Path of the embedded part; `$` is the whole value."),
    Field("bytes", BYTES, "Stored size.", "size"),
)
_SOURCE = Shape(
    "Where an item came from, according to the item.",
    Field("kind", TEXT, "`thread`, or another word such as `manual`."),
    Field("thread_id", TEXT.or_null, "The thread, if one is named."),
)
_ITEM = (
    *_address("item.key"),
    Field("created_at", TIME.or_null, "When it was first stored.", "item.created_at"),
    Field("updated_at", TIME.or_null, "When it was last stored.", "item.updated_at"),
    Field("expires_at", TIME.or_null, "When it expires; null if never.", "item.expires_at"),
    Field("expired", FLAG, "Whether the application's next sweep removes it.", "is_expired"),
    Field("bytes", BYTES, "Stored size of the value.", "item.size"),
    Field("vectors", _VECTOR.list, "Its vectors.", "item.vectors"),
    known("category", TEXT, "Category of a fact.", "item.category"),
    known("confidence", NUMBER, "Confidence of a fact, 0 to 1.", "item.confidence"),
    optional("source", _SOURCE, "Where it came from.", "item.source"),
)
ITEM = Shape("An item.", *_ITEM)
LISTED_ITEM = Shape(
    "An item of long-term memory, without its value.",
    *_ITEM,
    known("text", TEXT, "Text of DeerFlow's facts and sections.", _text),
    optional("duplicate_of", TEXT, "Older fact in the namespace that says the same."),
    optional("orphan", FLAG, "The thread that it came from is gone.", "is_orphan"),
)
_MESSAGE = Shape(
    "The human message that an item most likely came from.",
    Field("index", INTEGER, "Place among all messages.", "turn.index"),
    Field("id", TEXT.or_null, "Id.", "turn.message.id"),
    Field("content", TEXT, "Text.", lambda one: content_text(one.turn.message.content)),
    Field("sentence", TEXT, "Sentence that shares most words.", "likeness.sentence"),
    Field("shared", NUMBER, "Part of the item's words.", lambda one: round(one.likeness.shared, 3)),
    Field("assumed", FLAG, "True: nothing stored says so.", lambda _: True),
)


def _message(found: ItemOrigin) -> ItemOrigin | None:
    return None if found.turn is None or found.likeness is None else found


_CHECKPOINT = Shape(
    "The checkpoint that an item came from.",
    Field("ts", TIME.or_null, "Its time.", "at"),
    Field("step", INTEGER.or_null, "Its step."),
    Field("human_messages", INTEGER, "Human messages in it.", "people"),
)
ORIGIN = Shape(
    "Where an item came from.",
    Field("thread_id", TEXT, "Thread."),
    Field("store", TEXT, "URL of its store, without secrets; empty if unknown."),
    Field("checkpoint_id", TEXT.or_null, "Newest root checkpoint when the item was created."),
    Part(_CHECKPOINT, lambda one: None if one.checkpoint_id is None else one),
    optional("message", _MESSAGE, "Message that it most likely came from.", _message),
    optional("remark", TEXT, "Why nothing more is known."),
)
READ_ITEM = Shape(
    "An item of long-term memory with its value.",
    *_ITEM,
    Field("value", VALUE, "Value."),
    optional("origin", ORIGIN, "Where an item that names a thread came from."),
)
ITEM_SUMS = Shape(
    "Totals of some items.",
    Field("items", INTEGER, "Number of items.", len),
    Field("vectors", INTEGER, "Number of their vectors.", lambda items: len(_vectors(items))),
    Field("bytes", BYTES, "Stored size of both.", lambda items: _sizes((*items, *_vectors(items)))),
)


def _vectors(items: Iterable[Item]) -> list[Vector]:
    return [vector for one in items for vector in one.vectors]


def _sizes(stored: Iterable[Item | Vector]) -> int:
    return sum(one.size for one in stored)


def item_row(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of an item as a row of a table or TSV, with its namespace in the form of
    `--namespace`.
    """
    source = record.get("source")
    return {
        **record,
        "namespace": format_namespace(tuple(record["namespace"])),
        "vectors": [one["field"] for one in record["vectors"]],
        "expired": record["expired"] or None,
        "source": source and (source["thread_id"] or source["kind"]),
    }


ITEM_COLUMNS = (
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
)
FAULT_COLUMNS = (
    Column("SAME AS", "duplicate_of", style="warn"),
    Column("THREAD", "orphan", lambda _: "missing", style="warn"),
)


def _one_line(text: str) -> str:
    return " ".join(text[:_LONGEST].split())


TEXT_COLUMN = Column("TEXT", "text", _one_line, cut=True, least=_TEXT, drop=1)


def full_text_lines(items: Iterable[FoundItem], width: int) -> Iterator[StyledLine]:
    """Yield items by namespace in columns, with wrapped text.

    Leaves out empty items, such as sections of DeerFlow that are not filled yet.
    """
    between = False
    for namespace, some in groupby(items, key=lambda one: one.item.key.namespace):
        speaking = ((_cells(one.item), said) for one in some if (said := item_text(one.value)))
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


def _cells(item: Item) -> tuple[str, str, str, str]:
    """Return key, category, confidence and source, escaped; empty if there is none."""
    source = item.source
    return (
        safe_text(item.key.key),
        safe_text(item.category or ""),
        "" if item.confidence is None else f"{item.confidence:.2f}",
        "" if source is None else safe_text(source.thread_id or source.kind),
    )


def item_text(value: Value) -> str:
    """Return the text of an item, escaped, or else its value on one line."""
    said = _said(value)
    return summary(value, _SHORT) if said is None else safe_text(said.strip(), newlines=True)


def tree_lines(items: Iterable[FoundItem], ui: Ui) -> Iterator[StyledLine]:
    """Yield items below their namespaces, with their problems, and their text if there is room."""
    return (found for _, found in tree_rows(items, ui))


def tree_rows(items: Iterable[FoundItem], ui: Ui) -> Iterator[tuple[Item | Namespace, StyledLine]]:
    """Yield the same lines, each with its item or namespace."""
    before: Namespace = ()
    for namespace, some in groupby(items, key=lambda one: one.item.key.namespace):
        yield from _labels(namespace, before)
        before = namespace
        for batch in in_chunks(some, _ALIGNED):
            lines = _items(batch, " " * _GAP * len(namespace), ui)
            yield from zip((one.item for one in batch), lines, strict=True)


def _labels(namespace: Namespace, before: Namespace) -> Iterator[tuple[Namespace, StyledLine]]:
    """Yield the labels of a namespace that differ from the previous one."""
    same = 0
    while same < min(len(namespace), len(before)) and namespace[same] == before[same]:
        same += 1
    for depth in range(same, len(namespace)):
        label = safe_text(format_namespace(namespace[depth : depth + 1]))
        text = line(" " * _GAP * depth, (f"{label}/", "node"))
        yield namespace[: depth + 1], text


def _items(found: Sequence[FoundItem], indent: str, ui: Ui) -> Iterator[StyledLine]:
    keys = [safe_text(one.item.key.key) for one in found]
    width = min(max(map(cell_len, keys)), _WIDEST)
    for one, key in zip(found, keys, strict=True):
        item = one.item
        at = "" if item.updated_at is None else f"{age(item.updated_at, ui.now)} ago"
        spans: list[Span] = [(indent, "plain"), (key, "head")]
        spans.append((pad("", max(width - cell_len(key), 0)), "plain"))
        spans += [(f"  {at:>{_AGE}}", "time"), (f"  {size(item.size):>{_SIZE}}", "plain")]
        spans += _marks(one, ui.now)
        room = ui.width - sum(cell_len(text) for text, _ in spans) - _GAP
        if room >= _LEAST and (text := _text(one)):
            spans.append((f"  {fit(safe_text(_one_line(text)), room)}", "plain"))
        yield line(*spans)


def _marks(found: FoundItem, now: datetime) -> Iterator[Span]:
    """Yield expiry, vectors, facts, source and problems of an item, for the end of its line."""
    item = found.item
    if item.expires_at is not None and found.is_expired:
        yield f"  expired {age(item.expires_at, now)} ago", "error"
    elif item.expires_at is not None:
        yield f"  expires {age(item.expires_at, now)}", "time"
    if item.vectors:
        noun = "vector" if len(item.vectors) == 1 else "vectors"
        yield f"  {noun} {safe_text(', '.join(one.field for one in item.vectors))}", "dim"
    for text in fact_words(item):
        yield f"  {safe_text(text)}", "plain"
    if item.source is not None:
        yield f"  from {safe_text(item.source.thread_id or item.source.kind)}", "id"
    if found.duplicate_of is not None:
        yield f"  duplicate of {safe_text(found.duplicate_of)}", "warn"
    if found.is_orphan:
        yield "  thread missing", "warn"


def fact_words(item: Item) -> Iterator[str]:
    """Yield the category and confidence of a fact; the text is not escaped yet."""
    if item.category is not None:
        yield item.category
    if item.confidence is not None:
        yield f"confidence {item.confidence:.2f}"


def item_lines(found: FoundItem, ui: Ui) -> Iterator[StyledLine]:
    """Yield one item as text, with its whole value, and its origin if it is known."""
    item, now, width = found.item, ui.now, ui.width
    yield from field("ns", format_namespace(item.key.namespace), width, "node")
    yield from field("key", item.key.key, width, "head")
    for name, moment in (("created", item.created_at), ("updated", item.updated_at)):
        if moment is not None:
            text = f"{when(moment, now, ui.zone)} ({age(moment, now)} ago)"
            yield from field(name, text, width)
    if item.expires_at is not None:
        at = when(item.expires_at, now, ui.zone)
        left = age(item.expires_at, now)
        if found.is_expired:
            yield from field("expired", f"{at} ({left} ago)", width, "error")
        else:
            yield from field("expires", f"{at} ({left})", width, "time")
    yield from field("size", size(item.size), width)
    for one in item.vectors:
        yield from field("vector", f"{one.field}, {size(one.size)}", width, "dim")
    if facts := ", ".join(fact_words(item)):
        yield from field("fact", facts, width)
    if item.source is not None:
        thread = "" if item.source.thread_id is None else f" {item.source.thread_id}"
        yield from field("source", item.source.kind + thread, width, "id")
    yield line("")
    yield from map(line, block(_untold(found), 0, width))
    if found.origin is not None:
        yield from origin_lines(found.origin, ui)


def _untold(found: FoundItem) -> Value:
    """Return the value without the fields already shown for a fact; its text comes first."""
    item, value = found.item, found.value
    is_fact = item.category is not None and item.source is not None
    if not is_fact or not isinstance(value, dict):
        return value
    said = {name: value[name] for name in ("content",) if name in value}
    return said | {name: part for name, part in value.items() if name not in _TOLD}


SHOWN_ITEM = View(
    READ_ITEM.record, item_lines, lambda found: [item_row(ITEM.record(found))], ITEM_COLUMNS
)


def _path(hit: MemoryHit) -> str | None:
    return format_path(hit.match.path) if hit.place == "value" else None


ITEM_HIT = Shape(
    "A line that matches.",
    *_address("item.key"),
    Field("updated_at", TIME.or_null, "When the item was last stored.", "item.updated_at"),
    Field("in", one_of("namespace", "key", "value"), "Where in the item.", "place"),
    Field("path", TEXT.or_null, "Path in the value.", _path),
    Field("line_number", INTEGER, "Number of the line, from 1.", "match.number"),
    Field("line", TEXT, "The line.", "match.line"),
    Field("start", INTEGER, "Where the match begins in it.", "match.start"),
    Field("end", INTEGER, "Where it ends.", "match.end"),
)
HIT_COLUMNS = ITEM_HIT.columns(
    Column("NAMESPACE", "namespace", style="node"),
    Column("KEY", "key", style="head"),
    Column("IN", "in", style="dim"),
    Column("PATH", "path", style="node", drop=1),
    Column("LINE", "line", cut=True),
    *("updated_at", "line_number", "start", "end"),
)


def hit_row(hit: MemoryHit, *, table: bool) -> dict[str, Any]:
    """Return a hit as a row; a table shows the text around the match."""
    record = {**ITEM_HIT.record(hit), "namespace": format_namespace(hit.item.key.namespace)}
    if table:
        record["line"] = excerpt(hit.match.line, hit.match.start, hit.match.end)
    return record


class ItemRemoval(NamedTuple):
    """A removal of items, planned or done."""

    planned: Sequence[FoundItem]
    items: Sequence[FoundItem]
    """Those that were removed; in a dry run those that would be."""
    more: bool
    """Whether others match, too."""
    is_dry_run: bool
    left: Callable[[], Iterable[Item]] = tuple
    """Reads which of the planned items are there now."""
    archive: str | None = None
    """Its path."""

    @property
    def removed(self) -> list[Item]:
        """What is gone."""
        return [] if self.is_dry_run else _items_of(self.items)


def _items_of(found: Iterable[FoundItem]) -> list[Item]:
    return [one.item for one in found]


_DONE = Shape(
    "What was there before and after.",
    Field("before", ITEM_SUMS, "The planned items.", lambda one: _items_of(one.planned)),
    Field("after", ITEM_SUMS, "Those that are left.", lambda one: list(one.left())),
)
ITEM_REMOVAL = Shape(
    "Items that were removed, or would be.",
    Field("dry_run", FLAG, "Whether nothing was removed.", "is_dry_run"),
    Field("items", ITEM.list, "The items."),
    Field("removed", ITEM_SUMS, "What was removed."),
    Field("more", FLAG, "Whether others match, too."),
    Field("archive", TEXT.or_null, "Archive of the items."),
    Part(_DONE, lambda one: None if one.is_dry_run else one),
)


def removal_lines(found: ItemRemoval, ui: Ui) -> Iterator[StyledLine]:
    """Yield the items of a removal, planned or done, and their archive; nothing without items."""
    if not found.items:
        return
    # Values may have been read for comparison even where they must not be shown.
    yield from tree_lines(found.items, ui._replace(width=0))
    yield line("")
    rest = "; more items match" if found.more else ""
    verb = "Would remove" if found.is_dry_run else "Removed"
    yield line((f"{verb} {amount(_items_of(found.items))}{rest}", "bold"))
    if found.archive is not None:
        restore = shell.command("ckpt", "memory", "import", ids=[found.archive])
        text = safe_text(f"archive  {shell.word(found.archive)}; `{restore}` restores it")
        yield StyledLine(((text, "plain"),), whole=True)


REMOVED_ITEMS = View(
    ITEM_REMOVAL.record,
    removal_lines,
    lambda found: (item_row(ITEM.record(one)) for one in found.items),
    ITEM_COLUMNS,
)


def amount(items: Sequence[Item]) -> str:
    """The number of items, of their vectors, and their size."""
    total = ITEM_SUMS.record(items)
    numbers = [counted(total["items"], "item")]
    if total["vectors"]:
        numbers.append(counted(total["vectors"], "vector"))
    return f"{', '.join(numbers)} ({size(total['bytes'])})"


def origin_lines(found: ItemOrigin, ui: Ui) -> Iterator[StyledLine]:
    """Yield the origin of an item, as text."""
    width = ui.width
    yield line("")
    place = f" in {found.store}" if found.store else ""
    yield from field("from", f"thread {found.thread_id}{place}", width, "id")
    if found.checkpoint_id is not None:
        at = "" if found.at is None else f", {when(found.at, ui.now, ui.zone)}"
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


class ItemEdit(NamedTuple):
    """An item with the fields that change, or changed."""

    key: ItemKey
    changes: Mapping[str, tuple[Value, Value]]
    """By name, the value before and after."""
    is_written: bool


_CHANGE = Shape(
    "A field that changes.",
    Field("before", VALUE, "What it was.", itemgetter(0)),
    Field("after", VALUE, "What it is set to.", itemgetter(1)),
)
ITEM_EDIT = Shape(
    "Fields of an item that were set, or would be.",
    *_address("key"),
    Field("changes", _CHANGE.by_name, "The fields that change."),
    Field("written", FLAG, "Whether the change was written.", "is_written"),
)


def _edit_lines(found: ItemEdit, ui: Ui) -> Iterator[StyledLine]:
    yield from field("key", found.key.key, ui.width, "head")
    for name, values in found.changes.items():
        yield line("")
        yield line((name, "head"))
        before, after = (block(value, 0, ui.width - 2) for value in values)
        yield from (line((f"- {text}", "remove")) for text in before)
        yield from (line((f"+ {text}", "add")) for text in after)


EDITED_ITEM = View(
    ITEM_EDIT.record,
    _edit_lines,
    lambda found: ({"field": name, **_CHANGE.record(one)} for name, one in found.changes.items()),
    (Column("FIELD", "field", style="head"), Column("BEFORE", "before"), Column("AFTER", "after")),
)


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


def memory_lines(rows: Sequence[Mapping[str, Any]], ui: Ui) -> Iterator[StyledLine]:
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
        ui,
    )


def from_thread_lines(item: Item, ui: Ui, *, redacted: bool) -> Iterator[StyledLine]:
    """Yield one item that came from a thread: key, facts, time and text.

    A redacted item is shown without its text and category.
    """
    yield line((safe_text(format_key(item.key)), "head"))
    facts = [] if redacted else list(fact_words(item))
    if (at := item.created_at or item.updated_at) is not None:
        facts.append(f"{when(at, ui.now, ui.zone)} ({age(at, ui.now)} ago)")
    if facts:
        yield line((safe_text(", ".join(facts)), "dim"))
    if not redacted:
        said = None if item.value is None else clip(decode(item.value))
        for part in item_text(said).split("\n"):
            yield from map(line, wrap(part, ui.width))


def going_lines(rows: Sequence[Mapping[str, Any]], width: int) -> Iterator[StyledLine]:
    """Yield notes on the memory items of removed threads; the items are kept."""
    for row in rows:
        text = f"{_name(row)} came from {row['thread_id']}; it is kept, but its source will be gone"
        yield from field("memory", text, width, "warn")


def _name(row: Mapping[str, Any]) -> str:
    return format_key(ItemKey(tuple(row["namespace"]), row["key"]))


class ItemArchive(NamedTuple):
    """An archive that holds only items of this layout."""

    bundle: Bundle
    namespaces: Sequence[Namespace]
    """Where its items are."""
    restored: Restored | None = None
    """None if it was only checked."""


def listed_namespaces(namespaces: Sequence[Sequence[str]]) -> str:
    """Return the first namespaces, such as `users/anna, users/bob and 3 more`."""
    shown = ", ".join(format_namespace(tuple(one)) for one in namespaces[:_NAMED])
    more = len(namespaces) - _NAMED
    return f"{shown} and {more} more" if more > 0 else shown


ADDED_ROWS = Shape(
    "How much of an archive was restored.",
    Field("added", INTEGER, "Rows that were added."),
    Field("there", INTEGER, "Rows that were there."),
)
ITEM_ARCHIVE = Shape(
    "An archive of items.",
    Field("file", TEXT, "The file.", lambda one: str(one.bundle.path)),
    Field("rows", INTEGER, "Rows that it holds.", "bundle.size"),
    Field("signed_by", TEXT.or_null, "Fingerprint of the key that signed it.", "bundle.signed_by"),
    Field("namespaces", TEXT.list.list, "Where its items are; each a list of labels."),
    Part(ADDED_ROWS, "restored"),
)
_NAMESPACES = Column("NAMESPACES", "namespaces", listed_namespaces)
CHECKED_COLUMNS = (Column("FILE", "file"), Column("ROWS", "rows", right=True), _NAMESPACES)
RESTORED_COLUMNS = (
    *CHECKED_COLUMNS[:2],
    Column("ADDED", "added", right=True),
    Column("THERE", "there", right=True),
    _NAMESPACES,
)
_COPIED = Shape("An item of a copy.", *_address("key"))
_SKIPPED = Shape("An item.", *_address("key"), Field("reason", TEXT, "Why it was skipped."))
MEMORY_COPY = Shape(
    "What became of the items of a copy, or would.",
    Field("source", TEXT, "URL of the source."),
    Field("target", TEXT, "URL of the target."),
    Field("dry_run", FLAG, "Whether nothing was copied.", "is_dry_run"),
    Field("items", INTEGER, "Items that the target has.", "number"),
    Field("bytes", BYTES, "Size of their values."),
    Field("added", INTEGER, "How many of them are new there."),
    Field("present", INTEGER, "How many were there before.", "present"),
    Field("replaced", _COPIED.list, "Items of the target that were replaced."),
    Field("expired", INTEGER, "Items that were left out because they have expired."),
    Field("without_vectors", INTEGER, "Added items whose vectors were not copied.", "embedded"),
    Field("skipped", _SKIPPED.list, "Items that were not copied."),
    Field("verified", FLAG, "Whether the target was read back and is equal.", "is_verified"),
)
_COPY_COLUMNS = (
    Column("NAMESPACE", "namespace", style="node"),
    Column("KEY", "key", style="head"),
    Column("ACTION", "action", style="change"),
    Column("STEP", "step", table=False),
    Column("SIZE", "bytes", size, right=True),
    Column("WHY", "reason", cut=True, style="dim"),
)


def _copy_rows(report: MemoryCopyReport) -> Iterator[dict[str, Any]]:
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


def _copy_lines(report: MemoryCopyReport, ui: Ui) -> Iterator[StyledLine]:
    """Yield a table of the items that need a look, and the sums; all items in a dry run."""
    shown = [
        row
        for row in _copy_rows(report)
        if report.is_dry_run or row["action"] != CopyStep.COPY.value
    ]
    if shown:
        yield from table_lines(shown, _COPY_COLUMNS, ui)
        yield line("")
    done = "Would copy" if report.is_dry_run else "Copied"
    what = f"{counted(report.number, 'item')}, {size(report.bytes)}"
    yield line(f"{done} {what}, to {safe_text(report.target)}")
    yield line(f"{report.added} new, {report.present} were there before")
    if report.is_verified and report.number:
        yield line("verified: the target was read back and is equal")


COPIED_ITEMS = View(MEMORY_COPY.record, _copy_lines, _copy_rows, _COPY_COLUMNS)


def _other_fields(found: JoinedSession) -> dict[str, Value] | None:
    """Return the fields that are not of every session; None if none were read."""
    fields = found.session.fields
    return {name: one for name, one in fields.items() if name not in FACTS} if fields else None


def _status(found: JoinedSession) -> str | None:
    """Return the status as plain text, as Python is given it."""
    return found.status and found.status.value


SESSION = Shape(
    "A chat session of an application.",
    Field("session_id", TEXT, "Session.", "session.session_id"),
    Field("user_id", TEXT, "User.", "session.user_id"),
    Field("thread_id", TEXT.or_null, "Its thread.", "session.thread_id"),
    Field("created_at", TEXT.or_null, "As the application wrote it.", "session.created_at"),
    Field("updated_at", TEXT.or_null, "As the application wrote it.", "session.updated_at"),
    Field("bytes", BYTES, "Stored size.", "session.size"),
    Field("key", TEXT, "Key in the database.", "session.key"),
    optional("expires_at", TIME, "When it expires.", "session.expires_at"),
    known("status", TEXT, "Status of the thread, if it is in the same store.", _status),
    Part(Shape("The thread.", Field("head", TEXT.or_null, "Its head.")), "thread"),
    known("fields", VALUE.by_name, "The other fields of a single session.", _other_fields),
)
SESSION_COLUMNS = SESSION.columns(
    Column("SESSION", "session_id", style="head"),
    Column("USER", "user_id"),
    Column("THREAD", "thread_id", visible_id, style="id"),
    Column("STATUS", "status"),
    Column("UPDATED", "updated_at", style="time", drop=2),
    Column("EXPIRES", "expires_at", AGE, style="time", right=True, drop=1),
    Column("SIZE", "bytes", size, right=True, drop=3),
    *("created_at", "head", "key"),
)


def _session_lines(found: JoinedSession, ui: Ui) -> Iterator[StyledLine]:
    one, width = found.session, ui.width
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
        expires = f"{when(one.expires_at, ui.now, ui.zone)}  ({age(one.expires_at, ui.now)})"
        yield from field("expires", expires, width, "time")
    for name, value in (_other_fields(found) or {}).items():
        yield line("")
        yield line((safe_text(name), "head"))
        yield from map(line, block(value, 2, width))


SHOWN_SESSION = View(
    SESSION.record, _session_lines, lambda found: [SESSION.record(found)], SESSION_COLUMNS
)
