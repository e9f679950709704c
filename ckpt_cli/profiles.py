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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from ckpt_backends.errors import UsageError
from ckpt_backends.url import is_almost_url

_OWN = frozenset({"url", "reducers", "retention", "threads", "memory"})
"""Keys of a profile that are not for its layout."""
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Profile:
    """One named store."""

    name: str
    url: str
    """As written: `${NAME}` is not yet replaced, so it can be printed redacted."""
    params: Mapping[str, str]
    """What the layout needs to be told; joined to the URL's query."""
    reducers: Mapping[str, str] = field(default_factory=dict)
    """Channel to the reducer that its graph has."""
    retention: str | None = None
    """How long threads are kept after their last activity, such as `90d`."""
    threads: str | None = None
    """The store of the threads that this memory came from: a file, URL or profile."""
    memory: str | None = None
    """The store of what is remembered of these threads."""


@dataclass(frozen=True, slots=True)
class Profiles:
    """All named stores of one configuration file."""

    source: Path | None
    default: str | None
    stores: Mapping[str, Profile]


def load_profiles(chosen: str | None, folder: Path) -> Profiles:
    """The profiles of the file `chosen`, or of the nearest one from `folder` upwards.

    Raises `UsageError` for a file that is missing, unreadable or of a wrong shape.
    """
    if chosen is not None:
        return _parse(Path(chosen), _read(Path(chosen)))
    for path in _candidates(folder):
        # Unlike Path.is_file, this is False also where the folder may not be read.
        if not os.path.isfile(path):
            continue
        if path.name != "pyproject.toml":
            return _parse(path, _read(path))
        table = _of_project(path)
        if table is not None:
            return _parse(path, table)
    return Profiles(None, None, {})


def _of_project(path: Path) -> object:
    """`[tool.ckpt]` of a project's own file; None where it has none or cannot be read."""
    try:
        tool = _read(path).get("tool")
    except UsageError:
        return None
    return tool.get("ckpt") if isinstance(tool, dict) else None


def expand(text: str, environment: Mapping[str, str]) -> str:
    """Replace each `${NAME}`. Raises `UsageError` for a variable that is not set."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in environment:
            raise UsageError(
                f"the profile needs the environment variable '{name}'",
                hint=f"set it: export {name}=...",
            )
        return environment[name]

    return _VARIABLE.sub(value, text)


def expand_url(text: str, environment: Mapping[str, str]) -> str:
    """The same for a URL: what lands in its user or password is quoted, whatever it holds."""
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
    """A profile's URL; a relative path in it is meant from the folder of its file."""
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
        raise UsageError(f"'{path}': ckpt's settings are not a table")
    unknown = sorted(set(table) - {"default", "stores"})
    if unknown:
        hint = "known are default and [stores.NAME]"
        raise UsageError(f"'{path}': unknown setting '{unknown[0]}'", hint=hint)
    stores = table.get("stores", {})
    default = table.get("default")
    if not isinstance(stores, dict) or not (default is None or isinstance(default, str)):
        raise UsageError(f"'{path}': expected [stores.NAME] tables and default = \"NAME\"")
    return Profiles(path, default, {name: _profile(path, name, it) for name, it in stores.items()})


def _param(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _profile(path: Path, name: str, table: object) -> Profile:
    if not isinstance(table, dict) or not isinstance(table.get("url"), str):
        raise UsageError(
            f"'{path}': profile '{name}' has no url",
            hint=f'write [stores.{name}] and url = "agent.db"',
        )
    reducers = table.get("reducers", {})
    if not isinstance(reducers, dict) or not all(isinstance(one, str) for one in reducers.values()):
        raise UsageError(
            f"'{path}': the reducers of profile '{name}' are not names",
            hint=f'write [stores.{name}.reducers] and messages = "add_messages"',
        )
    retention = table.get("retention")
    if not (retention is None or isinstance(retention, str)):
        raise UsageError(
            f"'{path}': the retention of profile '{name}' is no length of time",
            hint='write retention = "90d"',
        )
    others = {other: table.get(other) for other in ("threads", "memory")}
    for other, value in others.items():
        if not (value is None or isinstance(value, str)):
            raise UsageError(
                f"'{path}': what profile '{name}' names as {other} is no store",
                hint=f'write {other} = "FILE, URL or profile"',
            )
    params = {k: _param(value) for k, value in table.items() if k not in _OWN}
    return Profile(name, table["url"], params, reducers, retention, **others)
