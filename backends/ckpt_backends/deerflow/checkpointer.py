"""Which store DeerFlow keeps its checkpoints in, as its own config.yaml says.

    checkpointer: {type: memory | sqlite | postgres, connection_string, postgres_schema}
    database: {backend: memory | sqlite | postgres, sqlite_dir, postgres_url, postgres_schema}

The first section wins. A relative file is meant from DeerFlow's folder in the first, from where
DeerFlow runs in the second, which is the folder around its own unless it was told another one.
`$NAME` is a variable of the environment or of the file `.env`.

Source: `runtime/checkpointer/provider.py`, `config/database_config.py`, `config/app_config.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from ckpt_backends.deerflow import files
from ckpt_backends.deerflow.places import FOLDER
from ckpt_backends.errors import CkptError
from ckpt_backends.url import StoreUrl, parse_url

_NAME, _ENV = "config.yaml", ".env"
_DEFAULT_DIR, _SHARED, _SINGLE = f"{FOLDER}/data", "deerflow.db", "store.db"
_USUAL = ("data/deerflow.db", "checkpoints.db", "store.db")
"""Files in DeerFlow's folder that are looked for where no config.yaml tells."""
_TELL = "name their store with -s, or --threads STORE or `threads` in the profile for memory"


@dataclass(frozen=True, slots=True)
class Checkpointer:
    """Where the checkpoints are."""

    url: StoreUrl | None
    """None where they are not kept, or it cannot be told."""
    why: str
    """How it is known, or why it is not."""


class _Unknown(Exception):
    """That the settings do not tell."""


def checkpointer_of(base: Path) -> Checkpointer:
    """The store of a DeerFlow whose folder this is. Never raises."""
    try:
        return _found(base)
    except (_Unknown, CkptError, ValueError) as error:
        hint = getattr(error, "hint", None) or _TELL
        return Checkpointer(None, f"where its checkpoints are cannot be told: {error}; {hint}")


def _found(base: Path) -> Checkpointer:
    path = _config(base)
    if path is None:
        for name in _USUAL:
            if (base / name).is_file():
                return Checkpointer(_file(base / name), f"there is no {_NAME}; it is a usual place")
        return Checkpointer(
            None, f"there is no {_NAME} beside '{base}' that tells of its checkpoints; {_TELL}"
        )
    from ckpt_backends.deerflow.plainyaml import settings

    text = files.read(path).raw.decode()
    sections = settings(text, ("checkpointer", "database"))
    values = _Values(sections, _environment(path, base))
    found = _single(values, base) if sections.get("checkpointer") else _shared(values, base, path)
    return replace(found, why=f"as '{path}' says{found.why}")


def _single(values: _Values, base: Path) -> Checkpointer:
    """As the section `checkpointer` says."""
    kind, place = values.of("checkpointer", "type"), values.of("checkpointer", "connection_string")
    if kind == "sqlite":
        place = place or _SINGLE
        if place == ":memory:":
            return _IN_MEMORY
        # The second is what the name looks like to someone who stands in the project.
        return Checkpointer(_first([base / place, base.parent / place]), "")
    return _server(kind, place, values.of("checkpointer", "postgres_schema"))


def _shared(values: _Values, base: Path, path: Path) -> Checkpointer:
    """As the section `database` says; without one it is a file in the usual folder."""
    kind = values.of("database", "backend") or "sqlite"
    if kind == "sqlite":
        folder = values.of("database", "sqlite_dir") or _DEFAULT_DIR
        tried = [root / folder / _SHARED for root in (base.parent, path.parent)]
        there = _first(tried)
        if "database" not in values.sections and not os.path.isfile(there.path):
            # Releases without this section kept checkpoints in memory.
            return _IN_MEMORY
        return Checkpointer(there, "")
    return _server(
        kind, values.of("database", "postgres_url"), values.of("database", "postgres_schema")
    )


_IN_MEMORY = Checkpointer(None, ", its checkpoints are kept in memory only, and end with it")


def _server(kind: str | None, place: str | None, schema: str | None) -> Checkpointer:
    if kind == "memory":
        return _IN_MEMORY
    if kind != "postgres" or not place:
        raise _Unknown(f"checkpoints of type '{kind}'" if place else "no address is given")
    url = parse_url(place.replace("postgresql+asyncpg://", "postgresql://", 1))
    if schema and "schema" not in url.params:
        joined = "&" if "?" in url.raw else "?"
        url = parse_url(f"{url.raw}{joined}schema={quote(schema, safe='')}")
    return Checkpointer(url, "")


def _first(paths: list[Path]) -> StoreUrl:
    """The first of some files that is there, else the first."""
    return _file(next((path for path in paths if path.is_file()), paths[0]))


def _file(path: Path) -> StoreUrl:
    return StoreUrl("sqlite", str(path), raw=str(path))


def _config(base: Path) -> Path | None:
    """The config.yaml: the one that the environment names, beside the folder, or one above."""
    named = os.environ.get("DEER_FLOW_CONFIG_PATH")
    candidates = [Path(named)] if named else [base.parent / _NAME, base.parent.parent / _NAME]
    return next((path for path in candidates if path.is_file()), None)


@dataclass(frozen=True, slots=True)
class _Values:
    """The values of the settings, with variables replaced."""

    sections: Mapping[str, Mapping[str, str | None]]
    environment: Mapping[str, str]

    def of(self, section: str, name: str) -> str | None:
        text = self.sections.get(section, {}).get(name)
        if text is None or not text.startswith("$"):
            return text
        variable = text[1:]
        if variable not in self.environment:
            raise _Unknown(f"the variable '{variable}' is not set")
        return self.environment[variable]


def _environment(path: Path, base: Path) -> dict[str, str]:
    """The variables of this run, and below them those of the nearest `.env`."""
    found: dict[str, str] = {}
    for folder in dict.fromkeys((base.parent.parent, base.parent, path.parent)):
        if (folder / _ENV).is_file():
            found |= dict(_variables(files.read(folder / _ENV).raw.decode(errors="replace")))
    return {**found, **os.environ}


def _variables(text: str) -> Iterator[tuple[str, str]]:
    """The lines `NAME=VALUE` of a `.env`; quotes around a value are not part of it."""
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        value = value.strip()
        if value[:1] in {"'", '"'} and value[-1:] == value[:1] and len(value) > 1:
            value = value[1:-1]
        else:
            value = value.partition(" #")[0].rstrip()
        if equals and name.strip().isidentifier():
            yield name.strip(), value
