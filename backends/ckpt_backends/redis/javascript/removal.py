"""Removes threads of LangGraph.js, and the separate values that a part of a thread used."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from redis import exceptions

from ckpt_backends.changes.removal import Inside
from ckpt_backends.redis.engine.key_removal import KeyRemoval
from ckpt_backends.redis.engine.keyspace import APART
from ckpt_backends.redis.engine.thread_removal import KEYS_AT_ONCE, run, unlink


class JavaScriptRemoval(KeyRemoval):
    """The removal of one thread, or of a part of it."""

    def _run_last(self, inside: Inside | None, rows: Counter[str]) -> None:
        """Remove values, except those that an agent has stored again meanwhile.

        Two branches may use the same version of a channel, and a saver stores values before the
        checkpoint that names them. So the checkpoint id in each value is checked: a value of a
        newer checkpoint is kept.
        """
        known = self._keys.blobs
        newest = max((one.key.checkpoint_id for one in self._keys.checkpoints), default="")
        planned = [known[key] for key in (inside.blobs if inside else ()) if key in known]
        for start in range(0, len(planned), KEYS_AT_ONCE):
            names = planned[start : start + KEYS_AT_ONCE]
            self._lock.keep()
            with (
                suppress(exceptions.WatchError),  # they were stored again: keep them
                self._connection.transaction(names, loose=True) as pipe,
            ):
                pipe.watch(*names)
                told = self._connection.ask_all(
                    ("JSON.GET", name, "$.checkpoint_id") for name in names
                )
                came = [json.loads(one or b"[]") for one in told]
                old = [name for name, ids in zip(names, came, strict=True) if _is_old(ids, newest)]
                if old:
                    run(pipe, [unlink(APART, old)], rows)


def _is_old(ids: Sequence[object], newest: str) -> bool:
    return all(isinstance(one, str) and one <= newest for one in ids)
