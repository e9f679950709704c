"""Says where two answers differ."""

import json
import re
from typing import Any

_LONG = 300
_VERSION = re.compile(r"(\d{32})\.\d[\d.]*(?:e-\d+)?")
"""A version of a channel that a saver counts as a text."""


def difference(ours: Any, theirs: Any, where: str = "", *, exact: bool = False) -> str:
    """Return where two values differ first; unless `exact`, versions are numbers."""
    if not exact:
        ours, theirs = _version(ours), _version(theirs)
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in ours.keys() | theirs.keys():
            if name not in ours or name not in theirs:
                return f"{where}/{name}: {str(ours)[:_LONG]} is not {str(theirs)[:_LONG]}"
            if found := difference(ours[name], theirs[name], f"{where}/{name}", exact=exact):
                return found
        return ""
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for at, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            if found := difference(one, other, f"{where}[{at}]", exact=exact):
                return found
        return ""
    if json.dumps(ours, default=repr) == json.dumps(theirs, default=repr):  # 1 is not 1.0
        return ""
    return f"{where}: {str(ours)[:_LONG]} is not {str(theirs)[:_LONG]}"


def _version(value: Any) -> Any:
    found = _VERSION.fullmatch(value) if isinstance(value, str) else None
    return value if found is None else int(found[1])
