"""What an object of `ObjectStorageSaver` holds, as a row and as a record.

    THREAD/[NAMESPACE/]checkpoints/ID.msgpack            checkpoint, metadata, parent_checkpoint_id
    THREAD/[NAMESPACE/]writes/ID/TASK/IDX.msgpack        task_id, idx, channel, type, value

Each is a msgpack map, which may be compressed, and then encrypted: maps with `codec`, and with
`enc`. Source: `keys.py` and `envelope.py` of langgraph-checkpoint-objectstorage 0.1.15.
"""

from __future__ import annotations

import lzma
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ckpt_backends.codec.lossless import pack_lossless, unpack_lossless
from ckpt_backends.codec.values import MOST_BYTES, PastLimit
from ckpt_backends.errors import Refused
from ckpt_backends.model import CheckpointKey, Record
from ckpt_backends.objects import CHECKPOINTS, KEY, PARENT, WRITES, Name
from ckpt_backends.objects.records import records_of as records_of_rows
from ckpt_backends.objects.records import sound, typed
from ckpt_backends.rows import Cell, ChangeValue, Row
from ckpt_backends.sql.records import edited_row as edited_sql_row
from ckpt_backends.transfer.form import CannotHold

COMPRESSION, DATA, PLACE = "compression", "data", "encrypted_at"
_VALUES = ("checkpoint", "metadata")
_FIELDS = {CHECKPOINTS: {*_VALUES, PARENT}, WRITES: {"task_id", "idx", "channel", "type", "value"}}
_CLOSED = (COMPRESSION, DATA, PLACE)
COLUMNS = {
    WRITES: (*KEY, "task_id", "idx", "channel", "type", "value", *_CLOSED),
    CHECKPOINTS: (*KEY, PARENT, "type", "checkpoint", "metadata_type", "metadata", *_CLOSED),
}
"""Of an object that cannot be opened, `data` has its bytes. If its saver has encrypted it,
`encrypted_at` is the place that the encryption is bound to."""
_SAFE = re.compile(r"[\w.:-]+")
_NUMBER = re.compile(r"0|-?[1-9]\d{0,17}", re.ASCII)
_END = ".msgpack"


def is_safe(part: str) -> bool:
    """Whether the saver takes an id: as a part of a path, it leads nowhere else."""
    return part not in {".", ".."} and _SAFE.fullmatch(part) is not None


def name_of(path: str) -> Name | None:
    """What the object at a path is; None if the saver stores none there."""
    if not path.endswith(_END):
        return None
    thread_id, *parts = path.removesuffix(_END).split("/")
    ns = parts.pop(0) if len(parts) in {3, 5} else ""
    match parts:
        case ["checkpoints", own]:
            task = None
        case ["writes", own, task_id, idx] if _NUMBER.fullmatch(idx):
            task = task_id, int(idx)
        case _:
            return None
    return Name(CheckpointKey(thread_id, ns, own), task, path)


def path_of(cells: Mapping[str, Cell]) -> str:
    """The path of the object of a row. Raises `CannotHold` for ids that the saver refuses."""
    ids = [cells[name] for name in (*KEY, *(("task_id",) if "task_id" in cells else ()))]
    for one in (one for at, one in enumerate(ids) if one != "" or at != 1):
        if not isinstance(one, str) or not is_safe(one):
            raise CannotHold(f"object storage has no room for the id {one!r}; its saver refuses it")
    thread_id, ns, own, *task = map(str, ids)
    start = f"{thread_id}/{ns}/" if ns else f"{thread_id}/"
    if not task:
        return f"{start}checkpoints/{own}{_END}"
    if type(cells["idx"]) is not int:
        raise CannotHold(f"a write of task '{task[0]}' has no number")
    return f"{start}writes/{own}/{task[0]}/{cells['idx']}{_END}"


def row_at(name: Name, data: bytes) -> Row:
    """The object as a row. Raises `CannotHold` if it has more than its saver stores."""
    try:
        fields, codec = opened(data)
        cells = name.cells | ({COMPRESSION: codec} if codec else {})
        if not _FIELDS[name.table].issuperset(fields):
            raise CannotHold(f"'{name.path}' has fields that its saver does not store")
        if name.task is None:
            body, metadata = (sound(fields.get(one)) for one in _VALUES)
            cells |= {PARENT: fields.get(PARENT), "type": body.type, "checkpoint": body.data}
            cells |= {"metadata_type": metadata.type, "metadata": metadata.data}
        else:
            value = sound([fields.get("type"), fields.get("value")])
            if [fields.get("task_id"), fields.get("idx")] != [*name.task]:
                raise ValueError("the write of another task")
            cells |= {"channel": str(fields.get("channel"))}
            cells |= {"type": value.type, "value": value.data}
    except ValueError:
        sealed = {PLACE: "/".join(name.key)} if _is_sealed(data) else {}
        return Row(name.table, {**name.cells, DATA: data, **sealed})
    return Row(name.table, cells)


