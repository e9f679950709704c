"""Find checkpoints of different branches that use the same number for a new value.

LangGraph.js and some Python savers number the versions of a channel, so two branches that begin at
one checkpoint count on with the same numbers. If values are stored by their versions, one branch
gets the values of the other.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from ckpt_cli.core.state import Version

_MOST_DIGITS = 40
"""Savers write 32 digits."""


class NumberedVersions:
    """Which checkpoints of one namespace gave a channel which version."""

    def __init__(self) -> None:
        self._givers: dict[tuple[str, str], list[str]] = {}

    def add(
        self, checkpoint_id: str, versions: Mapping[str, Version], introduced: Collection[str]
    ) -> None:
        """Add a checkpoint with the channels whose versions differ from those of its parent."""
        for channel in introduced:
            version = versions[channel]
            if is_number(version):
                self._givers.setdefault((channel, str(version)), []).append(checkpoint_id)

    def givers(self, channel: str, version: Version) -> Sequence[str]:
        """Return the checkpoints that gave a channel this version; none if it is not a number."""
        return self._givers.get((channel, str(version)), ())


def is_number(version: Version) -> bool:
    """Return whether a version only counts, so that two branches may have the same."""
    return not isinstance(version, str) or version.isdecimal()


def version_number(version: Version) -> int:
    """Return the number that a version begins with; 0 if there is none."""
    if not isinstance(version, str):
        return int(version) if math.isfinite(version) else 0
    digits = version.partition(".")[0]
    return int(digits) if digits.isdecimal() and len(digits) <= _MOST_DIGITS else 0
