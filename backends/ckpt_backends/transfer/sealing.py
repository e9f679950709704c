"""Encrypts and decrypts the values of a thread while it is moved."""

from __future__ import annotations

from typing import Protocol

from ckpt_backends.encryption import is_encrypted
from ckpt_backends.model import TypedBytes
from ckpt_backends.transfer.errors import CannotHold


class Sealing(Protocol):
    """What happens to encrypted values on their way. See `ckpt_backends.encryption`."""

    def changes(self) -> bool:
        """Whether values that fit as they are must be decrypted or encrypted all the same."""
        ...

    def opened(self, value: TypedBytes, where: str) -> TypedBytes:
        """A value, decrypted if it is encrypted; `encrypted` is set then.

        Raises `CannotHold` without a key that fits.
        """
        ...

    def sealed(self, value: TypedBytes, *, was_encrypted: bool) -> TypedBytes:
        """A value as it is to be stored in the target."""
        ...


class AsStored:
    """Leaves encrypted values as they are."""

    def changes(self) -> bool:
        return False

    def opened(self, value: TypedBytes, where: str) -> TypedBytes:
        if is_encrypted(value):
            raise CannotHold(f"{where} is encrypted, and the target stores it in another form")
        return value

    def sealed(self, value: TypedBytes, *, was_encrypted: bool) -> TypedBytes:  # noqa: ARG002
        return value
