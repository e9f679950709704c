"""Find the bounds of the threads that a selection can choose."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from ckpt_backends.thread_bounds import ThreadBounds
from ckpt_cli.core.refs import LONGEST_MAKING

if TYPE_CHECKING:
    from ckpt_cli.queries.threads import Selection

_GLOB = re.compile(r"[*?[]")


def bounds_of_selection(wanted: Selection, now: datetime) -> ThreadBounds:
    """Return bounds of all threads that a selection can choose, with ages as of `now`."""
    pattern, ids = wanted.match or "", None
    special = _GLOB.search(pattern)
    if wanted.match is not None and special is None:
        ids = frozenset({pattern})
    bounds = ThreadBounds(
        ids=ids,
        prefix=pattern[: special.start()] if special else "",
        since=wanted.since,
        until=None if wanted.until is None else later(wanted.until, LONGEST_MAKING),
        users=None if wanted.user is None else frozenset({wanted.user}),
        head_channels=wanted.head_channels,
    )
    condition = wanted.filter
    if condition is None:
        return bounds
    # Imported late, like all about filters: most lists have none.
    from ckpt_cli.core.filters.pushdown import both, bounds_of

    return both(bounds, bounds_of(condition, now))


def later(moment: datetime, gap: timedelta) -> datetime:
    """Return a later time, or the same at the end of the calendar."""
    try:
        return moment + gap
    except OverflowError:
        return moment
