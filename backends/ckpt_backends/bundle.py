"""Bundles: the rows of one thread in a file, from which they can be restored row for row.

Items of long-term memory are stored together in one bundle that has no thread id.

A bundle is a gzip file with one JSON object per line, so `zcat` and `jq` can read it: a header, one
line for each row, and a last line with the row counts and the SHA-256 of all lines before it.

    {"ckpt_bundle": 1, "layout": "sqlite", "thread_id": "user-42", "made_at": "...", ...}
    {"table": "checkpoints", "row": {"thread_id": "user-42", "checkpoint": {"$bytes": "..."}, ...}}
    {"rows": {"checkpoints": 12, "writes": 40}, "sha256": "..."}

Numbers, text and NULL are as in JSON; bytes are `{"$bytes": BASE64}`, and text that is not
UTF-8 is `{"$text": BASE64}`.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote
from zlib import error as ZlibError

from ckpt_backends.errors import StoreUnavailable, Unreadable
from ckpt_backends.rows import Cell, Row
from ckpt_backends.unfinished import make_private_folder, remove_unfinished, writing

FORMAT = 1
SUFFIX = ".ckpt.gz"
_LONGEST_LINE = 2 << 30
"""A row of PostgreSQL has at most 1 GiB."""


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
        raise StoreUnavailable(
            f"cannot read '{folder}': {(error.strerror or str(error)).lower()}"
        ) from error


def write_bundle(path: Path, header: Header, rows: Iterable[Row]) -> Mapping[str, int]:
    """Write a bundle and return its number of rows by table.

    The file appears under its name only when it is complete and on disk. Raises `StoreUnavailable`
    if it cannot be written.
    """
    try:
        with writing(path) as file:
            return write_to(file, header, rows)
    except OSError as error:
        raise _unwritable(path, error) from error


def write_to(file: IO[bytes], header: Header, rows: Iterable[Row]) -> Mapping[str, int]:
    """Write a bundle to a stream and return its number of rows by table."""
    digest = sha256()
    counts: Counter[str] = Counter()
    with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:

        def put(record: object) -> None:
            line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
            digest.update(line)
            packed.write(line)

        put(
            {
                "ckpt_bundle": FORMAT,
                "layout": header.layout,
                "saver": header.saver,
                "store": header.store,
                "thread_id": _to_json(header.thread_id),
                "made_at": header.made_at,
            }
        )
        for row in rows:
            cells = {name: _to_json(cell) for name, cell in row.cells.items()}
            put({"table": row.table, "row": cells})
            counts[row.table] += 1
        put({"rows": dict(counts), "sha256": digest.hexdigest()})
    return counts


def read_header(path: Path) -> Header:
    """The header of a bundle, unchecked. Raises `Unreadable` and `StoreUnavailable`."""
    for line in _lines(path):
        return _header(path, line)
    raise _damaged(path, "it is empty")


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a bundle.

    Raises the errors of `check_bundle`, but only after the rows before the damaged line.
    """
    for number, line in enumerate(_lines(path)):
        found = _record(path, line)
        if number and "table" in found:
            yield Row(found["table"], {k: _from_json(path, v) for k, v in found["row"].items()})


def check_bundle(path: Path) -> tuple[Header, Mapping[str, int]]:
    """Check that a bundle is complete. Returns its header and its number of rows by table.

    Raises `Unreadable` if it is damaged or not a bundle, and `StoreUnavailable` if the file cannot
    be opened.
    """
    digest = sha256()
    counts: Counter[str] = Counter()
    header: Header | None = None
    end: dict[str, Any] | None = None
    for line in _lines(path):
        if end is not None:
            raise _damaged(path, "it has data after its end")
        if header is None:
            header = _header(path, line)
        else:
            record = _record(path, line)
            if "table" in record and isinstance(record.get("row"), dict):
                counts[str(record["table"])] += 1
            elif "sha256" in record:
                end = record
            else:
                raise _damaged(path, "a line is not a row")
        if end is None:
            digest.update(line)
    if header is None or end is None:
        raise _damaged(path, "it is cut off")
    if end.get("sha256") != digest.hexdigest() or end.get("rows") != dict(counts):
        raise _damaged(path, "its checksum does not match")
    return header, counts


def _header(path: Path, line: bytes) -> Header:
    record = _record(path, line)
    if "ckpt_bundle" not in record:
        raise _damaged(path, "not a ckpt bundle")
    if record["ckpt_bundle"] != FORMAT:
        raise Unreadable(
            f"cannot read '{path}': unknown bundle format {record['ckpt_bundle']}",
            hint="it was written by a newer ckpt: pip install -U langgraph-ckpt",
        )
    thread_id = _from_json(path, record.get("thread_id"))
    if "thread_id" not in record or not isinstance(thread_id, str | None):
        raise _damaged(path, "no thread id in its header")
    text = {name: str(record.get(name, "")) for name in ("layout", "saver", "store", "made_at")}
    return Header(thread_id, **text)


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path, "rb") as packed:
            while line := packed.readline(_LONGEST_LINE):
                if not line.endswith(b"\n"):
                    raise _damaged(path, "a line is cut off")
                yield line
    except EOFError as error:
        raise _damaged(path, "it is cut off") from error
    except (gzip.BadGzipFile, ZlibError) as error:
        raise _damaged(path, "not a gzip file, or damaged") from error
    except OSError as error:
        raise StoreUnavailable(
            f"cannot read '{path}': {(error.strerror or str(error)).lower()}"
        ) from error


def _record(path: Path, line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "a line is not JSON") from error
    if not isinstance(found, dict):
        raise _damaged(path, "a line is not a JSON object")
    return found


def _to_json(cell: Cell) -> object:
    if isinstance(cell, bytes):
        return {"$bytes": b64encode(cell).decode()}
    if isinstance(cell, str):
        try:
            cell.encode()
        except UnicodeEncodeError:
            return {"$text": b64encode(cell.encode("utf-8", "surrogatepass")).decode()}
    return cell


def _from_json(path: Path, value: object) -> Cell:
    match value:
        case None | int() | float() | str():
            return value
        case {"$bytes": str(text)}:
            return b64decode(text)
        case {"$text": str(text)}:
            return b64decode(text).decode("utf-8", "surrogatepass")
    raise _damaged(path, "a cell has an unknown type")


def _unwritable(path: Path, error: OSError) -> StoreUnavailable:
    return StoreUnavailable(
        f"cannot write the archive '{path}': {(error.strerror or str(error)).lower()}",
        hint="give a folder that is writable and has free space",
    )


def _damaged(path: Path, why: str) -> Unreadable:
    return Unreadable(
        f"cannot read the archive '{path}': {why}",
        hint="nothing was restored; use another copy of the file",
    )
