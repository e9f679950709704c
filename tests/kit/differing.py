"""Says where two answers differ."""

import json
import re
from typing import Any

_VERSION = re.compile(r'"(\d{32})\.\d[\d.]*(?:e-\d+)?"')
"""A version of a channel that a saver counts as a text."""


def difference(ours: Any, theirs: Any, where: str, *, exact: bool = False) -> str:
    """Return where two values differ first; unless `exact`, versions are numbers."""
    one, other = (json.dumps(value, sort_keys=True, default=repr) for value in (ours, theirs))
    if not exact:
        one, other = (_VERSION.sub(lambda found: str(int(found[1])), text) for text in (one, other))
    if one == other:
        return ""
    at = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    start, end = max(at - 200, 0), at + 300
    return f"{where}: {one[start:end]} is not {other[start:end]}"
