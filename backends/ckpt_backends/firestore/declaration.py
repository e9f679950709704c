"""Declares databases of Firestore with the documents of `FirestoreSaver`."""

from ckpt_backends.declaration import NAME, SAVER, Backend
from ckpt_backends.model import Capability
from ckpt_backends.transfer.form import Form

BACKEND = Backend(
    title="Firestore",
    layouts={"firestore": SAVER | Capability.INLINE_VALUES},
    schemes=("firestore",),
    driver="google.cloud.firestore",
    extra="firestore",
    params={"collection": NAME},
    forms={
        "firestore": (
            Form(
                body_types=("msgpack",),
                metadata_type="msgpack",
                can_encrypt=False,  # it always uses LangGraph's plain serializer
                counts_with_integers=True,
            ),
        )
    },
    records="ckpt_backends.objects.records:records_of",
    edits="ckpt_backends.sql.records:edited_row",
    checkpoints="ckpt_backends.firestore.store:open_store",
    changes="ckpt_backends.firestore.write:open_writable",
)
