"""Encrypt what a change adds to a thread with encrypted values, as the agent's saver would.

Plans read decrypted values, whose copies have `TypedBytes.encrypted` set.
"""

from __future__ import annotations

from dataclasses import replace

from ckpt_backends.changes.change import Change, CopyOfCheckpoint
from ckpt_backends.encryption import NO_KEY, Keys, encrypted, is_encrypted, sealed_metadata
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import Checkpoint, CheckpointKey, TypedBytes
from ckpt_backends.transfer.sealing import sealed_together


def sealed_change(change: Change, keys: Keys) -> Change:
    """Return a change with encrypted values; the same one if none of them is to be encrypted.

    The result is the same each time. Raises `Unsupported` without a key.
    """
    seal = _Seal(keys)
    return replace(
        change,
        checkpoints=tuple(map(seal.checkpoint, change.checkpoints)),
        writes=tuple(
            one._replace(value=seal.value(one.value, _place(one.key, one.task_id, str(one.idx))))
            for one in change.writes
        ),
        blobs=tuple(
            replace(
                one,
                value=seal.given(
                    one.value,
                    "\0".join((change.thread_id, one.checkpoint_ns, one.channel, one.version)),
                ),
            )
            for one in change.blobs
        ),
        copies=tuple(map(seal.copy, change.copies)),
    )


class _Seal:
    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def checkpoint(self, one: Checkpoint) -> Checkpoint:
        if one.body is not None and one.body.part and not is_encrypted(one.body):
            return self._together(one)
        body = self.value(one.body, _place(one.key))
        return one._replace(body=body, metadata=self._metadata(one.metadata, one.key))

    def _together(self, one: Checkpoint) -> Checkpoint:
        """Return a checkpoint whose body and metadata are encrypted as one value."""
        if one.body is None or one.metadata is None or not one.metadata.part:
            raise Unsupported("cannot add a checkpoint that is encrypted with its metadata")
        place = _place(one.key)
        body, metadata = sealed_together(
            one.body, one.metadata, lambda whole: self.given(whole._replace(encrypted=True), place)
        )
        return one._replace(body=body, metadata=metadata)

    def copy(self, one: CopyOfCheckpoint) -> CopyOfCheckpoint:
        body = self.value(one.body, _place(one.source))
        return replace(one, body=body, metadata=self._metadata(one.metadata, one.source))

    def _metadata(self, value: TypedBytes | None, key: CheckpointKey) -> TypedBytes | None:
        if value is None or not value.encrypted:
            return value
        place = _place(key, "metadata")
        return sealed_metadata(
            value, lambda one: self.given(one._replace(encrypted=one.encrypted or True), place)
        )

    def value(self, value: TypedBytes | None, place: str) -> TypedBytes | None:
        return None if value is None else self.given(value, place)

    def given(self, value: TypedBytes, place: str) -> TypedBytes:
        """Return a value encrypted, if its original is and it is not yet."""
        if not value.encrypted or is_encrypted(value) or value.type == "empty":
            return value
        keys = self._keys()
        if not keys:
            raise Unsupported(f"cannot change values that are {NO_KEY}")
        return TypedBytes(
            f"{value.type}+aes", encrypted(value.data, keys[0], place, value.encrypted)
        )


def _place(key: CheckpointKey, *more: str) -> str:
    return "\0".join((key.thread_id, key.checkpoint_ns, key.checkpoint_id, *more))
