"""One run of `ckpt`: its settings, store, clock and output."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ckpt_backends.errors import StoreUnavailable, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ckpt_backends.protocol import Store
    from ckpt_backends.url import StoreUrl
    from ckpt_cli.config.profiles import Profile, Profiles
    from ckpt_cli.output import Output
    from ckpt_cli.threads.opening import Opening


COPY = "copy"
"""The URL parameter that stands for --copy, in the declarations of backends that can do that."""


class Session:
    """Everything a command works with. The parser stores global options in `settings`."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}
        self._store: Store | None = None
        self._urls: list[StoreUrl] = []
        """The stores that were named, perhaps with values from the environment."""

    @cached_property
    def now(self) -> datetime:
        """Start time of this run, in UTC."""
        return datetime.now(UTC)

    @cached_property
    def zone(self) -> tzinfo:
        """Time zone of all times that this run prints or reads."""
        return UTC if self.settings.get("utc") else _local_zone()

    @cached_property
    def output(self) -> Output:
        """The writer of the answer."""
        from ckpt_cli.diagnostics import no_progress
        from ckpt_cli.output import Output

        return Output(
            self.settings.get("output", "auto"),
            color=self.settings.get("color", "auto"),
            pager=not self.settings.get("no_pager"),
            no_progress=no_progress,
        )

    @cached_property
    def profiles(self) -> Profiles:
        """The named stores of the nearest configuration file."""
        from ckpt_cli.config.profiles import load_profiles

        return load_profiles(self.settings.get("config"), Path.cwd())

    @property
    def store_name(self) -> str | None:
        """The store named by `-s`, or else by `CKPT_STORE`."""
        name = self.settings.get("store") or os.environ.get("CKPT_STORE")
        return str(name) if name else None

    @cached_property
    def store_url(self) -> StoreUrl:
        """URL of the store of this run. Raises `UsageError` if none is named."""
        if "config" in self.settings:
            _ = self.profiles  # a file that cannot be read is an error even if -s names a URL
        if self.store_name is not None:
            url = self.url_of(self.store_name)
        elif self.profiles.default is not None:
            url = self._named_by_profiles("default", self.profiles.default)
        else:
            raise UsageError(
                "no store given",
                hint="use -s FILE or set CKPT_STORE; `ckpt stores` lists the stores found here,"
                " `ckpt demo sample.db` writes a sample store",
            )
        if self.settings.get("copy") and COPY not in url.params:
            from ckpt_backends.discovery import bundled
            from ckpt_backends.registry import titles

            copied = titles(one for one in bundled() if one.layouts and COPY in one.params)
            raise UsageError(
                f"--copy reads {copied} files only, not {url.scheme}:// stores",
                hint="run the same command without --copy",
            )
        return url

    @property
    def reducers(self) -> Mapping[str, str]:
        """Maps a channel to its reducer, from the profile of this run's store."""
        return {} if self._profile is None else self._profile.reducers

    @property
    def retention(self) -> str | None:
        """How long threads are kept, from the profile of this run's store.

        Raises `UsageError` if its file is not trusted.
        """
        profile = self._profile
        if profile is None or profile.retention is None:
            return None
        if self.profiles.distrust is not None:
            from ckpt_cli.config.profiles import refusal

            raise refusal(self.profiles, f"profile '{profile.name}'", "sets 'retention'")
        return profile.retention

    def other_store(
        self, what: Literal["threads", "memory"], chosen: str | None = None
    ) -> StoreUrl | None:
        """Return the store of threads or of memory: the chosen one, or else the one in the
        profile.
        """
        if chosen is not None:
            return self.url_of(chosen)
        profile = self._profile
        name = None if profile is None else getattr(profile, what)
        if profile is None or name is None:
            return None
        return self._named_by_profiles(f"{what} of profile '{profile.name}'", name)

    @property
    def _profile(self) -> Profile | None:
        """The profile of this run's store; None if a file or URL was named."""
        if self.store_name is not None:
            return self._profile_of(self.store_name)
        default = self.profiles.default
        return None if default is None else self.profiles.stores.get(default)

    def url_of(self, name: str) -> StoreUrl:
        """Return the URL for a file, a store URL or a profile that a person named.

        Raises `UsageError` if the name is both a profile and a file.
        """
        from ckpt_backends.url import parse_url

        profile = self._profile_of(name)
        return self._copied(parse_url(name)) if profile is None else self.url_in(profile)

    def url_in(self, profile: Profile) -> StoreUrl:
        """Return the URL of a profile.

        Raises `UsageError` if a variable is not set or the profile needs a trusted file.
        """
        from ckpt_cli.config.profiles import store_of

        name = f"profile '{profile.name}'"
        return self._copied(store_of(self.profiles, name, profile.url, profile.params))

    def _named_by_profiles(self, what: str, name: str) -> StoreUrl:
        """Return a store that the configuration names: one of its profiles, a file or a URL."""
        from ckpt_cli.config.profiles import store_of

        profile = self.profiles.stores.get(name)
        if profile is not None:
            return self.url_in(profile)
        return self._copied(store_of(self.profiles, what, name))

    def _profile_of(self, name: str) -> Profile | None:
        """Return the profile that a person named; None for a file or a URL.

        A name with a slash is never a profile. Raises `UsageError` if the name is a file, too.
        """
        if "/" in name:
            return None
        is_file = _is_store_file(name)
        try:
            profile = self.profiles.stores.get(name)
        except UsageError:
            if is_file and "config" not in self.settings:
                return None  # a file needs no profile
            raise
        if profile is not None and is_file:
            from ckpt_backends import shell

            raise UsageError(
                f"cannot tell which store '{name}' is: a file in this folder, or the profile in"
                f" '{self.profiles.source}'",
                hint=f"`-s {shell.word(f'./{name}')}` is the file; for the profile, rename one"
                " of them, or run the command in another folder",
            )
        return profile

    def _copied(self, url: StoreUrl) -> StoreUrl:
        """Return a URL with the option --copy, if it was given and the store can be copied."""
        self._urls.append(url)
        if not self.settings.get("copy"):
            return url
        from ckpt_backends.discovery import backend_of

        backend = backend_of(url.scheme)
        if backend is None or COPY not in backend.params:
            return url
        return replace(url, params={**url.params, COPY: "1"})

    @property
    def store(self) -> Store:
        """The store of this run, opened for reading; closed when the run ends."""
        if self._store is None:
            self._store = self._opened()
            if self.settings.get("verbose"):
                info = self._store.describe()
                self.note(f"{info.url}: {info.layout}, {info.saver}, {info.engine}")
            for text in self._store.notes():
                self.note(self.without_values(text))
        return self._store

    @cached_property
    def opening(self) -> Opening:
        """Everything that is needed to open the store of this run."""
        from ckpt_cli.threads.opening import Opening

        key_file, redact = self.settings.get("aes_key_file"), bool(self.settings.get("redact"))
        return Opening(self.store_url, key_file, redact)

    def open_other(self, url: StoreUrl) -> Store:
        """Open another store with this run's key and redaction; the caller closes it."""
        return replace(self.opening, url=url).open(self.note)

    @cached_property
    def rows(self) -> Store:
        """The same store opened again, without decryption or redaction: for copying its bytes."""
        from ckpt_backends.registry import open_store

        return open_store(self.store_url)

    def _opened(self) -> Store:
        """Open the store of this run. Errors also name where the store's name came from."""
        opening = self.opening
        try:
            return opening.open(self.note)
        except UsageError as error:
            profile = self._profile
            if profile is not None and profile.params:
                error.message += f" (profile '{profile.name}' in {self.profiles.source})"
            raise
        except StoreUnavailable as error:
            error.hint = self._meant() or error.hint
            if "store" not in self.settings:
                who = "CKPT_STORE" if os.environ.get("CKPT_STORE") else self.profiles.source
                error.message += f" (named by {who})"
            raise

    def _meant(self) -> str | None:
        """Return a hint if the store's name looks like a mistyped profile."""
        try:
            name = self.store_name or self.profiles.default
            if name is None or name in self.profiles.stores:
                return None
        except UsageError:
            return None
        from difflib import get_close_matches

        close = get_close_matches(name, self.profiles.stores, n=1)
        return f"did you mean the profile '{close[0]}'?" if close else None

    def without_values(self, text: str) -> str:
        """Return a message without the values that profiles took from the environment."""
        from ckpt_backends.url import without_values

        for url in self._urls:
            text = without_values(text, url)
        return text

    def note(self, text: str) -> None:
        """Print a note on stderr, unless --quiet is given."""
        if not self.settings.get("quiet"):
            from ckpt_cli import diagnostics

            diagnostics.note(text)

    def warn(self, text: str) -> None:
        """Print a warning on stderr, even with --quiet."""
        from ckpt_cli import diagnostics

        diagnostics.warn(text)

    def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            self._store.close()
        if "rows" in self.__dict__:
            self.rows.close()


def _is_store_file(name: str) -> bool:
    """Whether a name in this folder may be a store: anything but a folder that contains none."""
    from ckpt_backends.discovery import backend_claiming

    if os.path.isdir(name):
        return backend_claiming(name) is not None
    return os.path.lexists(name)


def _local_zone() -> tzinfo:
    """Return this machine's time zone with its daylight saving rules, not only today's offset."""
    from zoneinfo import ZoneInfo

    name = os.environ.get("TZ", "").removeprefix(":")
    with suppress(OSError, ValueError):
        if name:
            return ZoneInfo(name)
        with Path("/etc/localtime").open("rb") as file:
            return ZoneInfo.from_file(file)
    return datetime.now().astimezone().tzinfo or UTC
