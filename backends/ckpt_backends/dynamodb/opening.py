"""Opens a table of `DynamoDBSaver`."""

from __future__ import annotations

from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.servers import opening, understanding
from ckpt_backends.transfer.form import Language
from ckpt_backends.url import StoreUrl


def open_store(url: StoreUrl) -> Store:
    """Open for reading. Raises `UsageError`, `StoreUnavailable` or `UnknownLayout`."""
    from ckpt_backends.dynamodb.connect import connect
    from ckpt_backends.dynamodb.store import DynamoStore

    with opening(connect(url), url) as connection:
        return understanding(DynamoStore(connection, url), url)


def open_writable(url: StoreUrl) -> WritableStore:
    """Open for changing. Raises the errors of `open_store`."""
    from ckpt_backends.dynamodb.connect import connect
    from ckpt_backends.dynamodb.write import WritableDynamoStore

    with opening(connect(url), url) as connection:
        return understanding(WritableDynamoStore(connection, url), url)


def create_store(url: StoreUrl, language: Language) -> None:  # noqa: ARG001 - Python only
    """Make a table. Raises `UsageError`, `StoreUnavailable`, and `Refused` if it has other items.

    The bucket for long payloads must exist, if the URL names one.
    """
    from ckpt_backends.dynamodb.create import create_table

    create_table(url)
