"""What an item of `CosmosDBSaver` holds, as a row.

    id                             partition_key            other fields
    checkpoint$THREAD$NS$ID        checkpoint$THREAD$NS$    thread_id, parent_checkpoint_id, type,
                                                            checkpoint, metadata
    writes$THREAD$NS$ID$TASK$IDX   writes$THREAD$NS$ID$     thread_id, channel, type, value

Values are base64; `metadata` is a list of its type and its value. Source:
`_langgraph_checkpoint_store.py` of langchain-azure-cosmosdb 1.0.1.

langgraph-checkpoint-cosmosdb 0.2.5 to 0.4 stores no `thread_id`, may add `run_id`, and has writes
in the partition `writes$THREAD$NS$ID$$`. Source: its `cosmosdbSaver.py`.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from ckpt_backends.model import CheckpointKey
from ckpt_backends.objects import CHECKPOINTS, KEY, PARENT, WRITES, Name
from ckpt_backends.objects.records import sound, typed
from ckpt_backends.rows import Cell, Row
from ckpt_backends.transfer.form import CannotHold

KINDS = ("checkpoint$", "writes$")
"""What the ids of items begin with."""
OLDER = "older"
_MORE = ("run_id", "ttl")
_FIELDS = {WRITES: ("channel", "type", "value"), CHECKPOINTS: (PARENT, "type", "checkpoint")}
COLUMNS = {
    WRITES: (*KEY, "task_id", "idx", *_FIELDS[WRITES], *_MORE, OLDER),
    CHECKPOINTS: (*KEY, *_FIELDS[CHECKPOINTS], "metadata_type", "metadata", *_MORE, OLDER),
}
"""`older` is 1 in the rows of langgraph-checkpoint-cosmosdb. No saver sets `ttl`, in seconds."""
_KNOWN = {"id", "partition_key", "thread_id", "metadata", *_MORE}
_NUMBER = re.compile(r"0|-?[1-9]\d{0,17}", re.ASCII)
_PART = re.compile(r"[^$/\\#?\t\r\n]*")
"""What the saver and the driver take as a part of an id."""
_LONGEST = 1023
"""Bytes of an id."""


def place_of(path: str) -> tuple[str, str]:
    """The partition key and the id of the item at a path.

    The path is the id; that of a write of langgraph-checkpoint-cosmosdb has one `$` more.
    """
    parts = path.split("$")
    if len(parts) == 7:
        return f"{'$'.join(parts[:5])}$", "$".join((*parts[:4], *parts[5:]))
    start = {4: 3, 6: 4}.get(len(parts), 1)
    return f"{'$'.join(parts[:start])}$", path


def path_at(partition: str, own: str) -> str:
    """The path of the item with this partition key and id."""
    parts = own.split("$")
    is_older = len(parts) == 6 and partition.endswith("$$") and partition.count("$") == 5
    return "$".join((*parts[:4], "", *parts[4:])) if is_older else own


def name_of(path: str) -> Name | None:
    """What the item at a path is; None if the saver stores none there."""
    match path.split("$"):
        case ["checkpoint", thread_id, ns, own]:
            return Name(CheckpointKey(thread_id, ns, own), None, path)
        case ["writes", thread_id, ns, own, *rest, task_id, idx]:
            if rest in ([], [""]) and _NUMBER.fullmatch(idx):
                return Name(CheckpointKey(thread_id, ns, own), (task_id, int(idx)), path)
    return None


def is_older(path: str) -> bool:
    """Whether langgraph-checkpoint-cosmosdb finds the write at a path, and the newer saver not."""
    return path.count("$") == 6


def path_of(cells: Mapping[str, Cell]) -> str:
    """The path of the item of a row. Raises `CannotHold` for ids that the saver refuses."""
    parts = [cells[name] for name in KEY]
    kind = "checkpoint"
    if "task_id" in cells:
        if type(cells["idx"]) is not int:
            raise CannotHold(f"a write of task '{cells['task_id']!s}' has no number")
        parts += [*([""] if cells.get(OLDER) else []), cells["task_id"], str(cells["idx"])]
        kind = "writes"
    for one in parts:
        if not isinstance(one, str) or not _PART.fullmatch(one):
            raise CannotHold(f"Cosmos DB has no room for the id {one!r}; its saver refuses it")
    path = "$".join((kind, *map(str, parts)))
    if len(path.encode("utf-8", "surrogatepass")) > _LONGEST or path.endswith(" "):
        raise CannotHold(f"the id of an item is too long for Cosmos DB: '{path[:60]}...'")
    return path


def fields_of(item: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an item with values as bytes, or None in their place."""
    found = dict(item)
    for name in ("checkpoint", "value"):
        found[name] = _bytes(item.get(name))
    match item.get("metadata"):
        case [tag, text]:
            found["metadata"] = [tag, _bytes(text)]
    return found | {"checkpoint": [item.get("type"), found["checkpoint"]]}


