"""Bundles: the rows of one thread in a file, from which they can be restored row for row.

Items of long-term memory are stored together in one bundle that has no thread id.

A bundle is a gzip file with one JSON object per line, so `zcat` and `jq` can read it: a header, one
line for each row, and a last line with the row counts and the SHA-256 of all lines before it.

    {"ckpt_bundle": 1, "layout": "sqlite", "thread_id": "user-42", "made_at": "...", ...}
    {"table": "checkpoints", "row": {"thread_id": "user-42", "checkpoint": {"$bytes": "..."}, ...}}
    {"rows": {"checkpoints": 12, "writes": 40}, "sha256": "...", "signature": {...}}

The signature is optional, see `signatures`. Numbers, text and NULL are as in JSON; bytes are
`{"$bytes": BASE64}`, text that is not UTF-8 is `{"$text": BASE64}`, and a number that JSON lacks is
`{"$float": "inf"}`.

The header names the layout, so that a bundle can be restored into a store of any layout to which
`ckpt copy` copies.

A bundle may come from a stranger. It is read twice, for checking and for restoring, and its digest
ensures that both see the same rows.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from math import isfinite
from pathlib import Path
from pickletools import genops
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote

from ckpt_backends.codec.bson import binaries, texts
from ckpt_backends.errors import (
    CkptError,
    MissingDependency,
    StoreChanged,
    StoreUnavailable,
    Unreadable,
    Unsupported,
    UsageError,
    reason_of,
)
from ckpt_backends.files import (
    make_private_folder,
    open_regular,
    refuse_shared,
    remove_unfinished,
    writing,
)
from ckpt_backends.installing import install_command, upgrade_command
from ckpt_backends.rows import Cell, Row

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


# Gzip files of lines that cannot exhaust the memory of the reader.
#
# The file is packed in pieces of 1 MiB, each at most `_RATIO / 2` times as large as its packed
# form. The reader refuses a file that unpacks to more than `_RATIO` times its size, beyond the
# first 64 MiB. Deflate could reach 1032 times, which only long repetitions of one byte do.


LONGEST_LINE = 2 << 30
"""The largest row of any engine is 1 GiB (PostgreSQL); base64 adds a third."""
_RATIO = 100
_FREE = 64 << 20
_MAGIC = b"\x1f\x8b"
_PIECE = 1 << 20
_GZIP = 16 + zlib.MAX_WBITS


class Packer:
    """Writes a gzip file. `finish` writes the rest."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._waiting = bytearray()

    def write(self, data: bytes) -> None:
        self._waiting += data
        if len(self._waiting) >= _PIECE:
            self.finish()

    def finish(self) -> None:
        for start in range(0, len(self._waiting), _PIECE):
            self._file.write(_packed(self._waiting[start : start + _PIECE]))
        self._waiting.clear()


def _packed(piece: bytearray) -> bytes:
    found = _deflated(piece, zlib.Z_DEFAULT_STRATEGY)
    if len(piece) * 2 <= len(found) * _RATIO:
        return found
    return _deflated(piece, zlib.Z_HUFFMAN_ONLY)  # At most 8 times.


def _deflated(piece: bytearray, strategy: int) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP, zlib.DEF_MEM_LEVEL, strategy)
    return packer.compress(piece) + packer.flush()


# Ed25519 signatures of archives, with keys as OpenSSL and OpenSSH write them.
#
# What is signed is `_CONTEXT` and the SHA-256 of all lines of an archive before its last one. The
# last line holds the signature, and an older ckpt ignores it:
#
#     {"rows": ..., "sha256": ..., "signature": {"algorithm": "ed25519", "key": B64, "value": B64}}


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


