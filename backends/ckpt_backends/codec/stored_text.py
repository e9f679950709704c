"""How a text stands in stored bytes: a value without these bytes need not be decoded to search it.

msgpack stores a text as its UTF-8 bytes. JSON may store each character as an escape; Python's and
JavaScript's encoders escape quotes, backslashes, control characters and maybe what is not ASCII.
An array of numpy holds texts as UTF-32. `JsonPlusSerializer` stores arrays in msgpack as ext type 6
with four parts.
"""

from __future__ import annotations

import re

KNOWN_TYPES = ("msgpack", "json", "null", "empty", "bytes", "bytearray")
"""The type tags of values that hold a text only as described here. Others may be compressed,
encrypted or pickled.
"""
ARRAY = b"\x06\x94"
"""Each array contains these bytes."""
_ESCAPED = re.compile(r'["\\/\x00-\x1f\x7f\ud800-\udfff\ufffd]')
"""What JSON may write in another way, and what may stand for bytes that are not UTF-8."""


def is_findable(text: str) -> bool:
    """Return whether a text stands in stored bytes as it is, if it stands there at all."""
    return bool(text) and _ESCAPED.search(text) is None


def escape_in_json(text: str) -> bytes:
    """Return the bytes that JSON contains if it stores a character of the text as an escape."""
    return rb"\u00" if text.isascii() else rb"\u"
