"""Declares the three-table layout, in the databases of any SQL engine."""

from ckpt_backends.declaration import Backend
from ckpt_backends.model import Capability

_ANY = (
    Capability.HISTORY | Capability.WRITES | Capability.VALUES_ONLY | Capability.ENFORCED_READ_ONLY
)

BACKEND = Backend(
    title="three tables",
    layouts={
        "three-table": _ANY | Capability.ADDING,
        "three-table-latest": _ANY | Capability.LATEST_VALUES,
    },
    engine="sql",
    edits="ckpt_backends.apps.three_table.layout:edited_row",
    # All but `rows-hidden` and `space-free` occur only in files of SQLite.
    engine_faults=("file-damaged", "rows-hidden", "journal-hot", "log-large", "space-free"),
    mended_faults=("journal-hot", "log-large", "space-free"),
    recognise="ckpt_backends.apps.three_table.layout:recognise",
)