FORMAT = 1
SUFFIX = ".ckpt.gz"
MOST_CELLS = 500_000
"""Maximum number of cells of a row. Only a Redis key with as many members has as many cells."""
_MOST_TABLES = 100
_MOST_TOKENS = 2 * MOST_CELLS + 10
_SHORT = 1 << 20
"""A line of this size needs at most some 30 MiB as Python objects."""
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{,]', re.DOTALL)
"""A text, whole or cut off, or the beginning of a value."""


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a bundle."""

    thread_id: str | None
    """None where the rows are items of long-term memory."""
    layout: str
    saver: str
    store: str
    """Where the rows were, without a password."""
    made_at: str
    """ISO 8601, UTC."""
    language: str = ""
    """Whose saver wrote the thread: `python` or `javascript`; `''` if it is not told."""
    ckpt: str = ""
    """The version of ckpt that wrote the bundle; `''` if it is not told."""


def bundle_name(thread_id: str, made_at: str, suffix: str = SUFFIX) -> str:
    """A file name with the thread id, unique to the thread."""
    raw = thread_id.encode("utf-8", "surrogatepass")
    readable = quote(raw, safe="@+= ")[:80].lstrip(".")
    return f"{readable}-{sha256(raw).hexdigest()[:12]}-{_stamp(made_at)}{suffix}"


def memory_bundle_name(made_at: str) -> str:
    """A file name for items of long-term memory."""
    return f"memory-{_stamp(made_at)}{SUFFIX}"


def _stamp(made_at: str) -> str:
    return made_at.replace("-", "").replace(":", "")


def make_folder(path: Path) -> None:
    """Make a private folder for bundles unless it exists, and clear what killed runs left in it.

    Raises `StoreUnavailable`.
    """
    try:
        make_private_folder(path)
    except OSError as error:
        raise _unwritable(path, error) from error
    remove_unfinished(path, lambda name: name.endswith(SUFFIX))


def bundles_in(folder: Path) -> list[Path]:
    """The bundles in a folder, in the order of their names. Raises `StoreUnavailable`."""
    try:
        return sorted(one for one in folder.iterdir() if one.name.endswith(SUFFIX))
    except OSError as error:
        raise StoreUnavailable(f"cannot read '{folder}': {reason_of(error)}") from error


def write_bundle(
    path: Path, header: Header, rows: Iterable[Row], key: SigningKey | None = None
) -> Bundle:
    """Write a bundle, signed if there is a key, and return it.

    The file appears under its name only when it is complete and on disk. Raises `StoreUnavailable`
    if it cannot be written.
    """
    try:
        with writing(path) as file:
            counts, digest, signature = _write_to(file, header, rows, key)
    except OSError as error:
        raise _unwritable(path, error) from error
    signer = None if signature is None else verify(path, signature, digest)
    return Bundle(path, header, counts, digest.hex(), signer)


def _write_to(
    file: IO[bytes], header: Header, rows: Iterable[Row], key: SigningKey | None
) -> tuple[Mapping[str, int], bytes, Mapping[str, str] | None]:
    """Write a bundle; return its number of rows by table, its digest and its signature."""
    digest = sha256()
    counts: Counter[str] = Counter()
    packer = Packer(file)

    def put(record: object) -> None:
        line = json.dumps(record, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        if len(line) > LONGEST_LINE:
            raise Unsupported("cannot write the archive: a row is larger than 2 GiB")
        digest.update(line)
        packer.write(line)

    put(
        {
            "ckpt_bundle": FORMAT,
            "layout": header.layout,
            "saver": header.saver,
            "store": header.store,
            "thread_id": _to_json(header.thread_id),
            "made_at": header.made_at,
            **({"language": header.language} if header.language else {}),
            **({"ckpt": header.ckpt} if header.ckpt else {}),
        }
    )
    for row in rows:
        if len(row.cells) > MOST_CELLS:
            raise Unsupported(
                f"cannot write the archive: a row of '{row.table}' has more than {MOST_CELLS} cells"
            )
        cells = {name: _to_json(cell) for name, cell in row.cells.items()}
        put({"table": row.table, "row": cells})
        counts[row.table] += 1
    whole = digest.digest()
    signature = None if key is None else key.sign(whole)
    last = {} if signature is None else {"signature": signature}
    put({"rows": dict(counts), "sha256": whole.hex(), **last})
    packer.finish()
    return dict(counts), whole, signature


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle that was read to its end and found complete."""

    path: Path
    header: Header
    counts: Mapping[str, int]
    """Number of rows by table."""
    digest: str
    """The SHA-256 of all its lines but the last."""
    signer: PublicKey | None = None
    """The key that signed it. Anyone can make a key: whether it is trusted is not known here."""

    @property
    def size(self) -> int:
        """Number of rows."""
        return sum(self.counts.values())

    @property
    def signed_by(self) -> str | None:
        """The fingerprint of the key that signed it."""
        return None if self.signer is None else self.signer.fingerprint

    def rows(self) -> Iterator[Row]:
        """Its rows, read from the file again.

        Raises `StoreChanged` at the end if they are not those that were checked, so nothing may be
        committed before the end. Raises `Unreadable` and `StoreUnavailable`.
        """
        reading = _Reading(self.path)
        yield from reading.rows()
        if reading.bundle != self:
            raise StoreChanged(
                f"'{self.path}' changed after it was checked",
                hint="nothing of it was restored; find out who writes to this file",
            )


