"""Makes the files of `langgraph dev` in a new folder."""

from __future__ import annotations

import os
from pathlib import Path

from ckpt_backends.errors import Refused, StoreUnavailable, reason_of
from ckpt_backends.files import make_private_folder, remove_unfinished, writing
from ckpt_backends.langgraph_dev.declaration import CHECKPOINTS, FOLDER, SUFFIX
from ckpt_backends.langgraph_dev.files import (
    BLOBS,
    NAMES,
    QUIET_SECONDS,
    SERVERS_FILES,
    WRITES,
    running,
)
from ckpt_backends.transfer.form import Language
from ckpt_backends.url import StoreUrl

_EMPTY = b"\x80\x02}q\x00."
"""What `PersistentDict.sync` writes for an empty dict: a pickle of protocol 2."""


def create_store(url: StoreUrl, language: Language) -> None:  # noqa: ARG001 - Python only
    """Make a folder with empty files, as the server does when it stops for the first time.

    Raises `Refused` if the folder has other files than those of a server, and `StoreUnavailable`.
    """
    folder = _folder(url)
    if (folder / CHECKPOINTS).exists():
        return
    try:
        make_private_folder(folder)
        remove_unfinished(folder, NAMES.__contains__)
        foreign = sorted({one.name for one in folder.iterdir()} - _OWN)
        if foreign:
            raise Refused(
                f"cannot make a store in '{folder}': it has other files, such as '{foreign[0]}'",
                hint=f"name a folder '{FOLDER}' that does not exist, or a project without one",
            )
        if reason := running(folder):
            raise StoreUnavailable(
                f"cannot make a store in '{folder}': langgraph dev is running: {reason}",
                hint=f"stop the server, wait {QUIET_SECONDS} seconds, then run the command again",
            )
        # The first file, by which the folder is recognised, comes last.
        for name in (BLOBS, WRITES, CHECKPOINTS):
            with writing(folder / name) as file:
                file.write(_EMPTY)
    except OSError as error:
        raise StoreUnavailable(f"cannot make a store in '{folder}': {reason_of(error)}") from error


_OWN = frozenset({WRITES, BLOBS, *SERVERS_FILES})


def _folder(url: StoreUrl) -> Path:
    """The folder for the files: the one that is named, or the one of a project."""
    path = Path(os.path.abspath(url.path))
    if path.suffix == SUFFIX:
        return path.parent
    is_own = path.name == FOLDER or (path / CHECKPOINTS).exists()
    return path if is_own else path / FOLDER
