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

import json
import re
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from ckpt_backends.changes.gzip_lines import LONGEST_LINE, Damaged, NotPacked, Packer, lines
from ckpt_backends.changes.rows import Cell, Row
from ckpt_backends.changes.signatures import PublicKey, SigningKey, verify
from ckpt_backends.errors import (
    CkptError,
    StoreChanged,
    StoreUnavailable,
    Unreadable,
    Unsupported,
    reason_of,
)
from ckpt_backends.files.atomic_write import make_private_folder, remove_unfinished, writing
from ckpt_backends.files.regular_file import open_regular
from ckpt_backends.installing import upgrade_command

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
    try:
        with open_regular(path) as file:
            yield from lines(file)
    except NotPacked:
        raise _foreign(path) from None
    except Damaged as error:
        raise _damaged(path, str(error)) from error
    except OSError as error:
        raise StoreUnavailable(
            f"cannot read '{path}': {reason_of(error)}",
            hint="give the archives that `ckpt export` or --archive wrote, or their folder",
        ) from error


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
