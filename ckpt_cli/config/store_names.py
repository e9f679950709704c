"""Which store a name means: a profile, a file or a URL, with the options of a run."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ckpt_backends import shell
from ckpt_backends.declaration import backend_claiming, backend_of, bundled, known_backends
from ckpt_backends.errors import UsageError
from ckpt_backends.url import StoreUrl, parse_url, printable, without_values

if TYPE_CHECKING:
    from ckpt_cli.config.found import StoreHere
    from ckpt_cli.config.profiles import EraseRules, NamedGraphs, Profile, Profiles
    from ckpt_cli.core.filters import FilterAlias
    from ckpt_cli.core.secrets import IgnoredSecrets
    from ckpt_cli.core.usage import PriceList
    from ckpt_cli.core.users import UserKey

COPY = "copy"
"""The URL parameter that stands for --copy, in the declarations of backends that can do that."""

_COMMAND = r"`ckpt ([a-z]+ [^`]*)`"
"""A command to paste. One of a single word is only named."""
_TO_FILL_IN = r"(?<![\w-])(?:THREAD|REF|OP|FILE|STORE|NEW|URL|DIR|KEY|PATTERN|FILTER|NODE)(?![\w-])"
_WITHOUT_STORE = frozenset({"trust", "completion", "demo", "stores"})


class StoreNames:
    """Finds the URL of the stores that a run names."""

    def __init__(
        self, settings: Mapping[str, Any], tell: Callable[[str], None] | None = None
    ) -> None:
        """If no store is named, the one of this folder is used and told; without `tell`,
        none.
        """
        self._settings = settings
        """The global options, as far as they were parsed."""
        self._tell = tell
        self._disregarded: set[str] = set()
        """What was told that an untrusted file cannot do."""
        self._found: StoreHere | None = None
        self.must_be_named = False
        """Whether this run changes the store, so that it must not be one that was only found."""
        self._urls: list[StoreUrl] = []
        """The stores that were named, perhaps with values from the environment."""

    @cached_property
    def profiles(self) -> Profiles:
        """The named stores of the nearest configuration file."""
        from ckpt_cli.config.profiles import load_profiles

        return load_profiles(self._settings.get("config"), Path.cwd())

    @property
    def store_name(self) -> str | None:
        """The store named by `-s`, or else by `CKPT_STORE`."""
        name = self._settings.get("store") or os.environ.get("CKPT_STORE")
        return str(name) if name else None

    @property
    def words(self) -> list[str]:
        """The options that name the store again in a command to paste, without a password."""
        name, config = self._settings.get("store"), self._settings.get("config")
        if self._found is not None:
            return list(self._found.words)
        if name is None:
            return []
        # The name may be that of a profile.
        return [*(["--config", config] if config else []), "-s", printable(name)]

    def with_store(self, text: str) -> str:
        """Return a text whose commands to paste name the store of this run, if it was named.

        What has a word to fill in, such as THREAD, is no command to paste.
        """
        if not (words := self.words):
            return text

        def named(found: re.Match[str]) -> str:
            name, *options = found[1].partition(" -- ")[0].split(" ")
            reads_none = name in _WITHOUT_STORE or "--help" in options
            if reads_none or re.search(_TO_FILL_IN, found[1]):
                return found[0]
            return f"`{shell.command('ckpt', *words)} {found[1]}`"

        return re.sub(_COMMAND, named, text)

    @property
    def label(self) -> str:
        """What the store of this run is called, without a password: a profile, a file or a URL."""
        name = self.store_name or self.profiles.default
        return printable(self.store_url.raw if name is None else name)

    @cached_property
    def store_url(self) -> StoreUrl:
        """URL of the store of this run. Raises `UsageError` if none is named."""
        if "config" in self._settings:
            _ = self.profiles  # a file that cannot be read is an error even if -s names a URL
        if self.store_name is not None:
            url = self.url_of(self.store_name)
        elif self.profiles.default is not None:
            url = self._named_by_profiles("default", self.profiles.default)
        else:
            url = self._copied(self._url_here())
        if self._settings.get("copy") and COPY not in url.params:
            from ckpt_backends.registry import titles

            copied = titles(one for one in known_backends() if one.layouts and COPY in one.params)
            raise UsageError(
                f"--copy reads {copied} files only, not {url.scheme}:// stores",
                hint="run the same command without --copy",
            )
        return url

    def _url_here(self) -> StoreUrl:
        """Return the only store of this folder. Raises `UsageError` if there is not exactly one."""
        if self._tell is not None:
            from ckpt_cli.config.found import only_store

            self._found = only_store(Path.cwd())
            if self._found is not None:
                self.check_named()
                self._tell(f"using {self._found.what}")
                return self._found.url
        raise UsageError(
            "no store given",
            hint="use -s FILE or set CKPT_STORE; `ckpt stores` lists the stores found here,"
            " `ckpt demo sample.db` writes a sample store",
        )

    def check_named(self) -> None:
        """Raise `UsageError` if the store was only found, and this run changes it."""
        if self._found is None or not self.must_be_named:
            return
        words = shell.command("ckpt", *self._found.words) if self._found.words else "-s URL"
        raise UsageError(
            "no store given: what changes a store needs its name",
            hint=f"found {self._found.what}; use `{words}`",
        )

    @property
    def named_by(self) -> str | None:
        """What named the store, for an error; None if the caller did, or if it was found here."""
        if "store" in self._settings:
            return None
        if os.environ.get("CKPT_STORE"):
            return "CKPT_STORE"
        if self._found is not None:
            return None
        return str(self.profiles.source)

    @property
    def reducers(self) -> Mapping[str, str]:
        """Maps a channel to its reducer, from the profile of this run's store and `--reducer`.

        Of an untrusted file, none may exempt a channel from being verified.
        """
        found: Mapping[str, str] = self._own("reducers", {})
        if found:
            from ckpt_cli.core.reducers import CUSTOM

            if CUSTOM in found.values() and self._may_not_silence(f"reducers '{CUSTOM}'"):
                found = {channel: name for channel, name in found.items() if name != CUSTOM}
        return {**found, **self.told_reducers}

    @property
    def told_reducers(self) -> Mapping[str, str]:
        """Maps a channel to its reducer, from `--reducer` alone. Raises `UsageError`."""
        told = self._settings.get("reducer")
        if not told:
            return {}
        from ckpt_cli.core.reducers import named_reducers

        return named_reducers(told)

    @property
    def user_key(self) -> UserKey | None:
        """Where the users of threads are named, from `--user-key` or the profile of this store.

        Raises `UsageError`.
        """
        told, profile = self._settings.get("user_key"), self._own("user", None)
        if told is None and (profile is None or self._may_not_silence("user")):
            return None
        from ckpt_cli.core.users import parse_user_key  # late: most stores have none

        if told is not None:
            return parse_user_key(told, "told with --user-key")
        return parse_user_key(profile, "told in the configuration")

    @property
    def graphs(self) -> tuple[Path, Path | None] | None:
        """The descriptions of the graph that is to be deployed and of the one that is, from
        `--compat` or the profile of this store; None if nothing tells.
        """
        new, old = self._settings.get("compat"), self._settings.get("compat_from")
        if new is not None:
            return Path(new), None if old is None else Path(old)
        found: NamedGraphs | None = self._own("graphs", None)
        if found is None or self._may_not_silence("compat"):
            return None
        folder = Path() if self.profiles.source is None else self.profiles.source.parent
        return folder / found.new, None if found.old is None else folder / found.old

    @property
    def library(self) -> str:
        """The release of LangGraph whose state is wanted, from `--library` or the profile of this
        run's store; empty for the newest. Raises `UsageError` for what is no release.
        """
        told = self._settings.get("library")
        if told is None:
            return str(self._own("library", ""))
        from ckpt_cli.core.reducers import known_release

        return known_release(str(told))

    @property
    def ignored_codes(self) -> frozenset[str]:
        """The codes of findings that the profile of this run's store silences."""
        found: frozenset[str] = self._own("ignored_codes", frozenset())
        return frozenset() if found and self._may_not_silence("doctor.ignore") else found

    @property
    def ignored_secrets(self) -> Sequence[IgnoredSecrets]:
        """The credentials that the profile of this run's store leaves out."""
        found: Sequence[IgnoredSecrets] = self._own("ignored_secrets", ())
        return () if found and self._may_not_silence("secrets.ignore") else found

    def _may_not_silence(self, what: str) -> bool:
        """Return whether the file is untrusted, so that it cannot switch findings off; say so."""
        if self.profiles.distrust is None:
            return False
        if what not in self._disregarded:
            self._disregarded.add(what)
            if self._tell is not None:
                self._tell(f"'{self.profiles.source}' {self.profiles.distrust}: ignoring {what}")
        return True

    def _own(self, name: str, otherwise: Any = None, *, sets: str | None = None) -> Any:
        """Return what the profile of this run's store has for a field.

        Raises `UsageError` for a key that it `sets` if its file is not trusted.
        """
        profile = self.profile
        found = None if profile is None else getattr(profile, name)
        if profile is None or found is None:
            return otherwise
        if sets is not None and self.profiles.distrust is not None:
            from ckpt_cli.config.profiles import refusal

            raise refusal(self.profiles, f"profile '{profile.name}'", f"sets '{sets}'")
        return found

    @property
    def retention(self) -> str | None:
        """How long threads are kept, from the profile of this run's store.

        Raises `UsageError` if its file is not trusted.
        """
        found: str | None = self._own("retention", sets="retention")
        return found

    @property
    def erase_rules(self) -> EraseRules | None:
        """Where to find what belongs to a person, from the profile of this run's store.

        Folders are relative to its file. Raises `UsageError` if the file is not trusted.
        """
        rules: EraseRules | None = self._own("erase_rules", sets="erase")
        if rules is None:
            return None
        from ckpt_cli.config.profiles import beside

        folders = (beside(self.profiles.source, one) for one in rules.archives)
        return replace(rules, archives=tuple(folders))

    @property
    def prices(self) -> PriceList:
        """What the tokens of models cost, from the profile of this run's store, or its file.

        Prices only compute, so the file need not be trusted.
        """
        from ckpt_cli.core.usage import PriceList

        return self._own("prices") or self.profiles.prices or PriceList()

    @property
    def filters(self) -> Mapping[str, str]:
        """The aliases of filters, from the file and from the profile of this run's store."""
        return {**self.profiles.filters, **self._own("filters", {})}

    def filter_alias(self, name: str, *, acts: bool) -> FilterAlias:
        """Return the filter with a name; `acts` is true if a change depends on it.

        Raises `UsageError` if there is none, or if its file must be trusted first.
        """
        from ckpt_cli.config.profiles import refusal
        from ckpt_cli.core.filters import FilterAlias, no_alias

        known = self.filters
        if name not in known:
            if not known:
                return no_alias(name)
            names = ", ".join(f"@{one}" for one in known)
            raise UsageError(f"no filter '@{name}'", hint=f"use {names}")
        if acts and self.profiles.distrust is not None:
            raise refusal(self.profiles, f"'@{name}' for a change", "defines it")
        return FilterAlias(known[name], str(self.profiles.source))

    @property
    def audit(self) -> Path | None:
        """The file to which changes are appended, from `--audit` or the profile of the store.

        Raises `UsageError` if the profile's file is not trusted.
        """
        chosen = self._settings.get("audit")
        if chosen is not None:
            return Path(chosen)
        found = self._own("audit", sets="audit")
        if found is None:
            return None
        source = self.profiles.source
        return Path(found) if source is None else source.parent / found

    def other_store(
        self, what: Literal["threads", "memory"], chosen: str | None = None
    ) -> StoreUrl | None:
        """Return the store of threads or of memory: the chosen one, or else the one in the
        profile.
        """
        if chosen is not None:
            return self.url_of(chosen)
        profile = self.profile
        name = None if profile is None else getattr(profile, what)
        if profile is None or name is None:
            return None
        return self._named_by_profiles(f"{what} of profile '{profile.name}'", name)

    @property
    def profile(self) -> Profile | None:
        """The profile of this run's store; None if a file or URL was named."""
        if self.store_name is not None:
            return self._profile_of(self.store_name)
        default = self.profiles.default
        return None if default is None else self.profiles.stores.get(default)

    def url_of(self, name: str) -> StoreUrl:
        """Return the URL for a file, a store URL or a profile that a person named.

        Raises `UsageError` if the name is both a profile and a file.
        """
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

        A name with a slash or a dot is never a profile: `agent.db` is found without reading a
        configuration. Raises `UsageError` if the name is a file, too.
        """
        if "/" in name or "." in name:
            return None
        is_file = _is_store_file(name)
        try:
            profile = self.profiles.stores.get(name)
        except UsageError:
            if is_file and "config" not in self._settings:
                return None  # a file needs no profile
            raise
        if profile is not None and is_file:
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
        if not self._settings.get("copy"):
            return url
        backend = backend_of(url.scheme)
        if backend is None or COPY not in backend.params:
            return url
        return replace(url, params={**url.params, COPY: "1"})

    def meant(self) -> str | None:
        """Return a hint if the store's name looks like a mistyped profile."""
        try:
            name = self.store_name or self.profiles.default
            if name is None or name in self.profiles.stores:
                return None
        except UsageError:
            return None
        close = get_close_matches(name, self.profiles.stores, n=1)
        return f"did you mean the profile '{close[0]}'?" if close else None

    def without_values(self, text: str) -> str:
        """Return a message without the values that profiles took from the environment."""
        for url in self._urls:
            text = without_values(text, url)
        return text


class MemoryPlace(NamedTuple):
    """A memory that may belong to the threads of a store."""

    url: StoreUrl
    named: bool
    """Whether the user named it; otherwise it was found in the same folder."""


def memory_place(threads: StoreUrl, chosen: StoreUrl | None) -> MemoryPlace | None:
    """Return the chosen memory, or the one of an application that keeps it near the threads.

    Returns None if there is none. Opens no file.
    """
    if chosen is not None:
        return MemoryPlace(chosen, named=True)
    own = backend_of(threads.scheme)
    if own is None or not own.is_local:
        return None
    is_bundled = any(one is own for one in bundled())
    for backend in bundled() if is_bundled else known_backends():
        found = None if backend.memory_near is None else backend.memory_near(threads.path)
        if found is not None:
            return MemoryPlace(StoreUrl(backend.schemes[0], found, raw=found), named=False)
    return None


def _is_store_file(name: str) -> bool:
    """Whether a name in this folder may be a store: anything but a folder that contains none."""
    if os.path.isdir(name):
        return backend_claiming(name) is not None
    return os.path.lexists(name)
