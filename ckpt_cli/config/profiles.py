"""Named stores, from `ckpt.toml`, `[tool.ckpt]` of `pyproject.toml`, or the user's own folder."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from ckpt_backends import shell
from ckpt_backends.errors import UsageError
from ckpt_backends.url import VARIABLE, StoreUrl, is_almost_url, parse_url, printable_written
from ckpt_cli.config import trust
from ckpt_cli.config.machine import user_folder
from ckpt_cli.config.trust import needs_trust
from ckpt_cli.core.filters import is_alias_name

if TYPE_CHECKING:
    from ckpt_cli.core.secrets import IgnoredSecrets
    from ckpt_cli.core.usage import ModelPrice, PriceList


# The table `[stores.NAME.erase]` of a profile: where a store keeps what belongs to a person.
#
# [stores.prod.erase] subject = "metadata.user" memory = "users/{subject}" archives =
# ["/srv/backups"]


_TEXTS = ("subject", "memory")
_EXAMPLE = 'subject = "metadata.user"'


@dataclass(frozen=True, slots=True)
class EraseRules:
    """Where the threads and the memory of a person are found."""

    subject: str | None = None
    """The field of a thread that names the person, such as `metadata.user`."""
    memory: str | None = None
    """The namespace of a person in long-term memory, with `{subject}` for the person."""
    archives: tuple[str, ...] = ()
    """Folders with archives, as written."""

    def shown(self) -> Mapping[str, str]:
        """Return its keys and values, to print them."""
        found = {name: getattr(self, name) for name in _TEXTS if getattr(self, name)}
        return {**found, **({"archives": ", ".join(self.archives)} if self.archives else {})}


class NamedGraphs(NamedTuple):
    """Files that the probe of `ckpt compat` printed, as a profile names them."""

    new: str
    old: str | None


def parse_graphs(table: object, profile: str, where: str) -> NamedGraphs:
    """Return the files of a profile's table `compat`. Raises `UsageError`."""
    found = table if isinstance(table, dict) and not set(table) - {"new", "from"} else {}
    if not isinstance(found.get("new"), str) or not isinstance(found.get("from", ""), str):
        raise UsageError(
            f"compat is not a table with the keys 'new' and 'from' in {where}",
            hint=f'write [stores.{profile}.compat] and new = "new.json"',
        )
    return NamedGraphs(found["new"], found.get("from"))


def parse_erase_rules(table: object, profile: str, where: str) -> EraseRules:
    """Return the rules of a profile. Raises `UsageError`."""
    hint = f"write [stores.{profile}.erase] and {_EXAMPLE}"
    if not isinstance(table, dict) or set(table) - {*_TEXTS, "archives"}:
        raise UsageError(
            f"erase is not a table with the keys 'subject', 'memory' and 'archives' in {where}",
            hint=hint,
        )
    for name in _TEXTS:
        if not isinstance(table.get(name, ""), str):
            raise UsageError(f"erase.{name} is not text in {where}", hint=hint)
    folders = table.get("archives", [])
    if not isinstance(folders, list) or not all(isinstance(one, str) for one in folders):
        raise UsageError(f"erase.archives is not a list of folders in {where}", hint=hint)
    return EraseRules(table.get("subject"), table.get("memory"), tuple(folders))


_FILTER_EXAMPLE = '''stuck = "status = error and idle > 1h"'''


def parse_aliases(table: object, header: str, place: str) -> Mapping[str, str]:
    """Return the texts of filters by name.

    `header` is the name of the table, `place` names the file. Raises `UsageError` for another form;
    the filters themselves are read when they are used.
    """
    if not isinstance(table, dict) or not all(isinstance(one, str) for one in table.values()):
        raise UsageError(
            f"filters are not a table of texts in {place}",
            hint=f"write [{header}] and {_FILTER_EXAMPLE}",
        )
    for name in table:
        if not is_alias_name(name):
            raise UsageError(
                f"cannot name a filter '{name}' in {place}",
                hint="a name has letters, digits, - and _, and does not begin with -",
            )
    return table


