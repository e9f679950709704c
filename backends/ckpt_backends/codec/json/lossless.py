"""Decodes JSON texts and writes them again in the same spelling."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ckpt_backends.codec.limits import DEFAULT_LIMITS


@dataclass(frozen=True, slots=True)
class _Style:
    """The spelling of a JSON text: its separators, and whether non-ASCII text is escaped."""

    separators: tuple[str, str]
    escaped: bool

    def spell(self, value: Any) -> bytes:
        text = json.dumps(value, ensure_ascii=self.escaped, separators=self.separators)
        return text.encode("utf-8", "surrogatepass")


_STYLES = tuple(
    _Style(separators, escaped)
    for separators in ((", ", ": "), (",", ":"))
    for escaped in (False, True)
)


def load_lossless(data: bytes) -> Any:
    """The value without any conversion. Raises ValueError and `PastLimit`."""
    from ckpt_backends.codec.json.json_plus import check

    text = data.decode("utf-8", "surrogatepass")
    check(text, DEFAULT_LIMITS)
    return json.loads(text)


def dump_like(value: Any, like: bytes) -> bytes:
    """The JSON text of a value in the spelling of `like`. Raises TypeError and ValueError."""
    return _style_of(like).spell(value)


def _style_of(data: bytes) -> _Style:
    if not data:
        return _STYLES[0]
    value = load_lossless(data)
    for style in _STYLES:
        if style.spell(value) == data:
            return style
    raise ValueError("unknown number format")