# Opens objects: decompresses them, and takes out values without decoding these.


def opened(data: bytes) -> tuple[dict[str, Any], str]:
    """The fields of an object, and the name of its compression. Raises ValueError."""
    fields, codec = _map(_short(data)), ""
    if "enc" in fields:
        raise ValueError(f"encrypted by its saver under the key '{fields.get('key_id')}'")
    if "codec" in fields:
        codec = str(fields["codec"])
        fields = _map(_decompressed(codec, fields.get("payload")))
    return fields, codec


def _map(data: bytes) -> dict[str, Any]:
    try:
        found = unpack_lossless(data)
    except (PastLimit, RecursionError) as error:
        raise ValueError(str(error)) from None
    if not isinstance(found, dict):
        raise ValueError("not an object of the saver")
    return found


def _is_sealed(data: bytes) -> bool:
    try:
        return "enc" in _map(data)
    except ValueError:
        return False


def _is_closed(data: bytes) -> bool:
    """Whether nobody can open an object without a key."""
    try:
        return "enc" in _map(data)
    except ValueError:
        return True


def _decompressed(codec: str, data: Any) -> bytes:
    """Raises ValueError, also if it is longer than `MOST_BYTES`."""
    try:
        match codec:
            case "zlib":
                machine: Any = zlib.decompressobj()
            case "lzma":
                machine = lzma.LZMADecompressor()
            case "zstd":
                import zstandard  # an extra of the saver

                machine = zstandard.ZstdDecompressor().stream_reader(data)
                found: bytes = machine.read(MOST_BYTES + 1)
                return _short(found)
            case _:
                raise ValueError(f"unknown compression '{codec}'")
        return _short(machine.decompress(data, MOST_BYTES + 1))
    except ImportError:
        raise ValueError("compressed by zstd; install the package zstandard to read it") from None
    except Exception as error:  # each library has errors of its own
        raise ValueError(f"cannot be decompressed: {error}") from None


def _short(data: bytes) -> bytes:
    if len(data) > MOST_BYTES:
        raise ValueError(f"it is longer than {MOST_BYTES >> 20} MiB")
    return data


def _packed(fields: Mapping[str, Any], codec: str = "") -> bytes:
    """An object with these fields, as the saver stores it."""
    data = pack_lossless(fields)
    match codec:
        case "zlib":
            small = zlib.compress(data)
        case "lzma":
            small = lzma.compress(data)
        case "zstd":
            import zstandard

            small = zstandard.ZstdCompressor().compress(data)
        case _:
            return data
    return pack_lossless({"codec": codec, "payload": small})


def object_of(row: Row) -> bytes:
    """The object of a row. Raises `CannotHold` if it has none."""
    cells = row.cells
    if isinstance(data := cells.get(DATA), bytes):
        return data
    fields: dict[str, Any]
    if row.table == CHECKPOINTS:
        fields = {
            "checkpoint": [cells.get("type"), cells.get("checkpoint")],
            "metadata": [cells.get("metadata_type"), cells.get("metadata")],
            PARENT: cells.get(PARENT),
        }
        values = [fields[name] for name in _VALUES]
    else:
        names = ("task_id", "idx", "channel", "type", "value")
        fields = {name: cells.get(name) for name in names}
        values = [[fields["type"], fields["value"]]]
    if any(typed(one).problem for one in values):
        raise CannotHold(f"a row of '{row.table}' has no value that its saver stores")
    return _packed(fields, str(cells.get(COMPRESSION, "")))


def checked(row: Row) -> Row:
    """A row of an archive that anyone may have written. Raises `Refused` and `CannotHold`."""
    path_of(row.cells)
    data = row.cells.get(DATA)
    if data is not None and not (isinstance(data, bytes) and _is_closed(data)):
        # Its values were not looked at, which may be pickles.
        raise Refused(f"a row of '{row.table}' hides values")
    object_of(row)
    return row


def records_of(layout: str, rows: Iterable[Row]) -> Iterator[Record]:
    """The records that the rows of one thread hold. Raises `CannotHold`."""
    return records_of_rows(layout, map(_open, rows))


def edited_row(layout: str, row: Row, change: ChangeValue) -> Row:
    """The row with the values that `change` returns. Raises `CannotHold`."""
    return edited_sql_row(layout, _open(row), change)


def _open(row: Row) -> Row:
    """A row whose values can be read. Raises `CannotHold`."""
    if isinstance(data := row.cells.get(DATA), bytes):
        try:
            opened(data)
            reason = "it is not an object of its saver"
        except ValueError as error:
            reason = str(error)
        raise CannotHold(f"an object of '{row.table}' cannot be read: {reason}")
    return row
