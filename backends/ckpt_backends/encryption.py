"""Stores with values that LangGraph's `EncryptedSerializer`, or Agent Server, encrypted.

The serializer adds `+aes` to the type tag of a value. It stores the nonce (16 bytes), the
authentication tag (16 bytes) and the ciphertext of AES in EAX mode. Source:
`langgraph/checkpoint/serde/encrypted.py`. Ids and channel names are not encrypted, nor is the
metadata of a SQLite store. Metadata in BSON is encrypted leaf by leaf.

Agent Server 0.17 and later puts a header before the nonce: a magic text, a version, and the id of
the key, so that keys can be rotated. The header is authenticated with the value. It also encrypts
fields of metadata in JSON that `LANGGRAPH_AES_JSON_KEYS` names, as texts that begin with
`encrypted.aes:`. Source: `langgraph_api/encryption/aes_json.py` of langgraph-api 0.18.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from ckpt_backends.base import WrappedStore
from ckpt_backends.errors import MissingDependency, StoreUnavailable, UsageError
from ckpt_backends.files import read_regular, refuse_shared
from ckpt_backends.model import Checkpoint, CheckpointKey, Encryption, Outline, TypedBytes, Write
from ckpt_backends.protocol import Store

if TYPE_CHECKING:
    from ckpt_backends.protocol import (
        CheckpointOptions,
        ReadOptions,
        WriteOptions,
        WriteReadOptions,
    )

KEY_VARIABLE = "LANGGRAPH_AES_KEY"
"""The environment variable that LangGraph reads. Its text, as UTF-8, is the key."""
OLDER_KEYS = ("LANGGRAPH_AES_LEGACY_KEY", "LANGGRAPH_AES_FALLBACK_KEYS")
"""Where Agent Server reads the keys before a rotation, separated by commas."""
_KEY_SIZES = (16, 24, 32)
_LONGEST_KEY_FILE = 1024
_NONCE = _TAG = 16
_MAGIC, _VERSION, _ID = b"LGAES-ENVELOPE\x00\x00", 1, 16
_HEADER = len(_MAGIC) + 1 + _ID
_FIELD, _CONTEXT, _FIELDS = "encrypted.aes:", "__encryption_context__", "keys"

NO_KEY = f"encrypted; set {KEY_VARIABLE} or add --aes-key-file FILE"
WRONG_KEY = "encrypted, and the key does not fit"
NO_LIBRARY = "encrypted; reading it requires pycryptodome: "
DAMAGED = "encrypted and cut off"
CHANGED = "encrypted, and was changed since: its key fits, its tag does not"
UNKNOWN_ENVELOPE = "encrypted in an envelope of the unknown version"
CLOSED = (NO_KEY, WRONG_KEY, NO_LIBRARY, DAMAGED, CHANGED, UNKNOWN_ENVELOPE)
"""How all reasons begin why a value may stay encrypted."""

Keys = Callable[[], Sequence[bytes]]
"""Called at the first encrypted value. Returns the key that encrypts, then older ones, which only
decrypt; nothing without a key. May raise `UsageError`."""


def keys_of_environment(environment: Mapping[str, str] = os.environ) -> Sequence[bytes]:
    """The key from `LANGGRAPH_AES_KEY`, then those of `OLDER_KEYS`; nothing without the first.

    Raises `UsageError` if a length is wrong.
    """
    if environment.get(KEY_VARIABLE) is None:
        return ()
    found: dict[bytes, None] = {}
    for name in (KEY_VARIABLE, *OLDER_KEYS):
        text = environment.get(name, "")
        for one in text.split(",") if name in OLDER_KEYS else [text]:
            key = one.encode("utf-8", "surrogateescape")
            if (one or name == KEY_VARIABLE) and len(key) not in _KEY_SIZES:
                raise UsageError(
                    f"{name} has {len(key)} bytes", hint="an AES key has 16, 24 or 32 bytes"
                )
            found.update({key: None} if one else {})
    return tuple(found)


def keys_of_file(path: str) -> Sequence[bytes]:
    """The keys from a file: one, or one in each line. A newline at the end is ignored.

    Raises `UsageError` if the file cannot be read or a key has a wrong length, and `Refused` if
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
            return (key,)
    lines = data.splitlines()
    if lines and all(len(key) in _KEY_SIZES for key in lines):
        return tuple(lines)
    raise UsageError(
        f"the key in '{path}' has {len(data)} bytes", hint="an AES key has 16, 24 or 32 bytes"
    )


