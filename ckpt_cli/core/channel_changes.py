"""Tell whether a step changed a channel, from the bodies of its checkpoint and of the parent."""

from __future__ import annotations

from ckpt_backends.codec.values import Cut
from ckpt_cli.core.state import Body
from ckpt_cli.core.values.equality import same

_ABSENT = Cut(None, 0, "absent")
_COMPARED = 64 * 1024
"""Maximum stored bytes of a value that is read to be compared."""


def changed(channel: str, before: Body | None, after: Body) -> bool | None:
    """Return whether the value of a channel changed; None if values decide that were not read.

    An equal version means an equal value. Nodes often write a value that was there before: with
    another version, the values are compared, unless they are long. `before` is None at a checkpoint
    without a stored parent: there, all channels that it has are new.
    """
    version, value = after.versions.get(channel), after.values.get(channel, _ABSENT)
    if before is None:
        return version is not None or value is not _ABSENT
    earlier, old = before.versions.get(channel), before.values.get(channel, _ABSENT)
    if version is not None and version == earlier:
        return False
    if old is _ABSENT or value is _ABSENT:
        # Without both values, as of a DeltaChannel between two snapshots, the versions decide.
        return old is not value or version != earlier
    if isinstance(old, Cut) and isinstance(value, Cut):
        return None if old.size == value.size <= _COMPARED else True
    return not same(old, value)
