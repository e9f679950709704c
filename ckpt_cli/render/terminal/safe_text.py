"""Escape text from a store, so that a terminal does not interpret or hide any of it."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# Written as literals, since computing them from `unicodedata` would add 100 ms to each start. Those
# above U+FFFF are checked separately: inside the class they make the search five times slower.
_INVISIBLE = (
    "\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\uf8ff\ufdd0-\ufdef"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U00010000-\U0010ffff"
)
"""DEL, C1, format and bidi characters, fillers, line separators, surrogates, private use,
noncharacters, variation selectors; and everything above U+FFFF, of which these are visible:
"""
_VISIBLE = (
    "(?![\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a])"
    "[\U00010000-\U000dffff]"
)
_NONCHARACTERS = 0xFFFE

_UNSAFE = f"[\x00-\x1f{_INVISIBLE}]"
_UNSAFE_IN_LINES = f"[\x00-\x08\x0b-\x1f{_INVISIBLE}]"
_UNSAFE_IN_JSON = f"[{_INVISIBLE}]"
_SYMBOLS = "\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_EMOJI = f"[{_SYMBOLS}]"
_EMOJI_OR_TEXT = f"[#*0-9©®{_SYMBOLS}]"
_SHORT = {"\t": r"\t", "\n": r"\n", "\r": r"\r"}
_JOINER, _AS_EMOJI = "\u200d", "\ufe0f"
_TASK_ID = r":([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def safe_text(text: str, *, newlines: bool = False) -> str:
    r"""Escape each character that a terminal interprets, hides or reorders, as in `\x1b`.

    Newlines and tabs are escaped too unless `newlines` is set. Emoji sequences stay whole. A
    backslash is not escaped, so escaping twice changes nothing.
    """
    if text.isascii() and text.isprintable():
        return text
    return _compiled(_UNSAFE_IN_LINES if newlines else _UNSAFE).sub(_where_unsafe(_visible), text)


def visible_id(text: str) -> str:
    """Return an id in quotes if it is empty or has blanks at an end, where nobody sees them."""
    return text if text and text == text.strip() else f'"{text}"'


def safe_json(text: str) -> str:
    r"""Return a JSON text with the same value, with such characters as `\u` escapes."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _compiled(_UNSAFE_IN_JSON).sub(_where_unsafe(_json_escape), text)


def _where_unsafe(escape: Callable[[str], str]) -> Callable[[re.Match[str]], str]:
    def replace(match: re.Match[str]) -> str:
        character, text, at = match[0], match.string, match.start()
        is_character = ord(character) & _NONCHARACTERS != _NONCHARACTERS
        if is_character and _compiled(_VISIBLE).match(character):
            return character
        if character == _AS_EMOJI and _compiled(_EMOJI_OR_TEXT).match(text, at - 1):
            return character
        if character == _JOINER and _compiled(_EMOJI).match(text, at + 1):
            before = at - 2 if text[at - 1] == _AS_EMOJI else at - 1
            if before >= 0 and _compiled(_EMOJI).match(text, before):
                return character
        return escape(character)

    return replace


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile on first use: most runs print only ASCII, and compiling takes some milliseconds."""
    return re.compile(pattern)


def _visible(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def short_ns(checkpoint_ns: str) -> str:
    """A namespace whose task ids are cut to eight digits: `planner:fe0c6028…`."""
    return _compiled(_TASK_ID).sub(r":\1…", checkpoint_ns)
