"""Declares SQLite files with the tables of LangGraph's saver."""

import os

from ckpt_backends.declaration import NAME, NUMBER, SAVER, Backend
from ckpt_backends.model import Capability
from ckpt_backends.transfer.form import Form, Language, Serializer

LOG_SUFFIX = "-wal"
"""Ends the name of a write-ahead log, behind that of its database."""
_SUFFIXES = (".db", ".sqlite", ".sqlite3")


def _claims(path: str) -> bool:
    return path.removesuffix(LOG_SUFFIX).endswith(_SUFFIXES) and not os.path.isdir(path)


BACKEND = Backend(
    title="SQLite",
    layouts={"sqlite": SAVER | Capability.INLINE_VALUES | Capability.ENFORCED_READ_ONLY},
    schemes=("sqlite",),
    params={"copy": NUMBER, "tables": NAME},
    is_local=True,
    claims_path=_claims,
    opens_other_paths=True,
    engine_faults=(
        *("file-damaged", "value-replaced"),
        *("index-missing", "journal-hot", "log-large", "space-free"),
    ),
    mended_faults=("index-missing", "journal-hot", "log-large", "space-free"),
    # A log is a store of its own only if its database is missing.
    file_names=tuple(f"*{suffix}{end}" for suffix in _SUFFIXES for end in ("", LOG_SUFFIX)),
    usual_paths={
        "~/.deepagents/.state/sessions.db": "where dcode of Deep Agents keeps its sessions",
        "~/.deepagents/sessions.db": "where Deep Agents kept its sessions until 2026",
        "~/.evoscientist/sessions.db": "where EvoScientist keeps its sessions",
    },
    forms={
        "sqlite": (
            Form(),
            Form(
                language=Language.JAVASCRIPT, serializer=Serializer.JAVASCRIPT, body_types=("json",)
            ),
        )
    },
    records="ckpt_backends.sql.records:records_of",
    edits="ckpt_backends.sql.records:edited_row",
    creates=dict.fromkeys(Language, "sqlite"),
    create="ckpt_backends.sqlite.write:create_store",
    checkpoints="ckpt_backends.sqlite.store:open_store",
    changes="ckpt_backends.sqlite.write:open_writable",
    memory="ckpt_backends.sqlite.memory:open_memory",
    memory_changes="ckpt_backends.sqlite.memory:open_writable_memory",
    memory_create="ckpt_backends.sqlite.write:create_memory",
)
