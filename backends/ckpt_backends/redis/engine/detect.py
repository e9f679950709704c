"""Finds the stores of a database, by a sample of its keys and their contents.

| evidence | layout |
|---|---|
| a JSON document with `metadata` as text and `has_writes` | `redis` |
| one with `metadata` as text and no `has_writes` | `redis`, release 0.0 |
| one with `metadata` as an object and no `has_writes` | `redis-shallow` |
| one with `has_writes` as text | `redis-js`, or `redis-js-shallow` if its key ends in `:shallow` |
| a hash `checkpoint$...` | `redis-hash` |
| a hash `checkpoint:...` with the field `type` | `redis-hash-colon` |
| a hash `lg:threads` with a field `lg:idx:...` | `redis-plain` |

The Python savers of JSON documents and langgraph-checkpoint-plainredis have configurable prefixes,
so one database can contain several stores of the same layout.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from ckpt_backends import shell
from ckpt_backends.apps.plainredis.layout import USUAL_PREFIX, Plain
from ckpt_backends.errors import SeveralLayouts, StoreUnavailable, UnknownLayout, UsageError
from ckpt_backends.memory.dotted_namespaces import STORE
from ckpt_backends.memory.protocol import HINT
from ckpt_backends.redis.engine.connect import RedisConnection
from ckpt_backends.redis.engine.keyspace import Layout, literally, raw, text
from ckpt_backends.redis.engine.prefixes import KnownPrefixes, known_prefixes, listed_prefixes, pair
from ckpt_backends.redis.hashes.layout import COLON, DOLLAR, Hashes
from ckpt_backends.redis.javascript.documents import JavaScriptDocuments, ShallowJavaScriptDocuments
from ckpt_backends.redis.official.documents import JSON_TYPE, USUAL, Documents, Prefixes, stored_id
from ckpt_backends.redis.official.old_documents import OldDocuments
from ckpt_backends.redis.official.shallow import ShallowDocuments
from ckpt_backends.url import StoreUrl

LAYOUTS = (
    *("redis", "redis-shallow", "redis-js", "redis-js-shallow"),
    *("redis-hash", "redis-hash-colon", "redis-plain"),
)
_PREFIXED = {"redis", "redis-shallow"}
"""Layouts with a configurable prefix for checkpoints and another one for writes."""
_NAMING = ("layout", "prefix", "write_prefix")
"""URL parameters that select one of several stores."""
_TURNS, _SAMPLED = 10, 20
"""SCAN stops after this many batches if a layout was found; keys to examine in each batch."""
_OTHERS = {
    "first": "hashes of LangGraph's guide of early 2024, with 'parent_ts'",
}
"""Layouts that are recognised but cannot be read."""
_FEW = 5
_Samples = dict[tuple[str, str], list[bytes]]
"""By layout and prefix of checkpoints, the keys of some checkpoints."""


class SeveralStores(SeveralLayouts):
    """The URL matches several stores. This is a usage error: the URL must be more specific."""

    exit_code = UsageError.exit_code


@dataclass(frozen=True, slots=True)
class _Store:
    """A store, identified by the values of URL parameters."""

    layout: str
    prefix: str | None = None
    """None for a layout without prefixes."""
    write_prefix: str | None = None

    @property
    def is_usual(self) -> bool:
        """Whether its saver uses the default prefixes."""
        if self.layout in _PREFIXED:
            return Prefixes(self.prefix or "", self.write_prefix or "") == USUAL
        return self.prefix in {None, USUAL_PREFIX}

    def params(self, others: Sequence[_Store]) -> dict[str, str]:
        """The URL parameters that select this store and none of the others."""
        found = {"layout": self.layout} if any(one.layout != self.layout for one in others) else {}
        same = [one for one in others if one.layout == self.layout]
        named = {"prefix": self.prefix, "write_prefix": self.write_prefix}
        if not self.is_usual or same:
            found |= {name: one for name, one in named.items() if one is not None}
        return found

    def __str__(self) -> str:
        if self.is_usual:
            return self.layout
        writes = f", writes '{self.write_prefix}'" if self.write_prefix else ""
        return f"{self.layout} (prefix '{self.prefix}'{writes})"


def open_layout(connection: RedisConnection, url: StoreUrl) -> Layout:
    """The store that the URL names, or the only one in the database.

    Raises `UnknownLayout`, or `SeveralStores` if the URL matches several.
    """
    params = url.params
    name = params.get("layout")
    if name is not None and name not in LAYOUTS:
        raise UsageError(f"unknown Redis layout '{name}'", hint=f"known: {', '.join(LAYOUTS)}")
    prefix, write_prefix = params.get("prefix"), params.get("write_prefix")
    if name is not None and name not in _PREFIXED and (name != "redis-plain" or prefix is not None):
        return _layout(connection, _named(name, prefix, write_prefix))
    found = _Found(connection, prefix, write_prefix)
    stores = [one for one in found.stores() if name in {None, one.layout}]
    if len(stores) > 1:
        raise _several(url, stores)
    if stores:
        return _layout(connection, stores[0])
    others = [one for one in found.elsewhere() if name in {None, one.layout}]
    if others:
        named = [("prefix", prefix), ("write_prefix", write_prefix)]
        said = " and ".join(f"{one} '{value}'" for one, value in named if value is not None)
        raise UnknownLayout(f"no store with {said} in '{url}'", hint=f"name {_urls(url, others)}")
    if name is not None:
        return _layout(connection, _named(name, prefix, write_prefix))
    if "old" in found.kinds:
        return OldDocuments(connection)
    unread = [_OTHERS[one] for one in sorted(found.kinds & _OTHERS.keys())]
    if unread:
        raise UnknownLayout(
            f"'{url}' holds checkpoints in a layout that ckpt cannot read: {', '.join(unread)}"
        )
    raise UnknownLayout(f"no checkpoints in '{url}'", hint=_seen(connection, prefix))


def _several(url: StoreUrl, stores: Sequence[_Store]) -> SeveralStores:
    first = stores[0]
    choices = [one.params([other for other in stores if other != one]) for one in stores]
    if all((one.layout, one.prefix) == (first.layout, first.prefix) for one in stores):
        said = f"cannot tell which prefix the writes of '{first.prefix}' have in '{url}'"
    else:
        said = f"'{url}' holds {len(stores)} stores: {', '.join(map(str, stores))}"
    return SeveralStores(said, choices, hint=f"name one: {_urls(url, stores)}")


def _urls(url: StoreUrl, stores: Sequence[_Store]) -> str:
    """The first stores as URLs that can be pasted."""
    shown = []
    for one in stores[:_FEW]:
        params = one.params([other for other in stores if other != one])
        shown.append(shell.name(str(url.with_params(params, without=_NAMING))))
    more = f" or one of {len(stores) - _FEW} more" if len(stores) > _FEW else ""
    return " or ".join(shown) + more


def _named(layout: str, prefix: str | None, write_prefix: str | None) -> _Store:
    """A store with these parameters; it may not exist."""
    if layout in _PREFIXED:
        return _Store(layout, prefix or USUAL.checkpoint, write_prefix or USUAL.write)
    return _Store(layout, prefix)


def _layout(connection: RedisConnection, store: _Store) -> Layout:
    prefixes = Prefixes(store.prefix or USUAL.checkpoint, store.write_prefix or USUAL.write)
    match store.layout:
        case "redis":
            return Documents(connection, prefixes)
        case "redis-shallow":
            return ShallowDocuments(connection, prefixes)
        case "redis-js":
            return JavaScriptDocuments(connection)
        case "redis-js-shallow":
            return ShallowJavaScriptDocuments(connection)
        case "redis-hash":
            return Hashes(connection, DOLLAR)
        case "redis-plain":
            return Plain(connection, (store.prefix or USUAL_PREFIX).rstrip(":"))
    return Hashes(connection, COLON)


class _Found:
    """The stores of a database, as far as the prefixes in the URL allow."""

    def __init__(self, connection: RedisConnection, prefix: str | None, write: str | None) -> None:
        self._connection = connection
        self._prefix, self._write = prefix, write
        self._samples: dict[str, dict[str, list[bytes]]] = {}
        self.kinds: set[str] = set()
        """The layouts of documents and hashes that exist, including layouts ckpt cannot read."""

    @cached_property
    def _known(self) -> KnownPrefixes:
        return known_prefixes(self._connection)

    def stores(self) -> list[_Store]:
        """The stores that match the URL."""
        wanted = self._known.checkpoints if self._prefix is None else {self._prefix}
        found = self._documents(wanted)
        for prefix in wanted:
            self.kinds |= self._sampled(prefix).keys()
        plain = USUAL_PREFIX if self._prefix is None else self._prefix.rstrip(":")
        if self._write is None and _is_plain(self._connection, plain, is_alone=not self.kinds):
            found.append(_Store("redis-plain", plain))
        if not found and not self.kinds and self._prefix is None:
            found = [_Store("redis-plain", one) for one in _plain_prefixes(self._connection)]
        return sorted(found, key=lambda one: (LAYOUTS.index(one.layout), str(one)))

    def elsewhere(self) -> list[_Store]:
        """The stores with any prefixes, if the URL has a prefix; otherwise empty."""
        if self._prefix is None and self._write is None:
            return []
        return _Found(self._connection, None, None).stores()

    def _documents(self, wanted: set[str]) -> list[_Store]:
        """The stores of all layouts except `redis-plain`."""
        found = []
        paired: _Samples = {}
        for prefix in sorted(wanted):
            for layout, names in self._sampled(prefix).items():
                if layout in _PREFIXED:
                    paired[layout, prefix] = names
                elif layout in LAYOUTS:
                    found.append(_Store(layout))
        for (layout, prefix), writes in self._paired(paired).items():
            found += [_Store(layout, prefix, one) for one in writes]
        return found

    def _paired(self, stores: _Samples) -> dict[tuple[str, str], list[str]]:
        """By store, the possible prefixes of its writes; only one if it is certain."""
        if self._write is not None:
            asked = self._write
            listed = {one: listed_prefixes(self._connection, one[0], stores[one]) for one in stores}
            return {one: [asked] for one in stores if asked in (listed[one] or {asked})}
        if self._known.are_usual and all(prefix == USUAL.checkpoint for _, prefix in stores):
            return {store: [USUAL.write] for store in stores}
        found = pair(self._connection, self._known, stores)
        if any(len(one) > 1 for one in found.values()) and self._prefix is not None:
            # Pair all stores: writes of another store cannot belong to this one.
            others = {
                (layout, prefix): names
                for prefix in self._known.checkpoints
                for layout, names in self._sampled(prefix).items()
                if layout in _PREFIXED
            }
            every = pair(self._connection, self._known, others | stores)
            found = {store: every[store] for store in stores}
        return found

    def _sampled(self, prefix: str) -> dict[str, list[bytes]]:
        """By layout with this prefix, the keys of some checkpoints."""
        if prefix not in self._samples:
            must = prefix in {self._prefix, USUAL.checkpoint}
            self._samples[prefix] = _sampled(self._connection, prefix, must=must)
        return self._samples[prefix]


def _is_plain(connection: RedisConnection, prefix: str, *, is_alone: bool) -> bool:
    """Whether langgraph-checkpoint-plainredis stores threads under this prefix.

    With `is_alone` (no other layout was found), a counter without threads is enough: the store is
    empty then.
    """
    registry, counter = raw(f"{prefix}:threads"), raw(f"{prefix}:seq")
    kinds = list(connection.ask_all(("TYPE", name) for name in (registry, counter)))
    if kinds[0] == b"hash":
        pattern = literally(f"{prefix}:idx:") + b"*"
        if any(connection.turns("HSCAN", [registry], ["MATCH", pattern, "COUNT", 1000])):
            return True
    return is_alone and kinds == [b"none", b"string"]


def _plain_prefixes(connection: RedisConnection) -> list[str]:
    """The prefixes of langgraph-checkpoint-plainredis in the whole database."""
    end = b":threads"
    found = {
        text(name.removesuffix(end))
        for names in connection.scan(b"*" + end, "hash")
        for name in names
    }
    return [one for one in sorted(found) if _is_plain(connection, one, is_alone=False)]


def _sampled(connection: RedisConnection, prefix: str, *, must: bool) -> dict[str, list[bytes]]:
    """By layout with this prefix, some of its keys. Includes layouts that ckpt cannot read.

    Unless `must` is set, keys that cannot be read are ignored.
    """
    found: dict[str, list[bytes]] = {}
    usual = prefix == USUAL.checkpoint
    pattern = literally(prefix) + (b"[:$]*" if usual else b":*")
    with suppress(*(() if must else (StoreUnavailable,))):
        for turn, names in enumerate(connection.scan(pattern)):
            for mark in (b"checkpoint$", b""):
                some = [one for one in names if one.startswith(b"checkpoint$") == bool(mark)]
                for name, kind in _kinds(connection, prefix, some[:: len(some) // _SAMPLED + 1]):
                    found.setdefault(kind, []).append(name)
            if found and turn >= _TURNS:
                break
    return found


def _kinds(
    connection: RedisConnection, prefix: str, names: Sequence[bytes]
) -> Iterator[tuple[bytes, str]]:
    kinds = list(connection.ask_all(("TYPE", name) for name in names))
    documents = [
        name for name, kind in zip(names, kinds, strict=True) if text(kind or b"") == JSON_TYPE
    ]
    hashes = [name for name, kind in zip(names, kinds, strict=True) if kind == b"hash"]
    told = connection.ask_all(("JSON.GET", one, "$.thread_id", "$.has_writes") for one in documents)
    types = connection.ask_all([("JSON.TYPE", name, "$.metadata") for name in documents])
    for name, answer, kind in zip(documents, list(told), types, strict=True):
        about = json.loads(answer) if isinstance(answer, bytes) else {}
        for thread in about.get("$.thread_id") or ():
            starts = (f"{prefix}:{thread}:", f"{prefix}:{stored_id(str(thread))}:")
            if name.startswith(tuple(map(raw, starts))):
                yield name, _document(name, about, kind)
    for name, told in zip(
        hashes,
        connection.ask_all(("HMGET", name, "type", "parent_ts") for name in hashes),
        strict=True,
    ):
        if name.startswith(b"checkpoint$"):
            yield name, "redis-hash"
        elif told is not None and told[0] is not None:
            yield name, "redis-hash-colon"
        elif told is not None and told[1] is not None:
            yield name, "first"


def _document(name: bytes, about: dict[str, Any], kind: Any) -> str:
    flags = about.get("$.has_writes") or [None]
    is_text = kind == [b"string"]
    if isinstance(flags[0], str):
        return "redis-js-shallow" if name.endswith(b":shallow") else "redis-js"
    if is_text:
        return "redis" if isinstance(flags[0], bool) else "old"
    return "redis-shallow"


def _seen(connection: RedisConnection, prefix: str | None) -> str:
    """A hint with the keys that the database contains instead."""
    names = next(islice(connection.scan(b"*"), 1), [])
    if not names:
        return "the database is empty; name another one: redis://HOST:PORT/N"
    some = ", ".join(shell.name(text(name)) for name in sorted(names)[:_FEW])
    if any(name.startswith(f"{STORE}:".encode()) for name in names):
        return f"found keys such as {some}; {HINT}"
    return (
        f"found other keys, such as {some}; looked for {prefix or USUAL.checkpoint}:*,"
        f" checkpoint$* and {prefix or USUAL_PREFIX}:threads"
    )