# Prices of tokens, from the tables `[prices]` and `[stores.NAME.prices]`.
#
# [prices] currency = "EUR"
#
# [prices."gpt-4o*"] input = 2.5 output = 10 cache_read = 1.25


_KEYS = ("input", "output", "cache_read", "cache_creation")
_PRICE_EXAMPLE = 'write [prices."gpt-4o"] with input = 2.5 and output = 10, for a million tokens'


def parse_prices(table: object, where: str) -> PriceList:
    """Return the prices of models. Raises `UsageError` for a table in another form."""
    # Most runs need no prices.
    from ckpt_cli.core.usage import PriceList

    if not isinstance(table, dict):
        raise UsageError(f"prices are not a table in {where}", hint=_PRICE_EXAMPLE)
    currency = table.get("currency", "USD")
    if not isinstance(currency, str):
        raise UsageError(f"currency is not text in {where}", hint='write currency = "EUR"')
    models = {
        model: _price(model, prices, where)
        for model, prices in table.items()
        if model != "currency"
    }
    return PriceList(currency, models)


def _price(model: str, table: object, where: str) -> ModelPrice:
    from ckpt_cli.core.usage import ModelPrice

    if not isinstance(table, dict) or not {"input", "output"} <= table.keys():
        raise UsageError(
            f"the prices of '{model}' lack input or output in {where}", hint=_PRICE_EXAMPLE
        )
    for key, value in table.items():
        if key not in _KEYS:
            raise UsageError(
                f"unknown key '{key}' in the prices of '{model}' in {where}",
                hint=f"known: {', '.join(_KEYS)}",
            )
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or value < 0:
            raise UsageError(f"{key} of '{model}' is not a price in {where}", hint=_PRICE_EXAMPLE)
    return ModelPrice(**table)


_TOP = frozenset({"default", "stores", "filters", "prices"})
"""Keys of the file."""
_DEEP = re.compile(
    rb"""(?:^|[\[{,])[ \t]*+"""
    rb"""(?:(?:[\w-]++|"(?:[^"\\\n]++|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){32}""",
    re.ASCII | re.MULTILINE,
)
"""A key with more than 32 parts. `tomllib` needs time and memory quadratic in their number."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One named store."""

    name: str
    url: str
    """As written: `${NAME}` is not replaced yet, so it can be printed safely."""
    params: Mapping[str, str]
    """Parameters added to the URL's query."""
    reducers: Mapping[str, str] = field(default_factory=dict)
    """Maps a channel to the reducer that its graph uses."""
    retention: str | None = None
    """How long threads are kept after their last activity, such as `90d`."""
    audit: str | None = None
    """The file to which every change is appended."""
    threads: str | None = None
    """The store of the threads that this memory came from: a file, a URL or a profile."""
    memory: str | None = None
    """The store of the long-term memory of these threads."""
    ignored_codes: frozenset[str] = frozenset()
    """The codes of findings that `ckpt doctor` leaves out."""
    ignored_secrets: Sequence[IgnoredSecrets] = ()
    """What `ckpt secrets` leaves out."""
    erase_rules: EraseRules | None = None
    """Where `ckpt erase` finds what belongs to a person."""
    filters: Mapping[str, str] = field(default_factory=dict)
    """The aliases of filters for this store; they win over those of the file."""
    prices: PriceList | None = None
    """What the tokens of models cost; it wins over the prices of the file."""
    library: str = ""
    """The release of LangGraph whose state is wanted; empty for the newest."""
    user: str | None = None
    """Where the users of threads are named, such as `metadata.user_id`."""
    graphs: NamedGraphs | None = None
    """Which graph is to be deployed."""


@dataclass(frozen=True, slots=True)
class Profiles:
    """All named stores of one configuration file."""

    source: Path | None
    default: str | None
    stores: Mapping[str, Profile]
    distrust: str | None = None
    """Why the file is not trusted: then its profiles may only open local stores beside it."""
    filters: Mapping[str, str] = field(default_factory=dict)
    """The aliases of filters for all stores."""
    prices: PriceList | None = None
    """What the tokens of models cost."""


