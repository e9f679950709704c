"""Opens folders that `langgraph dev` wrote."""

from __future__ import annotations

import os

from ckpt_backends.errors import Unsupported
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.url import StoreUrl


def open_store(url: StoreUrl) -> Store:
    """Open a folder for reading. Raises `StoreUnavailable` or `UnknownLayout`."""
    from ckpt_backends.langgraph_dev.read import DevStore

    return DevStore(url)


def open_writable(url: StoreUrl) -> WritableStore:
    """Open a folder for changing.

    Raises the errors of `open`, `StoreUnavailable` while its server runs, and `Unsupported` on
    systems other than POSIX.
    """
    if os.name != "posix":
        raise Unsupported(
            f"cannot write to '{url}': folders cannot be locked on this system",
            hint="run the command on Linux or macOS",
        )
    from ckpt_backends.langgraph_dev.write import WritableDevStore

    return WritableDevStore(url)
