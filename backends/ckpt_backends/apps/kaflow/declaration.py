"""Declares the collection of KaFlow's checkpointer."""

from ckpt_backends.declaration import LAST_STORED, Backend
from ckpt_backends.model import Capability
from ckpt_backends.transfer.form import Form, Serializer

BACKEND = Backend(
    title="KaFlow",
    layouts={"kaflow": Capability.HISTORY | Capability.ADDING | Capability.INLINE_VALUES},
    engine="mongodb",
    impossible_faults={
        "id-not-increasing": LAST_STORED,
        **dict.fromkeys(("type-blocked", "plaintext-among-encrypted"), "values are pickled"),
        "value-unreadable": "a pickle is decoded as a whole",
        "namespace-orphaned": "has no namespaces",
        "memory-of-abandoned-branch": "has no namespaces",
    },
    engine_faults=("rows-hidden", "index-missing", "space-free", "document-near-limit"),
    mended_faults=("index-missing",),
    unmended_faults=("tool-call-unanswered", "tool-result-orphaned"),  # a pickle is not edited
    forms={
        "kaflow": (
            Form(
                serializer=Serializer.PICKLE,
                body_types=("pickle",),
                encrypts_body=False,
                has_task_paths=False,
                counts_with_integers=True,
                receives=False,
            ),
        )
    },
    records="ckpt_backends.apps.kaflow.records:records_of",
    edits="ckpt_backends.apps.kaflow.records:edited_row",
    recognise="ckpt_backends.apps.kaflow.store:recognise",
)
