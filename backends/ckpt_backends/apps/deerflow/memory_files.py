"""Finds the memory files in DeerFlow's folder, by default `.deer-flow`.

    memory.json  agents/AGENT/memory.json                                (releases before users)
    users/USER/memory.json  users/USER/agents/AGENT/memory.json
    [users/USER/]agents/AGENT/facts/XX/FACT.md                           (facts as Markdown)

The namespace of an item has the same labels as the path of its file, such as
`("users", "anna", "agents", "coder", "facts")`.

Source: `agents/memory/storage.py` and `config/paths.py` of DeerFlow 2.0, and
`agents/memory/backends/deermem/deermem/core/paths.py` of the releases after it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR

from ckpt_backends.apps.deerflow.declaration import FILE, FOLDER
from ckpt_backends.errors import StoreUnavailable, UnknownLayout, UsageError
from ckpt_backends.memory.protocol import Namespace
from ckpt_backends.url import StoreUrl

USERS, AGENTS, FACTS = "users", "agents", "facts"


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A memory file and its owner."""

    path: Path
    owner: Namespace
    """`("users", USER)`, `("agents", AGENT)`, both joined, or `()` for the shared memory."""

    @property
    def is_fact(self) -> bool:
        """Whether it is a single fact in Markdown."""
        return self.path.suffix == ".md"


def memory_files(url: StoreUrl) -> list[MemoryFile]:
    """All memory files of a URL. Does not open them.

    For a file: the file and the Markdown facts in its folder. For a folder: all files in it.
    Raises `UsageError`, `StoreUnavailable`, and `UnknownLayout` if a folder has no memory files.
    """
    # `copy` is accepted and ignored: each file is read as a whole anyway.
    if unknown := sorted(url.params.keys() - {"copy"}):
        raise UsageError(
            f"unknown parameter '{unknown[0]}' in the URL of DeerFlow's memory",
            hint="leave it out: these URLs take no parameters",
        )
    path = Path(url.path)
    try:
        kind = path.stat().st_mode
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError)
        reason = "no such file" if missing else getattr(error, "strerror", None) or str(error)
        raise StoreUnavailable(
            f"cannot open '{path}': {reason.lower()}",
            hint=f"use the path of a {FILE} or of the {FOLDER} folder",
        ) from None
    if not S_ISDIR(kind):
        owner = _owner(path)
        return [MemoryFile(path, owner), *_markdown(path.parent, owner)]
    folder = path / FOLDER if os.path.isdir(path / FOLDER) else path
    owner = _owner(folder / FILE)
    found = list(_all(folder, owner))
    if not found:
        raise UnknownLayout(
            f"no DeerFlow memory in '{path}'",
            hint=f"use the path of a {FILE} or of the {FOLDER} folder",
        )
    return found


def base_of(url: StoreUrl) -> Path:
    """DeerFlow's folder, from the path of a file or folder in it."""
    path = Path(os.path.abspath(url.path))
    if os.path.isdir(path):
        return path / FOLDER if os.path.isdir(path / FOLDER) else _above(path)
    return _above(path.parent)


def _above(folder: Path) -> Path:
    """The base folder of a folder that may be `users/USER` or `agents/AGENT` below it."""
    for label in (AGENTS, USERS):
        if folder.parent.name == label:
            folder = folder.parent.parent
    return folder


def _owner(path: Path) -> Namespace:
    """The owner of a memory.json, from its folders."""
    folder = Path(os.path.abspath(path)).parent
    found: Namespace = ()
    for label in (AGENTS, USERS):
        if folder.parent.name == label:
            found = (label, folder.name, *found)
            folder = folder.parent.parent
    return found


def _all(folder: Path, owner: Namespace) -> Iterator[MemoryFile]:
    """The files of one user, or of all users."""
    yield from _one(folder, owner)
    if AGENTS not in owner:
        for agent in _folders(folder / AGENTS):
            yield from _one(folder / AGENTS / agent, (*owner, AGENTS, agent))
    yield from _markdown(folder, owner)
    if not owner:
        for user in _folders(folder / USERS):
            yield from _all(folder / USERS / user, (USERS, user))


def _one(folder: Path, owner: Namespace) -> Iterator[MemoryFile]:
    if os.path.isfile(folder / FILE):
        yield MemoryFile(folder / FILE, owner)


def _markdown(folder: Path, owner: Namespace) -> Iterator[MemoryFile]:
    """The facts of all agents of a user, or of one agent, sorted."""
    agents = [(folder, owner)]
    if AGENTS not in owner:
        agents = [
            (folder / AGENTS / agent, (*owner, AGENTS, agent))
            for agent in _folders(folder / AGENTS)
        ]
    for place, whose in agents:
        for shard in _folders(place / FACTS):
            for name in _names(place / FACTS / shard):
                if name.endswith(".md"):
                    yield MemoryFile(place / FACTS / shard / name, whose)


def _folders(folder: Path) -> list[str]:
    return [name for name in _names(folder) if os.path.isdir(folder / name)]


def _names(folder: Path) -> list[str]:
    with suppress(OSError):
        return sorted(os.listdir(folder))
    return []
