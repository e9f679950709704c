"""Reads and writes the values of writes, as langgraph-checkpoint-redis stores them."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

from ckpt_backends.codec.values import REDIS_JSON
from ckpt_backends.model import TypedBytes


def stored_value(tag: str, blob: Any) -> TypedBytes:
    """The value of a write: base64 since 0.2, JSON text before.

    Some JSON texts, such as `true`, are also valid base64, but then the decoded bytes are not JSON.
    Before 0.2, the type of bytes was `base64`.
    """
    stored = blob if isinstance(blob, str) else ""
    data = stored.encode("utf-8", "surrogatepass")
    try:
        decoded = b64decode(data, validate=True)
        if tag == "json":
            json.loads(decoded)
    except ValueError:
        decoded = data
    return TypedBytes({"json": REDIS_JSON, "base64": "bytes"}.get(tag, tag), decoded)
