"""Stores that the official savers fill through `EncryptedSerializer`."""

from collections.abc import Iterator
from contextlib import contextmanager

from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from ckpt_backends.registry import open_store
from ckpt_backends.testing.harness import Harness
from ckpt_backends.transfer.copying import records_of_rows

KEY = b"0123456789abcdef"
NEW = b"another key with thirty-two byte"


@contextmanager
def key_of(harness: Harness, key: bytes | None) -> Iterator[None]:
    """Let the saver of a harness encrypt with a key, or not at all."""
    saver = harness.kept_saver
    # The saver of DynamoDB has it in a part of its own.
    holder = saver.serializer if hasattr(saver, "serializer") else saver
    plain = holder.serde
    if key is not None:
        holder.serde = EncryptedSerializer.from_pycryptodome_aes(plain, key=key)
    try:
        yield
    finally:
        holder.serde = plain


def types_of(url: str, thread_id: str) -> set[str]:
    """Return the types of all values of a thread that are stored by themselves."""
    with open_store(url) as store:
        layout = store.describe().layout
        return {record.value.type for record in records_of_rows(layout, store.rows(thread_id))}
