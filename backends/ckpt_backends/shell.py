r"""Commands and names in the form in which bash, zsh and fish read them.

All commands that are printed come from `command`, so that a person can paste each of them: the
program gets exactly these words, and the shell runs nothing else.

- `user-42` needs no quotes.
- `'user 42'` is in single quotes, inside which only `'` and `\` are special, the latter in fish.
  Both are written outside of them: `'a'"'"'b'\\'c'`.
- `$'a\012b'` is written in ASCII, byte by byte, because a terminal would hide, change or obey a
  character, or because a backquote would end a command inside of a sentence. fish reads `a\X0ab`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

_PLAIN = r"[A-Za-z0-9_@+:,./-]"
_BARE = re.compile(rf"{_PLAIN}+(=[{_PLAIN[1:-1]}]+)*")
"""Words that need no quotes. zsh takes `=ls` for the path of a program, fish `%self` for a
number."""
_PARTS = re.compile(r"'+|\\+|[^'\\]+")
_HIDDEN = re.compile("[\u1100-\u11ff\u2800\u3164\ua960-\ua97f\ud7b0-\ud7ff\uffa0\U0001d159]")
"""Letters and symbols that are blank, or join with their neighbours."""
_SHOWN = frozenset("LNPS")
"""The categories of characters that a terminal shows as they are. Marks are not among them: a
terminal may compose them, or drop them where there are many."""
_IMPOSSIBLE = "# no command can name it: it holds NUL or half of a surrogate pair"
"""Instead of a command. A shell would end such a word early, or pass on another one."""


def command(program: str, *words: str, ids: Iterable[str] = ()) -> str:
    """Return a line that runs a program with these words, then these ids.

    Ids that begin with `-` are not read as options.
    """
    last = list(ids)
    guard = ["--"] if any(one.startswith("-") for one in last) else []
    line = [program, *words, *guard, *last]
    if any("\0" in one or _bytes(one).decode("utf-8", "surrogateescape") != one for one in line):
        return _IMPOSSIBLE
    return " ".join(map(word, line))


def word(text: str) -> str:
    """Quote a text, if necessary, such that a shell reads it as one word."""
    return text if _BARE.fullmatch(text) else name(text)


def name(text: str) -> str:
    """The same for a name in a sentence: in quotes, even if a shell does not need them."""
    if not _is_shown(text):
        return _escaped(text)
    return "".join(map(_quoted, _PARTS.findall(text))) or "''"


def _quoted(part: str) -> str:
    if part[0] == "'":
        return f'"{part}"'
    return part * 2 if part[0] == "\\" else f"'{part}'"


def _is_shown(text: str) -> bool:
    """Whether each character can be seen, and arrives unchanged if it is copied and pasted."""
    if text.isascii():
        return text.isprintable() and "`" not in text
    # Imported late: most names are ASCII.
    from unicodedata import category, is_normalized

    return (
        text.isprintable()
        and "`" not in text
        and _HIDDEN.search(text) is None
        and all(category(one)[0] in _SHOWN or one == " " for one in text)
        and is_normalized("NFC", text)
    )


def _escaped(text: str) -> str:
    is_fish = os.path.basename(os.environ.get("SHELL", "")) == "fish"
    form = "\\X{:02x}" if is_fish else "\\{:03o}"
    plain = re.compile(_PLAIN)
    found = (chr(byte) if plain.match(chr(byte)) else form.format(byte) for byte in _bytes(text))
    escaped = "".join(found)
    return escaped if is_fish else f"$'{escaped}'"


def _bytes(text: str) -> bytes:
    """The bytes of an argument, which Python decodes in the same way."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
