"""Overwrites old files of `langgraph dev`, and names those of the server that are left."""

from __future__ import annotations

from pathlib import Path

from ckpt_backends.changes.remains import Remaining, Remains
from ckpt_backends.errors import reason_of
from ckpt_backends.files.overwriting import OldFiles, overwrite_and_remove
from ckpt_backends.langgraph_dev.files import NAMES
from ckpt_backends.langgraph_dev.server import SERVERS_MEMORY, SERVERS_OWN


def remains_of(folder: Path, old: OldFiles, note: str) -> Remains:
    """Overwrite the replaced files, and unfinished ones of a killed server.

    `note` is about a file that only the server changes; `''` if there is none.
    """
    places: list[Remaining] = [Remaining(f"'{SERVERS_OWN}'", note)] if note else []
    for name in SERVERS_MEMORY:
        if (folder / name).exists():
            reason = "long-term memory of the server, which ckpt does not change"
            places.append(Remaining(f"'{name}'", reason))
    for name in NAMES:
        unfinished = folder / f"{name}.tmp"
        try:
            places += overwrite_and_remove(unfinished, f"'{unfinished.name}'")
        except FileNotFoundError:
            continue
        except OSError as error:
            reason = reason_of(error)
            places.append(Remaining(f"'{unfinished.name}'", reason, is_reachable=True))
    found = old.remains()
    return found._replace(places=(*places, *found.places))
