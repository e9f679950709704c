"""Makes the collection of MongoDBStore (langgraph-store-mongodb 0.4.0), without vectors."""

from __future__ import annotations

from ckpt_backends import shell
from ckpt_backends.errors import Refused, UnknownLayout
from ckpt_backends.mongodb.engine.catalog import examine
from ckpt_backends.mongodb.engine.connect import connect
from ckpt_backends.mongodb.engine.driver_errors import explained_change
from ckpt_backends.mongodb.engine.layout import MEMORY
from ckpt_backends.mongodb.items import find_collection
from ckpt_backends.url import StoreUrl

_NAME = "persistent-store"
"""The default name of `MongoDBStore.from_conn_string`."""


def create_memory(url: StoreUrl) -> None:
    """Make the collection in a database with nothing or threads, unless it is there.

    Raises `Refused` if there is anything else, and `StoreUnavailable`.
    """
    connection = connect(url)
    try:
        try:
            name = find_collection(connection, url)
        except UnknownLayout:
            name = url.params.get("store_collection", _NAME)
        found = {one.name: one for one in examine(connection, connection.collections())}
        if name in found and found[name].kind.table == MEMORY:
            return
        others = [
            one for one in found.values() if one.fields and (one.name == name or not one.kind.table)
        ]
        if others:
            listed = ", ".join(shell.word(one.name) for one in others[:10])
            raise Refused(
                f"cannot make a store in '{url}': it is not empty",
                hint=f"found {listed}; name an empty database",
            )
        with explained_change(url):
            if name not in found:
                connection.database.create_collection(name)
            connection.database[name].create_index(["namespace_str", "key"], unique=True)
    finally:
        connection.close()
