"""Decodes the `lc` 2 envelopes that only LangGraph.js writes.

Source: `_default` in `@langchain/langgraph-checkpoint/dist/serde/jsonplus.js`, 0.0.18 and 1.2.2.
The `id` of a constructor is a single name; in envelopes of Python, it begins with a module.
"""

from __future__ import annotations

from typing import Any

from ckpt_backends.codec.values import DELTA_SNAPSHOT, UNDEFINED, Tagged, Value

_PREFIX = "javascript"
_SET = "builtins.set"


def revive(fields: dict[Any, Any]) -> Value:
    """The value of an `lc` 2 envelope; None if LangGraph.js does not write such an envelope."""
    match fields:
        case {"type": "undefined"} if len(fields) == 2:
            return UNDEFINED
        case {"type": "delta_snapshot", "value": value} if len(fields) == 3:
            return Tagged(DELTA_SNAPSHOT, value)
        case {"type": "constructor", "id": [str(name)], "args": list(args)}:
            if not fields.get("kwargs"):
                return _constructor(name, fields.get("method"), args)
    return None


def revive_plain(fields: dict[Any, Any]) -> Value:
    """A DeltaSnapshot that was stored without the serializer, as on Redis; otherwise `fields`.

    LangGraph.js recognises it by `lg_name`: see `isDeltaSnapshot` in `serde/types.js`.
    """
    if fields.keys() == {"lg_name", "value"} and fields["lg_name"] == "DeltaSnapshot":
        return Tagged(DELTA_SNAPSHOT, fields["value"])
    return fields


def _constructor(name: str, method: Any, args: list[Any]) -> Value:
    match name, method, args:
        case "Set", None, [list(members)]:
            return Tagged(_SET, members)
        case "Map", None, [list(pairs)] if all(map(_is_pair, pairs)):
            return _map(pairs)
        case "RegExp", None, [str(), str()]:
            return Tagged(f"{_PREFIX}.RegExp", args)
        case "Uint8Array", "from" | None, [list(items)] if all(map(_is_byte, items)):
            return bytes(items)
        case _, None, [str(message)] if name.endswith("Error"):
            # Older versions store the class of an error, newer ones only `Error`.
            return Tagged(f"{_PREFIX}.{name}", message)
    return None


def _map(pairs: list[Any]) -> Value:
    """A Map as a dict, if its keys are plain and no two of them are equal in Python (1 and true).

    Otherwise a `Tagged` list of pairs.
    """
    if all(isinstance(key, str | int | float | None) for key, _ in pairs):
        found: dict[Value, Value] = dict(pairs)
        if len(found) == len(pairs):
            return found
    return Tagged(f"{_PREFIX}.Map", pairs)


def _is_pair(value: Value) -> bool:
    return isinstance(value, list) and len(value) == 2


def _is_byte(value: Value) -> bool:
    return type(value) is int and 0 <= value <= 255
