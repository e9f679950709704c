"""Checks that a database is free for ValkeySaver, which needs nothing in it."""

from __future__ import annotations

from ckpt_backends.errors import Refused, UnknownLayout
from ckpt_backends.servers import understood
from ckpt_backends.transfer.form import Language
from ckpt_backends.url import StoreUrl


def create_store(url: StoreUrl, language: Language) -> None:  # noqa: ARG001 - Python only
    """Check that a database is empty or has this layout. Raises `Refused` if it has other keys."""
    from ckpt_backends.redis.engine.connect import connect
    from ckpt_backends.redis.engine.detect import open_layout

    with understood(url):
        connection = connect(url)
        try:
            if not any(connection.scan(b"*")):
                return
            found = open_layout(connection, url).name
        except UnknownLayout:
            found = "none that ckpt knows"
        finally:
            connection.close()
    if found != "valkey":
        raise Refused(
            f"cannot make a store in '{url}': the database has other keys; their layout: {found}",
            hint=f"name an empty database: {url.scheme}://HOST:PORT/N",
        )
