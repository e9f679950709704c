"""Changes the encryption of the values of a thread, part by part, where they are stored."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ckpt_backends.encryption import (
    has_encrypted_parts,
    is_encrypted,
    map_parts,
    part_of,
    sealed_metadata,
)
from ckpt_backends.model import TypedBytes
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.form import Form
from ckpt_backends.transfer.parts import CheckpointPart, Part
from ckpt_backends.transfer.sealing import WithKeys, place_of, sealed_together

_EMPTY = "empty"


@dataclass(slots=True)
class RekeyCounts:
    """Numbers of values."""

    values: int = 0
    """All values that can be encrypted."""
    rekeyed: int = 0
    """Those that change."""
    done_before: int = 0
    """Those that are encrypted with the key that they are to have."""

    def add_all(self, other: RekeyCounts) -> None:
        """Add the numbers of others."""
        self.values += other.values
        self.rekeyed += other.rekeyed
        self.done_before += other.done_before


class Rekeying:
    """Encrypts and decrypts what `EncryptedSerializer` encrypts in one layout."""

    def __init__(self, form: Form, keys: WithKeys) -> None:
        self._form = form
        self._keys = keys

    def of(self, part: Part, counts: RekeyCounts) -> Part:
        """A part with the encryption that it is to have; the same part if nothing changes.

        Raises `CannotHold` for a value that no key opens.
        """
        place = place_of(part)
        if not isinstance(part, CheckpointPart):
            value = self._changed(part.value, place, _named(part), counts)
            return part if value is part.value else replace(part, value=value)
        named = _named(part)
        body, metadata = part.body, part.metadata
        if self._form.encrypts_together:
            return self._together(part, place, named, counts)
        if self._form.encrypts_body or is_encrypted(body):
            body = self._changed(body, place, f"the body of {named}", counts)
        if self._form.encrypts_metadata or has_encrypted_parts(metadata):
            metadata = self._changed_metadata(part, f"the metadata of {named}", counts)
        if body is part.body and metadata is part.metadata:
            return part
        return replace(part, body=body, metadata=metadata)

    def check(self, part: Part) -> bool:
        """Open one value of a part. Returns whether it has an encrypted one.

        Raises `CannotHold` if no key opens it.
        """
        value = part.body if isinstance(part, CheckpointPart) else part.value
        if not is_encrypted(value):
            return False
        self._keys.opened(value, _named(part))
        return True

    def _together(
        self, part: CheckpointPart, place: str, where: str, counts: RekeyCounts
    ) -> CheckpointPart:
        """A checkpoint whose body and metadata are encrypted as one value."""
        whole = part.body._replace(part="")
        if not part.body.part:
            body, metadata = sealed_together(
                part.body, part.metadata, lambda one: self._changed(one, place, where, counts)
            )
            if body is part.body:
                return part
            return replace(part, body=body, metadata=metadata)
        changed = self._changed(whole, place, where, counts)
        if changed is whole:
            return part
        one, other = part.body.part, part.metadata.part
        if is_encrypted(changed):
            body, metadata = changed._replace(part=one), changed._replace(part=other)
        else:
            body, metadata = part_of(changed, one), part_of(changed, other)
            if problem := body.problem or metadata.problem:
                raise CannotHold(f"{where} cannot be read: {problem}")
        return replace(
            part, body=body._replace(encrypted=False), metadata=metadata._replace(encrypted=False)
        )

    def _changed(
        self, value: TypedBytes, place: str, where: str, counts: RekeyCounts
    ) -> TypedBytes:
        if value.type == _EMPTY:
            return value
        counts.values += 1
        if is_encrypted(value):
            opened, key = self._keys.opened_with(value, where)
            if self._keys.keeps(key):
                counts.done_before += 1
                return value
        elif not self._keys.encrypts:
            return value
        elif not value.type:
            raise CannotHold(f"{where} has no type, so it cannot be encrypted")
        else:
            opened = value
        counts.rekeyed += 1
        return self._keys.sealed(opened, place, was_encrypted=opened.encrypted)

    def _changed_metadata(
        self, part: CheckpointPart, where: str, counts: RekeyCounts
    ) -> TypedBytes:
        """The metadata of a checkpoint. It counts as one value, in however many leaves."""
        leaves = RekeyCounts()
        place = place_of(part)

        def change(leaf: TypedBytes) -> TypedBytes:
            return self._changed(leaf, place, where, leaves)

        is_json = part.metadata.type == "json"
        found = (map_parts if is_json else sealed_metadata)(part.metadata, change)
        counts.values += 1
        counts.rekeyed += bool(leaves.rekeyed)
        counts.done_before += bool(leaves.done_before and not leaves.rekeyed)
        return found if leaves.rekeyed else part.metadata


def _named(part: Part) -> str:
    if isinstance(part, CheckpointPart):
        return f"checkpoint '{part.key.checkpoint_id}'"
    return f"a value of channel '{part.channel}'"
