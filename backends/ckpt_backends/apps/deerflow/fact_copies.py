"""Removes what DeerFlow keeps of a fact beside the fact itself.

    memory.json.v1.bak                                 the memory.json before its facts became files
    agents/AGENT/.metadata/fact-usage.json             {FACT: {accessCount, lastAccessedAt, ...}}
    agents/AGENT/.metadata/eviction-audit.json         [{evicted: [{factId, ...}],
                                                         shadow: {wouldEvict: [FACT]}}]

Source: `clear_fact_metadata` and `_ensure_migration_backup` of `deermem/core/storage.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from ckpt_backends.apps.deerflow import replace_file
from ckpt_backends.apps.deerflow.memory_json import SECTIONS
from ckpt_backends.changes.remains import Remaining
from ckpt_backends.files.overwriting import OldFiles
from ckpt_backends.memory.protocol import Item

BACKUP, METADATA = ".v1.bak", ".metadata"


def forget_metadata(agent: Path, ids: Collection[str], old: OldFiles) -> Iterator[Remaining]:
    """Remove the ids of facts from the files about them in the folder of an agent."""
    folder = agent / METADATA
    yield from _rewritten(folder / "fact-usage.json", lambda data: _usage_without(data, ids), old)
    yield from _rewritten(
        folder / "eviction-audit.json", lambda data: _audit_without(data, ids), old
    )


def forget_in_backup(memory: Path, items: Collection[Item], old: OldFiles) -> Iterator[Remaining]:
    """Remove facts and sections from the backup of a memory.json, if there is one."""
    backup = memory.with_name(f"{memory.name}{BACKUP}")
    yield from _rewritten(backup, lambda data: _memory_without(data, items), old)


def _rewritten(path: Path, change: Callable[[Any], Any], old: OldFiles) -> Iterator[Remaining]:
    """Change a JSON file, or remove it if nothing is left. One that is not JSON remains."""
    if not path.exists():
        return
    before = replace_file.read(path)
    try:
        data = json.loads(before.raw)
        left = change(json.loads(before.raw))
    except (ValueError, RecursionError, AttributeError, LookupError, TypeError):
        yield Remaining(f"'{path.name}'", "it is damaged, so it was not searched")
        return
    if left != data:
        text = json.dumps(left, ensure_ascii=False, indent=2).encode("utf-8", "surrogatepass")
        replace_file.replace_or_remove(before, text if left else None, old)


def _usage_without(usage: dict[str, Any], ids: Collection[str]) -> dict[str, Any]:
    return {name: one for name, one in usage.items() if name not in ids}


def _audit_without(events: list[Any], ids: Collection[str]) -> list[Any]:
    for event in events:
        event["evicted"] = [one for one in event["evicted"] if one["factId"] not in ids]
        shadow = event.get("shadow")
        if shadow is not None:
            shadow["wouldEvict"] = [one for one in shadow["wouldEvict"] if one not in ids]
            evicted = {one["factId"] for one in event["evicted"]}
            shadow["disagrees"] = evicted != set(shadow["wouldEvict"])
    return [event for event in events if event["evicted"]]


def _memory_without(data: dict[str, Any], items: Collection[Item]) -> dict[str, Any]:
    """A memory.json without some facts, found by id or content, and without some sections."""
    keys = {one.key.key for one in items if one.key.namespace[-1] not in SECTIONS}
    contents = {_content(one) for one in items}
    if isinstance(data.get("facts"), list):
        data["facts"] = [
            fact
            for fact in data["facts"]
            if not isinstance(fact, dict)
            or (fact.get("id") not in keys and str(fact.get("content")).strip() not in contents)
        ]
    for item in items:
        *_, kind = item.key.namespace
        if kind in SECTIONS:
            data.get(kind, {}).pop(item.key.key, None)
    return data


def _content(item: Item) -> str | None:
    """The text of a fact; None for what is no fact that can be read."""
    if item.value is None or item.value.type != "json":
        return None
    value = json.loads(item.value.data)
    content = value.get("content") if isinstance(value, dict) else None
    return content.strip() if isinstance(content, str) else None