Check = Callable[[Header, Iterator[Row]], Iterator[Row]]
"""Checks the header, then each row while it yields it, and raises at what it refuses."""


def check_bundle(path: Path, check: Check = lambda _, rows: rows) -> Bundle:
    """Read a bundle to its end, through a check.

    Raises `Unreadable` if the bundle is damaged or not a bundle, `StoreUnavailable` if the file
    cannot be opened, and what the check raises.
    """
    reading = _Reading(path)
    rows = reading.rows()
    try:
        for _ in check(reading.header, rows):
            pass
    except CkptError:
        # If the file is damaged, that is the reason: it says nothing about who wrote it.
        for _ in rows:
            pass
        raise
    if reading.bundle is None:
        raise _damaged(path, "it is cut off")
    return reading.bundle


def read_header(path: Path) -> Header:
    """The header of a bundle, unchecked. Raises `Unreadable` and `StoreUnavailable`."""
    for line in _lines(path):
        return _header(path, line)
    raise _damaged(path, "it is empty")


class _Reading:
    """One reading of a bundle."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = _lines(path)
        first = next(self._lines, None)
        if first is None:
            raise _damaged(path, "it is empty")
        self._digest = sha256(first)
        self.header = _header(path, first)
        self.bundle: Bundle | None = None
        """Set at the end of `rows`."""

    def rows(self) -> Iterator[Row]:
        """The rows. Raises `Unreadable` at the end if the bundle is not complete."""
        counts: Counter[str] = Counter()
        for line in self._lines:
            record = _record(self._path, line)
            if "sha256" in record:
                self._end(record, dict(counts))
                return
            self._digest.update(line)
            row = _row(self._path, record)
            counts[row.table] += 1
            if len(counts) > _MOST_TABLES:
                raise _damaged(self._path, f"it has more than {_MOST_TABLES} tables")
            yield row
        raise _damaged(self._path, "it is cut off")

    def _end(self, record: Mapping[str, Any], counts: Mapping[str, int]) -> None:
        digest = self._digest.hexdigest()
        if record["sha256"] != digest or record.get("rows") != counts:
            raise _damaged(self._path, "its checksum does not match")
        if next(self._lines, None) is not None:
            raise _damaged(self._path, "it has data after its end")
        signer = None
        if "signature" in record:
            signer = verify(self._path, record["signature"], self._digest.digest())
        self.bundle = Bundle(self._path, self.header, counts, digest, signer)


def _header(path: Path, line: bytes) -> Header:
    record = _record(path, line)
    known = record.get("ckpt_bundle")
    if type(known) is not int:
        raise _foreign(path)
    if known != FORMAT:
        raise Unreadable(
            f"cannot read '{path}': unknown bundle format {known}",
            hint=f"it was written by a newer ckpt: {upgrade_command()}",
        )
    thread_id = _from_json(path, record.get("thread_id"))
    if "thread_id" not in record or not isinstance(thread_id, str | None):
        raise _damaged(path, "no thread id in its header")
    texts = {name: record.get(name) for name in ("layout", "saver", "store", "made_at")}
    # Bundles of earlier releases lack these.
    texts |= {name: record.get(name, "") for name in ("language", "ckpt")}
    return Header(thread_id, **{name: _text(path, text) for name, text in texts.items()})


def _row(path: Path, record: Mapping[str, Any]) -> Row:
    table, cells = record.get("table"), record.get("row")
    if record.keys() != {"table", "row"} or not isinstance(cells, dict):
        raise _damaged(path, "a line is not a row")
    return Row(_text(path, table), {name: _from_json(path, one) for name, one in cells.items()})


def _text(path: Path, found: object) -> str:
    if not isinstance(found, str):
        raise _damaged(path, "a name is not text")
    return found


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a bundle, each with its newline. Raises `Unreadable` and `StoreUnavailable`."""
    total = length = 0
    pieces: list[bytes] = []
    try:
        with open_regular(path) as file:
            if file.read(2) not in {_MAGIC, b""}:
                raise _foreign(path)
            file.seek(0)
            with gzip.GzipFile(fileobj=file, mode="rb") as unpacked:
                while piece := unpacked.readline(_PIECE):
                    total += len(piece)
                    if total > max(_FREE, _RATIO * file.tell()):
                        raise _damaged(path, f"it unpacks to more than {_RATIO} times its size")
                    length += len(piece)
                    if length > LONGEST_LINE:
                        raise _damaged(path, "a line is longer than 2 GiB")
                    pieces.append(piece)
                    if piece.endswith(b"\n"):
                        line = b"".join(pieces)
                        length = 0
                        pieces.clear()
                        yield line
    except EOFError as error:
        raise _damaged(path, "it is cut off") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise _damaged(path, "its compressed data is damaged") from error
    except OSError as error:
        raise StoreUnavailable(
            f"cannot read '{path}': {reason_of(error)}",
            hint="give the archives that `ckpt export` or --archive wrote, or their folder",
        ) from error
    if pieces:
        raise _damaged(path, "a line is cut off")


