"""Look at one step of a thread after another, and replay the thread only once."""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_cli.core.namespace_kinds import namespace_kind
from ckpt_cli.core.replay.elimination import Check
from ckpt_cli.core.replay.reducers import Held
from ckpt_cli.core.replay.report import Replayed
from ckpt_cli.queries.replay import look_again, look_at
from ckpt_cli.queries.replay_checks import KeptCheckpoint, Look
from ckpt_cli.threads.thread import ThreadReader

_MOST_CARRIED = 200
"""Number of checkpoints whose expected values are kept; with more, each look replays all."""


_Step = tuple[str, str]
"""Namespace and checkpoint id."""


class KeptReplay:
    """The reducers of one thread, known from its replay, for looks at its steps.

    A checkpoint does not change, so they stay known while the thread grows. Used by one worker.
    """

    def __init__(self) -> None:
        self._place: tuple[object, str] | None = None
        self._found: Replayed | None = None
        self._checks: Mapping[_Step, Mapping[str, Check]] = {}
        """By channel of a step."""
        self._carried: dict[_Step, dict[str, dict[int, Held]]] = {}
        """The expected values of channels without a stored one."""
        self._last: KeptCheckpoint | None = None

    def look_at(
        self, reader: ThreadReader, checkpoint_ns: str, child: str
    ) -> tuple[Replayed, Look]:
        """Return the replay of a thread, and all about the transition to `child`.

        Raises `NotFound` if there is no such checkpoint.
        """
        place = reader.store, reader.thread_id
        if (
            self._found is not None
            and self._place == place
            and (checkpoint_ns, child) in self._checks
        ):
            look = self._again(self._found, reader, checkpoint_ns, child)
            if look is not None:
                return self._found, look
        self._found, self._carried, self._last = None, {}, None
        found, look = look_at(reader, checkpoint_ns, child, self._watch)
        self._note_last()
        if len(self._carried) <= _MOST_CARRIED:
            self._place, self._found = place, found
            self._checks = {
                (one.checkpoint_ns, one.child): {check.channel: check for check in one.checks}
                for one in found.transitions
            }
        self._carried = self._carried if self._found is not None else {}
        return found, look

    def _watch(self, here: KeptCheckpoint, _: KeptCheckpoint | None) -> None:
        # What is carried is added to it after this.
        self._note_last()
        self._last = here

    def _note_last(self) -> None:
        """Keep what the last checkpoint carries in place of values that are not stored."""
        last, self._last = self._last, None
        if last is None:
            return
        carried = {
            name: kept for name, kept in last.carried.items() if kept and name not in last.values
        }
        if carried:
            key = last.moment.key
            self._carried[key.checkpoint_ns, key.checkpoint_id] = carried

    def _again(
        self, found: Replayed, reader: ThreadReader, checkpoint_ns: str, child: str
    ) -> Look | None:
        graph = namespace_kind(checkpoint_ns)
        tallies = {
            place: tally.copy() for place, tally in found.tallies.items() if place[0] == graph
        }
        parent = next(
            (
                one.parent_checkpoint_id
                for one in reader.index(checkpoint_ns)
                if one.key.checkpoint_id == child
            ),
            None,
        )
        carried = self._carried.get((checkpoint_ns, parent or ""), {})
        look = look_again(reader, checkpoint_ns, child, tallies, carried)
        if look is None:
            return None
        # Later steps have confirmed or denied what was carried over this one.
        checks = self._checks[checkpoint_ns, child]
        look.channels = {
            name: one._replace(check=checks.get(name, one.check))
            for name, one in look.channels.items()
        }
        return look
