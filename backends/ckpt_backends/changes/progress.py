"""Who is told what an erasure does."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str], None]
"""Is told each step of an erasure before it begins."""


def silent(step: str) -> None:
    """Tell nobody about a step."""
