"""Count in how many checkpoints the same credential stands at the same place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from ckpt_backends.codec.values import Value
from ckpt_backends.model import CheckpointKey
from ckpt_cli.core.conversation.messages import as_message
from ckpt_cli.core.secrets.finding import SecretFinding, SecretPlace
from ckpt_cli.core.secrets.scanner import SecretPart
from ckpt_cli.core.values.paths import Path
from ckpt_cli.core.values.unwrap import unwrap

_ORDER: tuple[SecretPlace, ...] = ("value", "write", "metadata", "memory")
_MOST = 100
"""More credentials of one kind in the same text are counted as one."""


@dataclass(frozen=True, slots=True)
class LocatedSecret:
    """A credential in a value; its text is replaced by a hash."""

    kind: str
    path: Path
    place: Path
    """The path with the id of a message in place of its index, so that it stays the same when
    messages before it are removed."""
    digest: bytes


def located(value: Value, parts: Iterable[SecretPart]) -> tuple[LocatedSecret, ...]:
    """Return the credentials that were found in a value, without their texts."""
    digests: dict[tuple[Path, str], list[bytes]] = {}
    for part in parts:
        text = part.text.encode("utf-8", "surrogatepass")
        digests.setdefault((part.path, part.kind), []).append(_digest(text))
    return tuple(
        LocatedSecret(kind, path, _place(value, path), digest)
        for (path, kind), found in digests.items()
        for digest in (found if len(found) <= _MOST else [_digest(b"".join(found))])
    )


class _SecretAddress(NamedTuple):
    """What occurrences of the same credential have in common within a thread."""

    checkpoint_ns: str
    place: SecretPlace
    channel: str | None
    kind: str
    path: Path
    digest: bytes


@dataclass(slots=True)
class _Occurrence:
    """Where a credential was seen."""

    path: Path
    key: CheckpointKey
    """The newest checkpoint that holds it."""
    rank: int
    task_id: str | None
    idx: int | None
    checkpoints: int = 0
    last: CheckpointKey | None = None
    """The checkpoint that was counted last; those of one namespace come one after the other."""


class SecretOccurrences:
    """The credentials of one thread by their places."""

    def __init__(self) -> None:
        self._found: dict[_SecretAddress, _Occurrence] = {}

    def add(
        self,
        place: SecretPlace,
        channel: str | None,
        key: CheckpointKey,
        rank: int,
        found: Iterable[LocatedSecret],
        *,
        task_id: str | None = None,
        idx: int | None = None,
    ) -> None:
        """Add what a checkpoint holds at one place; the newest checkpoint has the lowest rank."""
        for one in found:
            what = _SecretAddress(
                key.checkpoint_ns, place, channel, one.kind, one.place, one.digest
            )
            seen = self._found.get(what)
            if seen is None or rank < seen.rank:
                count = 0 if seen is None else seen.checkpoints
                last = None if seen is None else seen.last
                seen = _Occurrence(one.path, key, rank, task_id, idx, count, last)
                self._found[what] = seen
            if seen.last != key:
                seen.last = key
                seen.checkpoints += 1

    def findings(self, mask: Callable[[str], str]) -> list[SecretFinding]:
        """Return the findings in order. `mask` hides credentials in ids and names."""
        found = dict.fromkeys(_finding(what, seen, mask) for what, seen in self._found.items())
        return sorted(found, key=_sort_key)


def _finding(what: _SecretAddress, seen: _Occurrence, mask: Callable[[str], str]) -> SecretFinding:
    key = seen.key
    thread_id, ns, checkpoint_id = map(mask, (key.thread_id, key.checkpoint_ns, key.checkpoint_id))
    channel = None if what.channel is None else mask(what.channel)
    task_id = None if seen.task_id is None else mask(seen.task_id)
    return SecretFinding(
        what.place,
        what.kind,
        seen.path if channel is None else (channel, *seen.path),
        thread_id=thread_id,
        checkpoint_ns=ns,
        checkpoint_id=checkpoint_id,
        channel=channel,
        task_id=task_id,
        idx=seen.idx,
        checkpoints=seen.checkpoints,
        is_masked=(CheckpointKey(thread_id, ns, checkpoint_id), channel, task_id)
        != (key, what.channel, seen.task_id),
    )


def _sort_key(one: SecretFinding) -> tuple[object, ...]:
    return (
        one.checkpoint_ns,
        _ORDER.index(one.place),
        one.channel or "",
        tuple((isinstance(step, str), step) for step in one.path),
        one.kind,
        one.checkpoint_id,
        one.task_id or "",
        one.idx or 0,
    )


def _place(value: Value, path: Path) -> Path:
    place: list[str | int] = []
    for step in path:
        assert isinstance(step, str | int)  # noqa: S101 - the scanner returns no other steps
        held = unwrap(value)
        if isinstance(held, list) and isinstance(step, int):
            value = held[step]
            message = as_message(value)
            place.append(step if message is None or message.id is None else message.id)
        else:
            value = held.get(step) if isinstance(held, dict) else None
            place.append(step)
    return tuple(place)


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()
