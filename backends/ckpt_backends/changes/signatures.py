"""Ed25519 signatures of archives, with keys as OpenSSL and OpenSSH write them.

What is signed is `_CONTEXT` and the SHA-256 of all lines of an archive before its last one. The
last line holds the signature, and an older ckpt ignores it:

    {"rows": ..., "sha256": ..., "signature": {"algorithm": "ed25519", "key": B64, "value": B64}}
"""

from __future__ import annotations

import os
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from ckpt_backends.errors import MissingDependency, Unreadable, UsageError, reason_of
from ckpt_backends.files.regular_file import open_regular, refuse_shared
from ckpt_backends.installing import install_command, upgrade_command

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_CONTEXT = b"ckpt archive signature 1\n"
"""Signed before the digest, so that no signature made for something else fits an archive."""
_ALGORITHM = "ed25519"
_KEY_BYTES = 32
_LONGEST_FILE = 1 << 20
_SSH = "ssh-ed25519"
_SSH_HEAD = len(_SSH).to_bytes(4, "big") + _SSH.encode() + _KEY_BYTES.to_bytes(4, "big")
_PEM = b"-----BEGIN "
_SSH_LINE = re.compile(rf"(?P<before>.*?)(?:^|(?<=\s)){_SSH}\s+(?P<key>\S+)(?:\s+(?P<comment>.*))?")
_PRINCIPALS = re.compile(r"(?!cert-authority|restrict|no-)[^\s\"=@][^\s\"=]*")
"""What may stand before a key: the name in an `allowed_signers` file, but no option."""

Passphrase = Callable[[], bytes]
"""Asks for the passphrase of a key. May raise `Refused`."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """An Ed25519 key that signed, or may sign."""

    data: bytes
    name: str = field(default="", compare=False)
    """The comment of the file that the key comes from."""

    @property
    def fingerprint(self) -> str:
        """The fingerprint as `ssh-keygen -l` prints it."""
        digest = sha256(_SSH_HEAD + self.data).digest()
        return "SHA256:" + b64encode(digest).decode().rstrip("=")


class SigningKey:
    """A private key."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    def sign(self, digest: bytes) -> Mapping[str, str]:
        """The signature of an archive, for its last line. `digest` is of all lines before it."""
        value = self._key.sign(_CONTEXT + digest)
        return {
            "algorithm": _ALGORITHM,
            "key": b64encode(self._key.public_key().public_bytes_raw()).decode(),
            "value": b64encode(value).decode(),
        }


def read_signing_key(path: Path, passphrase: Passphrase) -> SigningKey:
    """The private key of a file, in PEM (PKCS8) or OpenSSH form.

    Raises `UsageError` if the file holds no such key, and `Refused` if others can read it.
    """
    _require_library("--sign-key")
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        load_pem_private_key,
        load_ssh_private_key,
    )

    data = _read(path, private=True)
    load = load_ssh_private_key if b"BEGIN OPENSSH PRIVATE KEY" in data else load_pem_private_key
    asked = False
    try:
        try:
            key = load(data, None)
        except TypeError:  # it is encrypted
            asked = True
            key = load(data, passphrase())
    except (ValueError, TypeError) as error:
        if asked:
            raise UsageError(f"cannot sign with '{path}': wrong passphrase") from error
        raise _no_private_key(path, "it holds no private key") from error
    except UnsupportedAlgorithm as error:
        if "bcrypt" in str(error):
            raise _missing("an OpenSSH key with a passphrase needs the package bcrypt") from error
        raise _no_private_key(path, "its kind or its encryption is not supported") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise _no_private_key(path, "it is not an Ed25519 key")
    return SigningKey(key)


def read_trusted_keys(paths: Iterable[Path]) -> tuple[PublicKey, ...]:
    """The public keys of files, in PEM form or as lines of OpenSSH. Raises `UsageError`."""
    return tuple(key for path in paths for key in _trusted(path))


