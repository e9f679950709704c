"""Tell credentials from examples and from texts that only stand for one."""

from __future__ import annotations

import re
from itertools import pairwise

_LISTED = """
    admin asdf bool boolean changeit changeme classified confidential credentials default
    demo disabled dummy empty enabled encrypted enter example fake false foobar hidden insert
    invalid key masked missing mypassword mysecret mytoken none null number obfuscated optional pass
    passphrase password passwd placeholder private pwd redacted removed replace required sample
    secret str string test testing text todo token true undefined unknown unset unused user username
    value yourapikey yourpassword yoursecret yourtoken
"""
_WORDS = frozenset(_LISTED.split())
_MARKS = ("${", "{{", "}}", "<", ">", "***", "...", "…", "%(", "$(", "[erased]", "••", "xxxx")
_BEGINNINGS = (
    *("your-", "your_", "my-", "my_", "env:", "env.", "os.", "process.", "vault:", "arn:", "$"),
    *("secret://", "file:", "http://", "https://", "sm://", "op://", "ref:", "key:"),
)
_NAME = re.compile(
    r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[a-z]+(?:[_.-][a-z]+){1,2}|[a-z]+(?:[A-Z][a-z]+){1,3}"
)
"""The name of a variable, of a setting or of an attribute."""
_UUID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
_EXAMPLE = re.compile(r"example|placeholder|changeme|your[-_]?(?:api|key|token)", re.IGNORECASE)
_FEWEST = 5
"""Different characters at the end of a real credential; fewer are a filler such as `xxxx`."""
_END = 16
_SHORTEST_WORD = 12


def is_example(text: str) -> bool:
    """Return whether a text in the form of a credential is an example, as in documentation."""
    end = text[-_END:].lower()
    if len(set(end)) < min(_FEWEST, len(end)):
        return True
    return _EXAMPLE.search(text) is not None or _counts_up(end)


def is_placeholder(text: str) -> bool:
    """Return whether a text stands for a credential: a mask, a variable, a name or a URL."""
    folded = text.lower()
    bare = re.sub(r"[\W_]+", "", folded)
    return (
        not bare
        or bare in _WORDS
        or folded.startswith(_BEGINNINGS)
        or any(mark in folded for mark in _MARKS)
        or any(one.isspace() for one in text)
        or len(set(folded)) < _FEWEST
        or _EXAMPLE.search(text) is not None
        or _NAME.fullmatch(text) is not None
        or _UUID.fullmatch(text) is not None
    )


def is_guessable(text: str) -> bool:
    """Return whether a text is too plain to be told from a word: short and in small letters."""
    return len(text) < _SHORTEST_WORD and text.isalpha() and (text.islower() or text.istitle())


def _counts_up(text: str) -> bool:
    """Return whether a text is a run such as `0123456789abcdef`."""
    steps = sum(ord(b) - ord(a) == 1 for a, b in pairwise(text))
    return len(text) == _END and steps >= _END - 3
