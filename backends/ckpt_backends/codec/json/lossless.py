"""Decodes JSON texts and writes them again in the same spelling."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

from ckpt_backends.codec.limits import DEFAULT_LIMITS

_SPELLINGS = tuple(product(((", ", ": "), (",", ":")), (False, True)))
"""The separators of a JSON text, and whether non-ASCII text is escaped."""


def load_lossless(data: bytes) -> Any:
    """The value without any conversion. Raises ValueError and `PastLimit`."""
    from ckpt_backends.codec.json.json_plus import check

    text = data.decode("utf-8", "surrogatepass")
    check(text, DEFAULT_LIMITS)
    return json.loads(text)


def dump_like(value: Any, like: bytes) -> bytes:
    """The JSON text of a value in the spelling of `like`. Raises TypeError and ValueError."""
    stored = load_lossless(like) if like else None
    for spelling in _SPELLINGS:
        if not like or _dump(stored, *spelling) == like:
            return _dump(value, *spelling)
    raise ValueError("unknown number format")


def _dump(value: Any, separators: tuple[str, str], escaped: bool) -> bytes:
    text = json.dumps(value, ensure_ascii=escaped, separators=separators)
    return text.encode("utf-8", "surrogatepass")
