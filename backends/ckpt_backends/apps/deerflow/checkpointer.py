"""Finds the store of DeerFlow's checkpoints from its config.yaml.

    checkpointer: {type: memory | sqlite | postgres, connection_string, postgres_schema}
    database: {backend: memory | sqlite | postgres, sqlite_dir, postgres_url, postgres_schema}

If both sections exist, `checkpointer` counts. A relative path in `checkpointer` starts at
DeerFlow's folder; in `database` it starts at the folder in which DeerFlow runs, by default the
parent of its folder. `$NAME` is a variable of the environment or of the file `.env`.

A config.yaml that is found in a folder may be a stranger's: it names files only, and its variables
come from `.env` only. One that `DEER_FLOW_CONFIG_PATH` names may name a server and read the
environment.

Source: `runtime/checkpointer/provider.py`, `config/database_config.py`, `config/app_config.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn
from urllib.parse import quote

from ckpt_backends import shell
from ckpt_backends.apps.deerflow.declaration import FOLDER
from ckpt_backends.apps.deerflow.memory import base_of, memory_files, read, settings
from ckpt_backends.errors import CkptError, UnknownLayout, Unsupported
from ckpt_backends.memory import ThreadsOfMemory
from ckpt_backends.url import StoreUrl, parse_url

_NAME, _ENV, _PATH = "config.yaml", ".env", "DEER_FLOW_CONFIG_PATH"
_DEFAULT_DIR, _SHARED, _SINGLE = f"{FOLDER}/data", "deerflow.db", "store.db"
_USUAL = ("data/deerflow.db", "checkpoints.db", "store.db")
"""Files to look for in DeerFlow's folder if there is no config.yaml."""


class _Unknown(Exception):
    """The settings do not name the store."""


def threads_of_memory(url: StoreUrl) -> ThreadsOfMemory:
    """The checkpoint store of the DeerFlow installation with this memory. Never raises."""
    try:
        return _found(base_of(url))
    except (_Unknown, CkptError, ValueError) as error:
        hint = getattr(error, "hint", None)
        return ThreadsOfMemory(None, f"{error}; {hint}" if hint else str(error))


def _found(base: Path) -> ThreadsOfMemory:
    path = _config(base)
    if path is None:
        for name in _USUAL:
            if os.path.isfile(base / name):
                return ThreadsOfMemory(
                    _file(base / name), f"no {_NAME} found; this is the default place"
                )
        return ThreadsOfMemory(None, f"there is no {_NAME} next to '{base}'")
    try:
        sections = settings(read(path).raw.decode(), ("checkpointer", "database"))
    except ValueError as error:
        raise _Unknown(f"'{path}' is {error}") from None
    values = _Values(sections, _environment(path, base))
    found = _single(values, base) if sections.get("checkpointer") else _shared(values, base, path)
    if not _is_named() and found.url is not None and found.url.scheme != "sqlite":
        found = ThreadsOfMemory(
            None, f"{_NAME} names a server, and ckpt connects to none by itself"
        )
    return replace(found, why=f"from '{path}'" if found.url else f"{found.why} ('{path}')")


def _single(values: _Values, base: Path) -> ThreadsOfMemory:
    """From the section `checkpointer`."""
    kind, place = values.of("checkpointer", "type"), values.of("checkpointer", "connection_string")
    if kind == "sqlite":
        place = place or _SINGLE
        if place == ":memory:":
            return _IN_MEMORY
        # The second is the path as seen from the project folder.
        return ThreadsOfMemory(_first([base / place, base.parent / place]), "")
    return _server(values, "checkpointer", kind, place)


def _shared(values: _Values, base: Path, path: Path) -> ThreadsOfMemory:
    """From the section `database`; without one, a file in the default folder."""
    kind = values.of("database", "backend") or "sqlite"
    if kind == "sqlite":
        folder = values.of("database", "sqlite_dir") or _DEFAULT_DIR
        tried = [root / folder / _SHARED for root in (base.parent, path.parent)]
        there = _first(tried)
        if "database" not in values.sections and not os.path.isfile(there.path):
            # Releases without this section kept checkpoints in memory.
            return _IN_MEMORY
        return ThreadsOfMemory(there, "")
    return _server(values, "database", kind, values.of("database", "postgres_url"))


