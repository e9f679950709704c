"""DeerFlow's memory, opened for reading: facts and sections as items."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, Any

from ckpt_backends.apps.deerflow.declaration import FILE, FOLDER
from ckpt_backends.codec.json import unique
from ckpt_backends.errors import (
    MissingDependency,
    Refused,
    StoreChanged,
    StoreUnavailable,
    UnknownLayout,
    Unreadable,
    UsageError,
)
from ckpt_backends.files import create_part, open_regular, sync_folder, to_disk
from ckpt_backends.installing import install_command
from ckpt_backends.memory import Item, ItemKey, MemoryInfo, MemoryStore, Namespace, Source, begins
from ckpt_backends.model import TypedBytes
from ckpt_backends.overwriting import OldFiles
from ckpt_backends.rows import Row, no_table
from ckpt_backends.url import StoreUrl

if TYPE_CHECKING:
    from types import ModuleType


# Finds the memory files in DeerFlow's folder, by default `.deer-flow`.
#
#     memory.json  agents/AGENT/memory.json                                (releases before users)
#     users/USER/memory.json  users/USER/agents/AGENT/memory.json
#     [users/USER/]agents/AGENT/facts/XX/FACT.md                           (facts as Markdown)
#
# The namespace of an item has the same labels as the path of its file, such as `("users", "anna",
# "agents", "coder", "facts")`.
#
# Source: `agents/memory/storage.py` and `config/paths.py` of DeerFlow 2.0, and
# `agents/memory/backends/deermem/deermem/core/paths.py` of the releases after it.


USERS, AGENTS, FACTS = "users", "agents", "facts"
_USE = f"use the path of a {FILE} or of the {FOLDER} folder"


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

    @property
    def key(self) -> ItemKey:
        """The key of a single fact."""
        return ItemKey((*self.owner, FACTS), self.path.stem)


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
    with _explained("open", path, _USE):
        kind = path.stat().st_mode
    if not S_ISDIR(kind):
        _, owner = _base_and_owner(Path(os.path.abspath(path)).parent)
        facts = (one for one in _files(path.parent, owner) if one.is_fact)
        return [MemoryFile(path, owner), *(one for one in facts if owner or USERS not in one.owner)]
    folder = path / FOLDER if os.path.isdir(path / FOLDER) else path
    _, owner = _base_and_owner(Path(os.path.abspath(folder)))
    found = list(_files(folder, owner))
    if not found:
        raise UnknownLayout(f"no DeerFlow memory in '{path}'", hint=_USE)
    return found


def base_of(url: StoreUrl) -> Path:
    """DeerFlow's folder, from the path of a file or folder in it."""
    path = Path(os.path.abspath(url.path))
    if os.path.isdir(path / FOLDER):
        return path / FOLDER
    base, _ = _base_and_owner(path if os.path.isdir(path) else path.parent)
    return base


def _base_and_owner(folder: Path) -> tuple[Path, Namespace]:
    """The base folder of a folder that may be `users/USER` or `agents/AGENT` below it, and whose
    memory the folder holds."""
    owner: Namespace = ()
    for label in (AGENTS, USERS):
        if folder.parent.name == label:
            owner = (label, folder.name, *owner)
            folder = folder.parent.parent
    return folder, owner


def _files(folder: Path, owner: Namespace) -> Iterator[MemoryFile]:
    """The files of one user or agent, or of all."""
    if os.path.isfile(folder / FILE):
        yield MemoryFile(folder / FILE, owner)
    if AGENTS in owner:
        facts = sorted(folder.glob(f"{FACTS}/*/*.md"))
        yield from (MemoryFile(path, owner) for path in facts)
    else:
        for agent in _folders(folder / AGENTS):
            yield from _files(agent, (*owner, AGENTS, agent.name))
    if not owner:
        for user in _folders(folder / USERS):
            yield from _files(user, (USERS, user.name))


