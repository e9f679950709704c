"""Find the names in JSON: the envelopes of LangChain (`lc` 1) and of LangGraph (`lc` 2)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ckpt_backends.codec.json.json_plus import BOM, check, integer
from ckpt_backends.codec.limits import WHOLE_LIMITS
from ckpt_backends.codec.values import CHANNELS
from ckpt_cli.core.doctor.named_types import NONE, NamedIn, Names, TypeName, check_length

_OF_PYDANTIC = ("construct", "model_construct")
_DECODER = json.JSONDecoder(parse_int=integer)


def json_names(data: bytes) -> Names:
    """Return what a JSON text names. Raises `PastLimit`, and ValueError if it is not JSON."""
    return NONE if _names_nothing(data) else frozenset(_names(_parsed(data)))


def json_body_names(data: bytes) -> Iterator[tuple[str | None, Names]]:
    """Yield what each channel of a checkpoint body names, and all other entries under None.

    Raises the errors of `json_names`.
    """
    if _names_nothing(data):
        return
    body = _parsed(data)
    values = body.pop(CHANNELS, None) if isinstance(body, dict) else None
    if isinstance(values, dict):
        for channel, value in values.items():
            yield channel, frozenset(_names(value))
    yield None, frozenset(_names([body, None if isinstance(values, dict) else values]))


def _names_nothing(data: bytes) -> bool:
    """Return whether no key can be `lc`, not even one that is written with escapes."""
    return b'"lc"' not in data and b"\\u" not in data


def _parsed(data: bytes) -> Any:
    check_length(data)
    text = data.removeprefix(BOM).decode("utf-8", "surrogatepass")
    check(text, WHOLE_LIMITS)
    return _DECODER.decode(text)


def _names(root: Any) -> Iterator[TypeName]:
    todo = [root]
    while todo:
        item = todo.pop()
        if isinstance(item, list):
            todo += item
        elif isinstance(item, dict):
            todo += item.values()
            if item.get("lc") in (1, 2) and item.get("type") == "constructor":
                yield from _constructor(item)


def _constructor(envelope: dict[str, Any]) -> Iterator[TypeName]:
    path, method = envelope.get("id"), envelope.get("method")
    # LangGraph.js names its own types with one word.
    if (
        isinstance(path, list)
        and len(path) > 1
        and all(one and isinstance(one, str) for one in path)
    ):
        module, name = ".".join(path[:-1]), path[-1]
        yield TypeName(module, name, NamedIn.JSON, method if isinstance(method, str) else "")
        # Before release 3, a list held the methods to try; None stood for the class itself.
        for one in method if isinstance(method, list) else ():
            if isinstance(one, str) and one not in _OF_PYDANTIC:
                yield TypeName(module, name, NamedIn.JSON, one)
