"""Named stores, from `ckpt.toml`, `[tool.ckpt]` of `pyproject.toml`, or the user's config folder.

    default = "prod"

    [stores.prod]
    url = "postgresql://reader:${PGPASSWORD}@db/agents"
    retention = "90d"

    [stores.prod.reducers]
    notes = "append"

The nearest file wins: this folder and those above it, then `$XDG_CONFIG_HOME/ckpt/ckpt.toml`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from ckpt_backends.errors import UsageError
from ckpt_backends.url import is_almost_url

_TOP = frozenset({"default", "stores"})
"""Keys of the file."""
_OWN = frozenset({"url", "reducers", "retention", "threads", "memory"})
"""Keys of a profile. Any other key is a parameter of its URL, which the backend accepts or
rejects.
"""
_EXAMPLES = {
    "retention": 'retention = "90d"',
    "threads": 'threads = "agent.db"',
    "memory": 'memory = "memory.db"',
}
_VARIABLE = re.compile(r"\$\{(\w+)\}")


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
    threads: str | None = None
    """The store of the threads that this memory came from: a file, a URL or a profile."""
    memory: str | None = None
    """The store of the long-term memory of these threads."""


@dataclass(frozen=True, slots=True)
class Profiles:
    """All named stores of one configuration file."""

    source: Path | None
    default: str | None
    stores: Mapping[str, Profile]


def load_profiles(chosen: str | None, folder: Path) -> Profiles:
    """Return the profiles of the file `chosen`, or of the nearest one from `folder` upwards.

    Raises `UsageError` if a file is missing or unreadable, or contains an unknown key.
    """
    if chosen is not None:
        return _parse(Path(chosen), _read(Path(chosen)))
    for path in _candidates(folder):
        # Unlike Path.is_file, this returns False for a folder that may not be read.
        if not os.path.isfile(path):
            continue
        if path.name != "pyproject.toml":
            return _parse(path, _read(path))
        table = _of_project(path)
        if table is not None:
            return _parse(path, table)
    return Profiles(None, None, {})


def _of_project(path: Path) -> object:
    """Return `[tool.ckpt]` of a pyproject.toml; None if it has none or cannot be read."""
    try:
        tool = _read(path).get("tool")
    except UsageError:
        return None
    return tool.get("ckpt") if isinstance(tool, dict) else None


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

    return _VARIABLE.sub(value, text)


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


def _candidates(folder: Path) -> Iterator[Path]:
    for place in (folder, *folder.parents):
        yield place / "ckpt.toml"
        yield place / "pyproject.toml"
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path("~/.config").expanduser())
    yield Path(home) / "ckpt" / "ckpt.toml"


def _read(path: Path) -> dict[str, object]:
    import tomllib

    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise UsageError(f"cannot read '{path}': no such file") from None
    except OSError as error:
        raise UsageError(f"cannot read '{path}': {(error.strerror or '').lower()}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read '{path}': {error}") from error


def _parse(path: Path, table: object) -> Profiles:
    if not isinstance(table, dict):
        raise UsageError(f"cannot read '{path}': [tool.ckpt] is not a table")
    for key in sorted(set(table) - _TOP):
        hint = _did_you_mean(key, _TOP)
        if (own := _closest(key, _OWN)) is not None:
            hint = f"did you mean '{own}'? it belongs in a table [stores.NAME]"
        raise UsageError(f"unknown key '{key}' in '{path}'", hint=hint)
    stores = table.get("stores", {})
    default = table.get("default")
    if not isinstance(stores, dict) or not (default is None or isinstance(default, str)):
        raise UsageError(
            f"cannot read '{path}': default is not text, or stores is not a table",
            hint='write default = "NAME" and a table [stores.NAME] for each store',
        )
    return Profiles(path, default, {name: _profile(path, name, it) for name, it in stores.items()})


def _profile(path: Path, name: str, table: object) -> Profile:
    where = f"profile '{name}' in '{path}'"
    if not isinstance(table, dict) or not isinstance(table.get("url"), str):
        raise UsageError(f"{where} has no url", hint=f'write [stores.{name}] and url = "agent.db"')
    params = {key: value for key, value in table.items() if key not in _OWN}
    for key, value in params.items():
        if isinstance(value, dict | list) or _closest(key, _OWN) is not None:
            raise UsageError(f"unknown key '{key}' in {where}", hint=_did_you_mean(key, _OWN))
    for key in ("retention", "threads", "memory"):
        if not isinstance(table.get(key, ""), str):
            raise UsageError(f"{key} is not text in {where}", hint=f"write {_EXAMPLES[key]}")
    return Profile(
        name,
        table["url"],
        {key: _param(value) for key, value in params.items()},
        _reducers(name, where, table.get("reducers", {})),
        table.get("retention"),
        table.get("threads"),
        table.get("memory"),
    )


def _param(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _reducers(profile: str, where: str, table: object) -> Mapping[str, str]:
    """Return channel to reducer. Raises `UsageError` for a reducer that is not built in."""
    if not isinstance(table, dict) or not all(isinstance(one, str) for one in table.values()):
        raise UsageError(
            f"reducers are not a table of names in {where}",
            hint=f'write [stores.{profile}.reducers] and messages = "add_messages"',
        )
    if table:
        from ckpt_cli.core.merging import CUSTOM, REDUCERS

        known = [*REDUCERS, CUSTOM]
        for channel, name in table.items():
            if name not in known:
                raise UsageError(
                    f"unknown reducer '{name}' for channel '{channel}' in {where}",
                    hint=_did_you_mean(name, known),
                )
    return table


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    close = _closest(word, known)
    return f"known: {', '.join(sorted(known))}" if close is None else f"did you mean '{close}'?"


def _closest(word: str, known: Iterable[str]) -> str | None:
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, known, n=1, cutoff=0.75)), None)
