"""Opens the memory files of DeerFlow."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NoReturn

from ckpt_backends import shell
from ckpt_backends.errors import UnknownLayout, Unsupported
from ckpt_backends.memory import EditableMemoryStore, MemoryStore
from ckpt_backends.url import StoreUrl


def open_memory(url: StoreUrl) -> MemoryStore:
    """Open memory files for reading. Raises `StoreUnavailable`, `UnknownLayout`."""
    from ckpt_backends.apps.deerflow.memory import DeerFlowMemory

    return DeerFlowMemory(url)


def open_editable_memory(url: StoreUrl) -> EditableMemoryStore:
    """Open memory files for writing and for setting fields of items."""
    from ckpt_backends.apps.deerflow.write import WritableDeerFlowMemory

    return WritableDeerFlowMemory(url)


def refuse_threads(url: StoreUrl) -> NoReturn:
    """Raises `StoreUnavailable`, or `Unsupported` with a hint at the checkpoint store."""
    from ckpt_backends.apps.deerflow.checkpointer import threads_of_memory
    from ckpt_backends.apps.deerflow.memory import memory_files

    # Let `memory_files` raise its error if the file or folder does not exist.
    with suppress(UnknownLayout):
        memory_files(url)
    found = threads_of_memory(url)
    if found.url is None:
        hint = f"name the store of its threads with -s; it was not found: {found.why}"
    elif found.url.scheme == "sqlite" and not os.path.isfile(found.url.path):
        hint = f"the file of its threads is not there: {shell.name(str(found.url))} ({found.why})"
    else:
        hint = f"its threads are in another store: use -s {shell.name(str(found.url))}"
    raise Unsupported(f"'{url}' holds DeerFlow's memory, not threads", hint=hint)
