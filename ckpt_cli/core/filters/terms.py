"""What a filter refers to besides a store: the clock, and the aliases of a configuration."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from typing import Final, NamedTuple

from ckpt_backends.errors import UsageError

ALIAS_NAME = r"\w[\w-]*"
"""Regular expression of the name of an alias, which follows the `@`."""


class FilterAlias(NamedTuple):
    """A filter with a name."""

    text: str
    origin: str = ""
    """The configuration file that defines it."""


def no_alias(name: str) -> FilterAlias:
    """Raise `UsageError`: there are no aliases."""
    hint = f'define it in ckpt.toml: [filters] and {name} = "status = error"'
    raise UsageError(f"no filter '@{name}'", hint=hint)


class FilterTerms:
    """How the words of a filter are read."""

    __slots__ = ("alias", "now", "zone")

    def __init__(
        self,
        alias: Callable[[str], FilterAlias] = no_alias,
        now: datetime | None = None,
        zone: tzinfo = UTC,
    ) -> None:
        self.alias: Final = alias
        """Returns an alias by its name. Raises `UsageError` for one that is unknown or not
        allowed.
        """
        self.now: Final = now or datetime.now(UTC)
        self.zone: Final = zone
        """The time zone of times without one."""


def is_alias_name(text: str) -> bool:
    """Return whether an alias may have this name."""
    return re.fullmatch(ALIAS_NAME, text) is not None
