"""What a saved plan says of an erasure."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_memory
from ckpt_cli.plans.erase import ErasurePlan
from ckpt_cli.plans.facts import item_fact, thread_fact


def erasure_facts(plan: ErasurePlan, rows: Store) -> Iterator[dict[str, Any]]:
    """Yield what is erased, in digests; `rows` is the store as it is stored.

    What `ckpt` records about itself is left out: it changes with each command.
    """
    for thread in plan.threads:
        yield thread_fact(thread.thread_id, rows=rows)
    # In a file that is not in WAL mode, an open read would block the commit.
    rows.refresh()
    for one in plan.memories:
        with open_memory(one.url) as memory:
            for item in one.items:
                yield item_fact(memory, item.key)
    for session in plan.sessions:
        yield {"session": session.key, "updated_at": session.updated_at, "bytes": session.size}
    for archive in plan.archives:
        digest = sha256(archive.path.read_bytes()).hexdigest()
        yield {"archive": str(archive.path), "drops": sorted(archive.drops or ()), "sha256": digest}