def _record(path: Path, line: bytes) -> dict[str, Any]:
    if len(line) > _SHORT and _tokens(line) > _MOST_TOKENS:
        raise _damaged(path, f"a row has more than {MOST_CELLS} cells")
    try:
        found = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "a line is not JSON") from error
    if not isinstance(found, dict):
        raise _damaged(path, "a line is not a JSON object")
    return found


def _tokens(line: bytes) -> int:
    """The number of lists, objects and commas, counted up to `_MOST_TOKENS`."""
    found = 0
    for token in _TOKEN.finditer(line):
        found += token[0] in b"[{,"
        if found > _MOST_TOKENS:
            break
    return found


def _to_json(cell: Cell) -> object:
    if isinstance(cell, bytes):
        return {"$bytes": b64encode(cell).decode()}
    if isinstance(cell, float) and not isfinite(cell):
        return {"$float": str(cell)}
    if isinstance(cell, str):
        try:
            cell.encode()
        except UnicodeEncodeError:
            return {"$text": b64encode(cell.encode("utf-8", "surrogatepass")).decode()}
    return cell


def _from_json(path: Path, value: object) -> Cell:
    try:
        match value:
            case None | bool() | str():
                return value
            case int() if -(2**63) <= value < 2**63:
                return value
            case float() if isfinite(value):
                return value
            case {"$bytes": str(text), **rest} if not rest:
                return b64decode(text, validate=True)
            case {"$text": str(text), **rest} if not rest:
                return b64decode(text, validate=True).decode("utf-8", "surrogatepass")
            case {"$float": "inf" | "-inf" | "nan" as text, **rest} if not rest:
                return float(text)
    except ValueError as error:
        raise _damaged(path, "a cell is damaged") from error
    raise _damaged(path, "a cell has an unknown type")


def _unwritable(path: Path, error: OSError) -> StoreUnavailable:
    return StoreUnavailable(
        f"cannot write the archive '{path}': {reason_of(error)}",
        hint="give a folder that is writable and has free space",
    )


