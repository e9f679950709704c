"""Contents for the Stores: usual items, and names that are hard to distinguish."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.kit.command import CommandResult, ckpt
from tests.kit.memory.benches import Bench

Namespace = tuple[str, ...]
Value = dict[str, Any]
Items = dict[tuple[Namespace, str], Value]
ITEMS: Items = {
    (("users", "anna", "memories"), "tea"): {"text": "likes green tea", "n": 1},
    (("users", "anna"), "profile"): {"text": "Anna", "languages": ["de", "en"], "age": 41.5},
    (("users", "anna-2"), "profile"): {"text": "somebody else"},
    (("users", "anna"), 'it\'s "odd" 100% [x]*?'): {"text": "quotes; -- and %s"},
    # RedisStore treats `Anna` and `anna` as equal: with the same key, one would replace the other.
    (("users", "Anna"), "upper"): {"text": "upper case"},
    (("用户", "张三"), "记忆"): {"text": "用户喜欢披萨"},
    (("a b", "c:d"), "k/1"): {"text": "two\nlines"},
    (("a b", "c:d"), "k\\2"): {"text": "back\\slash"},
    (("x_y",), "new\nline"): {"text": "\x1b[31mred\u202e"},
    (("x%y",), "empty"): {},
}


def fill(bench: Bench, items: Items = ITEMS) -> None:
    """Store items through the official library."""
    for embeds in (False, True):
        # MongoDBStore with an index rejects values that have nothing to embed.
        with bench.store(embeds=embeds) as store:
            for (namespace, key), value in items.items():
                if ("text" in value) is embeds:
                    store.put(namespace, key, value)
    with bench.store() as store:
        settle(store, len(items))


def settle(store: Any, number: int) -> None:
    """Wait until an asynchronous search index contains this number of documents."""
    end = time.monotonic() + 10
    while len(store.search((), limit=1000)) != number and time.monotonic() < end:
        time.sleep(0.02)


def told(store: Any, *, prefix: Namespace = ()) -> dict[tuple[Namespace, str], Any]:
    """Return the items of the official library: value and times."""
    return {
        (one.namespace, one.key): (one.value, instant(one.created_at), instant(one.updated_at))
        for one in store.search(prefix, limit=1000)
    }


def instant(at: Any) -> str:
    """Return a time of the official library, which may be text or have no time zone."""
    found = datetime.fromisoformat(at) if isinstance(at, str) else at
    found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    return f"{found.isoformat(timespec='microseconds')[:-6]}Z"


def official(bench: Bench, number: int) -> dict[tuple[Namespace, str], Any]:
    """Return what the official library lists, once it has so many items."""
    with bench.store(embeds=False) as store:
        settle(store, number)
        return told(store)


def memory(bench: Bench, *words: str | Path) -> CommandResult:
    """Run `ckpt memory` on a store."""
    return ckpt("-s", bench.url, "memory", *words)


def exported(bench: Bench, *words: str) -> dict[tuple[Namespace, str], Any]:
    """Return the same as read by `ckpt`."""
    return {
        (tuple(one["namespace"]), one["key"]): (one["value"], one["created_at"], one["updated_at"])
        for one in memory(bench, "export", *words, "-o", "json").json
    }


def listed(bench: Bench, *words: str) -> list[dict[str, Any]]:
    """Return the records of `memory list`."""
    found: list[dict[str, Any]] = memory(bench, "list", "--all", *words, "-o", "json").json
    return found


def keys(bench: Bench, *words: str) -> list[tuple[Namespace, str]]:
    """Return the namespaces and keys of `memory list`."""
    return [(tuple(one["namespace"]), one["key"]) for one in listed(bench, *words)]
