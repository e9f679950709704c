"""Converts the metadata of checkpoints between the types in which layouts store it."""

from __future__ import annotations

from ckpt_backends.model import TypedBytes
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.form import Form


def converted_metadata(metadata: TypedBytes, source: Form, target: Form, where: str) -> TypedBytes:
    """Metadata in the form of another layout. Raises `CannotHold`."""
    if target.metadata_type in (source.metadata_type, metadata.type):
        return metadata
    raise CannotHold(f"the metadata of {where} cannot be converted to {target.metadata_type}")
