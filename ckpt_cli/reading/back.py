"""Which checkpoint to go back to, where the user says it by what happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, tzinfo

from ckpt_backends.errors import NotFound, UsageError
from ckpt_backends.model import Status
from ckpt_backends.protocol import Store
from ckpt_cli.core.forking import BY, FROM, NAME
from ckpt_cli.core.state import read_metadata
from ckpt_cli.reading.target import Target, Words, find_checkpoint
from ckpt_cli.reading.thread import Moment, ThreadReader


@dataclass(frozen=True, slots=True)
class Back:
    """What the user said of the checkpoint; one of these."""

    ref: str | None = None
    at: str | None = None
    as_of: str | None = None
    steps: int | None = None
    to_last: str | None = None
    last_good: bool = False


def find_target(
    store: Store,
    thread: str,
    back: Back,
    now: datetime,
    zone: tzinfo,
    note: Callable[[str], None],
) -> Target:
    """The checkpoint of the root namespace that is meant.

    Raises `NotFound`, `Ambiguous`, and `UsageError` where it is said twice or not at all.
    """
    said = [
        name
        for name, value in {
            "a REF": back.ref,
            "--at": back.at,
            "--as-of": back.as_of,
            "--steps": back.steps,
            "--to-last": back.to_last,
            "--last-good": back.last_good or None,
        }.items()
        if value is not None
    ]
    if len(said) > 1:
        raise UsageError(f"{said[0]} and {said[1]} exclude each other", hint="give one of them")
    status = _status(back.to_last)
    at = back.at if back.ref is None else back.ref
    if at == "":
        raise UsageError("the REF is empty", hint="`head` names the newest checkpoint")
    found = find_checkpoint(store, Words(thread, at, as_of=back.as_of), now, zone, note)
    if found.chosen and said and said[0].startswith("--") and at is None and back.as_of is None:
        raise UsageError(f"a checkpoint and {said[0]} exclude each other", hint="give one of them")
    if not said and not found.chosen:
        raise UsageError(
            "no checkpoint to go back to is given",
            hint="give a REF, --steps, --to-last, --last-good or --as-of;"
            " `ckpt show THREAD --tree` shows what there is",
        )
    reader = found.reader
    if back.steps is not None:
        chosen = _up(reader, found.checkpoint_id, back.steps)
    elif status is not None:
        chosen = _last_with(reader, found.checkpoint_id, status)
    elif back.last_good:
        chosen = _before_errors(reader, found.checkpoint_id)
    else:
        return found
    return Target(reader, "", chosen, True)


def _status(text: str | None) -> Status | None:
    known = [one for one in Status if one is not Status.EMPTY]
    if text is None or text in known:
        return None if text is None else Status(text)
    raise UsageError(f"no status '{text}'", hint=f"known: {', '.join(known)}")


def _up(reader: ThreadReader, start: str, steps: int) -> str:
    """So many steps up; a copy that `ckpt` added is no step away from what it is a copy of."""
    line = reader.ancestry("", start)
    copies = {
        one.key.checkpoint_id
        for one in reader.store.checkpoints(
            reader.thread_id, checkpoint_ns="", checkpoint_ids=line, metadata=True
        )
        if (metadata := read_metadata(one)).get(BY) == NAME
        and metadata.get(FROM) == one.parent_checkpoint_id
    }
    found = [one for one in line if one not in copies]
    if steps >= len(found):
        raise NotFound(
            f"cannot go {steps} steps back in thread '{reader.thread_id}'",
            hint=f"{len(found) - 1} are stored before its head",
        )
    return found[steps]


def _last_with(reader: ThreadReader, start: str, status: Status) -> str:
    for moment in _moments(reader, reader.ancestry("", start)[1:]):
        if moment.status is status:
            return moment.key.checkpoint_id
    raise NotFound(
        f"no checkpoint before the head of thread '{reader.thread_id}' is {status}",
        hint="`ckpt history THREAD` lists them",
    )


def _before_errors(reader: ThreadReader, start: str) -> str:
    """The checkpoint before the first one whose step failed and was not done again."""
    ids = reader.ancestry("", start)
    failed = [one.key.checkpoint_id for one in _moments(reader, ids) if one.status is Status.ERROR]
    if not failed:
        raise NotFound(
            f"no step failed on the way to the head of thread '{reader.thread_id}'",
            hint="`ckpt show THREAD --tree` shows what happened",
        )
    before = ids.index(failed[-1]) + 1
    if before == len(ids):
        raise NotFound(f"the first step of thread '{reader.thread_id}' failed")
    return ids[before]


def _moments(reader: ThreadReader, ids: list[str]) -> Iterator[Moment]:
    """The checkpoints in this order, which is that of their ids from the newest on."""
    if ids:
        yield from reader.moments("", ids)
