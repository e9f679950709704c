"""The changes of a stored map's entries, and the bytes of changed entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ckpt_backends.codec.lossless import encode_lossless


@dataclass(frozen=True, slots=True)
class Put:
    """A plain value to store under a key, new or not."""

    value: Any


Edit: TypeAlias = "Put | Callable[[bytes], bytes] | Mapping[str, Edit] | None"
"""The change of one entry: a new value, a function from the stored bytes to the new bytes, edits
inside the entry's map, or None to remove the entry."""


def changed_value(
    tag: str, stored: bytes, edit: Put | Callable[[bytes], bytes] | None
) -> bytes | None:
    """The new bytes of an entry that is stored as `stored`; None if the edit removes it."""
    if edit is None:
        return None
    if isinstance(edit, Put):
        return encode_lossless(tag, edit.value)
    return edit(stored)


def added_value(tag: str, edit: Edit) -> bytes | None:
    """The bytes of a new entry; None if the edit adds nothing."""
    if isinstance(edit, Mapping):
        new = {key: part.value for key, part in edit.items() if isinstance(part, Put)}
        return encode_lossless(tag, new) if new else None
    return changed_value(tag, b"", edit) if isinstance(edit, Put) else None