def verify(path: Path, signature: object, digest: bytes) -> PublicKey:
    """The key that made the signature in an archive's last line.

    Raises `Unreadable` if the signature is not valid.
    """
    match signature:
        case {"algorithm": "ed25519", "key": str(key), "value": str(value)}:
            pass
        case {"algorithm": str()}:
            raise Unreadable(
                f"cannot read the archive '{path}': its signature is of an unknown kind",
                hint=f"it was made by a newer ckpt: {upgrade_command()}",
            )
        case _:
            raise _invalid(path)
    _require_library("a signed archive")
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        public = PublicKey(b64decode(key, validate=True))
        Ed25519PublicKey.from_public_bytes(public.data).verify(
            b64decode(value, validate=True), _CONTEXT + digest
        )
    except (InvalidSignature, ValueError) as error:
        raise _invalid(path) from error
    return public


def _invalid(path: Path) -> Unreadable:
    return Unreadable(
        f"cannot read the archive '{path}': its signature is not valid",
        hint="nothing was restored; use another copy of the file",
    )


def _trusted(path: Path) -> Iterator[PublicKey]:
    data = _read(path, private=False)
    if b" PRIVATE KEY-----" in data:
        raise UsageError(
            f"cannot trust '{path}': it is a private key", hint="give the file of the public key"
        )
    if data.lstrip().startswith(_PEM):
        yield _of_pem(path, data)
        return
    found = False
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        text = line.strip()
        match = _SSH_LINE.fullmatch(text)
        if not text or text.startswith("#") or match is None:
            continue
        before = match["before"].strip()
        if before and not _PRINCIPALS.fullmatch(before):
            raise UsageError(
                f"cannot trust '{path}': line {number} has options",
                hint="keep one key on a line: [NAME] ssh-ed25519 KEY [COMMENT]",
            )
        found = True
        yield _of_ssh(path, number, match["key"], match["comment"] or before)
    if not found:
        raise UsageError(
            f"cannot trust '{path}': it holds no Ed25519 key",
            hint="give a public key in PEM form, or a file such as id_ed25519.pub",
        )


def _of_ssh(path: Path, number: int, key: str, name: str) -> PublicKey:
    try:
        blob = b64decode(key, validate=True)
    except ValueError:
        blob = b""
    if not blob.startswith(_SSH_HEAD) or len(blob) != len(_SSH_HEAD) + _KEY_BYTES:
        raise UsageError(f"cannot trust '{path}': line {number} is not an Ed25519 key")
    return PublicKey(blob[len(_SSH_HEAD) :], name)


def _of_pem(path: Path, data: bytes) -> PublicKey:
    _require_library("--trusted-key")
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UsageError(f"cannot trust '{path}': it holds no public key") from error
    if not isinstance(key, Ed25519PublicKey):
        raise UsageError(f"cannot trust '{path}': it is not an Ed25519 key")
    return PublicKey(key.public_bytes_raw(), path.name)


def _read(path: Path, *, private: bool) -> bytes:
    """The contents of a key file. Raises `UsageError` and `Refused`."""
    try:
        with open_regular(path) as file:
            if private:
                refuse_shared(path, os.fstat(file.fileno()), "sign with")
            data = file.read(_LONGEST_FILE + 1)
    except OSError as error:
        raise UsageError(f"cannot read the key '{path}': {reason_of(error)}") from error
    if len(data) > _LONGEST_FILE:
        raise UsageError(f"cannot read the key '{path}': it is longer than 1 MiB")
    return data


def _no_private_key(path: Path, reason: str) -> UsageError:
    return UsageError(
        f"cannot sign with '{path}': {reason}", hint="make a key: ssh-keygen -t ed25519 -f ckpt-key"
    )


def _require_library(what: str) -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise _missing(f"{what} needs the package cryptography") from None


def _missing(reason: str) -> MissingDependency:
    return MissingDependency(reason, hint=install_command("langgraph-ckpt[sign]"))