def load_profiles(chosen: str | None, folder: Path) -> Profiles:
    """Return the profiles of the file `chosen`, or of the nearest one from `folder` upwards.

    Raises `UsageError` if a file is missing or unreadable, contains an unknown key, or is not
    `chosen` and could have been written by another user.
    """
    if chosen is not None:
        contents = trust.read(Path(chosen), only_regular=False)
        return parse(contents.path, table_of(contents))
    found = discover(folder)
    if found is None:
        return Profiles(None, None, {})
    contents, table = found
    contents.check_owner()
    own = trust.where_it_lies(contents.path) in map(trust.where_it_lies, _own())
    return parse(contents.path, table, None if own else trust.distrust(contents))


def discover(folder: Path) -> tuple[trust.Contents, object] | None:
    """Return the nearest configuration file from `folder` upwards, and its table.

    Raises `UsageError` if it cannot be read. A `pyproject.toml` counts only if it has a table.
    """
    beside = ((one / "ckpt.toml", one / "pyproject.toml") for one in (folder, *folder.parents))
    for path in (*chain.from_iterable(beside), *_own()):
        # A folder that may not be read has no file for us.
        if not os.path.lexists(path) or os.path.isdir(path):
            continue
        try:
            contents = trust.read(path)
            table = table_of(contents)
        except UsageError:
            if path.name != "pyproject.toml":
                raise
            continue
        if table is not None:
            return contents, table
    return None


def table_of(contents: trust.Contents) -> object:
    """Return the table of a configuration; None for a pyproject.toml without `[tool.ckpt]`.

    Raises `UsageError` if the file is not TOML.
    """
    import tomllib

    if _DEEP.search(contents.data):
        raise UsageError(f"cannot read '{contents.path}': a key has more than 32 parts")
    try:
        table = tomllib.loads(contents.data.decode())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"cannot read '{contents.path}': {error}") from error
    if contents.path.name != "pyproject.toml":
        return table
    tool = table.get("tool")
    return tool.get("ckpt") if isinstance(tool, dict) else None


def _own() -> Iterator[Path]:
    folder = user_folder("XDG_CONFIG_HOME", "~/.config")
    if folder is not None:
        yield folder / "ckpt" / "ckpt.toml"


def store_of(
    profiles: Profiles, what: str, written: str, params: Mapping[str, str] = MappingProxyType({})
) -> StoreUrl:
    """Return a store that a configuration names, with `${NAME}` replaced.

    Raises `UsageError` if a variable is not set, or if this needs a trusted file.
    """
    if profiles.distrust is not None and profiles.source is not None:
        place = beside(profiles.source, written)
        need = needs_trust(place, params, profiles.source.parent)
        if need is not None:
            raise refusal(profiles, what, need)
    names = VARIABLE.findall(" ".join((written, *params.values())))
    place = beside(profiles.source, expand_url(written, os.environ))
    try:
        url = parse_url(place)
    except UsageError as error:
        if names:
            error.message = f"cannot parse the URL '{printable_written(written, place)}'"
        raise
    return replace(
        url,
        params={**url.params, **{key: expand(text, os.environ) for key, text in params.items()}},
        written=written if names else "",
        variables={name: os.environ[name] for name in names},
    )


def refusal(profiles: Profiles, what: str, need: str) -> UsageError:
    """Return the error for something that needs a trusted file."""
    return UsageError(
        f"cannot use {what}: '{profiles.source}' {profiles.distrust} and {need}",
        hint=f"read the file, then run `ckpt trust {shell.word(str(profiles.source))}`",
    )


