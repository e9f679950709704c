"""States of many checkpoints in little space: each as what differs from its parent's.

A channel that differs is one of these, where VALUE is in the codec's JSON form:

- `[0, VALUE]`: the value;
- `[1, AT, GONE, [VALUE, ...]]`: in the parent's list, GONE items at AT are replaced by these;
- `[2, {KEY: VALUE, ...}, [KEY, ...]]`: in the parent's object, these are set, and those removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ckpt_backends.codec import to_json
from ckpt_backends.codec.values import Value
from ckpt_cli.render.terminal.units import size

LONGEST_TEXT = 20_000
"""Characters of a text in a value that are kept."""
LARGEST_CHANNEL = 1 << 20
"""Characters of a channel, as JSON, that are kept."""

ChannelText = str | list[str] | dict[str, str]
"""A value as JSON texts: whole, or one for each item of a list or a dict."""
StateText = dict[str, ChannelText]

_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def encoded(value: Any) -> str:
    """Return a value as compact JSON."""
    return _JSON.encode(value)


def state_text(values: Mapping[str, Value]) -> StateText:
    """Return the state of a checkpoint as JSON texts; what is too long is cut, and says so."""
    return {name: _channel_text(value) for name, value in values.items()}


def bounded(values: Mapping[str, Value]) -> dict[str, Any]:
    """Return values in JSON form, each cut like a channel of a state."""
    return {name: json.loads(_joined(text)) for name, text in state_text(values).items()}


def cut_text(text: str) -> str:
    """Return a text, cut if it is too long."""
    more = len(text) - LONGEST_TEXT
    return text if more <= 0 else f"{text[:LONGEST_TEXT]}… ({more} more characters)"


def whole(state: StateText) -> str:
    """Return a state that does not refer to another one, as JSON."""
    return _object((name, f"[0,{_joined(text)}]") for name, text in state.items())


def difference(before: StateText, after: StateText) -> tuple[str, str]:
    """Return the channels that differ and those that are gone, both as JSON."""
    changed = (
        (name, _channel_difference(before.get(name), text))
        for name, text in after.items()
        if before.get(name) != text
    )
    return _object(changed), encoded([name for name in before if name not in after])


def _channel_text(value: Value) -> ChannelText:
    form: Any = to_json(value)
    text = encoded(form)
    if len(text) > LONGEST_TEXT:
        form = _shortened(form)
        text = encoded(form)
        if len(text) > LARGEST_CHANNEL:
            return encoded(_cut(text[:LONGEST_TEXT], f"{size(len(text))} of JSON in all"))
    if isinstance(form, list):
        return list(map(encoded, form))
    if isinstance(form, dict):
        return {key: encoded(one) for key, one in form.items()}
    return text


def _shortened(form: Any) -> Any:
    """Return a JSON value with long texts cut. Recurses, as a value has at most 200 levels."""
    if isinstance(form, str) and len(form) > LONGEST_TEXT:
        return _cut(form[:LONGEST_TEXT], f"{len(form)} characters in all")
    if isinstance(form, list):
        return list(map(_shortened, form))
    if isinstance(form, dict):
        return {key: _shortened(one) for key, one in form.items()}
    return form


def _cut(kept: str, reason: str) -> dict[str, Any]:
    return {"$cut": {"kept": kept, "reason": reason}}


def _channel_difference(before: ChannelText | None, after: ChannelText) -> str:
    if isinstance(before, list) and isinstance(after, list):
        return _list_difference(before, after)
    if isinstance(before, dict) and isinstance(after, dict):
        changed = ((key, text) for key, text in after.items() if before.get(key) != text)
        gone = encoded([key for key in before if key not in after])
        return f"[2,{_object(changed)},{gone}]"
    return f"[0,{_joined(after)}]"


def _list_difference(before: list[str], after: list[str]) -> str:
    shorter = min(len(before), len(after))
    at = next((n for n in range(shorter) if before[n] != after[n]), shorter)
    same_end = 0
    while same_end < shorter - at and before[-1 - same_end] == after[-1 - same_end]:
        same_end += 1
    items = ",".join(after[at : len(after) - same_end])
    return f"[1,{at},{len(before) - at - same_end},[{items}]]"


def _joined(text: ChannelText) -> str:
    if isinstance(text, list):
        return f"[{','.join(text)}]"
    return _object(iter(text.items())) if isinstance(text, dict) else text


def _object(pairs: Iterator[tuple[str, str]] | Any) -> str:
    return "{" + ",".join(f"{encoded(name)}:{text}" for name, text in pairs) + "}"
