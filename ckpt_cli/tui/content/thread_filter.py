"""A filter of threads by id, status and user."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import translate

from ckpt_backends.model import Status
from ckpt_cli.queries.threads import parse_status


@dataclass(frozen=True, slots=True)
class ThreadFilter:
    """A filter of threads; all conditions must hold."""

    text: str = ""
    """Part of the id, ignoring case, or a shell pattern for the whole id."""
    status: frozenset[Status] = frozenset()
    """The thread must have one of these; any if empty."""
    user: str | None = None


def parse_thread_filter(text: str) -> ThreadFilter:
    """Parse a filter such as `status:interrupted user:anna trip`.

    All other words are the text, with the blanks between them. Raises `UsageError` for an unknown
    status.
    """
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
