"""Open a store by its name, for the commands and for Python code."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.protocol import ScanObserver, Store
from ckpt_backends.url import StoreUrl
from ckpt_cli.api.answer import When, hide_values, open_named, opening_of, time_of
from ckpt_cli.api.store import StoreHandle
from ckpt_cli.config.machine import local_zone
from ckpt_cli.config.store_names import StoreNames
from ckpt_cli.render.text import safe_text

if TYPE_CHECKING:
    from ckpt_cli.api.memory import MemoryHandle
    from ckpt_cli.reading.executor import Executor
    from ckpt_cli.reading.store import Opening


class ScanReports(ScanObserver):
    """Notes the report of each scan: it may have cost money."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note

    def scanning(self, label: str, done: int, total: int | None) -> None:
        """Show no progress."""

    def scanned(self, report: str) -> None:
        self._note(report)


class Script:
    """The surroundings of Python code: notes are logged."""

    def __init__(self, names: StoreNames, opening: Opening) -> None:
        self.names = names
        self.opening = opening

    @cached_property
    def zone(self) -> tzinfo:
        return local_zone()

    @property
    def now(self) -> datetime:
        return self.opening.as_of or datetime.now(UTC)

    def open_other(self, url: StoreUrl) -> Store:
        return self.opening._replace(url=url).open(self.note, self.observer)

    def executor(
        self, jobs: int = 1, cluster: str | None = None, *, opening: Opening | None = None
    ) -> Executor:
        from ckpt_cli.reading.executor import Executor

        return Executor(opening or self.opening, jobs, cluster)

    def observer(self) -> ScanObserver:
        """Return who is told about scans."""
        return ScanReports(self.note)

    def note(self, text: str) -> None:
        import logging  # the commands do not need it

        # It may name threads, and most loggers end at a terminal.
        logging.getLogger("ckpt").warning("%s", safe_text(self.names.without_values(text)))


def _script(settings: dict[str, Any]) -> Script:
    names = StoreNames(settings)
    return Script(names, opening_of(names, settings))


def open(  # noqa: A001 - users write `ckpt.open`
    store: str | os.PathLike[str] | None = None,
    *,
    config: str | os.PathLike[str] | None = None,
    aes_key_file: str | os.PathLike[str] | None = None,
    copy: bool = False,
    redact: bool = False,
    library: str | None = None,
    as_of: When | None = None,
) -> StoreHandle:
    """Open a store for reading: a file, a URL or a profile, as `ckpt -s` takes it.

    Without `store`, opens the one that `CKPT_STORE` or the default profile names. `config` is a
    configuration file to use in place of the one that is found. `aes_key_file` holds the key for
    encrypted values, in place of `LANGGRAPH_AES_KEY`. `copy` reads a private copy of a SQLite file.
    `redact` replaces values by their type and size. `library` is the release of LangGraph that
    rebuilds values, such as `1.2.22`; by default the newest. `as_of` is a time: the store is read
    as it was then. Notes go to the logger `ckpt`.

    Close the store after use, or open it in a `with` statement. Raises `UsageError`,
    `StoreUnavailable`, `UnknownLayout`, and with `as_of` also `Unsupported`.
    """
    settings = _settings(store, config, aes_key_file, copy=copy, redact=redact)
    script = _script({**settings, "library": library})
    script.opening = script.opening._replace(as_of=time_of(script, as_of))
    opened = open_named(script.names, script.opening, script.note, script.observer)
    for text in opened.notes():
        script.note(text)
    return StoreHandle(opened, script)


def open_memory(
    store: str | os.PathLike[str] | None = None,
    *,
    config: str | os.PathLike[str] | None = None,
    aes_key_file: str | os.PathLike[str] | None = None,
    copy: bool = False,
    redact: bool = False,
) -> MemoryHandle:
    """Open long-term memory for reading, where there may be no checkpoints: see `open`.

    Raises `UsageError`, `StoreUnavailable`, `UnknownLayout` or `Unsupported`.
    """
    # Imported late: the commands open checkpoints with this module.
    from ckpt_cli.api.memory import opened_memory

    script = _script(_settings(store, config, aes_key_file, copy=copy, redact=redact))
    try:
        return opened_memory(script)
    except StoreUnavailable as error:
        hide_values(script.names, error)
        raise


def _settings(
    store: str | os.PathLike[str] | None,
    config: str | os.PathLike[str] | None,
    aes_key_file: str | os.PathLike[str] | None,
    *,
    copy: bool,
    redact: bool,
) -> dict[str, Any]:
    """Return the global options of a command that opens the store in the same way."""
    given = {"store": store, "config": config, "aes_key_file": aes_key_file}
    paths = {name: os.fspath(one) for name, one in given.items() if one is not None}
    return {**paths, "copy": copy, "redact": redact}
