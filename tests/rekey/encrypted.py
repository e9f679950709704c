"""Stores that the official savers fill through `EncryptedSerializer`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from ckpt_backends.registry import open_store
from ckpt_backends.testing.harness import Harness
from ckpt_backends.transfer.parts import CheckpointPart
from ckpt_backends.transfer.routes import parts_of_rows

KEY = b"0123456789abcdef"
NEW = b"another key with thirty-two byte"


@contextmanager
def key_of(harness: Harness, key: bytes | None) -> Iterator[None]:
    """Let the savers of a harness encrypt with a key, or not at all."""
    plain = harness.saver

    @contextmanager
    def saver() -> Iterator[Any]:
        with plain() as opened:
            yield opened if key is None else encrypting(opened, key)

    harness.saver = saver  # type: ignore[method-assign]
    try:
        yield
    finally:
        harness.saver = plain  # type: ignore[method-assign]


def encrypting(saver: Any, key: bytes) -> Any:
    """Return a saver that encrypts with a key."""
    # The savers of langgraph-checkpoint-aws keep it in a part of theirs.
    holder = saver.serializer if hasattr(saver, "serializer") else saver
    holder.serde = EncryptedSerializer.from_pycryptodome_aes(holder.serde, key=key)
    return saver


def types_of(url: str, thread_id: str) -> set[str]:
    """Return the types of all values of a thread that are stored by themselves."""
    with open_store(url) as store:
        layout = store.describe().layout
        return {
            (part.body if isinstance(part, CheckpointPart) else part.value).type
            for part in parts_of_rows(layout, store.rows(thread_id))
        }
