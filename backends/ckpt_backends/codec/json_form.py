"""The JSON form of values: plain JSON if possible, otherwise an object with a `$` key.

| value | form |
|---|---|
| object of a class | `{"$type": "module.Class", ...fields}`, `{"$type", "$args": [...]}`, \
`{"$type", "$value"}` |
| bytes | `{"$bytes": "<base64>"}` |
| set, tuple, datetime | `{"$set": [...]}`, `{"$tuple": [...]}`, `{"$datetime": "<ISO 8601>"}` |
| NaN, infinities | `{"$float": "NaN"}`, `"Infinity"`, `"-Infinity"` |
| integers beyond 2^53 | `{"$int": "<digits>"}`, `0x...` for very long ones |
| dict with a key that is not text | `{"$map": [[key, value], ...]}` |
| text with lone surrogates | `{"$str": "<base64>"}` |
| JavaScript's undefined, RegExp, Error, Map | `{"$type": "javascript.undefined", ...}`; \
a Map with plain keys is a dict |
| a value that could not be read | `{"$opaque": {"type", "bytes", "sha256", "reason"}}` |
| a value that exceeds a limit | `{"$cut": {"kept", "bytes", "reason"}}` |

If a key of a stored dict starts with `$`, another `$` is put in front of it.
"""

from __future__ import annotations

import math
import re
from binascii import a2b_base64, b2a_base64
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_T = TypeVar("_T")

_SAFE_INT = 2**53
_DECIMAL_BITS = 13_000
"""Python limits decimal integers to about this length. Longer ones are written in hexadecimal."""
_SURROGATE = "[\ud800-\udfff]"
_LISTS = {"$set": "builtins.set", "$tuple": "builtins.tuple"}
_ALONE = frozenset(
    {"$bytes", "$set", "$tuple", "$datetime", "$float", "$int", "$map", "$str", "$opaque", "$cut"}
)
_DATETIME = "datetime.datetime"
_WITH_PARTS = (dict, list, Tagged, Cut)
_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def to_json(value: Value) -> Json:
    """The JSON form of a value. Never recurses."""
    if not value or not isinstance(value, _WITH_PARTS):
        return _spell(value, ())
    return _fold(value, _inside, _spell)


def from_json(form: Json) -> Value:
    """The value of a JSON form. Never recurses. Raises ValueError for an unknown `$` key."""
    try:
        return _fold(form, _parts, _read)
    except (TypeError, KeyError) as error:
        raise ValueError(f"not a JSON form: {error}") from error


def _fold(
    root: Any, inside: Callable[[Any], Iterable[Any]], make: Callable[[Any, Sequence[Any]], _T]
) -> _T:
    """Convert a tree from its leaves upwards, without recursion.

    `inside` returns the children of a node; `make` gets a node and its converted children.
    """
    nodes = [root]
    starts = []
    for node in nodes:
        starts.append(len(nodes))
        nodes.extend(inside(node))
    starts.append(len(nodes))
    made: list[Any] = nodes
    for at in range(len(made) - 1, -1, -1):
        made[at] = make(nodes[at], made[starts[at] : starts[at + 1]])
    result: _T = made[0]
    return result


def _inside(value: Value) -> Iterable[Value]:
    if isinstance(value, dict):
        if _has_text_keys(value):
            return value.values()
        return [part for pair in value.items() for part in pair]
    if isinstance(value, list):
        return value
    if isinstance(value, Tagged):
        return (value.payload,)
    return (value.kept,) if isinstance(value, Cut) else ()


def _spell(value: Value, parts: Sequence[Json]) -> Json:
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -_SAFE_INT <= value <= _SAFE_INT else {"$int": _digits(value)}
    if isinstance(value, dict):
        if _has_text_keys(value):
            return {_escaped(key): part for key, part in zip(value, parts, strict=True)}
        return {"$map": [list(pair) for pair in zip(parts[::2], parts[1::2], strict=True)]}
    if isinstance(value, list):
        return list(parts)
    if isinstance(value, Tagged):
        return _spell_tagged(value, parts[0])
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return {"$float": name}
    if isinstance(value, bytes):
        return {"$bytes": _base64(value)}
    if isinstance(value, Opaque):
        opaque = {"type": _text(value.type), "bytes": value.size, "sha256": _text(value.sha256)}
        return {"$opaque": opaque | {"reason": _text(value.reason)}}
    return {"$cut": {"kept": parts[0], "bytes": value.size, "reason": _text(value.reason)}}


