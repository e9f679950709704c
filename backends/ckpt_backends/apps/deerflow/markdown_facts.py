"""Parses facts in Markdown files, the form of version 2.0 of DeerFlow's memory.

    ---
    id: FACT
    category: goal
    source: {type: conversation, threadId: THREAD}       and more, as YAML
    ---

    # TITLE

    CONTENT

Source: `_render_fact_markdown` of `deermem/core/storage.py`.
"""

from __future__ import annotations

from typing import Any

from ckpt_backends.apps.deerflow.memory_files import FACTS, MemoryFile
from ckpt_backends.apps.deerflow.memory_json import fact_item
from ckpt_backends.apps.deerflow.untrusted_yaml import front_matter
from ckpt_backends.memory.protocol import Item, ItemKey
from ckpt_backends.model import TypedBytes


def fact_of(place: MemoryFile, raw: bytes) -> Item:
    """The fact in a file. If it cannot be parsed, its value is the bytes with a `problem`."""
    key = ItemKey((*place.owner, FACTS), place.path.stem)
    try:
        return fact_item(key, _fields(raw.decode()))
    except ValueError as error:
        value = TypedBytes("markdown", raw, problem=str(error))
        return Item(key, created_at=None, updated_at=None, size=len(raw), value=value)


def _fields(text: str) -> dict[str, Any]:
    """Front matter, title and content as one map. Raises `ValueError`."""
    if not text.startswith("---\n"):
        raise ValueError("no front matter")
    front, end, body = text[4:].partition("\n---\n")
    if not end:
        raise ValueError("front matter without end")
    fields = front_matter(front)
    body = body.lstrip("\n")
    title = ""
    if body.startswith("# "):
        heading, _, body = body.partition("\n")
        title = heading[2:].strip()
    return {**fields, "title": title, "content": body.strip("\n")}
