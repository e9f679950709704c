"""Write the headers of archives."""

from __future__ import annotations

from ckpt_backends.changes.bundle import Header
from ckpt_backends.model import StoreInfo
from ckpt_backends.protocol import Store
from ckpt_cli import __version__
from ckpt_cli.queries.language import language_of_thread


def archive_header(store: Store, thread_id: str, info: StoreInfo, made_at: str) -> Header:
    """Return the header of the archive of a thread: all that is needed to read it elsewhere."""
    found = language_of_thread(store, info.layout, thread_id)
    language = found.value if found is not None else ""
    return Header(thread_id, info.layout, info.saver, info.url, made_at, language, __version__)