class DecryptingStore(WrappedStore):
    """A store that returns `TYPE+aes` values decrypted, as `TYPE`.

    A value that cannot be decrypted is returned as stored, with the reason as its `problem`.
    `note` is called once for each such reason.
    """

    def __init__(self, inner: Store, keys: Keys, note: Callable[[str], None]) -> None:
        super().__init__(inner)
        self._keys = keys
        self._note = note
        self._noted: set[str] = set()
        self._met_encrypted = False

    @property
    def expects_encrypted(self) -> bool:
        """Whether values should be encrypted: a key is set, or an encrypted value was read."""
        if self._met_encrypted:
            return True
        try:
            return bool(self._keys())
        except UsageError:
            return True

    def checkpoints(
        self, thread_id: str, **options: Unpack[CheckpointOptions]
    ) -> Iterator[Checkpoint]:
        found = self.inner.checkpoints(thread_id, **options)
        return self._opened(found, options) if _reads(options) else found

    def _opened(
        self, found: Iterable[Checkpoint], options: CheckpointOptions | ReadOptions
    ) -> Iterator[Checkpoint]:
        values = options.get("values", False)
        return (self._checkpoint(one, values) for one in found)

    def _checkpoint(self, found: Checkpoint, values: bool | Collection[str] = False) -> Checkpoint:
        if found.metadata is not None and found.metadata.type in {"bson", "json"}:
            opened = opened_metadata(found.metadata, lambda leaf: self._read(leaf) or leaf)
            found = found._replace(metadata=opened)
        body = self._read(found.body)
        if is_encrypted(found.body) and not is_encrypted(body):
            found = self.inner.with_named_values(found._replace(body=body), values)
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
        return found._replace(body=body, metadata=self._read(found.metadata), blobs=blobs)

    def metadata_with(
        self, thread_ids: Sequence[str], key: str, *, newest: bool = False
    ) -> Iterator[Checkpoint]:
        return map(self._checkpoint, self.inner.metadata_with(thread_ids, key, newest=newest))

    def writes(self, thread_id: str, **options: Unpack[WriteOptions]) -> Iterator[Write]:
        found = self.inner.writes(thread_id, **options)
        return map(self._write, found) if options.get("values") else found

    def checkpoints_at(
        self, keys: Sequence[CheckpointKey], **options: Unpack[ReadOptions]
    ) -> Iterator[Checkpoint]:
        found = self.inner.checkpoints_at(keys, **options)
        return self._opened(found, options) if _reads(options) else found

    def outlines_at(self, keys: Sequence[CheckpointKey]) -> Iterator[Outline]:
        for one in self.inner.outlines_at(keys):
            yield one._replace(checkpoint=self._checkpoint(one.checkpoint))

    def writes_at(
        self, keys: Sequence[CheckpointKey], **options: Unpack[WriteReadOptions]
    ) -> Iterator[Write]:
        found = self.inner.writes_at(keys, **options)
        return map(self._write, found) if options.get("values") else found

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
            from ckpt_backends.codec.lossless import merged, packed_parts

            return merged(self._read(part) or part for part in packed_parts(value.data))
        found = opened_by(value, self._keys())
        if isinstance(found, str):
            if found not in self._noted:
                self._noted.add(found)
                self._note(f"values are {found}")
            return value._replace(encrypted=True, problem=found)
        # The name of a part is kept, since a copy of it is encrypted together with the others.
        return found[0]._replace(part=value.part)


def _reads(options: CheckpointOptions | ReadOptions) -> bool:
    return bool(options.get("body") or options.get("metadata"))


def opened_by(value: TypedBytes, keys: Iterable[bytes]) -> tuple[TypedBytes, bytes] | str:
    """An encrypted value, decrypted, with the key that fits; the reason if none does.

    The value has a `problem` if it is a part that is not in what was decrypted.
    """
    problem = NO_KEY
    for key in keys:
        data, problem = decrypted(value.data, key)
        if data is not None:
            tag = value.type.partition("+")[0]
            plain = TypedBytes(tag, data, encrypted=form_of(value.data))
            return part_of(plain, value.part) if value.part else plain, key
    return problem


def part_of(whole: TypedBytes, name: str) -> TypedBytes:
    """One entry of a map that was encrypted as a whole; with the problem if it is not there."""
    from ckpt_backends.codec.edits import split

    try:
        found = split(whole._replace(encrypted=False)).get(name)
        problem = "" if found is not None else f"no entry '{name}' in it"
    except ValueError as error:
        found, problem = None, str(error)
    if found is None:
        return whole._replace(problem=problem)
    return found._replace(encrypted=whole.encrypted or True)


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
    header = data[:_HEADER] if form_of(data) is Encryption.ENVELOPE else b""
    data = data[len(header) :]
    if len(data) < _NONCE + _TAG:
        return None, DAMAGED
    if header and header[len(_MAGIC)] != _VERSION:
        return None, f"{UNKNOWN_ENVELOPE} {header[len(_MAGIC)]}"
    if header and header != _header(key):
        return None, WRONG_KEY
    cipher = AES.new(key, AES.MODE_EAX, nonce=data[:_NONCE])
    cipher.update(header)
    tag, ciphertext = data[_NONCE : _NONCE + _TAG], data[_NONCE + _TAG :]
    try:
        return cipher.decrypt_and_verify(ciphertext, tag), ""
    except ValueError:
        return None, CHANGED if header else WRONG_KEY


