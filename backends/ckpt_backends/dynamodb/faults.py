"""Faults of the times to live in a table, and keys that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from ckpt_backends import shell
from ckpt_backends.dynamodb.connect import DynamoConnection
from ckpt_backends.dynamodb.items import CheckpointItem
from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.model import Fault

_ATTRIBUTE = "ttl"
_ENABLE = f"Enabled=true,AttributeName={_ATTRIBUTE}"


def table_faults(connection: DynamoConnection) -> Iterator[Fault]:
    """`ttl-partial`, if items have a time to live that DynamoDB does not heed.

    Looks at a few items. Nothing if the user may not read the settings of the table.
    """
    with suppress(StoreUnavailable):
        if connection.expiring_attribute() == _ATTRIBUTE or not connection.has_times_to_live():
            return
        words = ["aws", "dynamodb", "update-time-to-live", "--table-name", connection.table]
        yield Fault(
            "ttl-partial",
            "items have a time to live, but TTL is not enabled for the table, so they stay",
            fix=shell.command(*words, "--time-to-live-specification", _ENABLE),
        )


def has_contradiction(items: Sequence[CheckpointItem]) -> bool:
    """Whether a parent is missing or not older, or some checkpoints expire and others do not."""
    there = {(one.key.checkpoint_ns, one.key.checkpoint_id) for one in items}
    return len({one.expires_at is None for one in items}) > 1 or any(
        (one.key.checkpoint_ns, one.parent) not in there or one.parent >= one.key.checkpoint_id
        for one in items
        if one.parent is not None
    )


def expiry_faults(thread_id: str, items: Sequence[CheckpointItem]) -> Iterator[Fault]:
    """`ttl-partial`, if some checkpoints of a thread expire and others do not."""
    expiring = [one for one in items if one.expires_at is not None]
    staying = [one for one in items if one.expires_at is None]
    if not expiring or not staying:
        return
    fewer = min(staying, expiring, key=len)
    what = "have no time to live" if fewer is staying else "have a time to live"
    detail = f"{len(fewer)} of {len(items)} checkpoints {what}"
    ns = own = None
    if len(fewer) == 1:
        ns, own = fewer[0].key.checkpoint_ns, fewer[0].key.checkpoint_id
    yield Fault("ttl-partial", detail, thread_id, ns, own)
