"""Find the checkpoints where the value of a channel changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ckpt_backends.codec.memo import remembering
from ckpt_backends.protocol import Store
from ckpt_cli.core.channel_changes import changed
from ckpt_cli.core.state import Body, read_body

Step = tuple[str, str | None]
"""The id of a checkpoint, and of its parent if that is stored."""


class ChannelChanges:
    """Where one channel changed in one namespace of a thread, as far as that was asked.

    A checkpoint never changes, so that none is read twice.
    """

    def __init__(self, thread_id: str, checkpoint_ns: str, channel: str) -> None:
        self._thread_id = thread_id
        self._ns = checkpoint_ns
        self._channel = channel
        self._known: dict[str, bool] = {}

    def known(self, step: Step) -> bool | None:
        """Return whether a step changed the channel; None if it was not read."""
        return self._known.get(step[0])

    def read(self, store: Store, steps: Sequence[Step]) -> None:
        """Find out which of these steps changed the channel; each is near the one before it."""
        with remembering():
            bodies = self._bodies(store, {one for step in steps for one in step if one}, ())
            verdicts = {step: self._verdict(bodies, step) for step in steps}
            unsure = [step for step, verdict in verdicts.items() if verdict is None]
            if unsure:
                wanted = {one for step in unsure for one in step if one}
                bodies = self._bodies(store, wanted, [self._channel])
                verdicts |= {step: self._verdict(bodies, step) for step in unsure}
        self._known |= {step[0]: verdict is not False for step, verdict in verdicts.items()}

    def _verdict(self, bodies: Mapping[str, Body], step: Step) -> bool | None:
        checkpoint_id, parent = step
        after, before = bodies.get(checkpoint_id), bodies.get(parent or "")
        # It was removed meanwhile, or cannot be read.
        if after is None or after.problem is not None:
            return False
        return changed(self._channel, before, after)

    def _bodies(
        self, store: Store, ids: Collection[str], values: Collection[str]
    ) -> dict[str, Body]:
        found = store.checkpoints(
            self._thread_id, checkpoint_ns=self._ns, checkpoint_ids=ids, body=True, values=values
        )
        return {one.key.checkpoint_id: self._only(read_body(one)) for one in found}

    def _only(self, body: Body) -> Body:
        """Return a body without the values of other channels, which may be large."""
        name = self._channel
        return body._replace(values={name: body.values[name]} if name in body.values else {})