_IN_MEMORY = ThreadsOfMemory(
    None, "DeerFlow keeps checkpoints in memory only and loses them when it exits"
)


def _server(values: _Values, section: str, kind: str | None, place: str | None) -> ThreadsOfMemory:
    if kind == "memory":
        return _IN_MEMORY
    if kind != "postgres":
        raise _Unknown(f"unknown type '{kind}' in {_NAME}")
    if not place:
        raise _Unknown(f"no connection string in {_NAME}")
    url = parse_url(place.replace("postgresql+asyncpg://", "postgresql://", 1))
    schema = values.of(section, "postgres_schema")
    if schema and "schema" not in url.params:
        joined = "&" if "?" in url.raw else "?"
        url = parse_url(f"{url.raw}{joined}schema={quote(schema, safe='')}")
    return ThreadsOfMemory(url, "")


def _first(paths: list[Path]) -> StoreUrl:
    """The first file that exists; if none exists, the first path."""
    return _file(next((path for path in paths if os.path.isfile(path)), paths[0]))


def _file(path: Path) -> StoreUrl:
    return StoreUrl("sqlite", str(path), raw=str(path))


def _config(base: Path) -> Path | None:
    """The config.yaml: from the environment, next to the folder, or one level up."""
    named = os.environ.get(_PATH)
    candidates = [Path(named)] if named else [base.parent / _NAME, base.parent.parent / _NAME]
    return next((path for path in candidates if os.path.isfile(path)), None)


def _is_named() -> bool:
    return bool(os.environ.get(_PATH))


@dataclass(frozen=True, slots=True)
class _Values:
    """Settings with variables replaced."""

    sections: Mapping[str, Mapping[str, str | None]]
    environment: Mapping[str, str]

    def of(self, section: str, name: str) -> str | None:
        text = self.sections.get(section, {}).get(name)
        if text is None or not text.startswith("$"):
            return text
        variable = text[1:]
        if variable not in self.environment:
            where = "" if _is_named() else f" in {_ENV}; {_PATH} does not name {_NAME}"
            raise _Unknown(f"variable '{variable}' is not set{where}")
        return self.environment[variable]


def _environment(path: Path, base: Path) -> dict[str, str]:
    """The variables of `.env` files; with those of this process, which win, if it was named."""
    found: dict[str, str] = {}
    beside = (base.parent.parent, base.parent, path.parent)
    for folder in [path.parent] if _is_named() else dict.fromkeys(beside):
        if os.path.isfile(folder / _ENV):
            found |= dict(_variables(read(folder / _ENV).raw.decode(errors="replace")))
    return {**found, **os.environ} if _is_named() else found


def _variables(text: str) -> Iterator[tuple[str, str]]:
    """The lines `NAME=VALUE` of a `.env`, without quotes around values."""
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        value = value.strip()
        if value[:1] in {"'", '"'} and value[-1:] == value[:1] and len(value) > 1:
            value = value[1:-1]
        else:
            value = value.partition(" #")[0].rstrip()
        if equals and name.strip().isidentifier():
            yield name.strip(), value


def refuse_threads(url: StoreUrl) -> NoReturn:
    """Raises `StoreUnavailable`, or `Unsupported` with a hint at the checkpoint store."""
    # Let `memory_files` raise its error if the file or folder does not exist.
    with suppress(UnknownLayout):
        memory_files(url)
    found = threads_of_memory(url)
    if found.url is None:
        hint = f"name the store of its threads with -s; it was not found: {found.why}"
    elif found.url.scheme == "sqlite" and not os.path.isfile(found.url.path):
        hint = f"the file of its threads is not there: {shell.name(str(found.url))} ({found.why})"
    else:
        hint = f"its threads are in another store: use -s {shell.name(str(found.url))}"
    raise Unsupported(f"'{url}' holds DeerFlow's memory, not threads", hint=hint)
