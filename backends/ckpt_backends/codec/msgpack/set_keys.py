"""Changes some entries of a msgpack map without changing any other byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ckpt_backends.codec.edits import Edit, added_value, changed_value
from ckpt_backends.codec.lossless import encode_lossless
from ckpt_backends.codec.msgpack.cursor import ARRAY, MAP, STR, Cursor, write_header


def set_msgpack_keys(data: bytes, edits: Mapping[str, Edit]) -> bytes:
    """The changed map. Raises ValueError if it is not a map, or if something follows it."""
    cursor = Cursor(data)
    changed = _set_keys(cursor, edits)
    if cursor.pos != len(data):
        raise ValueError("something follows it")
    return changed


def append_msgpack(data: bytes, item: bytes) -> bytes:
    """The list with one more item. Raises ValueError if it is not a list."""
    cursor = Cursor(data)
    count = cursor.enter(ARRAY, "not a list")
    return write_header(ARRAY, count + 1) + data[cursor.pos :] + item


def array_items(data: bytes) -> list[bytes]:
    """The items of a list. Raises ValueError if it is not a list, or if something follows it."""
    cursor = Cursor(data)
    found = [cursor.take() for _ in range(cursor.enter(ARRAY, "not a list"))]
    if cursor.pos != len(data):
        raise ValueError("something follows it")
    return found


def array_of(items: Sequence[bytes]) -> bytes:
    """A list of these items."""
    return write_header(ARRAY, len(items)) + b"".join(items)


def _set_keys(cursor: Cursor, edits: Mapping[str, Edit]) -> bytes:
    """The changed map at the cursor, which moves behind the stored map."""
    data, map_at = cursor.data, cursor.pos
    pairs = cursor.enter(MAP)
    header, kept, found = data[map_at : cursor.pos], [], set()
    for _ in range(pairs):
        key_at = cursor.pos
        key = cursor.text("replace") if cursor.kind() == STR else cursor.skip()
        value_at = cursor.pos
        end = cursor.skip().end
        if not isinstance(key, str) or key not in edits:
            kept.append(data[key_at:end])
            continue
        found.add(key)
        edit = edits[key]
        if isinstance(edit, Mapping):
            value: bytes | None = _set_keys(Cursor(data, value_at), edit)
        else:
            value = changed_value("msgpack", data[value_at:end], edit)
        if value is not None:
            kept.append(data[key_at:value_at] + value)
    for name, edit in edits.items():
        if name not in found and (added := added_value("msgpack", edit)) is not None:
            kept.append(encode_lossless("msgpack", name) + added)
    if len(kept) != pairs:
        header = write_header(MAP, len(kept))
    return header + b"".join(kept)
