"""Cut values to a size that can be shown on a screen."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.

from typing import Literal, NamedTuple

from ckpt_backends.codec.values import Cut, Tagged, Value

LONGEST = 50_000
"""Number of characters of a string, or of bytes, that are kept."""
MOST = 5_000
"""Number of parts of one value that are kept, on all levels together."""


class Room(NamedTuple):
    """How much of a value is kept."""

    text: int = LONGEST
    """Characters of each string."""
    data: int = LONGEST
    """Bytes of each value of bytes."""
    parts: int = MOST
    """Parts of the whole value, on all levels together."""


SCREEN = Room()
PAGE = Room(text=1_000, data=64, parts=200)
"""What is kept of each channel where a whole state is printed on a terminal."""


def clip(value: Value, room: Room = SCREEN) -> Value:
    """Shorten texts and bytes, and keep the first parts of a value, as far as there is room.

    A `Cut` marks each place where something was left out. A small value is returned unchanged.
    """
    return _clip(value, room, [room.parts])


def clip_state(value: Value) -> tuple[Value, bool]:
    """Cut a channel for a page, and say whether something was left out.

    Of a list, the last items are kept: they are the newest messages.
    """
    kept = value
    if isinstance(value, list):
        most: list[Value] = []
        left = [PAGE.parts]
        for item in reversed(value):
            part = _clip(item, PAGE, left)
            if left[0] <= 0 and most:
                break
            most.append(part)
        kept = most[::-1]
        if len(most) < len(value):
            words = "one is" if len(most) == 1 else f"{len(most):,} are"
            kept = Cut(kept, len(value), f"its last {words} shown", "item")
    else:
        kept = clip(value, PAGE)
    return kept, _has_cut(kept) > _has_cut(value)


def _has_cut(value: Value) -> int:
    """Count the places where something was left out."""
    found, todo = 0, [value]
    while todo:
        match todo.pop():
            case Cut() as cut:
                found += 1
                todo.append(cut.kept)
            case Tagged() as tagged:
                todo.append(tagged.payload)
            case list() as items:
                todo += items
            case dict() as fields:
                todo += fields.values()
    return found


def _clip(value: Value, room: Room, left: list[int]) -> Value:
    left[0] -= 1
    if isinstance(value, str | bytes):
        most = room.text if isinstance(value, str) else room.data
        if len(value) <= most:
            return value
        reason = "only its beginning is shown"
        unit: Literal["byte", "character"] = "character" if isinstance(value, str) else "byte"
        return Cut(value[:most], len(value), reason, unit)
    if isinstance(value, list):
        items: list[Value] = []
        for item in value:
            if left[0] <= 0:
                return Cut(items, len(value), f"its first {len(items):,} are shown", "item")
            items.append(_clip(item, room, left))
        return items
    if isinstance(value, dict):
        fields: dict[Value, Value] = {}
        for key, item in value.items():
            if left[0] <= 0:
                return Cut(fields, len(value), f"its first {len(fields):,} are shown", "key")
            fields[key] = _clip(item, room, left)
        return fields
    if isinstance(value, Tagged):
        return Tagged(value.type, _clip(value.payload, room, left))
    if isinstance(value, Cut):
        return value.with_kept(_clip(value.kept, room, left))
    return value
