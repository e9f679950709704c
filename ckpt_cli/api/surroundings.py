"""What answers depend on besides the store."""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Protocol

from ckpt_backends.protocol import Store
from ckpt_backends.url import StoreUrl
from ckpt_cli.config.store_names import StoreNames
from ckpt_cli.threads.opening import Opening


class Surroundings(Protocol):
    """The clock, the configuration and the place for notes; a run of `ckpt` is one."""

    @property
    def names(self) -> StoreNames:
        """The names of stores, with their profiles."""

    @property
    def opening(self) -> Opening:
        """How the store was opened, for other processes."""

    @property
    def now(self) -> datetime:
        """The time to which `2h` or `yesterday` refers, in UTC."""

    @property
    def zone(self) -> tzinfo:
        """The time zone of times without one."""

    def open_other(self, url: StoreUrl) -> Store:
        """Open another store in the same way; the caller closes it."""

    def note(self, text: str) -> None:
        """Tell the user something that is no error."""


def time_of(around: Surroundings, when: str | datetime | None) -> datetime | None:
    """Return the time that a text such as `2h` or `2026-04-07` names. Raises `UsageError`."""
    from ckpt_cli.core.times import parse_time

    if when is None:
        return None
    text = when.isoformat() if isinstance(when, datetime) else when
    return parse_time(text, around.now, around.zone)
