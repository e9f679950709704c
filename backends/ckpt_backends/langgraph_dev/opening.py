"""Opens folders that `langgraph dev` wrote."""

from __future__ import annotations

import os

from ckpt_backends.errors import Unsupported, only_read
from ckpt_backends.langgraph_dev.declaration import JAVASCRIPT_LAYOUT
from ckpt_backends.langgraph_dev.files import place_of
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.url import StoreUrl


def open_store(url: StoreUrl) -> Store:
    """Open a folder for reading. Raises `UsageError`, `StoreUnavailable` or `UnknownLayout`."""
    folder, layout = place_of(url)
    if layout == JAVASCRIPT_LAYOUT:
        from ckpt_backends.langgraph_dev.javascript import JavaScriptDevStore

        return JavaScriptDevStore(url, folder)
    from ckpt_backends.langgraph_dev.store import DevStore

    return DevStore(url, folder)


def open_writable(url: StoreUrl) -> WritableStore:
    """Open a folder for changing.

    Raises the errors of `open_store`, `StoreUnavailable` while its server runs, and `Unsupported`
    for LangGraph.js and on systems other than POSIX.
    """
    folder, layout = place_of(url)
    if layout == JAVASCRIPT_LAYOUT:
        raise only_read(str(url))
    if os.name != "posix":
        raise Unsupported(
            f"cannot write to '{url}': folders cannot be locked on this system",
            hint="run the command on Linux or macOS",
        )
    from ckpt_backends.langgraph_dev.write import WritableDevStore

    return WritableDevStore(url, folder)
