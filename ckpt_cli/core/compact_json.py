"""Writes records as lines of JSON: ASCII only, without spaces."""

from __future__ import annotations

import json
from json import encoder
from typing import Any

_PLAIN = json.JSONEncoder(separators=(",", ":"))
_MAKE: Any = getattr(encoder, "c_make_encoder", None)
_DEFAULTS = (None, _PLAIN.default, encoder.encode_basestring_ascii, None)
"""No check for circles, what raises for other types, how text is written, no indent."""
# `json` makes an encoder for each record, which takes longer than to use it.
_encode = None if _MAKE is None else _MAKE(*_DEFAULTS, ":", ",", False, False, True)


def compact_json(record: Any) -> str:
    """Return a record as `json.dumps` does without spaces."""
    if _encode is None:  # without the C part of `json`
        return _PLAIN.encode(record)
    return "".join(_encode(record, 0))
