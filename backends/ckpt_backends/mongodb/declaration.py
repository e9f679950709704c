"""Declares MongoDB databases with the collections of LangGraph's savers."""

from ckpt_backends.declaration import CLEARS, NAME, SAVER, WORD, Backend
from ckpt_backends.model import Capability
from ckpt_backends.transfer.form import Form, Language, Serializer

_JAVASCRIPT = Capability.HISTORY | Capability.WRITES | Capability.ADDING

BACKEND = Backend(
    title="MongoDB",
    layouts={
        "mongodb": SAVER | Capability.INLINE_VALUES,
        "mongodb-js": _JAVASCRIPT | Capability.INLINE_VALUES,
    },
    schemes=("mongodb", "mongodb+srv"),
    engine="mongodb",
    recognise="ckpt_backends.mongodb.store:recognise",
    driver="pymongo",
    extra="mongodb",
    params={
        **dict.fromkeys(("collection", "writes_collection", "store_collection"), NAME),
        **dict.fromkeys(("authSource", "replicaSet"), NAME),
        **dict.fromkeys(("snapshot", "tls", "directConnection", "retryWrites"), WORD),
    },
    engine_faults=(
        "mongodb-js:value-replaced",
        "rows-hidden",
        "index-missing",
        "ttl-partial",
        "space-free",
        "document-near-limit",
    ),
    mended_faults=("index-missing",),
    unmended_faults=("mongodb-js:value-unreadable",),  # only a write can be unreadable alone
    impossible_faults={
        "mongodb-js:type-blocked": "values are stored as JSON",
        "mongodb-js:plaintext-among-encrypted": "LangGraph.js does not encrypt",
        "mongodb-js:state-by-library": CLEARS,
    },
    checkpoints="ckpt_backends.mongodb.engine.layout:open_store",
    changes="ckpt_backends.mongodb.engine.layout:open_writable",
    forms={
        "mongodb": (Form(metadata_type="bson", encrypts_metadata=True, counts_with_integers=True),),
        "mongodb-js": (
            Form(
                language=Language.JAVASCRIPT,
                serializer=Serializer.JAVASCRIPT,
                body_types=("json",),
                has_task_paths=False,
            ),
        ),
    },
    records="ckpt_backends.mongodb.engine.records:records_of",
    edits="ckpt_backends.mongodb.engine.records:edited_row",
    creates={Language.PYTHON: "mongodb", Language.JAVASCRIPT: "mongodb-js"},
    create="ckpt_backends.mongodb.write:create",
    memory="ckpt_backends.mongodb.memory:open_memory",
    memory_changes="ckpt_backends.mongodb.write:open_writable_memory",
    memory_create="ckpt_backends.mongodb.write:create_memory",
)
