"""Stores with values that LangGraph's `EncryptedSerializer` encrypted.

The serializer adds `+aes` to the type tag of a value. It stores the nonce (16 bytes), the
authentication tag (16 bytes) and the ciphertext of AES in EAX mode. Source:
`langgraph/checkpoint/serde/encrypted.py`. Ids and channel names are not encrypted, nor is the
metadata of a SQLite store. Metadata in BSON is encrypted leaf by leaf.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from ckpt_backends.errors import MissingDependency, StoreUnavailable, UsageError
from ckpt_backends.files.regular_file import read_regular, refuse_shared
from ckpt_backends.model import Checkpoint, CheckpointKey, Outline, TypedBytes, Write
from ckpt_backends.protocol import Store
from ckpt_backends.wrapper import WrappedStore

if TYPE_CHECKING:
    from ckpt_backends.read_options import CheckpointOptions, WriteOptions

KEY_VARIABLE = "LANGGRAPH_AES_KEY"
"""The environment variable that LangGraph reads. Its text, as UTF-8, is the key."""
_KEY_SIZES = (16, 24, 32)
_LONGEST_KEY_FILE = 1024
_NONCE = _TAG = 16

NO_KEY = f"encrypted; set {KEY_VARIABLE} or add --aes-key-file FILE"
WRONG_KEY = "encrypted, and the key does not fit"
NO_LIBRARY = "encrypted; reading it requires pycryptodome: "
DAMAGED = "encrypted and cut off"
CLOSED = (NO_KEY, WRONG_KEY, NO_LIBRARY, DAMAGED)
"""How all reasons begin why a value may stay encrypted."""

Key = Callable[[], bytes | None]
"""Called at the first encrypted value. Returns the key or None; may raise `UsageError`."""


def key_of_environment(environment: Mapping[str, str] = os.environ) -> bytes | None:
    """The key from `LANGGRAPH_AES_KEY`, or None. Raises `UsageError` if its length is wrong."""
    text = environment.get(KEY_VARIABLE)
    if text is None:
        return None
    key = text.encode("utf-8", "surrogateescape")
    if len(key) not in _KEY_SIZES:
        raise UsageError(
            f"{KEY_VARIABLE} has {len(key)} bytes", hint="an AES key has 16, 24 or 32 bytes"
        )
    return key


def key_of_file(path: str) -> bytes:
    """The key from a file. A newline at the end of the file is ignored.

    Raises `UsageError` if the file cannot be read or the key has a wrong length, and `Refused` if
    other users can read it.
    """
    file = Path(path)
    try:
        data = read_regular(file, _LONGEST_KEY_FILE, lambda it: refuse_shared(file, it, "use"))
    except StoreUnavailable as error:
        raise UsageError(error.message, hint=error.hint) from None
    except OSError as error:
        reason = (error.strerror or "not readable").lower()
        raise UsageError(f"cannot read '{path}': {reason}") from None
    for key in (data, data.removesuffix(b"\n").removesuffix(b"\r")):
        if len(key) in _KEY_SIZES:
            return key
    raise UsageError(
        f"the key in '{path}' has {len(data)} bytes", hint="an AES key has 16, 24 or 32 bytes"
    )


class DecryptingStore(WrappedStore):
    """A store that returns `TYPE+aes` values decrypted, as `TYPE`.

    A value that cannot be decrypted is returned as stored, with the reason as its `problem`.
    `note` is called once for each such reason.
    """

    def __init__(self, inner: Store, key: Key, note: Callable[[str], None]) -> None:
        super().__init__(inner)
        self._key = key
        self._note = note
        self._noted: set[str] = set()
        self._met_encrypted = False

    @property
    def expects_encrypted(self) -> bool:
        """Whether values should be encrypted: a key is set, or an encrypted value was read."""
        if self._met_encrypted:
            return True
        try:
            return self._key() is not None
        except UsageError:
            return True

    def checkpoints(
        self, thread_id: str, **options: Unpack[CheckpointOptions]
    ) -> Iterator[Checkpoint]:
        found = self.inner.checkpoints(thread_id, **options)
        return (
            map(self._checkpoint, found)
            if options.get("body") or options.get("metadata")
            else found
        )

    def _checkpoint(self, found: Checkpoint) -> Checkpoint:
        if found.metadata is not None and found.metadata.type == "bson":
            found = found._replace(metadata=self._leaves(found.metadata))
        blobs = found.blobs
        if not (
            is_encrypted(found.body)
            or is_encrypted(found.metadata)
            or (blobs and any(is_encrypted(blob.value) for blob in blobs.values()))
        ):
            return found
        if blobs is not None:
            blobs = {
                name: blob._replace(value=self._read(blob.value)) for name, blob in blobs.items()
            }
        return found._replace(
            body=self._read(found.body),
            metadata=self._read(found.metadata),
            blobs=blobs,
        )

    def _leaves(self, metadata: TypedBytes) -> TypedBytes:
        """Decrypt metadata that is a BSON document: each leaf is encrypted separately."""
        if b"+aes\0" not in metadata.data:
            return metadata
        from ckpt_backends.codec.bson.documents import map_leaves

        with suppress(ValueError):  # decoding reports a broken document later
            data = map_leaves(metadata.data, lambda leaf: self._read(leaf) or leaf)
            return TypedBytes("bson", data, encrypted=True)
        return metadata

    def writes(self, thread_id: str, **options: Unpack[WriteOptions]) -> Iterator[Write]:
        found = self.inner.writes(thread_id, **options)
        return map(self._write, found) if options.get("values") else found

    def checkpoints_at(
        self,
        keys: Sequence[CheckpointKey],
        *,
        body: bool = False,
        metadata: bool = False,
        values: bool | Collection[str] = False,
    ) -> Iterator[Checkpoint]:
        found = self.inner.checkpoints_at(keys, body=body, metadata=metadata, values=values)
        return map(self._checkpoint, found) if body or metadata else found

    def outlines_at(self, keys: Sequence[CheckpointKey]) -> Iterator[Outline]:
        for one in self.inner.outlines_at(keys):
            yield one._replace(checkpoint=self._checkpoint(one.checkpoint))

    def writes_at(
        self,
        keys: Sequence[CheckpointKey],
        *,
        channels: Collection[str] | None = None,
        values: bool | Collection[str] = False,
    ) -> Iterator[Write]:
        found = self.inner.writes_at(keys, channels=channels, values=values)
        return map(self._write, found) if values else found

    def _write(self, found: Write) -> Write:
        if not is_encrypted(found.value):
            return found
        return found._replace(value=self._read(found.value))

    def _read(self, value: TypedBytes | None) -> TypedBytes | None:
        if value is None or not is_encrypted(value):
            return value
        self._met_encrypted = True
        if value.whole is not None:
            return value._replace(encrypted=True)
        if value.type == "merged+aes":
            from ckpt_backends.codec.merged import merged, packed_parts

            return merged(self._read(part) or part for part in packed_parts(value.data))
        key = self._key()
        data, problem = (None, NO_KEY) if key is None else decrypted(value.data, key)
        if data is None:
            if problem not in self._noted:
                self._noted.add(problem)
                self._note(f"values are {problem}")
            return value._replace(encrypted=True, problem=problem)
        plain = TypedBytes(value.type.partition("+")[0], data, encrypted=True)
        if not value.part:
            return plain
        # Kept, since a copy of it is encrypted together with the other parts.
        return part_of(plain, value.part)._replace(part=value.part)


def part_of(whole: TypedBytes, name: str) -> TypedBytes:
    """One entry of a map that was encrypted as a whole; with the problem if it is not there."""
    from ckpt_backends.codec.split import split

    try:
        found = split(whole._replace(encrypted=False)).get(name)
        problem = "" if found is not None else f"no entry '{name}' in it"
    except ValueError as error:
        found, problem = None, str(error)
    if found is None:
        return whole._replace(problem=problem)
    return found._replace(encrypted=True)


def expects_encrypted(store: Store) -> bool:
    """Whether the values of a store should be encrypted, as far as this run has seen."""
    while isinstance(store, WrappedStore):
        if isinstance(store, DecryptingStore):
            return store.expects_encrypted
        store = store.inner
    return False


def is_encrypted(value: TypedBytes | None) -> bool:
    """Whether `EncryptedSerializer` stored a value."""
    return value is not None and is_encrypted_type(value.type)


def is_encrypted_type(tag: str) -> bool:
    """Whether a type tag is that of an encrypted value, such as `msgpack+aes`."""
    return "+" in tag and tag.partition("+")[2] == "aes"


def decrypted(data: bytes, key: bytes) -> tuple[bytes | None, str]:
    """The decrypted bytes and `''`, or None and the reason why decryption failed."""
    try:
        from Crypto.Cipher import AES
    except ImportError:
        from ckpt_backends.installing import install_command

        return None, NO_LIBRARY + install_command("langgraph-ckpt[aes]")
    if len(data) < _NONCE + _TAG:
        return None, DAMAGED
    cipher = AES.new(key, AES.MODE_EAX, nonce=data[:_NONCE])
    tag, ciphertext = data[_NONCE : _NONCE + _TAG], data[_NONCE + _TAG :]
    try:
        return cipher.decrypt_and_verify(ciphertext, tag), ""
    except ValueError:
        return None, WRONG_KEY


def encrypted(data: bytes, key: bytes, place: str) -> bytes:
    """The bytes that `EncryptedSerializer` stores for a value; it decrypts them again.

    `place` names where the value is stored, as no other. The nonce is a keyed hash of place and
    value. So the same value at the same place gives the same bytes in each run, and a nonce is
    never used for two values, which EAX forbids.
    """
    try:
        from Crypto.Cipher import AES
    except ImportError:
        from ckpt_backends.installing import install_command

        command = install_command("langgraph-ckpt[aes]")
        raise MissingDependency("encryption requires pycryptodome", hint=command) from None
    from hashlib import blake2b

    name = place.encode("utf-8", "surrogatepass")
    hashed = blake2b(key=key, digest_size=_NONCE, person=b"ckpt nonce")
    hashed.update(len(name).to_bytes(8, "big") + name)
    hashed.update(data)
    nonce = hashed.digest()
    ciphertext, tag = AES.new(key, AES.MODE_EAX, nonce=nonce).encrypt_and_digest(data)
    return nonce + tag + ciphertext
