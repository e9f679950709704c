"""A store as of a time is what the official history had until then."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest

from ckpt_backends.errors import Unsupported
from ckpt_backends.model import ThreadBounds
from ckpt_backends.protocol import Store
from ckpt_backends.testing.conformance.comparison import Known, check_thread
from ckpt_backends.testing.filling import FilledStore
from ckpt_cli.reading.earlier import EarlierStore
from ckpt_cli.reading.thread import TriggerInference

VALUES_ONLY = False
MOST, FOR_EACH = 200, 4
"""Number of moments: at most for a store, and for each of its threads."""
LISTS = 10
"""Of how many of them all threads are listed."""
_TICK = timedelta(microseconds=1)


def made_at(checkpoint: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(checkpoint["created_at"])


def until(truth: dict[str, Any], moment: datetime) -> dict[str, list[dict[str, Any]]]:
    """The official history of a thread as it was, by namespace, newest first."""
    found = {
        ns: [one for one in history if made_at(one) <= moment]
        for ns, history in truth["history"].items()
    }
    return {ns: history for ns, history in found.items() if history}


def some_times(filled: FilledStore) -> Iterator[datetime]:
    """Yield moments of all threads: just when a checkpoint was made, just before, and between."""
    dice = Random(0)
    made = sorted(
        made_at(one)
        for truth in filled.threads.values()
        for history in truth["history"].values()
        for one in history
    )
    for _ in range(min(MOST, FOR_EACH * len(filled.threads))):
        at = dice.choice(made)
        yield dice.choice([at, at - _TICK, made[0] + (made[-1] - made[0]) * dice.random()])


def test_as_of_a_time_a_thread_is_what_the_library_had(store: Store, filled: FilledStore) -> None:
    if not filled.harness.has_history:
        with pytest.raises(Unsupported, match="keeps the newest checkpoint only"):
            EarlierStore(store, datetime.now().astimezone())
        return
    known = Known(
        sparse_objects=filled.harness.omits_defaults, pickled=filled.harness.stores_pickles
    )
    dice, inference = Random(1), TriggerInference(store)
    for number, moment in enumerate(some_times(filled)):
        earlier = EarlierStore(store, moment)
        if number < LISTS:
            then = {one for one, truth in filled.threads.items() if until(truth, moment)}
            check_list(earlier, then)
        thread_id, truth = dice.choice(sorted(filled.threads.items()))
        history = until(truth, moment)
        if not history:
            assert earlier.thread(thread_id) is None
            assert not [*earlier.checkpoints(thread_id), *earlier.writes(thread_id)]
            continue
        check_thread(earlier, thread_id, {"history": history}, known, inference)
        found = earlier.thread(thread_id)
        assert found is not None
        assert found.checkpoints == sum(map(len, history.values()))
        assert found.namespaces == len(history)


def check_list(earlier: EarlierStore, there: set[str]) -> None:
    """Check that the list of a time has these threads, and finds those that asked then."""
    listed = list(earlier.threads())
    assert {one.thread_id for one in listed} == there
    assert listed == [earlier.thread(one.thread_id) for one in listed]
    newest = [one.last_at for one in listed if one.last_at is not None]
    assert newest == sorted(newest, reverse=True)
    channels = frozenset({"__interrupt__"})
    asking = [one.thread_id for one in listed if _asks(earlier, one.thread_id, one.head)]
    found = earlier.threads_within(ThreadBounds(head_channels=channels))
    assert [one.thread_id for one in found] == asking


def _asks(store: Store, thread_id: str, head: str | None) -> bool:
    found = store.writes(thread_id, checkpoint_ns="", checkpoint_ids=[head] if head else [])
    return any(one.channel == "__interrupt__" for one in found)
