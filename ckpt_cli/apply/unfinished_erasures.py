"""Erasures that did not end, as digests in `$XDG_STATE_HOME/ckpt/erasures`.

The next run of the same erasure finds with them what belongs to threads that are gone already. A
file holds no id and no name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ckpt_backends.errors import CkptError, UsageError
from ckpt_backends.files.atomic_write import make_private_folder, writing
from ckpt_backends.files.regular_file import read_regular
from ckpt_cli.config.folders import state_folder
from ckpt_cli.core.erasure.digests import ErasedIds, ids_from_record, ids_record

_FORMAT = 1
_LONGEST = 256 << 20


@dataclass(slots=True)
class UnfinishedErasure:
    """The digests of one erasure, on disk until it is complete."""

    ids: ErasedIds
    place: str
    """A digest of where the store is."""
    request: str
    """What was asked for, as canonical text; only its digest is stored."""
    path: Path | None = None
    """Its file; None before it is written."""

    def write(self, note: Callable[[str], None]) -> None:
        """Write it, so that another run can go on. Notes it if it cannot be written."""
        record = {
            "ckpt_unfinished_erasure": _FORMAT,
            "place": self.place,
            "request": self.ids.digest("request", self.request),
            **ids_record(self.ids),
        }
        try:
            path = self.path or state_folder("erasures") / f"{os.urandom(8).hex()}.json"
            make_private_folder(path.parent)
            with writing(path) as file:
                file.write(json.dumps(record, separators=(",", ":")).encode())
        except (OSError, UsageError) as error:
            note(f"cannot record that this erasure began: {error}")
            return
        self.path = path

    def remove(self) -> None:
        """Remove it from the disk: the erasure is complete."""
        if self.path is not None:
            with suppress(OSError):
                self.path.unlink()


def unfinished_erasure(place: str, request: str) -> UnfinishedErasure | None:
    """Return the erasure that an earlier run of the same request began; None if it ended."""
    with suppress(UsageError):
        for path in sorted(state_folder("erasures").glob("*.json")):
            with suppress(OSError, CkptError, ValueError, KeyError, TypeError, RecursionError):
                record = json.loads(read_regular(path, _LONGEST))
                if (record["ckpt_unfinished_erasure"], record["place"]) != (_FORMAT, place):
                    continue
                ids = ids_from_record(record)
                if record["request"] == ids.digest("request", request):
                    return UnfinishedErasure(ids, place, request, path)
    return None
