"""Tell a value that was changed from one that an unknown reducer made.

An application's own reducer may drop, reorder, cut or count what it merges, and so differ from the
known reducer that explained all steps before. It does not invent texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ckpt_backends.codec.values import Cut, Tagged, Value

_MADE_AT_MERGE = frozenset({"id", "type", "role", "status"})
"""Fields of messages that `add_messages` fills."""


def has_foreign_text(value: Value, sources: Iterable[Value]) -> bool:
    """Return whether a value contains a text that is neither in its sources nor a part of one."""
    known: set[str] = set()
    for source in sources:
        known.update(_texts(source))
    return any(
        text not in known and not any(text in longer for longer in known) for text in _texts(value)
    )


def _texts(root: Value) -> Iterator[str]:
    todo = [root]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, list):
            todo += item
        elif isinstance(item, dict):
            todo += item.keys()
            todo += item.values()
        elif isinstance(item, Tagged) and isinstance(item.payload, dict):
            todo += (part for name, part in item.payload.items() if name not in _MADE_AT_MERGE)
        elif isinstance(item, Tagged):
            todo.append(item.payload)
        elif isinstance(item, Cut):
            todo.append(item.kept)
