"""The record of values that repairs stored again, by which `ckpt undo` takes them back.

A value that is stored apart from checkpoints has no metadata that could say so. The record of a
thread is one file in `$XDG_STATE_HOME/ckpt/repairs`. It holds the unreadable bytes that were
replaced, and of the restored values only digests.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ckpt_backends.errors import StoreUnavailable, UsageError
from ckpt_backends.files.atomic_write import make_private_folder, writing
from ckpt_backends.files.regular_file import read_regular
from ckpt_backends.model import StoreInfo, TypedBytes
from ckpt_cli.config.folders import state_folder
from ckpt_cli.core.replay.repair_plan import DamagedValue

_FORMAT = 1
_LONGEST = 256 << 20


@dataclass(frozen=True, slots=True)
class StoredAgain:
    """A value that a repair stored."""

    place: DamagedValue
    before: TypedBytes | None
    """The unreadable bytes that were there; None if there were none."""
    digest: str
    """The SHA-256 of what the repair stored."""


@dataclass(frozen=True, slots=True)
class PastRepair:
    """One repair of a thread."""

    at: datetime
    values: tuple[StoredAgain, ...]


def past_repairs(info: StoreInfo, thread_id: str) -> list[PastRepair]:
    """Return the repairs of a thread, oldest first. What cannot be read counts as none."""
    with suppress(UsageError):
        return readable_repairs(info, thread_id)
    return []


def readable_repairs(info: StoreInfo, thread_id: str) -> list[PastRepair]:
    """Return the repairs of a thread, oldest first.

    Raises `UsageError` if there is a record that cannot be read: it may hold bytes that are stored
    nowhere else.
    """
    path = _file_of(info, thread_id)
    try:
        record = json.loads(read_regular(path, _LONGEST))
        if (record["ckpt_repairs"], record["thread_id"]) != (_FORMAT, thread_id):
            raise ValueError
        return [_from_json(one) for one in record["repairs"]]
    except FileNotFoundError:
        return []
    except (OSError, StoreUnavailable, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"cannot read '{path}', the record of earlier repairs") from error


def write_repairs(info: StoreInfo, thread_id: str, repairs: Sequence[PastRepair]) -> None:
    """Replace the record of a thread; without repairs, remove it.

    Raises `UsageError` if it cannot be written.
    """
    path = _file_of(info, thread_id)
    record = {
        "ckpt_repairs": _FORMAT,
        "store": info.url,
        "thread_id": thread_id,
        "repairs": list(map(_to_json, repairs)),
    }
    data = json.dumps(record).encode()
    if len(data) > _LONGEST:
        raise UsageError(f"cannot write '{path}': it would be longer than {_LONGEST} bytes")
    try:
        if not repairs:
            path.unlink(missing_ok=True)
            return
        make_private_folder(path.parent)
        with writing(path) as file:
            file.write(data)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"cannot write '{path}': {reason}") from error


def digest_of(value: TypedBytes) -> str:
    """Return the SHA-256 of a stored value with its type."""
    from hashlib import sha256  # late: it loads OpenSSL

    return sha256(value.type.encode() + b"\0" + value.data).hexdigest()


def _file_of(info: StoreInfo, thread_id: str) -> Path:
    from hashlib import sha256

    # Whoever looks for the record may connect as another role, or with the password elsewhere.
    url = re.sub(r"(?<=://)[^/@]*@", "", info.url)
    name = json.dumps([url, info.layout, thread_id]).encode()
    return state_folder("repairs") / f"{sha256(name).hexdigest()}.json"


def _to_json(one: PastRepair) -> dict[str, Any]:
    return {
        "at": one.at.isoformat(),
        "values": [
            {
                "checkpoint_ns": value.place.checkpoint_ns,
                "checkpoint_id": value.place.checkpoint_id,
                "step": value.place.step,
                "channel": value.place.channel,
                "version": value.place.version,
                "type": None if value.before is None else value.before.type,
                "data": None if value.before is None else b64encode(value.before.data).decode(),
                "stored_sha256": value.digest,
            }
            for value in one.values
        ],
    }


def _from_json(record: Any) -> PastRepair:
    return PastRepair(
        datetime.fromisoformat(record["at"]), tuple(map(_value_from_json, record["values"]))
    )


def _value_from_json(record: Any) -> StoredAgain:
    names = ("checkpoint_ns", "checkpoint_id", "step", "channel", "version")
    place = DamagedValue(**{name: record[name] for name in names})
    before = None
    if record["data"] is not None:
        before = TypedBytes(str(record["type"]), b64decode(record["data"]))
    return StoredAgain(place, before, str(record["stored_sha256"]))
