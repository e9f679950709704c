"""Writes records as lines of JSON without spaces."""

from __future__ import annotations

import json
from collections.abc import Callable
from json import encoder
from typing import Any


def _line_encoder(*, ascii_only: bool, allow_nan: bool) -> Callable[[Any], str]:
    """Return the function that makes a line of JSON, without a check for circles.

    `JSONEncoder.encode` makes a new encoder in C for each record, which takes longer than most
    records. A Python without this encoder, or with another one, makes do with `encode`.
    """
    plain = json.JSONEncoder(ensure_ascii=ascii_only, allow_nan=allow_nan, separators=(",", ":"))
    make: Any = getattr(encoder, "c_make_encoder", None)
    quoted = encoder.encode_basestring_ascii if ascii_only else encoder.encode_basestring
    try:
        parts = make(None, plain.default, quoted, None, ":", ",", False, False, allow_nan)
    except TypeError:
        return plain.encode
    return lambda record: "".join(parts(record, 0))


quoted: Callable[[str], str] = encoder.encode_basestring
"""Writes a text with all characters as they are."""
compact_json = _line_encoder(ascii_only=True, allow_nan=True)
"""Writes a record in ASCII."""
json_line = _line_encoder(ascii_only=False, allow_nan=False)
"""Writes a record with all characters as they are. Raises ValueError at NaN and infinity."""
