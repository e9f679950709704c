"""What a profile says about the checks of `ckpt doctor`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CheckRules:
    """How threads are checked."""

    reducers: Mapping[str, str] = field(default_factory=dict)
    """The reducers that the user named, by channel."""
    ignored: frozenset[str] = frozenset()
    """Codes that are not reported."""
