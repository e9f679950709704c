"""How often values name a class or function, and where first."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ckpt_backends.model import CheckpointKey
from ckpt_cli.core.doctor.named_types import TypeName
from ckpt_cli.core.doctor.strict_types import can_be_allowed, is_blocked


@dataclass(frozen=True, slots=True)
class TypeUse:
    """A class or function that some values name in the same form."""

    named: TypeName
    count: int
    """Number of stored values that name it."""
    key: CheckpointKey
    """The oldest checkpoint whose state, writes or metadata name it."""
    channel: str | None
    """None for metadata, and for what a checkpoint holds besides its channels."""
    task_id: str | None = None
    """The task that wrote the value there; None if it belongs to a checkpoint."""
    ref: str | None = None
    """The short form of the checkpoint id, if it was looked up."""

    def joined(self, other: TypeUse) -> TypeUse:
        """Return both together."""
        first = min(self, other, key=lambda one: one.key.checkpoint_id)
        named = self.named if self.named.called else other.named
        return replace(first, named=named, count=self.count + other.count)


class TypeUses:
    """What many values name."""

    def __init__(self) -> None:
        self._uses: dict[tuple[str, str, str, str], TypeUse] = {}

    def add(self, use: TypeUse) -> None:
        """Add what was found elsewhere."""
        named = use.named
        key = (named.module, named.name, named.form, named.method)
        known = self._uses.get(key)
        self._uses[key] = use if known is None else known.joined(use)

    def listed(self) -> list[TypeUse]:
        """Return the names that are blocked first, then by name."""
        return sorted(self._uses.values(), key=lambda one: (not is_blocked(one.named), one.named))

    def to_allow(self) -> list[tuple[str, str]]:
        """Return what `allowed_msgpack_modules` needs so that strict mode blocks no class.

        Dangerous names are left out.
        """
        named = (one.named for one in self._uses.values())
        chosen = (one for one in named if is_blocked(one) and can_be_allowed(one))
        return sorted({(one.module, one.name) for one in chosen})
