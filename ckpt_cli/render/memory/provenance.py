"""Print the origin of a memory item, and the memory items of a thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any

from ckpt_backends import shell
from ckpt_backends.codec import decode
from ckpt_backends.memory.protocol import Item, ItemKey
from ckpt_cli.core.conversation.messages import content_text
from ckpt_cli.core.memory.fact_problems import text_of
from ckpt_cli.core.memory.item_filter import format_key
from ckpt_cli.core.values.clip import clip
from ckpt_cli.render.memory.full_text import item_text
from ckpt_cli.render.memory.items import fact_words
from ckpt_cli.render.terminal.cell_width import wrap
from ckpt_cli.render.terminal.fields import command_field, field
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import StyledLine, line
from ckpt_cli.render.terminal.table import Column, table_lines
from ckpt_cli.render.terminal.units import age, optional_iso, step_number, when

if TYPE_CHECKING:
    from ckpt_cli.queries.provenance import ItemOrigin


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
                row["content"] = text_of(item)
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