def _bytes(text: Any) -> bytes | None:
    if not isinstance(text, str):
        return None
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return None


def row_at(name: Name, item: Mapping[str, Any]) -> Row:
    """An item as a row. Raises `CannotHold` if it is not as its saver stores it."""
    known = {*_KNOWN, *_FIELDS[name.table]}
    if more := sorted(one for one in item if one not in known and not one.startswith("_")):
        raise CannotHold(f"the item '{name.path}' has the field '{more[0]}', which is no saver's")
    if item.get("thread_id", name.key.thread_id) != name.key.thread_id:
        raise CannotHold(f"the item '{name.path}' has the id of another thread")
    cells = name.cells | {one: item[one] for one in _MORE if one in item}
    _check_more(cells)
    if "thread_id" not in item:
        cells[OLDER] = 1
    fields = fields_of(item)
    try:
        if name.task is not None:
            value = sound([fields.get("type"), fields["value"]])
            cells |= {"channel": _text(fields.get("channel")), "type": value.type}
            return Row(WRITES, {**cells, "value": value.data})
        body, metadata = sound(fields["checkpoint"]), sound(fields.get("metadata"))
        cells |= {PARENT: _text(fields.get(PARENT, "")) or None, "type": body.type}
        cells |= {"checkpoint": body.data, "metadata_type": metadata.type}
        return Row(CHECKPOINTS, {**cells, "metadata": metadata.data})
    except ValueError as error:
        raise CannotHold(f"the item '{name.path}' cannot be read: {error}") from None


def _text(found: Any) -> str:
    if not isinstance(found, str):
        raise ValueError("a number or a list in the place of a text")
    return found


def _check_more(cells: Mapping[str, Cell]) -> None:
    if not isinstance(cells.get("ttl", 0), int) or not isinstance(cells.get("run_id", ""), str):
        raise CannotHold("a time to live or the id of a run has another form")


def item_of(row: Row) -> dict[str, Any]:
    """The item of a row. Raises `CannotHold` if it has none."""
    cells = row.cells
    _check_more(cells)
    partition, own = place_of(path_of(cells))
    item: dict[str, Any] = {"partition_key": partition, "id": own}
    if not cells.get(OLDER):
        item["thread_id"] = cells["thread_id"]
    names = {WRITES: ("value",), CHECKPOINTS: ("checkpoint", "metadata")}[row.table]
    tags = {"metadata": "metadata_type"}
    values = {one: typed([cells.get(tags.get(one, "type")), cells.get(one)]) for one in names}
    if any(one.problem for one in values.values()):
        raise CannotHold(f"a row of '{row.table}' has no value that its saver stores")
    for name in (*_FIELDS[row.table], *_MORE):
        if name not in values and cells.get(name) is not None:
            item[name] = cells[name]
    item |= {one: b64encode(value.data).decode() for one, value in values.items()}
    if row.table == CHECKPOINTS:
        item |= {
            PARENT: cells.get(PARENT) or "",
            "metadata": [values["metadata"].type, item["metadata"]],
        }
    return item
