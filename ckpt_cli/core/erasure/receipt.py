"""The receipt of an erasure: what is gone, what may be left and why; no value and no id."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ckpt_backends.changes.bundle import SUFFIX
from ckpt_cli.core.erasure.digests import ErasedIds, ids_from_record, ids_record
from ckpt_cli.core.erasure.places import ErasurePlace, ErasureReport

FORMAT = 1
_HIDDEN = "[erased]"
_ARCHIVE = re.compile(rf"[^/]*{re.escape(SUFFIX)}")
"""The name of an archive, which holds the id of a thread."""


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """What a receipt holds for its verification."""

    store: str
    place: str
    """A digest of where the store is."""
    ids: ErasedIds
    folders: tuple[str, ...]
    """The folders whose archives and plans were looked through."""
    memories: tuple[str, ...]
    """Digests of where the memories are."""
    unknown: tuple[ErasurePlace, ...] = ()
    """The places that were left and that a verification cannot look at."""

    @property
    def named_folders(self) -> list[str]:
        """The folders whose names are in the receipt as they are."""
        return [one for one in self.folders if _HIDDEN not in one]

    def unnamed_folders(self, named: Iterable[str]) -> Iterator[str]:
        """Yield the folders whose names hide an id, unless one that is named now fits."""
        for one in self.folders:
            if _HIDDEN in one:
                fits = re.compile(".+".join(map(re.escape, one.split(_HIDDEN))), re.DOTALL)
                if not any(fits.fullmatch(text) for text in named):
                    yield one


def receipt_record(
    report: ErasureReport,
    receipt: ErasureReceipt,
    facts: Mapping[str, Any],
    hidden: re.Pattern[str] | None,
) -> dict[str, Any]:
    """Return a receipt as JSON. `facts` are who, when and which version; `hidden` finds names."""

    def shown(text: str) -> str:
        text = _ARCHIVE.sub(f"{_HIDDEN}{SUFFIX}", text)
        return text if hidden is None else hidden.sub(_HIDDEN, text)

    return {
        "ckpt_erasure_receipt": FORMAT,
        **facts,
        "store": shown(receipt.store),
        "place": receipt.place,
        "complete": report.is_complete,
        "stopped": shown(report.stopped),
        "places": [place_record(one, shown) for one in report.places],
        "statements": [shown(one) for one in report.statements],
        "mentions": len(report.mentions) if report.is_searched else None,
        "folders": [shown(one) for one in receipt.folders],
        "memories": list(receipt.memories),
        **ids_record(receipt.ids),
    }


def place_record(
    one: ErasurePlace, shown: Callable[[str], str] = lambda text: text
) -> dict[str, Any]:
    """Return a place as JSON."""
    return {
        "store": shown(one.store),
        "kind": one.kind,
        "items": one.items,
        "bytes": one.bytes,
        "state": one.state,
        "reason": shown(one.reason),
        # A verification sees neither what was not looked at, nor old bytes in an engine.
        **({"unknown": True} if one.is_unknown or (one.is_left and one.kind == "engine") else {}),
    }


def receipt_from_record(record: Any) -> ErasureReceipt:
    """Parse a receipt. Raises `ValueError`, `KeyError` or `TypeError`."""
    if record["ckpt_erasure_receipt"] != FORMAT:
        raise ValueError(record["ckpt_erasure_receipt"])
    return ErasureReceipt(
        str(record["store"]),
        str(record["place"]),
        ids_from_record(record),
        tuple(map(str, record["folders"])),
        tuple(map(str, record["memories"])),
        tuple(_unknown(one) for one in record["places"] if one.get("unknown")),
    )


def _unknown(record: Any) -> ErasurePlace:
    reason = f"the erasure left it: {record['reason']}"
    return ErasurePlace(str(record["store"]), record["kind"], None, None, "unreachable", reason)
