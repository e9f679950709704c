"""The keys of commands that encrypt and decrypt values, from their options."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from ckpt_backends.encryption import KEY_VARIABLE, keys_of_file
from ckpt_backends.errors import UsageError
from ckpt_backends.transfer.sealing import WithKeys
from ckpt_cli.session import Session

NewKeyFile = Annotated[
    str | None,
    Option(
        "--new-key-file",
        metavar="FILE",
        help="Encrypt encrypted values anew with the key in this file.",
    ),
]
Encrypt = Annotated[
    bool, Option("--encrypt", help="Encrypt values that are stored unencrypted, too.")
]
Decrypt = Annotated[bool, Option("--decrypt", help="Store encrypted values decrypted.")]

_GIVE = f"give the key of the store with --aes-key-file FILE or {KEY_VARIABLE}"


def keys_of(
    session: Session, new_key_file: str | None, *, encrypt: bool, decrypt: bool
) -> WithKeys | None:
    """Return the keys that the options name; None if there is none.

    Raises `UsageError` for options that exclude each other, and if a key is missing or cannot be
    read.
    """
    if decrypt and (encrypt or new_key_file is not None):
        other = "--encrypt" if encrypt else "--new-key-file"
        raise UsageError(f"--decrypt cannot be combined with {other}", hint=f"leave out {other}")
    keys = session.opening.keys()()
    new_key = None if new_key_file is None else _only(new_key_file)
    if decrypt and not keys:
        raise UsageError("no key to decrypt with", hint=_GIVE)
    if new_key is not None and not keys and not encrypt:
        raise UsageError("no key to decrypt with", hint=f"{_GIVE}; or add --encrypt")
    if encrypt and not keys and new_key is None:
        raise UsageError("no key to encrypt with", hint="add --new-key-file FILE")
    if new_key is not None and [new_key] == [*keys] and not encrypt:
        raise UsageError("the new key is the same as the old one")
    if not keys and new_key is None:
        return None
    if session.review is not None:
        session.review.see_keys(*(keys or (None,)), new_key)
    return WithKeys(keys, new_key, encrypts=encrypt, decrypts=decrypt)


def _only(path: str) -> bytes:
    keys = keys_of_file(path)
    if len(keys) > 1:
        raise UsageError(f"'{path}' has {len(keys)} keys", hint="a new key is a single one")
    return keys[0]
