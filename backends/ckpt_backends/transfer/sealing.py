"""Encrypts and decrypts values while they are moved, or where they are stored.

See `ckpt_backends.encryption` for what is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ckpt_backends.encryption import (
    NO_KEY,
    WRONG_KEY,
    encrypted,
    has_encrypted_parts,
    is_encrypted,
    map_parts,
    opened_by,
    sealed_metadata,
)
from ckpt_backends.model import Encryption, Record, TypedBytes
from ckpt_backends.rows import PlacedValue, ValueKind
from ckpt_backends.transfer.copying import record_key
from ckpt_backends.transfer.form import CannotHold, Form

_BODY, _METADATA = "checkpoint", "metadata"
"""The entries of a map that is encrypted as a whole."""


class Sealing(Protocol):
    """What happens to encrypted values on their way. Picklable; its `repr` has no key."""

    def changes(self) -> bool:
        """Whether values that fit as they are must be decrypted or encrypted all the same."""
        ...

    def opened(self, value: TypedBytes, where: str) -> TypedBytes:
        """A value, decrypted if it is encrypted; `encrypted` is set then.

        Raises `CannotHold` without a key that fits; `where` names the value in the message.
        """
        ...

    def sealed(
        self, value: TypedBytes, place: str, *, was_encrypted: bool | Encryption
    ) -> TypedBytes:
        """A value as it is to be stored. `place` is where, as `place_of` names it.

        The same value at the same place gives the same bytes each time. `was_encrypted` also says
        in which form.
        """
        ...


class AsStored:
    """Leaves encrypted values as they are. Has no key."""

    def changes(self) -> bool:
        return False

    def opened(self, value: TypedBytes, where: str) -> TypedBytes:
        if is_encrypted(value):
            raise CannotHold(f"{where} has another form in the target, and is {NO_KEY}")
        return value

    def sealed(
        self,
        value: TypedBytes,
        place: str,  # noqa: ARG002
        *,
        was_encrypted: bool | Encryption,  # noqa: ARG002
    ) -> TypedBytes:
        return value


@dataclass(frozen=True, slots=True)
class WithKeys:
    """Decrypts and encrypts with these keys. At least one is given."""

    keys: Sequence[bytes] = field(default=(), repr=False)
    """The keys of encrypted values. Those with the first one stay as they are, unless there is a
    new key; it also replaces the others."""
    new_key: bytes | None = field(default=None, repr=False)
    """The key that encrypted values get. Values that have it already are read with it, too."""
    encrypts: bool = False
    """Whether values are encrypted that are not; with the new key, if there is one."""
    decrypts: bool = False
    """Whether no value stays encrypted."""

    def changes(self) -> bool:
        return self.new_key is not None or self.encrypts or self.decrypts

    def opened(self, value: TypedBytes, where: str) -> TypedBytes:
        return self.opened_with(value, where)[0] if is_encrypted(value) else value

    def opened_with(self, value: TypedBytes, where: str) -> tuple[TypedBytes, bytes]:
        """An encrypted value, decrypted, with the key that opened it. Raises `CannotHold`."""
        keys = [*self.keys, *([self.new_key] if self.new_key else [])]
        found = opened_by(value, keys)
        if not isinstance(found, str):
            if found[0].problem:
                raise CannotHold(f"{where} cannot be read: {found[0].problem}")
            return found
        if found == WRONG_KEY and len(keys) > 1:
            found = f"encrypted, and {'neither key' if len(keys) == 2 else 'no key'} fits"
        raise CannotHold(f"{where} is {found}")

    def keeps(self, key: bytes) -> bool:
        """Whether a value that is encrypted with this key stays as it is."""
        return not self.decrypts and key == self._sealing_key

    @property
    def _sealing_key(self) -> bytes | None:
        return self.new_key or next(iter(self.keys), None)

    def sealed(
        self, value: TypedBytes, place: str, *, was_encrypted: bool | Encryption
    ) -> TypedBytes:
        key = self._sealing_key
        if self.decrypts or key is None or not (was_encrypted or self.encrypts):
            return value._replace(encrypted=False)
        form = value.encrypted or was_encrypted
        return TypedBytes(f"{value.type}+aes", encrypted(value.data, key, place, form))


def place_of(record: Record) -> str:
    """The place of a record, which no other record has."""
    thread_id = record.key.thread_id
    return "\0".join((thread_id, *record_key(record)))


def sealed_together(
    body: TypedBytes, metadata: TypedBytes, sealed: Callable[[TypedBytes], TypedBytes]
) -> tuple[TypedBytes, TypedBytes]:
    """Body and metadata, which `sealed` encrypts as one map with an entry for each.

    Each of them then is a part of it (`TypedBytes.part`). Both have the type `msgpack`.
    """
    from ckpt_backends.codec.cursor import MAP, write_header
    from ckpt_backends.codec.lossless import pack_lossless

    entries = ((_BODY, body), (_METADATA, metadata))
    packed = b"".join(pack_lossless(name) + one.data for name, one in entries)
    whole = sealed(TypedBytes("msgpack", write_header(MAP, len(entries)) + packed))
    if not is_encrypted(whole):
        return body, metadata
    return whole._replace(part=_BODY), whole._replace(part=_METADATA)


# Changes the encryption of the values of a thread where they are stored.


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
    metadata: int = 0
    """Those that are metadata of which leaves are encrypted; it cannot be told once none is."""

    def add_all(self, other: RekeyCounts) -> None:
        """Add the numbers of others."""
        self.values += other.values
        self.rekeyed += other.rekeyed
        self.done_before += other.done_before
        self.metadata += other.metadata


class Rekeying:
    """Encrypts and decrypts what `EncryptedSerializer` encrypts in one layout."""

    def __init__(self, form: Form, keys: WithKeys) -> None:
        self._form = form
        self._keys = keys

    def of(self, stored: PlacedValue, counts: RekeyCounts) -> TypedBytes:
        """A value with the encryption that it is to have; the same object if nothing changes.

        Raises `CannotHold` for a value that no key opens.
        """
        value = stored.value
        if stored.kind is ValueKind.METADATA and not is_encrypted(value):
            if self._form.encrypts_metadata or has_encrypted_parts(value):
                return self._changed_metadata(stored, counts)
            return value
        if stored.kind is ValueKind.BODY and not (self._form.encrypts_body or is_encrypted(value)):
            return value
        return self._changed(value, stored.place, stored.named, counts)

    def check(self, stored: PlacedValue) -> bool:
        """Whether a value is encrypted. Raises `CannotHold` if no key opens it."""
        if is_encrypted(stored.value):
            self._keys.opened(stored.value, stored.named)
            return True
        return False

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

    def _changed_metadata(self, stored: PlacedValue, counts: RekeyCounts) -> TypedBytes:
        """The metadata of a checkpoint. It counts as one value, in however many leaves."""
        leaves = RekeyCounts()

        def change(leaf: TypedBytes) -> TypedBytes:
            return self._changed(leaf, stored.place, stored.named, leaves)

        is_json = stored.value.type == "json"
        found = (map_parts if is_json else sealed_metadata)(stored.value, change)
        counts.values += 1
        counts.metadata += not self._form.encrypts_metadata
        counts.rekeyed += bool(leaves.rekeyed)
        counts.done_before += bool(leaves.done_before and not leaves.rekeyed)
        return found if leaves.rekeyed else stored.value
