"""Arguments that are one text or several."""

from __future__ import annotations

from collections.abc import Iterable


def texts(given: str | Iterable[str] | None) -> list[str]:
    """Return what was given as one text, as several, or not at all, as a list."""
    if given is None:
        return []
    return [given] if isinstance(given, str) else list(given)