def expand(text: str, environment: Mapping[str, str]) -> str:
    """Replace each `${NAME}` in a text. Raises `UsageError` for a variable that is not set."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in environment:
            raise UsageError(
                f"environment variable '{name}' is not set, but the profile uses it",
                hint=f"export {name}=VALUE",
            )
        return environment[name]

    return VARIABLE.sub(value, text)


def expand_url(text: str, environment: Mapping[str, str]) -> str:
    """Replace each `${NAME}` in a URL; values in its user or password are percent-encoded.

    Raises `UsageError` for a variable that is not set.
    """
    scheme, separator, rest = text.partition("://")
    user, at, place = rest.rpartition("@")
    if not at:
        return expand(text, environment)
    quoted = {
        name: quote(value, safe="", errors="surrogateescape") for name, value in environment.items()
    }
    return (
        expand(scheme, environment)
        + separator
        + expand(user, quoted)
        + at
        + expand(place, environment)
    )


def beside(source: Path | None, url: str) -> str:
    """Return a profile's URL; a relative path is relative to the folder of the configuration
    file.
    """
    if source is None or "://" in url or os.path.isabs(url) or is_almost_url(url):
        return url
    return str(source.parent / url)


def parse(path: Path, table: object, distrust: str | None = None) -> Profiles:
    """Return the profiles of a table. Raises `UsageError` if it has an unknown or wrong key."""
    if not isinstance(table, dict):
        raise UsageError(f"cannot read '{path}': [tool.ckpt] is not a table")
    for key in sorted(set(table) - _TOP):
        hint = _did_you_mean(key, _TOP)
        if (own := _closest(key, _OWN - _TOP)) is not None:
            hint = f"did you mean '{own}'? it belongs in a table [stores.NAME]"
        raise UsageError(f"unknown key '{key}' in '{path}'", hint=hint)
    stores = table.get("stores", {})
    default = table.get("default")
    if not isinstance(stores, dict) or not (default is None or isinstance(default, str)):
        raise UsageError(
            f"cannot read '{path}': default is not text, or stores is not a table",
            hint='write default = "NAME" and a table [stores.NAME] for each store',
        )
    found = {name: _profile(path, name, it) for name, it in stores.items()}
    filters = parse_aliases(table.get("filters", {}), "filters", f"'{path}'")
    prices = parse_prices(table["prices"], f"'{path}'") if "prices" in table else None
    return Profiles(path, default, found, distrust, filters, prices)


def _profile(path: Path, name: str, table: object) -> Profile:
    where = f"profile '{name}' in '{path}'"
    if not name or "/" in name or "." in name:
        raise UsageError(
            f"cannot use {where}: the name is empty or contains '/' or '.'",
            hint="rename the profile: a name with '/' or '.' is a file or a URL",
        )
    if not isinstance(table, dict) or not isinstance(table.get("url"), str):
        raise UsageError(f"{where} has no url", hint=f'write [stores.{name}] and url = "agent.db"')
    params = {key: value for key, value in table.items() if key not in _OWN}
    for key, value in params.items():
        if isinstance(value, dict | list) or _closest(key, _OWN) is not None:
            raise UsageError(f"unknown key '{key}' in {where}", hint=_did_you_mean(key, _OWN))
    read = {
        field: parse(table[key], name, where)
        for key, (field, parse) in _READERS.items()
        if key in table
    }
    if _USER.match(params.get("user", "")):
        read["user"] = params.pop("user")
    params = {
        key: str(one).lower() if isinstance(one, bool) else str(one) for key, one in params.items()
    }
    return Profile(name, table["url"], params, **read)


def _text(key: str, example: str) -> tuple[str, Callable[[Any, str, str], str]]:
    """Return how a key with a text is read."""

    def parse(value: object, _: str, where: str) -> str:
        if not isinstance(value, str):
            raise UsageError(f"{key} is not text in {where}", hint=f"write {key} = {example}")
        return value

    return key, parse


def _library(value: object, profile: str, where: str) -> str:
    """Return the release of LangGraph. Raises `UsageError` for any other text."""
    release = _text("library", '"1.2.22"')[1](value, profile, where)
    if not release:
        return ""
    from ckpt_cli.core.reducers import known_release

    try:
        return known_release(release)
    except UsageError as error:
        raise UsageError(f"{error.message} in {where}", hint=error.hint) from None


def _reducers(table: object, profile: str, where: str) -> Mapping[str, str]:
    """Return channel to reducer. Raises `UsageError` for a reducer that is not built in."""
    if not isinstance(table, dict) or not all(isinstance(one, str) for one in table.values()):
        raise UsageError(
            f"reducers are not a table of names in {where}",
            hint=f'write [stores.{profile}.reducers] and messages = "add_messages"',
        )
    if table:
        from ckpt_cli.core.reducers import CUSTOM, REDUCERS

        known = [*REDUCERS, CUSTOM]
        for channel, name in table.items():
            if name not in known:
                raise UsageError(
                    f"unknown reducer '{name}' for channel '{channel}' in {where}",
                    hint=_did_you_mean(name, known),
                )
    return table


def _ignored_codes(table: object, profile: str, where: str) -> frozenset[str]:
    """Return the codes that `ckpt doctor` leaves out. Raises `UsageError` for an unknown one."""
    codes = _ignore(profile, where, "doctor", "codes", "log-large", table)
    if codes:
        from ckpt_cli.core.doctor.findings import CODES

        for code in codes:
            if code not in CODES:
                raise UsageError(
                    f"unknown code '{code}' in {where}", hint=_did_you_mean(code, CODES)
                )
    return frozenset(codes)


def _ignored_secrets(table: object, profile: str, where: str) -> Sequence[IgnoredSecrets]:
    """Return what `ckpt secrets` leaves out. Raises `UsageError` for what cannot be read."""
    entries = _ignore(profile, where, "secrets", "kinds and places", "jwt", table)
    if not entries:
        return ()
    from ckpt_cli.core.secrets import parse_ignored

    try:
        return parse_ignored(entries)
    except UsageError as error:
        raise UsageError(f"{error.message} in {where}", hint=error.hint) from None


def _ignore(
    profile: str, where: str, command: str, what: str, example: str, table: object
) -> list[str]:
    """Return the list `ignore` of a command's table in a profile. Raises `UsageError`."""
    hint = f'write [stores.{profile}.{command}] and ignore = ["{example}"]'
    if not isinstance(table, dict) or set(table) - {"ignore"}:
        raise UsageError(f"{command} is not a table with the key 'ignore' in {where}", hint=hint)
    found = table.get("ignore", [])
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise UsageError(f"{command}.ignore is not a list of {what} in {where}", hint=hint)
    return found


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    close = _closest(word, known)
    return f"known: {', '.join(sorted(known))}" if close is None else f"did you mean '{close}'?"


