"""Decodes the JSON of langgraph-checkpoint-redis, with marker objects such as `__bytes__`.

The markers represent types that JSON does not have. Source: `_preprocess_redis_json` and
`_revive_if_needed` in `jsonplus_redis.py`, 0.1.0 to 0.5.2, and `_recursive_deserialize` in
`base.py`. The saver, too, takes an application's dict of the same shape for a marker.
"""

from __future__ import annotations

import json
from binascii import a2b_base64
from typing import Any

from ckpt_backends.codec.json import json_plus
from ckpt_backends.codec.values import DELTA_SNAPSHOT, Tagged, Value


def _revive(fields: dict[Any, Any]) -> Value:
    match fields:
        case {"__bytes__": str(data)} if len(fields) == 1:
            try:
                return a2b_base64(data, strict_mode=True)
            except ValueError:
                return fields
        case {"__delta_snapshot__": True, "value": value} if len(fields) == 2:
            return Tagged(DELTA_SNAPSHOT, value)
        case {"__send__": True, "node": node, "arg": arg} if len(fields) == 3:
            return Tagged("langgraph.types.Send", [node, arg])
        case {"__interrupt__": True, "value": _}:
            rest = {name: part for name, part in fields.items() if name != "__interrupt__"}
            return Tagged("langgraph.types.Interrupt", rest)
        case {"lc": 2, "id": ["builtins", "set"], "kwargs": {"__set_items__": list(items)}}:
            return Tagged("builtins.set", items)
    return json_plus.revive(fields)


DECODER = json.JSONDecoder(object_hook=_revive, parse_int=json_plus.integer)
"""Decodes one JSON text. The caller must check the nesting depth first."""
