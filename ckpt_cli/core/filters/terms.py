"""What a filter refers to besides a store: the clock, and the aliases of a configuration."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo

from ckpt_backends.errors import UsageError

ALIAS_NAME = r"\w[\w-]*"
"""Regular expression of the name of an alias, which follows the `@`."""


@dataclass(frozen=True, slots=True)
class FilterAlias:
    """A filter with a name."""

    text: str
    origin: str = ""
    """The configuration file that defines it."""


def no_alias(name: str) -> FilterAlias:
    """Raise `UsageError`: there are no aliases."""
    hint = f'define it in ckpt.toml: [filters] and {name} = "status = error"'
    raise UsageError(f"no filter '@{name}'", hint=hint)


@dataclass(frozen=True, slots=True)
class FilterTerms:
    """How the words of a filter are read."""

    alias: Callable[[str], FilterAlias] = no_alias
    """Returns an alias by its name. Raises `UsageError` for one that is unknown or not allowed."""
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    zone: tzinfo = UTC
    """The time zone of times without one."""


def is_alias_name(text: str) -> bool:
    """Return whether an alias may have this name."""
    return re.fullmatch(ALIAS_NAME, text) is not None