def _spell_tagged(value: Tagged, payload: Json) -> Json:
    if isinstance(value.payload, list):
        for key, name in _LISTS.items():
            if value.type == name:
                return {key: payload}
        return {"$type": _text(value.type), "$args": payload}
    if value.type == _DATETIME and isinstance(value.payload, str):
        return {"$datetime": payload}
    if (
        isinstance(value.payload, dict)
        and isinstance(payload, dict)
        and _has_text_keys(value.payload)
    ):
        return {"$type": _text(value.type), **payload}
    return {"$type": _text(value.type), "$value": payload}


def _parts(form: Json) -> Iterable[Any]:
    if isinstance(form, list):
        return form
    if not isinstance(form, dict):
        return ()
    match _kind(form), form:
        case "", _:
            return form.values()
        case "$set" | "$tuple" | "$args" as key, _:
            return _list(form[key])
        case "$map", {"$map": list(pairs)}:
            return [part for pair in pairs for part in _list(pair, 2)]
        case "$value" | "$datetime" as key, _:
            return (form[key],)
        case "$type", _:
            return [part for key, part in form.items() if key != "$type"]
        case "$cut", {"$cut": {"kept": kept}}:
            return (kept,)
    return ()


def _read(form: Json, parts: Sequence[Any]) -> Value:
    if isinstance(form, list):
        return list(parts)
    if not isinstance(form, dict):
        return form
    match _kind(form), form:
        case "", _:
            return {_unescaped(key): part for key, part in zip(form, parts, strict=True)}
        case "$type", {"$type": name}:
            keys = [_unescaped(key) for key in form if key != "$type"]
            return Tagged(_untext(name), dict(zip(keys, parts, strict=True)))
        case "$args", {"$type": name}:
            return Tagged(_untext(name), list(parts))
        case "$value", {"$type": name}:
            return Tagged(_untext(name), parts[0])
        case "$set" | "$tuple" as key, _:
            return Tagged(_LISTS[key], list(parts))
        case "$datetime", _ if isinstance(parts[0], str):
            return Tagged(_DATETIME, parts[0])
        case "$map", {"$map": list()}:
            return dict(zip(parts[::2], parts[1::2], strict=True))
        case "$bytes", {"$bytes": str(text)}:
            return a2b_base64(text, strict_mode=True)
        case "$str", _:
            return _untext(form)
        case "$int", {"$int": str(text)}:
            return int(text, 0)
        case "$float", {"$float": str(text)}:
            return _FLOATS[text]
        case "$opaque", {
            "$opaque": {"type": tag, "bytes": int(size), "sha256": sha, "reason": why}
        }:
            return Opaque(_untext(tag), size, _untext(sha), _untext(why))
        case "$cut", {"$cut": {"kept": _, "bytes": int(size), "reason": why}}:
            return Cut(parts[0], size, _untext(why))
    raise ValueError(f"not a JSON form: '{_kind(form)}' has a wrong value")


def _kind(form: dict[str, Json]) -> str:
    """The `$` key that identifies the form of an object; `''` for a plain dict."""
    marks = [key for key in form if key.startswith("$") and not key.startswith("$$")]
    if not marks:
        return ""
    if "$type" in marks:
        if len(marks) == 1:
            return "$type"
        if len(form) == 2 and marks[marks[0] == "$type"] in ("$args", "$value"):
            return marks[marks[0] == "$type"]
    elif len(form) == 1 and marks[0] in _ALONE:
        return marks[0]
    raise ValueError(f"not a JSON form: unexpected key '{marks[-1]}'")


def _has_text_keys(fields: dict[Value, Value]) -> bool:
    # A loop, which takes half the time of `all`: this runs twice for each dict.
    for key in fields:  # noqa: SIM110
        if not (isinstance(key, str) and _is_unicode(key)):
            return False
    return True


def _is_unicode(text: str) -> bool:
    """Whether a text has no lone surrogates."""
    return text.isascii() or not re.search(_SURROGATE, text)


def _escaped(key: object) -> str:
    text = str(key)
    return "$" + text if text.startswith("$") else text


def _unescaped(key: str) -> str:
    return key[1:] if key.startswith("$") else key


def _list(form: Json, length: int | None = None) -> list[Json]:
    if isinstance(form, list) and length in (None, len(form)):
        return form
    raise ValueError("not a JSON form: list expected")


def _text(text: str) -> Json:
    if _is_unicode(text):
        return text
    return {"$str": _base64(text.encode("utf-8", "surrogatepass"))}


def _untext(form: Json) -> str:
    match form:
        case str():
            return form
        case {"$str": str(encoded)}:
            return a2b_base64(encoded, strict_mode=True).decode("utf-8", "surrogatepass")
    raise ValueError("not a JSON form: text expected")


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode()


def _digits(value: int) -> str:
    return str(value) if value.bit_length() < _DECIMAL_BITS else hex(value)
