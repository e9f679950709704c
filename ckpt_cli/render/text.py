"""Text for a terminal: safe, styled, and fitted into its width."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo
from functools import cache
from typing import Literal, NamedTuple, TextIO, TypeAlias

color_chosen = ContextVar("color_chosen", default="auto")
"""What --color says in this run: auto, always or never."""


def has_color(when: str, stream: TextIO) -> bool:
    """Return whether what is written to a stream has colours and styles."""
    if when != "auto":
        return when == "always"
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


UNLIMITED = 1_000_000
"""The width of a file or pipe."""


class Ui(NamedTuple):
    """What an answer is drawn for."""

    now: datetime
    """Ages are told from this time."""
    zone: tzinfo = UTC
    width: int = UNLIMITED
    """Columns of the terminal."""
    unicode: bool = True
    """Whether box characters can be printed."""
    terminal: bool = False
    """Whether a person reads it there; long parts may be shortened."""


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


MIN_WIDTH = 20
"""Text is never wrapped to fewer columns than this, however deep it is indented."""
_MARKS = "({[=,:|/@"
"""A word that is longer than a line is broken after one of these, so that ids stay whole."""

_SINGLE = r"[ -~\xa0-\u02ff\u2010-\u2027\u2030-\u205e\u2190-\u22ff\u2500-\u25fc]*"
"""Latin letters, dashes, arrows, lines and the signs of a tree: all take one column, so no table of
widths is loaded."""


def cell_len(text: str) -> int:
    """Return the number of terminal columns of a text."""
    if text.isascii() or re.fullmatch(_SINGLE, text):
        return len(text)
    return sum(map(_cells, text))


def fit(text: str, width: int) -> str:
    """Cut a text to `width` columns; a cut text ends with `…`."""
    if len(text) * 2 <= width or cell_len(text) <= width:
        return text
    end = _end(text, 0, width - 1)
    return text[:end] + "…"[:width]


def pad(text: str, width: int) -> str:
    """Pad a text with blanks to `width` columns."""
    return text + " " * (width - cell_len(text))


def wrap(text: str, width: int) -> Iterator[str]:
    """Break a line into pieces that fit: at blanks, or else after punctuation, or else anywhere."""
    width = max(width, MIN_WIDTH)
    start = 0
    while (end := _end(text, start, width)) < len(text):
        blank = text.rfind(" ", start, end + 1)
        if blank > start and text[start:blank].strip():
            yield text[start:blank]
            start = blank + 1
        else:
            end = max((text.rfind(mark, start, end) + 1 for mark in _MARKS), default=0) or end
            yield text[start:end]
            start = end
    yield text[start:]


def longest_part(text: str) -> int:
    """Return the columns of the longest part that `wrap` breaks only if it is wider than a line."""
    longest = start = 0
    for end, character in enumerate(text + " ", 1):
        if character == " " or character in _MARKS:
            longest, start = max(longest, cell_len(text[start:end])), end
    return longest


def _end(text: str, start: int, width: int) -> int:
    """Return the end of the longest piece from `start` that fits."""
    if text.isascii():
        return min(start + max(width, 0), len(text))
    used = 0
    for position in range(start, len(text)):
        used += _cells(text[position])
        if used > width:
            return position
    return len(text)


def _cells(char: str) -> int:
    if re.fullmatch(_SINGLE, char):
        return 1
    # Screens need the same widths, and Textual measures with this.
    from rich.cells import get_character_cell_size

    return get_character_cell_size(char)


Style: TypeAlias = Literal[
    "plain",
    "dim",
    "bold",
    "add",
    "remove",
    "added",
    "added-part",
    "removed",
    "removed-part",
    "change",
    "warn",
    "error",
    "head",
    "question",
    "id",
    "node",
    "time",
]
"""Meaning of a piece of text. The text must be clear without it: colour may be off."""

Span: TypeAlias = tuple[str, Style]


class StyledLine(NamedTuple):
    """One line in styled pieces; safe to print."""

    spans: tuple[Span, ...]
    whole: bool = False
    """Never folded to the width of the terminal, since people copy it."""

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.spans)


def line(*spans: Span | str) -> StyledLine:
    """Make a line from pieces; bare strings get the style plain, empty pieces are left out."""
    styled: list[Span] = [(span, "plain") if isinstance(span, str) else span for span in spans]
    return StyledLine(tuple(span for span in styled if span[0]))


_HANG = 2
"""Columns by which the rest of a folded line is indented further than its beginning."""


def folded(lines: Iterable[StyledLine], width: int) -> Iterator[StyledLine]:
    """The lines, in pieces where one is wider than `width`, unless it is printed whole."""
    for one in lines:
        text = one.text
        if one.whole or len(text) * 2 <= width or cell_len(text) <= width:
            yield one
        else:
            yield from _pieces(one, text, width)


def _pieces(one: StyledLine, text: str, width: int) -> Iterator[StyledLine]:
    indent = " " * min(len(text) - len(text.lstrip(" ")) + _HANG, width // 2)
    start = 0
    for number, piece in enumerate(_parts(text, width, len(indent))):
        at = text.index(piece, start)
        start = at + len(piece)
        spans = tuple(_cut(one.spans, at, at + len(piece.rstrip(" "))))
        yield StyledLine(spans if number == 0 else ((indent, "plain"), *spans))


def _parts(text: str, width: int, indent: int) -> Iterator[str]:
    first = next(wrap(text, width))
    yield first
    if rest := text[len(first) :].lstrip(" "):
        yield from wrap(rest, width - indent)


def _cut(spans: Iterable[Span], start: int, end: int) -> Iterator[Span]:
    """The part of some spans from one character to another."""
    at = 0
    for text, style in spans:
        if part := text[max(start - at, 0) : max(end - at, 0)]:
            yield part, style
        at += len(text)


_LABEL = 9
"""Width of a label."""
_BELOW = 2


def command_field(name: str, command: str) -> StyledLine:
    """Return a label and a command, which is never wrapped."""
    return StyledLine(((f"{name:<{_LABEL}}", "dim"), (safe_text(command), "plain")), whole=True)


def field(name: str, text: str, width: int, style: Style = "plain") -> Iterator[StyledLine]:
    """Yield a label and its text, wrapped; below the label if an id would be broken next to it."""
    text, label = safe_text(text), f"{name:<{_LABEL}}"
    if name and width - _LABEL < longest_part(text) <= width - _BELOW:
        yield line((name, "dim"))
        label = " " * _BELOW
    for part in wrap(text, width - len(label)):
        yield line((label, "dim"), (part, style))
        label = " " * len(label)
