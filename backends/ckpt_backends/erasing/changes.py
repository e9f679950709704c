"""The places of one stored value that an erasure changed."""

from __future__ import annotations

from dataclasses import dataclass, field

from ckpt_backends.erasing.erasure import ANY_STEP, MARKER, Erasure, ScalarPlace, Step, Steps
from ckpt_backends.erasing.shapes import ANY, Treatment


@dataclass(slots=True)
class ChangedPlaces:
    """The places, as steps from the root of the value."""

    steps: list[Steps] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Spot:
    """A value inside another one: where it is, and what may be erased in it."""

    shape: Treatment = ANY
    steps: Steps = ()
    scalars: tuple[ScalarPlace, ...] = ()
    """With the steps that are left from here."""

    def child(self, step: Step, shape: Treatment, shown: Step | None = None) -> Spot:
        """An entry of a map or list. `shown` is the key that it will have."""
        left = tuple(
            ScalarPlace(one.steps[1:], one.value)
            for one in self.scalars
            if one.steps and one.steps[0] in (step, ANY_STEP)
        )
        return Spot(shape, (*self.steps, step if shown is None else shown), left)

    def replaced(self, text: str, erasure: Erasure) -> str:
        """A text at this place without what is erased; the same object if nothing is."""
        if any(not one.steps and one.is_at(text) for one in self.scalars):
            return MARKER
        return erasure.replaced(text)

    def inside(self, shape: Treatment) -> Spot:
        """The contents of an object, which have the same path."""
        return Spot(shape, self.steps, self.scalars)


class Keys:
    """The new keys of one map, all different."""

    def __init__(self, erasure: Erasure) -> None:
        self._erasure = erasure
        self._used: set[str] = set()

    def new(self, key: str, shape: Treatment) -> str:
        """The key that an entry gets."""
        made = key if shape.keeps_keys else self._erasure.replaced_key(key)
        if made != key:
            first, number = made, 1
            while made in self._used:
                number += 1
                made = f"{first} {number}"
        self._used.add(made)
        return made
