"""Reads a JSON checkpoint body entry by entry, so one huge channel does not hide the others."""

from __future__ import annotations

from json import JSONDecoder
from typing import TYPE_CHECKING, TypeVar, cast

from ckpt_backends.codec.json.json_plus import BOM, DECODER, measure, skip_space
from ckpt_backends.codec.limits import Budget, body_budgets
from ckpt_backends.codec.values import CHANNELS, Cut, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from ckpt_backends.codec.limits import Limits

_Read = TypeVar("_Read")


def json_body(data: bytes, limits: Limits, decoder: JSONDecoder = DECODER) -> Value:
    """Decode a body, cutting each large entry separately. Raises ValueError if it is invalid."""
    text = data.removeprefix(BOM).decode("utf-8", "surrogatepass")

    def entry(budget: Budget, pos: int) -> tuple[Value, int]:
        span = measure(text, pos)
        size = len(text[pos : span.end].encode(errors="surrogatepass"))
        if reason := budget.spend(span, size):
            return Cut(text[pos : min(span.end, pos + limits.value_bytes)], size, reason), span.end
        return decoder.raw_decode(text, pos)

    def top_entry(key: str, pos: int) -> tuple[Value, int]:
        if key == CHANNELS and text[pos : pos + 1] == "{":
            inner, end = _members(text, pos, lambda _, at: entry(channels, at))
            return cast("Value", inner), end
        return entry(top, pos)

    top, channels = body_budgets(limits)
    return cast("Value", _members(text, skip_space(text, 0), top_entry)[0])


def json_channel_sizes(data: bytes) -> dict[str, int]:
    """Stored bytes by channel. Raises ValueError if the body is not valid."""
    text = data.removeprefix(BOM).decode("utf-8", "surrogatepass")

    def size(_: str, pos: int) -> tuple[int, int]:
        end = measure(text, pos).end
        return len(text[pos:end].encode(errors="surrogatepass")), end

    def entry(name: str, pos: int) -> tuple[dict[str, int] | None, int]:
        if name == CHANNELS and text[pos : pos + 1] == "{":
            return _members(text, pos, size)
        return None, measure(text, pos).end

    found, _ = _members(text, skip_space(text, 0), entry)
    return found.get(CHANNELS) or {}


def _members(
    text: str, pos: int, read: Callable[[str, int], tuple[_Read, int]]
) -> tuple[dict[str, _Read], int]:
    """Parse the JSON object at `pos`. Returns its members and its end position.

    `read` is called with each key and the position of its value. It returns the member and its end.
    """
    if text[pos : pos + 1] != "{":
        raise ValueError("a checkpoint has to be an object")
    found: dict[str, _Read] = {}
    pos = skip_space(text, pos + 1)
    while text[pos : pos + 1] != "}":
        if text[pos : pos + 1] != '"':
            raise ValueError(f"no key at character {pos}")
        key, pos = DECODER.raw_decode(text, pos)
        pos = skip_space(text, pos)
        if text[pos : pos + 1] != ":":
            raise ValueError(f"no colon at character {pos}")
        found[key], pos = read(key, skip_space(text, pos + 1))
        pos = skip_space(text, pos)
        if text[pos : pos + 1] == ",":
            pos = skip_space(text, pos + 1)
    return found, pos + 1
