"""Which layouts a database holds, from a sample of its keys and of what they hold.

| evidence | layout |
|---|---|
| a JSON document with `metadata` as text and `has_writes` | `redis` |
| one with `metadata` as text and no `has_writes` | `redis`, of release 0.0 |
| one with `metadata` as an object, and no `has_writes` | `redis-shallow` |
| one with `has_writes` as text | `redis-js`, or `redis-js-shallow` if its key ends so |
| a hash `checkpoint$...` | `redis-hash` |
| a hash `checkpoint:...` with the field `type` | `redis-hash-colon` |
| a hash `lg:threads` with a field `lg:idx:...` | `redis-plain` |

Names of indexes tell nothing: they stay when the documents go, and are not needed for reading.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from ckpt_backends.dotted import STORE
from ckpt_backends.errors import UnknownLayout, UsageError
from ckpt_backends.memory import HINT
from ckpt_backends.redis.connect import Connection
from ckpt_backends.redis.documents import JSON_TYPE, USUAL, Documents, Prefixes
from ckpt_backends.redis.hashes import COLON, DOLLAR, Hashes
from ckpt_backends.redis.javascript import JavaScriptDocuments, ShallowJavaScriptDocuments
from ckpt_backends.redis.keyspace import Layout, literally, raw, text
from ckpt_backends.redis.old_documents import OldDocuments
from ckpt_backends.redis.plain import USUAL_PREFIX, Plain
from ckpt_backends.redis.shallow import ShallowDocuments
from ckpt_backends.url import StoreUrl

LAYOUTS = (
    *("redis", "redis-shallow", "redis-js", "redis-js-shallow"),
    *("redis-hash", "redis-hash-colon", "redis-plain"),
)
_TURNS, _SAMPLED = 10, 20
"""So many answers of SCAN are looked at, once something was found in them; of each, so many keys
of either separator."""
_OTHERS = {
    "first": "hashes of LangGraph's guide of early 2024, with 'parent_ts'",
}
"""What is recognised and not read."""
_FEW = 5


def open_layout(connection: Connection, url: StoreUrl) -> Layout:
    """The layout that the URL pins, or the only one that is there.

    Raises `UnknownLayout`, or `UsageError` where there are several.
    """
    prefixes = Prefixes(
        url.params.get("prefix", USUAL.checkpoint),
        url.params.get("write_prefix", USUAL.write),
    )
    plain = url.params.get("prefix", USUAL_PREFIX).rstrip(":")
    name = url.params.get("layout")
    if name is not None:
        if name not in LAYOUTS:
            raise UsageError(
                f"no layout '{name}' of a Redis store", hint=f"known: {', '.join(LAYOUTS)}"
            )
        return _layout(name, connection, prefixes, plain)
    found = _sampled(connection, prefixes)
    if _is_plain(connection, plain, is_alone=not found):
        found.add("redis-plain")
    known = [one for one in LAYOUTS if one in found]
    if len(known) > 1:
        raise UsageError(
            f"'{url}' holds checkpoints in {len(known)} layouts: {', '.join(known)}",
            hint=f"say which: add ?layout={known[0]} or ?layout={known[1]} to the URL",
        )
    if known:
        return _layout(known[0], connection, prefixes, plain)
    if "old" in found:
        return OldDocuments(connection)
    others = [_OTHERS[one] for one in sorted(found)]
    if others:
        raise UnknownLayout(
            f"'{url}' holds checkpoints in a layout that is not read: {', '.join(others)}"
        )
    raise UnknownLayout(f"no checkpoints in '{url}'", hint=_seen(connection, prefixes))


def _layout(name: str, connection: Connection, prefixes: Prefixes, plain: str) -> Layout:
    match name:
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
            return Plain(connection, plain)
    return Hashes(connection, COLON)


def _is_plain(connection: Connection, prefix: str, *, is_alone: bool) -> bool:
    """Whether langgraph-checkpoint-plainredis keeps threads here; or did, and nothing else does."""
    registry, counter = raw(f"{prefix}:threads"), raw(f"{prefix}:seq")
    kinds = list(connection.ask_all(("TYPE", name) for name in (registry, counter)))
    if kinds[0] == b"hash":
        pattern = literally(f"{prefix}:idx:") + b"*"
        cursor: int | None = None
        while cursor != 0:
            cursor, fields = connection.ask(
                "HSCAN", registry, cursor or 0, "MATCH", pattern, "COUNT", 1000
            )
            if fields:
                return True
    return is_alone and kinds == [b"none", b"string"]


def _sampled(connection: Connection, prefixes: Prefixes) -> set[str]:
    """Names of layouts that are there, and of what is known and not read."""
    found: set[str] = set()
    patterns = [literally(prefixes.checkpoint) + b"[:$]*"]
    if prefixes.checkpoint != USUAL.checkpoint:
        patterns.append(b"checkpoint[:$]*")
    for pattern in patterns:
        for turn, names in enumerate(connection.scan(pattern)):
            for mark in (b"checkpoint$", b""):
                some = [one for one in names if one.startswith(b"checkpoint$") == bool(mark)]
                found.update(_kinds(connection, some[:: len(some) // _SAMPLED + 1]))
            if found and turn >= _TURNS:
                break
    return found


def _kinds(connection: Connection, names: Sequence[bytes]) -> Iterator[str]:
    kinds = list(connection.ask_all(("TYPE", name) for name in names))
    documents = [
        name for name, kind in zip(names, kinds, strict=True) if text(kind or b"") == JSON_TYPE
    ]
    hashes = [name for name, kind in zip(names, kinds, strict=True) if kind == b"hash"]
    told = connection.ask_all(("JSON.GET", one, "$.thread_id", "$.has_writes") for one in documents)
    types = connection.ask_all([("JSON.TYPE", name, "$.metadata") for name in documents])
    for name, answer, kind in zip(documents, list(told), types, strict=True):
        about = json.loads(answer) if isinstance(answer, bytes) else {}
        if about.get("$.thread_id"):
            yield _document(name, about, kind)
    for name, told in zip(
        hashes,
        connection.ask_all(("HMGET", name, "type", "parent_ts") for name in hashes),
        strict=True,
    ):
        if name.startswith(b"checkpoint$"):
            yield "redis-hash"
        elif told is not None and told[0] is not None:
            yield "redis-hash-colon"
        elif told is not None and told[1] is not None:
            yield "first"


def _document(name: bytes, about: dict[str, Any], kind: Any) -> str:
    flags = about.get("$.has_writes") or [None]
    is_text = kind == [b"string"]
    if isinstance(flags[0], str):
        return "redis-js-shallow" if name.endswith(b":shallow") else "redis-js"
    if is_text:
        return "redis" if isinstance(flags[0], bool) else "old"
    return "redis-shallow"


def _seen(connection: Connection, prefixes: Prefixes) -> str:
    """What there is instead, in words."""
    names = next(islice(connection.scan(b"*"), 1), [])
    if not names:
        return "the database is empty; redis://HOST:PORT/N names another one"
    some = ", ".join(f"'{text(name)}'" for name in sorted(names)[:_FEW])
    if any(name.startswith(f"{STORE}:".encode()) for name in names):
        return f"found keys such as {some}; perhaps {HINT}"
    return (
        f"found other keys, such as {some}; a saver with a prefix of its own needs ?prefix=NAME"
        f" (looked for {prefixes.checkpoint}:*, checkpoint$* and {USUAL_PREFIX}:threads)"
    )
