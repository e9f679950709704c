"""Makes the collections and indexes of LangGraph's newest savers in an empty database.

Source: `_create_saver_indexes` in `langgraph/checkpoint/mongodb/saver.py` 0.5.1, and `setup` in
`checkpoint.js` of @langchain/langgraph-checkpoint-mongodb 1.4.1. Both make an index that removes
old documents only if the application asks for it.
"""

from __future__ import annotations

from ckpt_backends import shell
from ckpt_backends.errors import Refused, SeveralLayouts, UnknownLayout
from ckpt_backends.mongodb.declaration import BACKEND
from ckpt_backends.mongodb.engine.catalog import examine, find_layout
from ckpt_backends.mongodb.engine.connect import MongoConnection, connect, explained_change
from ckpt_backends.mongodb.engine.layout import CHECKPOINTS, MEMORY, WRITES
from ckpt_backends.mongodb.memory import find_collection
from ckpt_backends.mongodb.store import INDEX_NAMES, OF_JAVASCRIPT, OF_PYTHON
from ckpt_backends.servers import opening
from ckpt_backends.transfer.form import Language
from ckpt_backends.url import StoreUrl

_PARAMS = {CHECKPOINTS: "collection", WRITES: "writes_collection"}
"""By usual name of a collection, the URL parameter that names another one."""


def create(url: StoreUrl, language: Language) -> None:
    """Make an empty store. See `Backend.create`."""
    with opening(connect(url), url) as connection:
        if not _is_there(connection, url, language):
            _make(connection, url, language)
        connection.close()


def _is_there(connection: MongoConnection, url: StoreUrl, language: Language) -> bool:
    """Whether the store is there. Raises `Refused` if anything else is, besides memory."""
    names = connection.collections()
    if all(one.kind.table == MEMORY for one in examine(connection, names)):
        return False
    try:
        layout = find_layout(connection, url).name
    except (UnknownLayout, SeveralLayouts):
        layout = ""
    if layout == BACKEND.creates[language]:
        return True
    held = f"the layout '{layout}'" if layout else f"collections such as '{names[0]}'"
    raise Refused(
        f"cannot make a store in '{url}': the database holds {held}",
        hint="name another database in the URL",
    )


def _make(connection: MongoConnection, url: StoreUrl, language: Language) -> None:
    is_python = language is Language.PYTHON
    with explained_change(url):
        for table, param in _PARAMS.items():
            collection = connection.database[url.params.get(param, table)]
            if is_python:
                collection.create_index(list(OF_PYTHON[table].items()), unique=True)
            else:
                key = list(OF_JAVASCRIPT[table].items())
                collection.create_index(key, name=INDEX_NAMES[table])


# Makes the collection of MongoDBStore (langgraph-store-mongodb 0.4.0), without vectors.


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
