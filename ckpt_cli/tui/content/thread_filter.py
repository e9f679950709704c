"""A filter of threads by id, status and user, or in the language of `--where`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import translate

from ckpt_backends.errors import UsageError
from ckpt_backends.model import Status
from ckpt_cli.core.filters.language import ALIAS_NAME, FIELDS, Filter, FilterTerms
from ckpt_cli.queries.threads import Selection, parse_status

_LANGUAGE = re.compile(
    rf"[\s(]*(?:not[\s(]+)*(?:{'|'.join(FIELDS)})(?:[.\[][^=<>!~]*?)?"
    r"\s*(?:[=<>!~]|\b(?:in|like|not)\b)",
    re.IGNORECASE,
)
"""How a text of the language begins: a field, then an operator."""
_ALIAS = re.compile(rf"[\s(]*(?:not[\s(]+)*@({ALIAS_NAME})(?=$|[\s)])(\s+(?:and|or)\b)?", re.I)
"""How it begins with an alias."""


@dataclass(frozen=True, slots=True)
class ThreadFilter:
    """A filter of threads; all conditions must hold."""

    text: str = ""
    """Part of the id or of the title, ignoring case, or a shell pattern for all of one."""
    status: frozenset[Status] = frozenset()
    """The thread must have one of these; any if empty."""
    user: str | None = None
    where: Filter | None = None
    """A filter in the language of `--where`; then nothing else is given."""
    written: str = ""
    """The text of `where`."""

    @property
    def condition(self) -> Filter | None:
        """The status and `where` as one filter."""
        return Selection(status=self.status, where=self.where).filter


def parse_thread_filter(text: str, terms: FilterTerms) -> ThreadFilter:
    """Parse a filter such as `status:interrupted user:anna trip`, or one for `--where`.

    All other words are the text, with the blanks between them. Raises `UsageError` for an unknown
    status, and `ParseError` for a filter that cannot be read.
    """
    if _is_language(text, terms):
        # Imported late, because it takes time when the screen starts.
        from ckpt_cli.core.filters.language import parse_filter

        return ThreadFilter(where=parse_filter(text, terms), written=text.strip())
    statuses: set[Status] = set()
    user: str | None = None
    words: list[str] = []
    for word in text.split(" "):
        if word.startswith("status:") and len(word) > len("status:"):
            statuses |= {parse_status(one) for one in word.removeprefix("status:").split(",")}
        elif word.startswith("user:") and len(word) > len("user:"):
            user = word.removeprefix("user:")
        else:
            words.append(word)
    return ThreadFilter(" ".join(words).strip(), frozenset(statuses), user)


def _is_language(text: str, terms: FilterTerms) -> bool:
    """Return whether a text is written in the language of `--where`, perhaps with an error.

    A part of an id may begin with `@`, so that `@NAME` alone must be an alias.
    """
    if _LANGUAGE.match(text):
        return True
    alias = _ALIAS.match(text)
    if alias is None or alias[2]:
        return alias is not None
    try:
        terms.alias(alias[1])
    except UsageError:
        return False
    return True


def text_filter(text: str) -> Callable[[str], bool]:
    """Return a function: whether a name contains a text, ignoring case, or matches it as a
    pattern.
    """
    if not text:
        return lambda _: True
    wanted = text.casefold()
    if not is_pattern(text):
        return lambda thread_id: wanted in thread_id.casefold()
    fits = re.compile(translate(text), re.IGNORECASE).match
    return lambda thread_id: wanted in thread_id.casefold() or fits(thread_id) is not None


def is_pattern(text: str) -> bool:
    """Return whether a text is a shell pattern; brackets are taken literally."""
    return "*" in text or "?" in text
