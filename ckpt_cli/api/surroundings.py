"""What surrounds an answer: the store's name, the clock, and how it is opened."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ckpt_backends.errors import StoreUnavailable, UsageError
from ckpt_backends.protocol import Store
from ckpt_backends.url import StoreUrl
from ckpt_cli.config.store_names import StoreNames
from ckpt_cli.reading.store import Opening

if TYPE_CHECKING:
    from ckpt_backends.scan_observer import ScanObserver
    from ckpt_cli.reading.executor import Executor


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

    def executor(
        self, jobs: int = 1, cluster: str | None = None, *, opening: Opening | None = None
    ) -> Executor:
        """Return what works on many threads of this store, or of one that is opened otherwise.

        It says at the end which were left out.
        """

    def note(self, text: str) -> None:
        """Tell the user something that is no error."""


When: TypeAlias = str | date | timedelta
"""A time: a text such as `2h` or `2026-04-07`, a `datetime` or `date`, or an age."""


def time_text(around: Surroundings, when: When) -> str:
    """Return a time as a text of the command line."""
    if isinstance(when, str):
        return when
    return (around.now - when if isinstance(when, timedelta) else when).isoformat()


def time_of(around: Surroundings, when: When | None) -> datetime | None:
    """Return the time that is meant. Raises `UsageError` for a text that names none."""
    from ckpt_cli.core.times import parse_time

    return None if when is None else parse_time(time_text(around, when), around.now, around.zone)


def opening_of(names: StoreNames, settings: dict[str, Any]) -> Opening:
    """Return what is needed to open the store that the settings name.

    Raises `UsageError` for an unknown reducer.
    """
    url, rules = names.store_url, None
    reducers, library = names.reducers, names.library
    if reducers or library:
        from ckpt_cli.core.reducers import Rules, known_reducers

        rules = Rules(known_reducers(dict(reducers)), library)
    return Opening(url, settings.get("aes_key_file"), bool(settings.get("redact")), rules)


def open_named(
    names: StoreNames,
    opening: Opening,
    note: Callable[[str], None],
    observer: Callable[[], ScanObserver] | None = None,
) -> Store:
    """Open a store for reading. Errors also say where the store's name came from."""
    try:
        return opening.open(note, observer)
    except UsageError as error:
        profile = names.profile
        if profile is not None and profile.params:
            error.message += f" (profile '{profile.name}' in {names.profiles.source})"
        raise
    except StoreUnavailable as error:
        error.hint = names.meant() or error.hint
        if names.named_by is not None:
            error.message += f" (named by {names.named_by})"
        hide_values(names, error)
        raise


def hide_values(names: StoreNames, error: StoreUnavailable) -> None:
    """Remove from an error what profiles took from the environment: a server may repeat it."""
    error.message = names.without_values(error.message)
    error.hint = error.hint and names.without_values(error.hint)
