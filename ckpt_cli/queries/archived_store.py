"""Tell whether an archive was made from a store."""

from __future__ import annotations

import os
from contextlib import suppress

from ckpt_backends.errors import UsageError
from ckpt_backends.url import StoreUrl, parse_url
from ckpt_cli.operations.place import place_of


def is_from_store(written: str, url: StoreUrl) -> bool:
    """Return whether the header of an archive, such as `agent.db`, names this store.

    A relative path was relative to a folder that is not known, so any end of the path will do.
    """
    if written == str(url):
        return True
    with suppress(UsageError):
        named = parse_url(written)
        if place_of(named) == place_of(url):
            return True
        path = os.path.realpath(url.path)
        return (
            named.scheme == url.scheme
            and written == named.path
            and not os.path.isabs(written)
            and path.endswith(f"/{os.path.normpath(written)}")
        )
    return False
