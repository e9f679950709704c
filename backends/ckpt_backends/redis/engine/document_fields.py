"""How savers of JSON documents store empty ids, and how fields are read and written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ckpt_backends.codec import decode
from ckpt_backends.model import TypedBytes

EMPTY_NS, EMPTY_ID = "__empty__", "00000000-0000-0000-0000-000000000000"
LISTS = "write_keys_zset"
"""The beginning of the keys that list a checkpoint's writes, and their kind."""


@dataclass(frozen=True, slots=True)
class Prefixes:
    """The prefixes of a saver's keys."""

    checkpoint: str = "checkpoint"
    write: str = "checkpoint_write"


USUAL = Prefixes()


def stored_ns(ns: str) -> str:
    return ns or EMPTY_NS


def meant_ns(stored: str) -> str:
    return "" if stored == EMPTY_NS else stored


def stored_forms(ns: str) -> list[str]:
    """The forms in which savers store a namespace in keys, the current one first."""
    return list(dict.fromkeys((stored_ns(meant_ns(ns)), meant_ns(ns))))


def stored_id(identity: str) -> str:
    return identity or EMPTY_ID


def meant_id(stored: str) -> str:
    return "" if stored == EMPTY_ID else stored


def fields_of(answer: Any) -> dict[str, Any]:
    """By path, the value from the answer of JSON.GET with several paths."""
    if not isinstance(answer, bytes):
        return {}
    found = json.loads(answer)
    return {path: values[0] for path, values in found.items() if values}


def member(answer: bytes) -> bytes:
    """The value from the answer of JSON.GET with one path, with the server's exact bytes.

    Metadata is a JSON text inside a JSON string. A document without metadata gives `{}`.
    """
    if answer.startswith(b'["'):
        return bytes(json.loads(answer)[0].encode("utf-8", "surrogatepass"))
    return answer[1:-1] or b"{}"


def document(
    first: Mapping[str, object], parts: Mapping[str, bytes], last: Mapping[str, object]
) -> bytes:
    """A document with these members in this order. JSON in `parts` keeps its bytes."""
    inside = b"".join(b', "%b": %b' % (name.encode(), data) for name, data in parts.items())
    end = b", " + json.dumps(last)[1:].encode() if last else b"}"
    return json.dumps(first)[:-1].encode() + inside + end


def source_and_step(metadata: TypedBytes | None) -> dict[str, object]:
    """`source` and `step` of metadata, which savers copy to the document."""
    found = decode(metadata) if metadata is not None else {}
    fields = found if isinstance(found, dict) else {}
    return {
        name: fields[name] for name in ("source", "step") if isinstance(fields.get(name), str | int)
    }
