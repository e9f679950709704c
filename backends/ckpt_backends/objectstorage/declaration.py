"""Declares folders with the objects of `ObjectStorageSaver`."""

import os
import re
from itertools import islice

from ckpt_backends.declaration import Backend
from ckpt_backends.model import UUID6
from ckpt_backends.objectstorage import engine

_OBJECT = re.compile(rf"{UUID6}\.msgpack", re.ASCII)
_LOOKED_AT = 20
"""Folders of threads, of which one must have a checkpoint."""


def _claims(path: str) -> bool:
    """Whether a folder has a thread with a checkpoint, by the names in it."""
    try:
        with os.scandir(path) as found:
            threads = [os.path.join(one.path, "checkpoints") for one in islice(found, _LOOKED_AT)]
        return any(
            _OBJECT.fullmatch(name)
            for one in threads
            if os.path.isdir(one)
            for name in islice(os.listdir(one), _LOOKED_AT)
        )
    except OSError:
        return False


BACKEND = Backend(
    title="Object storage",
    layouts={engine.FOLDER: engine.CAN},
    schemes=("objectstorage",),
    driver="fsspec",
    extra="objectstorage",
    is_local=True,
    claims_path=_claims,
    forms={engine.FOLDER: (engine.FORM,)},
    records=engine.RECORDS,
    edits=engine.EDITS,
    checkpoints=engine.OPEN,
    changes=engine.OPEN_WRITABLE,
)
