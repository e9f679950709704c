r"""Commands and names in the form in which bash, zsh and fish read them.

All commands that are printed come from `command`. Who pastes one runs that program with exactly
these words, and nothing else. A word has one of three forms:

- `user-42` needs no quotes.
- `'user 42'` is in single quotes. Inside them only `'` and, in fish, `\` are special, so both are
  written outside: `'a'"'"'b'\\'c'`.
- `$'a\012b'` is written byte by byte, because a terminal would hide, change or obey a character, or
  because a backquote would end a command inside a sentence. fish reads `a\X0ab` instead.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable

# Compiled when they are first used, which few commands do.
_BARE = r"(?a)[\w@+:,./-]+(=[\w@+:,./-]+)*"
"""Words that need no quotes. Others do even in a harmless place: zsh reads `=ls` as the path of a
program, and fish `%self` as a number."""
_PARTS = r"'+|\\+|[^'\\]+"
_UNSAFE_BYTE = r"(?a)[^\w@+:,./-]"
_BLANK = "[\u1100-\u11ff\u2800\u3164\ua960-\ua97f\ud7b0-\ud7ff\uffa0\U0001d159]"
"""Letters and symbols that are blank, or join with their neighbours."""
_VISIBLE = frozenset("LNPS")
"""Categories of characters that a terminal shows as they are. Marks are not among them: a terminal
may compose them with letters, or drop some where there are many."""
_IMPOSSIBLE = "# no command can name it: it holds NUL or half of a surrogate pair"
"""Instead of a command: a shell would cut such a word, or pass on another one."""


def command(program: str, *words: str, ids: Iterable[str] = ()) -> str:
    """Return a line that runs a program with these words and then these ids, which are never read
    as options.
    """
    return possible_command(program, *words, ids=ids) or _IMPOSSIBLE


def possible_command(program: str, *words: str, ids: Iterable[str] = ()) -> str:
    """Return the same; `''` if a shell could not pass on one of the words."""
    ids = list(ids)
    guard = ["--"] if any(one.startswith("-") for one in ids) else []
    line = [program, *words, *guard, *ids]
    return " ".join(map(word, line)) if all(map(_is_possible, line)) else ""


def word(text: str) -> str:
    """Return a text as one word for a shell, in quotes if it needs them."""
    return text if re.fullmatch(_BARE, text) else name(text)


def name(text: str) -> str:
    """Return the same for a name in a sentence, in quotes even if a shell does not need them."""
    if not is_shown(text):
        return _escaped(text)
    return "".join(map(_quoted, re.findall(_PARTS, text))) or "''"


def is_shown(text: str) -> bool:
    """Whether a terminal shows each character of a text, and copies it unchanged."""
    if not text.isprintable() or "`" in text:
        return False
    if text.isascii():
        return True
    # Imported late: most names are ASCII.
    from unicodedata import category, is_normalized

    return (
        re.search(_BLANK, text) is None
        and all(one == " " or category(one)[0] in _VISIBLE for one in text)
        and is_normalized("NFC", text)
        and _can_be_printed(text)
    )


def _quoted(part: str) -> str:
    if part[0] == "'":
        return f'"{part}"'
    return part * 2 if part[0] == "\\" else f"'{part}'"


def _can_be_printed(text: str) -> bool:
    """Whether neither output replaces a character that its encoding lacks."""
    try:
        for stream in (sys.stdout, sys.stderr):
            text.encode(getattr(stream, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _escaped(text: str) -> str:
    is_fish = os.path.basename(os.environ.get("SHELL", "")) == "fish"
    form = "\\X{:02x}" if is_fish else "\\{:03o}"
    data = _bytes(text).decode("latin1")
    escaped = re.sub(_UNSAFE_BYTE, lambda byte: form.format(ord(byte[0])), data)
    return escaped if is_fish else f"$'{escaped}'"


def _is_possible(text: str) -> bool:
    """Whether a program can get this text as an argument."""
    return "\0" not in text and os.fsdecode(_bytes(text)) == text


def _bytes(text: str) -> bytes:
    try:
        return os.fsencode(text)
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
