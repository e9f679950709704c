"""Replay many threads of a store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from ckpt_backends.errors import NotFound
from ckpt_backends.protocol import Store
from ckpt_cli.core.channels import is_state
from ckpt_cli.core.namespace_kinds import namespace_kind
from ckpt_cli.core.replay.reducer_options import unknown_channel
from ckpt_cli.core.replay.report import Replayed, label
from ckpt_cli.core.state import read_body
from ckpt_cli.queries.replay import replay_thread
from ckpt_cli.threads.thread import ThreadReader
from ckpt_cli.threads.trigger_inference import TriggerInference

if TYPE_CHECKING:
    from ckpt_backends.model import Thread
    from ckpt_cli.threads.executor.executor import Executor
    from ckpt_cli.threads.executor.work import Each


def check_channels(
    store: Store, thread_ids: Iterable[str], names: Collection[str], where: str
) -> None:
    """Raise `NotFound` for a channel that none of the threads has; `where` names them in the error.

    A name is a channel, or a channel of a subgraph as `NODE/CHANNEL`. Stops as soon as all names
    were found.
    """
    missing, known = set(names), set[str]()
    for thread_id in thread_ids if missing else ():
        for ns in store.namespaces(thread_id):
            found = _channels(store, thread_id, ns)
            known |= {label((namespace_kind(ns), channel)) for channel in found}
            missing -= found | known
        if not missing:
            return
    for name in sorted(missing):
        raise unknown_channel(name, known, where)


def _channels(store: Store, thread_id: str, ns: str) -> set[str]:
    """Return the state channels at the newest checkpoint of a namespace."""
    newest = islice(store.checkpoints(thread_id, checkpoint_ns=ns), 1)
    ids = [one.key.checkpoint_id for one in newest]
    stored = store.checkpoints(thread_id, checkpoint_ns=ns, checkpoint_ids=ids, body=True)
    bodies = map(read_body, stored)
    return {
        name for body in bodies for name in {*body.versions, *body.values} if is_state(name, body)
    }


def _replaying(store: Store) -> Each[Replayed]:
    from ckpt_cli.threads.executor.work import each  # late: most replays are of one thread

    inference = TriggerInference(store)

    def replay(thread_id: str) -> Replayed:
        try:
            return replay_thread(ThreadReader(store, thread_id, inference))
        except NotFound:  # deleted meanwhile, or an id that can only be listed
            return Replayed(thread_id)

    return each(replay)


def replay_threads(
    store: Store, executor: Executor, threads: Iterable[Thread]
) -> Iterator[Replayed]:
    """Yield each thread replayed, in the order given."""
    return executor.run(store, threads, _replaying)
