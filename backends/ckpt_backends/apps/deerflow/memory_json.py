"""Parses and writes a memory.json.

    {"version": "1.0", "lastUpdated": TIME,
     "user": {SECTION: {"summary", "updatedAt"}, ...}, "history": {SECTION: {...}, ...},
     "facts": [{"id", "content", "category", "confidence", "createdAt", "source"}, ...]}

`source` is a thread id or a word such as `manual`. In version 2.0 it is a map of type and threadId,
and facts are Markdown files instead. Unknown keys are kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ckpt_backends.apps.deerflow.memory_files import FACTS, MemoryFile
from ckpt_backends.memory.protocol import Item, ItemKey, Source
from ckpt_backends.model import TypedBytes

SECTIONS = ("user", "history")
_WORDS = frozenset({"manual", "unknown", "consolidation", "import"})
"""Values of `source` that are not threads."""
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class MemoryDocument:
    """A memory.json, parsed."""

    place: MemoryFile
    data: dict[str, Any]

    @property
    def version(self) -> str:
        return str(self.data.get("version", "1.0"))

    @property
    def is_newer(self) -> bool:
        """Whether its facts are, or may be, separate files."""
        return not self.version.startswith("1.")

    def items(self) -> Iterator[Item]:
        """Its facts and sections, unsorted."""
        for key, value in self.named():
            if key.namespace[-1] == FACTS:
                yield fact_item(key, value)
            else:
                yield _section_item(key, value)

    def named(self) -> Iterator[tuple[ItemKey, Any]]:
        """The key of each fact and section, with its value.

        A fact without an id gets its index as key, one with a duplicate id gets both.
        """
        owner, seen = self.place.owner, set()
        facts = self.data.get("facts")
        for index, fact in enumerate(facts if isinstance(facts, list) else ()):
            name = fact.get("id") if isinstance(fact, dict) else None
            key = name if isinstance(name, str) and name else f"[{index}]"
            if key in seen:
                key = f"{key}[{index}]"
            seen.add(key)
            yield ItemKey((*owner, FACTS), key), fact
        for section in SECTIONS:
            parts = self.data.get(section)
            for key, value in (parts if isinstance(parts, dict) else {}).items():
                yield ItemKey((*owner, section), key), value

    def add(self, key: ItemKey, value: Any) -> None:
        """Append a fact, or set a section."""
        kind = key.namespace[-1]
        if kind == FACTS:
            self.data.setdefault(FACTS, []).append(value)
        else:
            self.data.setdefault(kind, {})[key.key] = value

    def drop(self, keys: Collection[ItemKey]) -> None:
        """Remove facts and sections."""
        left = [(key, value) for key, value in self.named() if key not in keys]
        for kind in (FACTS, *SECTIONS):
            held = [(key.key, value) for key, value in left if key.namespace[-1] == kind]
            if kind not in SECTIONS and isinstance(self.data.get(kind), list):
                self.data[kind] = [value for _, value in held]
            elif isinstance(self.data.get(kind), dict):
                self.data[kind] = dict(held)


def parse(place: MemoryFile, raw: bytes) -> MemoryDocument:
    """Parse a memory.json. Raises `ValueError`."""
    try:
        data = json.loads(raw.decode(), object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        what = f"not JSON at {where}" if raw.strip() else "the file is empty"
        raise ValueError(what) from None
    if not isinstance(data, dict) or not {"facts", *SECTIONS} & data.keys():
        raise ValueError("neither facts nor sections found")
    return MemoryDocument(place, data)


def to_text(data: Mapping[str, Any]) -> bytes:
    """A document as JSON in DeerFlow's form: indented by 2, keys in order, not escaped."""
    return _encoded(json.dumps(data, indent=2, ensure_ascii=False))


def to_value(value: Any) -> TypedBytes:
    """A part of a document as a stored value."""
    return TypedBytes("json", _encoded(json.dumps(value, ensure_ascii=False)))


def fact_item(key: ItemKey, fact: Any) -> Item:
    """The item of a fact, of version 1.0 or 2.0."""
    value = to_value(fact)
    fields = fact if isinstance(fact, dict) else {}
    category = fields.get("category")
    created = moment(fields.get("createdAt"))
    return Item(
        key,
        created_at=created,
        # Version 1.0 has one time only, and never updates a fact.
        updated_at=moment(fields.get("updatedAt")) or created,
        size=len(value.data),
        value=value,
        category=category if isinstance(category, str) else None,
        confidence=_confidence(fields.get("confidence")),
        source=_source(fields.get("source")),
    )


def _section_item(key: ItemKey, section: Any) -> Item:
    value = to_value(section)
    updated = section.get("updatedAt") if isinstance(section, dict) else None
    return Item(key, created_at=None, updated_at=moment(updated), size=len(value.data), value=value)


def moment(text: Any) -> datetime | None:
    """A time in DeerFlow's form; UTC if it has no zone."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _confidence(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= 1 else None


def _source(value: Any) -> Source | None:
    if isinstance(value, str) and value:
        return Source(value) if value in _WORDS else Source("thread", value)
    if not isinstance(value, dict):
        return None
    thread, kind = value.get("threadId"), value.get("type")
    if isinstance(thread, str) and thread:
        return Source("thread", thread)
    return Source(kind) if isinstance(kind, str) and kind else None


def _encoded(text: str) -> bytes:
    # UTF-8 has no lone surrogates, so they are written as escapes.
    return _SURROGATES.sub(lambda match: f"\\u{ord(match[0]):04x}", text).encode()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate key in a map")
    return found