def _folders(folder: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(one for one in folder.iterdir() if os.path.isdir(one))
    return []


# Parses and writes a memory.json.
#
#     {"version": "1.0", "lastUpdated": TIME,
#      "user": {SECTION: {"summary", "updatedAt"}, ...}, "history": {SECTION: {...}, ...},
#      "facts": [{"id", "content", "category", "confidence", "createdAt", "source"}, ...]}
#
# `source` is a thread id or a word such as `manual`. In version 2.0 it is a map of type and
# threadId, and facts are Markdown files instead. Unknown keys are kept.


SECTIONS = ("user", "history")
_WORDS = frozenset({"manual", "unknown", "consolidation", "import"})
"""Values of `source` that are not threads."""
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class MemoryDocument:
    """A memory.json, parsed."""

    place: MemoryFile
    data: dict[str, Any]

    @property
    def version(self) -> str:
        return str(self.data.get("version", "1.0"))

    @property
    def is_newer(self) -> bool:
        """Whether its facts are, or may be, separate files."""
        return not self.version.startswith("1.")

    def items(self) -> Iterator[Item]:
        """Its facts and sections, unsorted."""
        return (item_of(key, value) for key, value in self.named())

    def named(self) -> Iterator[tuple[ItemKey, Any]]:
        """The key of each fact and section, with its value.

        A fact without an id gets its index as key, one with a duplicate id gets both.
        """
        owner, seen = self.place.owner, set()
        facts = self.data.get("facts")
        for index, fact in enumerate(facts if isinstance(facts, list) else ()):
            name = fact.get("id") if isinstance(fact, dict) else None
            key = name if isinstance(name, str) and name else f"[{index}]"
            if key in seen:
                key = f"{key}[{index}]"
            seen.add(key)
            yield ItemKey((*owner, FACTS), key), fact
        for section in SECTIONS:
            parts = self.data.get(section)
            for key, value in (parts if isinstance(parts, dict) else {}).items():
                yield ItemKey((*owner, section), key), value

    def add(self, key: ItemKey, value: Any) -> None:
        """Append a fact, or set a section."""
        kind = key.namespace[-1]
        if kind == FACTS:
            self.data.setdefault(FACTS, []).append(value)
        else:
            self.data.setdefault(kind, {})[key.key] = value

    def drop(self, keys: Collection[ItemKey]) -> None:
        """Remove facts and sections."""
        left = [(key, value) for key, value in self.named() if key not in keys]
        for kind in (FACTS, *SECTIONS):
            held = [(key.key, value) for key, value in left if key.namespace[-1] == kind]
            if kind not in SECTIONS and isinstance(self.data.get(kind), list):
                self.data[kind] = [value for _, value in held]
            elif isinstance(self.data.get(kind), dict):
                self.data[kind] = dict(held)


def to_text(data: Mapping[str, Any]) -> bytes:
    """A document as JSON in DeerFlow's form: indented by 2, keys in order, not escaped."""
    return _encoded(json.dumps(data, indent=2, ensure_ascii=False))


def item_of(key: ItemKey, stored: Any) -> Item:
    """The item of a fact, of version 1.0 or 2.0, or of a section."""
    value = TypedBytes("json", _encoded(json.dumps(stored, ensure_ascii=False)))
    fields = stored if isinstance(stored, dict) else {}
    category = fields.get("category")
    created = moment(fields.get("createdAt"))
    return Item(
        key,
        created_at=created,
        # Version 1.0 has one time only, and never updates a fact.
        updated_at=moment(fields.get("updatedAt")) or created,
        size=len(value.data),
        value=value,
        category=category if isinstance(category, str) else None,
        confidence=_confidence(fields.get("confidence")),
        source=_source(fields.get("source")),
    )


def moment(text: Any) -> datetime | None:
    """A time in DeerFlow's form; UTC if it has no zone."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _confidence(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= 1 else None


def _source(value: Any) -> Source | None:
    if isinstance(value, str) and value:
        return Source(value) if value in _WORDS else Source("thread", value)
    if not isinstance(value, dict):
        return None
    thread, kind = value.get("threadId"), value.get("type")
    if isinstance(thread, str) and thread:
        return Source("thread", thread)
    return Source(kind) if isinstance(kind, str) and kind else None


def _encoded(text: str) -> bytes:
    # UTF-8 has no lone surrogates, so they are written as escapes.
    return _SURROGATES.sub(lambda match: f"\\u{ord(match[0]):04x}", text).encode()


# Reads untrusted YAML: only JSON values, and no aliases.
#
# PyYAML's safe loader creates no objects, but it creates dates and follows aliases. With aliases,
# a short text can become an endless value.


_MOST = 1 << 20
_TAG = "tag:yaml.org,2002:"
_TAGS = {_TAG + name for name in ("null", "bool", "int", "float", "str", "seq", "map", "merge")}
_LONGEST = 4000
"""Characters of a number; one in base 60, as `1:1:1`, takes time quadratic in its length."""


def front_matter(text: str) -> dict[str, Any]:
    """The fields of a front matter. Raises `ValueError` and `MissingDependency`."""
    yaml = _yaml()

    class Loader(yaml.SafeLoader):  # type: ignore[name-defined, misc]
        """A loader that refuses aliases and types that JSON does not have."""

        # Do not convert texts to dates.
        yaml_implicit_resolvers = {  # noqa: RUF012
            first: [one for one in found if one[0] != "tag:yaml.org,2002:timestamp"]
            for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise ValueError("aliases are not allowed")
            node = super().compose_node(parent, index)
            if node.tag not in _TAGS:
                raise ValueError(f"tag '{node.tag}' is not allowed")
            if node.tag in {_TAG + "int", _TAG + "float"} and len(node.value) > _LONGEST:
                raise ValueError("a number is too long")
            return node

    found = _read(lambda: yaml.load(text, Loader), text)
    if not isinstance(found, dict):
        raise ValueError("not a map")
    return found


def settings(text: str, sections: tuple[str, ...]) -> dict[str, dict[str, str | None]]:
    """The plain values of some sections of a configuration, as texts; None for null.

    Reads nothing else. Raises `ValueError` and `MissingDependency`.
    """
    yaml = _yaml()
    root = _read(lambda: yaml.compose(text, yaml.SafeLoader), text)
    found: dict[str, dict[str, str | None]] = {}
    for name, section in _entries(root):
        if name in sections:
            found[name] = {
                key: None if value.tag == "tag:yaml.org,2002:null" else value.value
                for key, value in _entries(section)
                if isinstance(value.value, str)
            }
    return found


def _entries(node: Any) -> list[tuple[str, Any]]:
    """Keys and nodes of a map; empty for other nodes."""
    if node is None or node.id != "mapping":
        return []
    return [(key.value, value) for key, value in node.value if isinstance(key.value, str)]


def _read(read: Any, text: str) -> Any:
    if len(text) > _MOST:
        raise ValueError("too long")
    try:
        return read()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except (KeyError, OverflowError) as error:  # A tag that its value does not fit.
        raise ValueError(f"wrong value: {error}") from None
    except _yaml().YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" at line {mark.line + 1}"
        raise ValueError(f"not YAML{where}: {getattr(error, 'problem', error)}") from None


def _yaml() -> ModuleType:
    try:
        import yaml
    except ImportError:
        raise MissingDependency(
            "cannot read YAML: package 'pyyaml' is not installed",
            hint=install_command("langgraph-ckpt[deerflow]"),
        ) from None
    return yaml


# Parses facts in Markdown files, the form of version 2.0 of DeerFlow's memory.
#
#     ---
#     id: FACT
#     category: goal
#     source: {type: conversation, threadId: THREAD}       and more, as YAML
#     ---
#
#     # TITLE
#
#     CONTENT
#
# Source: `_render_fact_markdown` of `deermem/core/storage.py`.


def fact_of(place: MemoryFile, raw: bytes) -> Item:
    """The fact in a file. If it cannot be parsed, its value is the bytes with a `problem`."""
    try:
        return item_of(place.key, _fields(raw.decode()))
    except ValueError as error:
        value = TypedBytes("markdown", raw, problem=str(error))
        return Item(place.key, created_at=None, updated_at=None, size=len(raw), value=value)


def _fields(text: str) -> dict[str, Any]:
    """Front matter, title and content as one map. Raises `ValueError`."""
    if not text.startswith("---\n"):
        raise ValueError("no front matter")
    front, end, body = text[4:].partition("\n---\n")
    if not end:
        raise ValueError("front matter without end")
    fields = front_matter(front)
    body = body.lstrip("\n")
    title = ""
    if body.startswith("# "):
        heading, _, body = body.partition("\n")
        title = heading[2:].strip()
    return {**fields, "title": title, "content": body.strip("\n")}


LAYOUT = "deerflow"
_KINDS = [[kind] for kind in (FACTS, *SECTIONS)]
_KNOWN = {"1.0", "2.0"}
NEWER = "version 2.0 of DeerFlow's memory is read-only here"
TABLE = "memory"
"""Table of the rows in archives."""


class DeerFlowMemory(MemoryStore):
    """The memory files of a folder, or one of them."""

    def __init__(self, url: StoreUrl) -> None:
        self._url = url
        self._files = memory_files(url)
        self._kept: list[Item] | None = None

    def describe(self) -> MemoryInfo:
        """Facts about the memory. Reads the memory.json files, but no Markdown files."""
        whole = [document(place) for place in self._files if not place.is_fact]
        base = base_of(self._url)
        paths = (one.place.path.absolute() for one in whole)
        versions = {one.version for one in whole}
        is_newer = all(one.is_newer for one in whole)
        return MemoryInfo(
            layout=LAYOUT,
            url=str(self._url),
            engine=f"files of version {', '.join(sorted(versions)) or '2.0'}",
            tables=tuple(
                str(path.relative_to(base)) if path.is_relative_to(base) else path.name
                for path in paths
            ),
            changes=NEWER if is_newer else "",
            needs_write="a running DeerFlow may overwrite the change",
            notes=tuple(
                f"unknown version {one} of DeerFlow's memory" for one in sorted(versions - _KNOWN)
            ),
        )

    def items(
        self,
        *,
        prefix: Namespace = (),
        key: str | None = None,
        keys: Collection[ItemKey] | None = None,
        values: bool = False,  # noqa: ARG002
    ) -> Iterator[Item]:
        # Always include values: DeerFlow does not store when a user changed a fact, so later only
        # the value shows whether a fact has changed.
        wanted = None if keys is None else frozenset(keys)
        for item in self._items():
            is_meant = begins(item.key.namespace, prefix) and key in {None, item.key.key}
            if is_meant and (wanted is None or item.key in wanted):
                yield item

    def rows(self, key: ItemKey) -> Iterator[Row]:
        for item in self.items(keys=[key], values=True):
            if item.value is not None:
                labels = json.dumps(item.key.namespace)
                name, value = item.key.key, item.value.data
                yield Row(TABLE, {"namespace": labels, "key": name, "value": value})

    def key_of(self, row: Row) -> ItemKey:
        return key_of(row)

    def refresh(self) -> None:
        self._files = memory_files(self._url)
        self._kept = None

    def close(self) -> None:
        """Nothing to close."""

    def _items(self) -> list[Item]:
        if self._kept is None:
            found: list[Item] = []
            for place in self._files:
                if place.is_fact:
                    found.append(fact_of(place, read(place.path).raw))
                else:
                    found += document(place).items()
            found.sort(key=lambda item: item.key)
            self._kept = found
        return self._kept


def document(place: MemoryFile) -> MemoryDocument:
    """Read and parse a memory.json. Raises `StoreUnavailable` and `Unreadable`."""
    return parsed(place, read(place.path).raw)


def parsed(place: MemoryFile, raw: bytes) -> MemoryDocument:
    """Parse a memory.json that was read. Raises `Unreadable`."""
    try:
        data = json.loads(raw.decode(), object_pairs_hook=unique)
        if not isinstance(data, dict) or not {"facts", *SECTIONS} & data.keys():
            raise ValueError("neither facts nor sections found")
        return MemoryDocument(place, data)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        reason = f"not JSON at {where}" if raw.strip() else "the file is empty"
    except RecursionError:
        reason = "nested too deeply"
    except ValueError as error:
        reason = str(error)
    raise Unreadable(
        f"cannot read '{place.path}' as DeerFlow's memory: {reason}",
        hint="restore the file from a backup, or use the path of another file",
    )


def key_of(row: Row) -> ItemKey:
    """The key of the item of an archived row. Raises `Refused`."""
    if row.table != TABLE:
        raise no_table(row.table)
    with suppress(ValueError, RecursionError, LookupError, TypeError):
        labels, key = json.loads(str(row.cells.get("namespace"))), row.cells.get("key")
        if labels[-1:] in _KINDS and all(isinstance(one, str) for one in (*labels, key)):
            return ItemKey(tuple(labels), str(key))
    raise Refused(f"a row of '{row.table}' is not an item of DeerFlow's memory")


# Reads a whole file with its time stamp, and replaces it atomically.


_MOST_BYTES = 64 << 20
_TELLING = 1_000_000
"""Difference in nanoseconds that is still visible in a time in seconds as float."""
_HERE, _EXCHANGE = -100, 2
"""`AT_FDCWD` and `RENAME_EXCHANGE` of Linux."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A file as it was read."""

    path: Path
    """Without symbolic links."""
    raw: bytes
    stamp: tuple[int, int, int, int]
    """Device, inode, time of the last change in nanoseconds, size."""


def read(path: Path) -> Snapshot:
    """Read a file. Raises `StoreUnavailable`, also if it is not regular or too long."""
    with _explained("read", path):
        whole = path.resolve(strict=True)
        with open_regular(whole) as file:
            facts = os.fstat(file.fileno())
            # None if a file of the kernel has no data yet.
            raw = file.read(_MOST_BYTES + 1) or b""
    if len(raw) > _MOST_BYTES:
        raise Unreadable(f"cannot read '{path}': longer than {_MOST_BYTES >> 20} MiB")
    return Snapshot(whole, raw, (facts.st_dev, facts.st_ino, facts.st_mtime_ns, facts.st_size))


class Replacement:
    """Replaces a file if it has not changed since it was read.

    The new contents are first written to another file in the same folder. DeerFlow takes no lock on
    its files: it also writes another file and renames it. If the system can swap two names
    atomically, the old file is checked again after the swap, so no change of DeerFlow is lost. On
    other systems, a change within the same few microseconds is overwritten.
    """

    def __init__(self, before: Snapshot, raw: bytes) -> None:
        """Write the new contents to the disk. Raises `StoreUnavailable`."""
        self._before = before
        self._is_swapped = False
        path = before.path
        with _explained("write", path):
            # Locked until it is dropped, so that no other run removes it.
            self._beside, self._file = create_part(path, like=path)
            try:
                self._file.write(raw)
                to_disk(self._file)
                self._inode = os.fstat(self._file.fileno()).st_ino
                if abs(os.stat(self._beside).st_mtime_ns - before.stamp[2]) < _TELLING:
                    # DeerFlow reloads a file when its time, a float, has changed.
                    os.utime(self._beside, ns=(before.stamp[2], before.stamp[2] + _TELLING))
            except OSError:
                self.drop()
                raise

    def check(self) -> None:
        """Raise `StoreChanged` if the file changed since it was read."""
        if not _is_same(self._before.path, self._before):
            raise changed_file(self._before.path)

    def put(self) -> None:
        """Check again, and replace the file atomically.

        Raises `StoreChanged`, leaving the file of the other writer, and `StoreUnavailable`.
        """
        self.check()
        path = self._before.path
        with _explained("write", path):
            self._is_swapped = exchange(self._beside, path)
            if not self._is_swapped:
                os.replace(self._beside, path)
            elif not _is_same(self._beside, self._before):
                self._is_swapped = False
                os.replace(self._beside, path)
                raise changed_file(path)
            sync_folder(path.parent)

    def take_back(self) -> None:
        """Restore the old file, unless another writer replaced the new one."""
        if self._is_swapped and os.stat(self._before.path).st_ino == self._inode:
            os.replace(self._beside, self._before.path)
            self._is_swapped = False

    def drop(self) -> None:
        """Remove the file next to it."""
        with suppress(OSError):
            self._beside.unlink()
        with suppress(OSError):
            self._file.close()


def replace_or_remove(before: Snapshot, raw: bytes | None, old: OldFiles, label: str) -> None:
    """Replace a file, or remove it if the new contents are None; `old` holds it as `label`.

    Raises `StoreChanged` and `StoreUnavailable`.
    """
    old.hold(before.path, label)
    if raw is None:
        with _explained("remove", before.path):
            before.path.unlink()
            sync_folder(before.path.parent)
        return
    new = Replacement(before, raw)
    try:
        new.put()
    finally:
        new.drop()


def changed_file(path: Path) -> StoreChanged:
    """The error for a file that changed since it was read."""
    return StoreChanged(
        f"'{path}' changed meanwhile; nothing was written", hint="run the command again"
    )


def exchange(one: Path, other: Path) -> bool:
    """Swap the names of two files atomically.

    False, with nothing done, if the system or the file system cannot do that.
    """
    import ctypes

    try:
        swap = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    names = os.fsencode(one), _HERE, os.fsencode(other)
    return bool(swap(_HERE, *names, ctypes.c_uint(_EXCHANGE)) == 0)


def _is_same(path: Path, before: Snapshot) -> bool:
    """Whether a file is the one that was read, unchanged, under any name."""
    try:
        now = read(path)
    except StoreUnavailable:
        return False
    return (now.stamp, now.raw) == (before.stamp, before.raw)


@contextmanager
def _explained(what: str, path: Path, hint: str | None = None) -> Iterator[None]:
    """Turn errors of the system into `StoreUnavailable`."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise StoreUnavailable(f"cannot {what} '{path}': {reason}", hint=hint) from error
