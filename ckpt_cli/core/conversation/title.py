"""A title for a thread: the first thing that a person said."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ckpt_backends.codec.values import Cut, Value
from ckpt_cli.core.conversation.messages import as_message, content_text

MESSAGES = "messages"
_EARLY = 20
"""Number of messages that are looked at: a person speaks first, or after the system."""
_MOST = 200
"""Maximum length of a title."""
_PEOPLE = frozenset({"human", "user"})
_SAYS_NOTHING = re.compile(
    r"""
    (?:[a-z]{1,16}[-_:])?                                 # thread-, session_
    (?: [0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}     # UUID
      | [0-9a-f]{16,}                                     # hash
      | [0-9a-hjkmnp-tv-z]{26} )                          # ULID
    | (?=[a-f]*\d)[0-9a-f]{8,}                            # hex
    | [\d.:_-]+                                           # number, time
    """,
    re.VERBOSE | re.IGNORECASE,
)


def says_nothing(thread_id: str) -> bool:
    """Return whether an id tells a person nothing: a UUID, a hash, hex digits or a number."""
    return _SAYS_NOTHING.fullmatch(thread_id) is not None


def title_of(values: Mapping[str, Value]) -> str | Cut | None:
    """Return the first line that a person said, from the values of a checkpoint.

    Returns the value of the channel itself if it is stored apart and was not read.
    """
    usual = values.get(MESSAGES)
    if isinstance(usual, Cut) and usual.kept is None:
        return usual
    for value in [usual] if MESSAGES in values else values.values():
        said = _first_said(value.kept if isinstance(value, Cut) else value)
        if said is not None:
            return said
    return None


def _first_said(value: Value) -> str | None:
    if not isinstance(value, list):
        return None
    for item in value[:_EARLY]:
        message = as_message(item)
        if message is not None and message.role in _PEOPLE:
            text = content_text(message.content)[: 2 * _MOST].strip()
            line = " ".join(text.partition("\n")[0].split())
            if line:
                return line if len(line) <= _MOST else f"{line[: _MOST - 1]}…"
    return None