def _closest(word: str, known: Iterable[str]) -> str | None:
    return next(iter(get_close_matches(word, known, n=1, cutoff=0.75)), None)


_READERS: Mapping[str, tuple[str, Callable[[Any, str, str], Any]]] = {
    "retention": _text("retention", '"90d"'),
    "audit": _text("audit", '"/var/log/ckpt.ndjson"'),
    "threads": _text("threads", '"agent.db"'),
    "memory": _text("memory", '"memory.db"'),
    "library": ("library", _library),
    "reducers": ("reducers", _reducers),
    "doctor": ("ignored_codes", _ignored_codes),
    "secrets": ("ignored_secrets", _ignored_secrets),
    "erase": ("erase_rules", parse_erase_rules),
    "compat": ("graphs", parse_graphs),
    "filters": ("filters", lambda it, name, at: parse_aliases(it, f"stores.{name}.filters", at)),
    "prices": ("prices", lambda table, _, where: parse_prices(table, where)),
}
"""The keys of a profile beside its URL: the field of each, and what reads it, given the value, the
profile, and where it is. Any other key is a parameter of the URL, which the backend accepts or
rejects.
"""
_OWN = frozenset({"url", *_READERS})
_USER = re.compile(r"(?:metadata|values)\.")
"""Where threads name their user; any other `user` is a parameter of the URL, for drivers."""