def _foreign(path: Path) -> Unreadable:
    return Unreadable(
        f"cannot read '{path}': it is not an archive of ckpt",
        hint="`ckpt export THREAD --to DIR` writes archives",
    )


def _damaged(path: Path, why: str) -> Unreadable:
    return Unreadable(
        f"cannot read the archive '{path}': {why}",
        hint="nothing was restored; use another copy of the file",
    )


# Finds the pickles in the rows of an archive, in all layouts. Nothing is unpickled.
#
# A pickle runs code in the process that loads it. A value is a pickle if its type tag says so, or
# if its bytes are one, since a serializer of an application may unpickle whatever the tag says.
# The tag of an encrypted value names its type (`pickle+aes`). Rows keep type tags here:
#
#     columns         `type`, or the name of a value's column with `_type`, such as `metadata_type`;
#                     values are in the columns of LangGraph's savers, which may be base64 if their
#                     type has a column of its own, and in all columns of bytes except hashes of
#                     keys
#     Redis hashes    `.type` and `.metadata_type`, fields of the hash
#     RedisJSON       `type` of the document and of its `checkpoint`
#     Redis strings   `t` of a JSON object, with the bytes in base64 as `d`; or `type` of an object,
#                     or of each object of a list, with the bytes in base64 as another field
#     BSON            `type` of the document; in arrays, the text before the bytes; a field
#                     `checkpoint_data` has no tag and is always a pickle
#
# Items of long-term memory are JSON or BSON without type tags.


_VALUES = frozenset({"checkpoint", "metadata", "value", "blob", "blob_data"})
"""Columns, and fields of Redis hashes, that hold serialised values."""
_ALWAYS_PICKLED = "checkpoint_data"
_NO_VALUES = ("_hash", "type")
"""Ends of the names of columns with bytes that are no values."""
_DOCUMENT, _STRING = "ReJSON-RL", "string"
_KNOWN = frozenset(
    {"", "msgpack", "json", "null", "empty", "bytes", "bytearray"}
    | {_STRING, "hash", "zset", "list", _DOCUMENT}
)
"""Tags of LangGraph's serializer, and types of Redis keys: values that nothing unpickles, though
they may look like pickles of protocol 0 or 1."""
_PROTOCOL = b"\x80"
"""Begins a pickle of protocol 2 or later. In msgpack it is an empty map, which has one byte."""
_IMPORTS = frozenset({"GLOBAL", "STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4"})
"""Instructions that import something. A pickle without them can call nothing."""
_MOST_OPCODES = 10_000
_MOST_SHOWN, _LONGEST = 3, 80
_PLACES = {"checkpoint": "checkpoint_id", "channel": "channel", "key": "key"}


class Pickles:
    """Counts the pickles among the rows of an archive."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.count = 0
        self._first: list[str] = []

    def seen(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows, while their pickles are counted.

        Raises `Unreadable` if a row cannot be checked.
        """
        for row in rows:
            self._look(row)
            yield row

    def _look(self, row: Row) -> None:
        try:
            names = dict.fromkeys(_pickles(row))
        except ValueError as error:
            table = _short(row.table)
            raise Unreadable(
                f"cannot read the archive '{self._path}': a row of '{table}' is {error}",
                hint="nothing was restored; use another copy of the file",
            ) from error
        for name in names:
            self.count += 1
            if len(self._first) < _MOST_SHOWN:
                self._first.append(_place(row, name))

    def places(self) -> str:
        """Where the first ones are, and the number of the others."""
        more = self.count - len(self._first)
        return "; ".join([*self._first, *([f"{more} more"] if more else [])])


def is_pickle(tag: str, data: bytes) -> bool:
    """Whether a value is a pickle, by its type tag or its bytes."""
    if "pickle" in tag.lower():
        return True
    has_protocol = data.startswith(_PROTOCOL)
    if "+" in tag or (tag in _KNOWN and not has_protocol):
        return False
    read = 0
    # For bytes that are not a pickle, `pickletools` raises errors of many kinds.
    with suppress(Exception):
        for opcode, _, _ in islice(genops(data), _MOST_OPCODES):
            if opcode.name in _IMPORTS:
                return True
            read += 1
        return has_protocol or read == _MOST_OPCODES
    return False


