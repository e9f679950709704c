"""Makes the collections and indexes of LangGraph's newest savers in an empty database.

Source: `_create_saver_indexes` in `langgraph/checkpoint/mongodb/saver.py` 0.5.1, and `setup` in
`checkpoint.js` of @langchain/langgraph-checkpoint-mongodb 1.4.1. Both make an index that removes
old documents only if the application asks for it.
"""

from __future__ import annotations

from ckpt_backends.errors import Refused, SeveralLayouts, UnknownLayout
from ckpt_backends.mongodb.declaration import BACKEND
from ckpt_backends.mongodb.engine.catalog import examine, find_layout
from ckpt_backends.mongodb.engine.connect import MongoConnection, connect
from ckpt_backends.mongodb.engine.driver_errors import explained_change
from ckpt_backends.mongodb.engine.layout import CHECKPOINTS, MEMORY, WRITES
from ckpt_backends.mongodb.faults import INDEX_NAMES, OF_JAVASCRIPT, OF_PYTHON
from ckpt_backends.servers.answer_errors import opening
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
