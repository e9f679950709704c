"""Which threads a question can be about, as far as keys and indexes show."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
import sys
from datetime import datetime
from typing import NamedTuple

from ckpt_backends.model import Thread

_LAST = chr(sys.maxunicode)
_SURROGATES = range(0xD800, 0xE000)


class ThreadBounds(NamedTuple):
    """Conditions for threads; all that are given must hold."""

    ids: frozenset[str] | None = None
    prefix: str = ""
    """What the thread id begins with."""
    since: datetime | None = None
    until: datetime | None = None
    """Bounds of the time of the newest checkpoint, both inclusive. A thread without this time is
    outside of both."""
    users: frozenset[str] | None = None
    """The thread's user must be one of these."""
    head_channels: frozenset[str] | None = None
    """A write on one of these channels must be stored with the root head."""

    def admits(self, thread: Thread) -> bool:
        """Whether a thread is within all bounds except `head_channels`."""
        if self.ids is not None and thread.thread_id not in self.ids:
            return False
        if not thread.thread_id.startswith(self.prefix):
            return False
        if self.users is not None and thread.user not in self.users:
            return False
        at = thread.last_at
        if self.since is not None and (at is None or at < self.since):
            return False
        return self.until is None or (at is not None and at <= self.until)


ALL_THREADS = ThreadBounds()


def end_of_prefix(prefix: str) -> str | None:
    """The least text after all that begin with a prefix, also with broken characters.

    Returns None if there is none, or if it cannot be told.
    """
    kept = prefix.rstrip(_LAST)
    if not kept or ord(kept[-1]) in _SURROGATES:
        return None
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)