def _pickles(row: Row) -> Iterator[str]:
    """The names of the cells or fields of a row that hold pickles.

    Raises ValueError if the row cannot be checked.
    """
    cells = row.cells
    if isinstance(document := cells.get("bson"), bytes):
        yield from _in_bson(document)
    is_sql = "key" not in cells and "bson" not in cells
    for name, cell in cells.items():
        dot, plain = "." * name.startswith("."), name.removeprefix(".")
        is_bytes = is_sql and isinstance(cell, bytes) and not name.endswith(_NO_VALUES)
        if plain in _VALUES or is_bytes:
            own = f"{dot}{plain}_type"
            tags = [own] if plain == "metadata" else [own, f"{dot}type"]
            data = cell if isinstance(cell, bytes) else _decoded(cell) if own in cells else b""
            found = [_text_of(cells[tag]) for tag in tags if tag in cells]
            if any(is_pickle(tag, data) for tag in found or [""]):
                yield plain
    if "key" in cells and "type" in cells:
        yield from _in_redis(cells)


def _in_bson(document: bytes) -> Iterator[str]:
    try:
        for name, tag, data in binaries(document):
            if name == _ALWAYS_PICKLED or is_pickle(tag, data):
                yield name
    except (ValueError, IndexError) as error:
        raise ValueError("not a MongoDB document") from error


def _in_redis(cells: Mapping[str, Cell]) -> Iterator[str]:
    for name, cell in cells.items():
        if not isinstance(cell, str | bytes) or not (name == "value" or name.startswith(".")):
            continue
        try:
            # Numbers are kept as text: Python limits their length, and Redis does not.
            found = json.loads(cell, object_pairs_hook=_Pairs, parse_int=str, parse_float=str)
        except (ValueError, RecursionError) as error:
            if cells["type"] == _DOCUMENT:
                raise ValueError("not a JSON document") from error
            continue
        if cells["type"] == _STRING and any(map(_has_pickle, _objects(found))):
            yield name.removeprefix(".")
        if not isinstance(found, _Pairs):
            continue
        if name == "value":
            bodies = [one for one in found.all("checkpoint") if isinstance(one, _Pairs)]
            tags = [tag for one in (found, *bodies) for tag in one.all("type")]
            if any(is_pickle(_text_of(tag), b"") for tag in tags):
                yield name
        for tag in found.all("t"):
            if any(is_pickle(_text_of(tag), _decoded(data)) for data in found.all("d")):
                yield name.removeprefix(".")


def _objects(found: object) -> list[_Pairs]:
    """An object of JSON, or those of a list."""
    if isinstance(found, _Pairs):
        return [found]
    return [one for one in found if isinstance(one, _Pairs)] if isinstance(found, list) else []


def _has_pickle(found: _Pairs) -> bool:
    """Whether an object has a type and a field with the base64 of a pickle."""
    values = [_decoded(data) for name, data in found if name in _VALUES]
    return any(is_pickle(_text_of(tag), data) for tag in found.all("type") for data in values)


class _Pairs(list[tuple[str, Any]]):
    """A JSON object, with all values of a name that is given twice."""

    def all(self, name: str) -> list[Any]:
        return [value for key, value in self if key == name]


def _decoded(data: object) -> bytes:
    with suppress(ValueError):
        return b64decode(data) if isinstance(data, str) else b""
    return b""


def _text_of(found: object) -> str:
    if isinstance(found, bytes):
        return found.decode("utf-8", "replace")
    return found if isinstance(found, str) else ""


def _place(row: Row, name: str) -> str:
    """Where a value is, for a person."""
    document = row.cells.get("bson")
    cells = texts(document) if isinstance(document, bytes) else row.cells
    parts = [_short(row.table)]
    for what, column in _PLACES.items():
        if column in cells:
            parts.append(f"{what} '{_short(_text_of(cells[column]))}'")
    if "channel" not in cells:
        parts.append(_short(name))
    return ", ".join(parts)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
