"""Find rows that are stored unencrypted in a thread whose rows are encrypted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ckpt_backends.encryption import is_encrypted, is_encrypted_type
from ckpt_backends.model import TypedBytes
from ckpt_cli.core.doctor.finding import Finding
from ckpt_cli.core.doctor.numbered_versions import version_number
from ckpt_cli.queries.doctor.seen import SeenCheckpoint

_CODE = "plaintext-among-encrypted"


class PlainRows:
    """Looks at each checkpoint of a thread, namespace by namespace, oldest first.

    What was stored before the first encrypted checkpoint is not reported: the agent got its key
    later. Type tags tell whether a row is encrypted, so no key is needed. Metadata is left out,
    because some savers never encrypt it.
    """

    def __init__(self) -> None:
        self._has_begun = False
        """Whether an encrypted checkpoint of the namespace was seen."""
        self._closes_bodies = False
        """Whether an encrypted body was seen: savers that store values apart may encrypt none."""
        self._ns: str | None = None

    def at(self, seen: SeenCheckpoint) -> Iterator[Finding]:
        """Yield the plain rows of a checkpoint."""
        key = seen.moment.key
        if key.checkpoint_ns != self._ns:
            self._ns, self._has_begun, self._closes_bodies = key.checkpoint_ns, False, False
        body = seen.moment.checkpoint.body
        self._closes_bodies |= _is_closed(body)
        own: dict[str | None, bool] = dict(_introduced_blobs(seen))
        if body is not None and (self._closes_bodies or not seen.is_apart):
            own[None] = _is_closed(body)
        writes = [one for one in seen.moment.writes if one.value is not None]
        closed = [one for one in writes if _is_closed(one.value)]
        if not self._has_begun:
            # If only the first body of a thread is plain, it was not written before the key came.
            is_replaced = key.checkpoint_ns == "" and _is_first(seen) and len(closed) == len(writes)
            if not any(own.values()) and not (closed and is_replaced):
                return
            self._has_begun = True
        for channel, is_closed in own.items():
            if is_closed:
                continue
            if channel is None:
                yield seen.finding(_CODE, "the checkpoint is stored unencrypted")
            else:
                text = f"version {seen.version(channel)} is stored unencrypted"
                yield seen.finding(_CODE, text, channel)
        for write in writes:
            if not _is_closed(write.value):
                text = "a write is stored unencrypted"
                yield seen.finding(_CODE, text, write.channel, write.task_id)


def _introduced_blobs(seen: SeenCheckpoint) -> Iterator[tuple[str, bool]]:
    """Yield the channels whose values were stored with a checkpoint, and whether encrypted."""
    versions = seen.moment.body.versions
    introduced: Iterable[str] = seen.introduced
    if seen.parent is None:  # it may have had one, whose values it still names
        newest = max(map(version_number, versions.values()), default=0)
        introduced = [name for name, one in versions.items() if version_number(one) == newest]
    blobs = seen.moment.checkpoint.blobs or {}
    for channel in sorted(introduced):
        if channel in blobs and not blobs[channel].inherited:
            yield channel, is_encrypted_type(blobs[channel].type)


def _is_first(seen: SeenCheckpoint) -> bool:
    return seen.moment.checkpoint.parent_checkpoint_id is None


def _is_closed(value: TypedBytes | None) -> bool:
    return value is not None and (bool(value.encrypted) or is_encrypted(value))
