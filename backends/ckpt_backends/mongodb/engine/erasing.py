"""Names where removed documents may still be in MongoDB, and compacts the collections.

WiredTiger frees the blocks of removed documents without overwriting them. `compact` moves documents
to the front of a file and cuts its end off, on the connected server only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pymongo.errors import OperationFailure

from ckpt_backends.changes.progress import Progress
from ckpt_backends.changes.remains import BACKUPS, FREED_BLOCKS, Remaining, Remains
from ckpt_backends.mongodb.engine.connect import MongoConnection
from ckpt_backends.mongodb.engine.driver_errors import explained
from ckpt_backends.url import StoreUrl

_UNAUTHORIZED, _UNKNOWN = 13, 59
_NOT_PERMITTED = "compact is not permitted: it needs the role `dbAdmin`"
_NO_COMPACT = "the server has no command to compact it"
_NEVER = (_NOT_PERMITTED, _NO_COMPACT)
"""Refusals that a later run gets, too."""
_FREE_SPACE = "free blocks in the files of the collections"
_NOT_OVERWRITTEN = "the server does not overwrite the space of removed documents until it reuses it"
_JOURNAL = Remaining(
    "journal and older versions of documents",
    "the server keeps both for a while, for recovery and for reads of the past",
)
_OPLOG = Remaining(
    "oplog", "it holds documents as they were inserted, until their entries are overwritten"
)


def erase_remains(
    connection: MongoConnection,
    url: StoreUrl,
    collections: Collection[str],
    *,
    rewrite: bool,
    progress: Progress,
) -> Remains:
    """With `rewrite`, compact the collections. Raises `StoreUnavailable`."""
    connection.restart()
    hello = connection.command("hello")
    done, places = [], []
    for name in sorted(collections) if rewrite else ():
        statement = f"compact {name}"
        progress(statement)
        why = _refusal(connection, url, name, force="setName" in hello)
        if why:
            places.append(Remaining(f"collection {name}", why, is_reachable=why not in _NEVER))
        else:
            done.append(statement)
    places.append(Remaining(_FREE_SPACE, _NOT_OVERWRITTEN, needs_rewrite=not rewrite))
    places += _elsewhere(hello)
    return Remains(tuple(done), (*places, FREED_BLOCKS, BACKUPS))


def _refusal(connection: MongoConnection, url: StoreUrl, name: str, *, force: bool) -> str:
    """Compact a collection. Returns why the server refused it, or `''`."""
    # A primary compacts only if it is forced to.
    command = {"compact": name, **({"force": True} if force else {})}
    with explained(url):
        try:
            connection.database.command(command)
        except OperationFailure as error:
            if error.code == _UNAUTHORIZED:
                return _NOT_PERMITTED
            if error.code == _UNKNOWN:
                return _NO_COMPACT
            # The text of a server's error may quote stored data.
            return f"compact failed: {(error.details or {}).get('codeName') or error.code}"
    return ""


def _elsewhere(hello: Mapping[str, Any]) -> Iterator[Remaining]:
    """The logs of the server, and its other members; `hello` is its answer to that command."""
    yield _JOURNAL
    is_sharded = hello.get("msg") == "isdbgrid"
    if "setName" in hello or is_sharded:
        yield _OPLOG
    others = sum(len(hello.get(kind, ())) for kind in ("hosts", "passives", "arbiters")) - 1
    if is_sharded:
        yield Remaining("shards", "each has files and an oplog of its own")
    elif others > 0:
        yield Remaining(
            "other members of the replica set",
            f"it has {others}; each has files and an oplog of its own, and was not compacted",
        )
