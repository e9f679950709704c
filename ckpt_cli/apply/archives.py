"""Write the headers of archives."""

from __future__ import annotations

from ckpt_backends.changes.bundle import Header
from ckpt_backends.model import StoreInfo
from ckpt_backends.transfer.form import Language


def archive_header(
    thread_id: str | None, info: StoreInfo, made_at: str, language: Language | None, version: str
) -> Header:
    """Return the header of an archive: all that is needed to read it elsewhere.

    `version` is that of `ckpt`.
    """
    words = language.value if language is not None else ""
    return Header(thread_id, info.layout, info.saver, info.url, made_at, words, version)