def form_of(data: bytes) -> Encryption:
    """In which form a value is encrypted."""
    return Encryption.ENVELOPE if data.startswith(_MAGIC) else Encryption.SERIALIZER


def _header(key: bytes) -> bytes:
    from hashlib import sha256

    name = sha256(b"langgraph-aes-key-id-v1\x00" + key).digest()[:_ID]
    return _MAGIC + bytes([_VERSION]) + name


def encrypted(data: bytes, key: bytes, place: str, form: bool | Encryption) -> bytes:
    """The bytes that the saver stores for a value in this form; it decrypts them again.

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
    header = _header(key) if form is Encryption.ENVELOPE else b""
    cipher = AES.new(key, AES.MODE_EAX, nonce=nonce)
    cipher.update(header)
    ciphertext, tag = cipher.encrypt_and_digest(data)
    return header + nonce + tag + ciphertext


def has_encrypted_parts(metadata: TypedBytes) -> bool:
    """Whether metadata may hold parts that are encrypted one by one."""
    part = {"bson": b"+aes\0", "json": _FIELD.encode()}.get(metadata.type)
    return part is not None and part in metadata.data


def is_encrypted_field(value: object) -> bool:
    """Whether a value in decoded metadata is a field that is still encrypted."""
    return isinstance(value, str) and value.startswith(_FIELD)


def map_parts(metadata: TypedBytes, change: Callable[[TypedBytes], TypedBytes]) -> TypedBytes:
    """Metadata whose parts are changed: the leaves of BSON, or the encrypted fields of JSON.

    Raises ValueError for metadata that cannot be read.
    """
    if metadata.type == "bson":
        from ckpt_backends.codec.bson import map_leaves

        return metadata._replace(data=map_leaves(metadata.data, change))
    edits = {}
    for name, value in _entries(metadata).items():
        if is_encrypted_field(value):
            stored = b64decode(value[len(_FIELD) :], validate=True)
            changed = change(TypedBytes("json+aes", stored))
            edits[name] = (
                _FIELD + b64encode(changed.data).decode()
                if is_encrypted(changed)
                else json.loads(changed.data)
            )
    return _edited(metadata, edits)


def opened_metadata(metadata: TypedBytes, opened: Callable[[TypedBytes], TypedBytes]) -> TypedBytes:
    """Metadata, decrypted by `opened` as a whole or in parts; as stored if it is damaged.

    JSON then names its fields that were encrypted, so that `sealed_metadata` encrypts them again.
    """
    if not has_encrypted_parts(metadata):
        return metadata if metadata.type == "bson" else opened(metadata)
    found: list[TypedBytes] = []

    def change(part: TypedBytes) -> TypedBytes:
        found.append(opened(part))
        return found[-1]

    try:
        made = map_parts(metadata, change)
        if metadata.type == "json":
            before, after = _entries(metadata), _entries(made)
            names = [name for name, value in before.items() if after[name] != value]
            context = before.get(_CONTEXT)
            context = context if isinstance(context, dict) else {}
            made = _edited(made, {_CONTEXT: {**context, _FIELDS: names}} if names else {})
    except ValueError:
        return metadata  # decoding says what is wrong
    forms = [part.encrypted for part in found if not is_encrypted(part)]
    return made._replace(encrypted=max(forms, default=False) or metadata.type == "bson")


def sealed_metadata(metadata: TypedBytes, sealed: Callable[[TypedBytes], TypedBytes]) -> TypedBytes:
    """Metadata, encrypted by `sealed` as a whole or in the parts that `opened_metadata` opened."""
    if metadata.type == "bson":
        return map_parts(metadata, sealed)._replace(encrypted=False)
    context = _entries(metadata).get(_CONTEXT) if metadata.type == "json" else None
    if not isinstance(context, dict) or _FIELDS not in context:
        return sealed(metadata)
    names = context.pop(_FIELDS)
    edits: dict[str, Any] = {_CONTEXT: context}
    for name, value in _entries(metadata).items():
        if name in names:
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
            part = sealed(TypedBytes("json", text.encode(), encrypted=metadata.encrypted))
            if is_encrypted(part):
                edits[name] = _FIELD + b64encode(part.data).decode()
    return _edited(metadata._replace(encrypted=False), edits)


def _entries(metadata: TypedBytes) -> dict[str, Any]:
    found = json.loads(metadata.data)
    return found if isinstance(found, dict) else {}


def _edited(metadata: TypedBytes, entries: Mapping[str, Any]) -> TypedBytes:
    # Late, because few stores have such metadata.
    from ckpt_backends.codec.edits import Put, set_keys

    return set_keys(metadata, {name: Put(value) for name, value in entries.items()})
