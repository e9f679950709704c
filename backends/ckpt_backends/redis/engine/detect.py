"""Finds the store that a URL names in a database, with the recognisers of all layouts.

Some savers have configurable prefixes, so one database can contain several stores of one layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from itertools import islice

from ckpt_backends import shell
from ckpt_backends.declaration import Backend
from ckpt_backends.discovery import bundled, installed
from ckpt_backends.errors import CkptError, SeveralLayouts, UnknownLayout, UsageError
from ckpt_backends.memory import STORE
from ckpt_backends.protocol import Store
from ckpt_backends.redis.engine.connect import connect
from ckpt_backends.redis.engine.connection import RedisConnection
from ckpt_backends.redis.engine.keyspace import text
from ckpt_backends.redis.engine.layout import KeyDatabase, RecognisedStore, RedisLayout
from ckpt_backends.servers import opening, understanding
from ckpt_backends.url import StoreUrl

_NAMING = ("layout", "prefix", "write_prefix")
"""URL parameters that select one of several stores."""
_FEW = 5
_FEW_KEYS = 100_000
"""Databases with more keys are not searched for checkpoints."""


class SeveralStores(SeveralLayouts):
    """The URL matches several stores. This is a usage error: the URL must be more specific."""

    exit_code = UsageError.exit_code


def open_layout(connection: RedisConnection, url: StoreUrl) -> RedisLayout:
    """The store that the URL names, or the only one in the database.

    Raises `UnknownLayout`, or `SeveralStores` if the URL matches several.
    """
    try:
        return _open(connection, url, bundled())
    except (UnknownLayout, UsageError):
        # Installed backends are asked last: looking for them takes 30 ms.
        others = [one for one in installed() if one.engine == "redis"]
        if not others:
            raise
    return _open(connection, url, (*bundled(), *others))


def _open(connection: RedisConnection, url: StoreUrl, backends: Sequence[Backend]) -> RedisLayout:
    name, prefix, write_prefix = (url.params.get(one) for one in _NAMING)
    database = KeyDatabase(connection, backends, prefix, write_prefix)
    known = {layout: one for one in database.recognisers for layout in one.layouts}
    if name is not None and name not in known:
        raise UsageError(f"unknown Redis layout '{name}'", hint=f"known: {', '.join(known)}")
    if name is not None and known[name].is_certain(name):
        return known[name].named(name, prefix, write_prefix).open()
    stores = [one for one in database.stores() if name in {None, one.layout}]
    if len(stores) > 1:
        raise _several(url, stores)
    if stores:
        return stores[0].open()
    others = [one for one in database.elsewhere() if name in {None, one.layout}]
    if others:
        named = [("prefix", prefix), ("write_prefix", write_prefix)]
        said = " and ".join(f"{one} '{value}'" for one, value in named if value is not None)
        raise UnknownLayout(f"no store with {said} in '{url}'", hint=f"name {_urls(url, others)}")
    if name is not None:
        return known[name].named(name, prefix, write_prefix).open()
    for one in database.recognisers:
        if (layout := one.fallback()) is not None:
            return layout
    unread = list(filter(None, (one.unreadable() for one in database.recognisers)))
    if unread:
        raise UnknownLayout(
            f"'{url}' holds checkpoints in a layout that ckpt cannot read: {', '.join(unread)}"
        )
    raise UnknownLayout(f"no checkpoints in '{url}'", hint=_seen(database, url))


def _several(url: StoreUrl, stores: Sequence[RecognisedStore]) -> SeveralStores:
    first = stores[0]
    choices = [one.params(stores) for one in stores]
    if all((one.layout, one.prefix) == (first.layout, first.prefix) for one in stores):
        said = f"cannot tell which prefix the writes of '{first.prefix}' have in '{url}'"
    else:
        said = f"'{url}' holds {len(stores)} stores: {', '.join(map(str, stores))}"
    return SeveralStores(said, choices, hint=f"name one: {_urls(url, stores)}")


def _urls(url: StoreUrl, stores: Sequence[RecognisedStore]) -> str:
    """The first stores as URLs that can be pasted."""
    shown = []
    for one in stores[:_FEW]:
        shown.append(shell.name(str(url.with_params(one.params(stores), without=_NAMING))))
    more = f" or one of {len(stores) - _FEW} more" if len(stores) > _FEW else ""
    return " or ".join(shown) + more


def _seen(database: KeyDatabase, url: StoreUrl) -> str:
    """A hint with the keys that the database contains instead."""
    names = next(islice(database.connection.scan(b"*"), 1), [])
    if not names and database.connection.is_cluster:
        return "the database is empty"
    if not names:
        said = f"database {database.connection.database} is empty"
        other = _in_others(database, url) or f"name another one: {url.scheme}://HOST:PORT/N"
        return f"{said}; {other}"
    some = ", ".join(shell.name(text(name)) for name in sorted(names)[:_FEW])
    if any(name.startswith(f"{STORE}:".encode()) for name in names):
        from ckpt_backends.memory import HINT

        return f"found keys such as {some}; {HINT}"
    expected = [one.expected(database.prefix) for one in database.recognisers]
    *first, last = filter(None, expected)
    found = f"found other keys, such as {some}; looked for {', '.join(first)} and {last}"
    return "; ".join(filter(None, (found, _in_others(database, url))))


def _in_others(database: KeyDatabase, url: StoreUrl) -> str:
    """Which other databases of the server hold checkpoints, or else keys; `''` if none does."""
    keys: dict[int, int] = {}
    for name, about in (database.connection.find("INFO", "keyspace") or {}).items():
        named = str(name).removeprefix("db")
        if named.isdecimal() and isinstance(about, dict) and str(about.get("keys")).isdecimal():
            keys[int(named)] = int(about["keys"])
    keys.pop(database.connection.database, None)
    holding = []
    for number in [one for one, some in sorted(keys.items()) if some <= _FEW_KEYS][:_FEW]:
        with suppress(CkptError), closing(connect(url.with_params({"db": str(number)}))) as other:
            if database.at(other).stores():
                holding.append(number)
    shown = [str(one) for one in holding or sorted(keys)[:_FEW]]
    numbers = f"database{'s' if len(shown) > 1 else ''} {', '.join(shown)}"
    if holding:
        return f"{numbers} of this server {'hold' if holding[1:] else 'holds'} checkpoints: {url.scheme}://HOST:PORT/{holding[0]}"
    return f"keys are in {numbers}" if keys else ""


def open_store(url: StoreUrl) -> Store:
    """Open for reading. Raises `StoreUnavailable` or `UnknownLayout`."""
    with opening(connect(url), url) as connection:
        return understanding(open_layout(connection, url).open(url), url)
