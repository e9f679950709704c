"""Reads and changes the objects of `ObjectStorageSaver`: files in a folder, or objects of S3."""

from ckpt_backends.declaration import NAME, SAVER
from ckpt_backends.model import Capability
from ckpt_backends.transfer.form import Form

FOLDER, BUCKET = "objectstorage", "objectstorage-s3"
"""The layouts."""
S3 = "s3"
"""The scheme of the URLs of buckets."""
PARAMS = {
    **dict.fromkeys(("region", "profile"), NAME),
    "endpoint": r"https?://[\w.-]*(:\d*)?/?|https?://\[[\da-fA-F:]*\](:\d*)?/?",
}
"""The parameters of these URLs, as in a declaration."""
CAN = (SAVER & ~Capability.TASK_PATH) | Capability.INLINE_VALUES
FORM = Form(
    body_types=("msgpack",),
    metadata_type="msgpack",
    can_encrypt=False,  # it always uses LangGraph's plain serializer
    has_task_paths=False,
    counts_with_integers=True,
    # Without task paths, parallel writes would be read in the order of the ids of their tasks.
    receives=False,
)
RECORDS = "ckpt_backends.objectstorage.engine.records:records_of"
EDITS = "ckpt_backends.objectstorage.engine.records:edited_row"
OPEN = "ckpt_backends.objectstorage.engine.store:open_store"
OPEN_WRITABLE = "ckpt_backends.objectstorage.engine.write:open_writable"
