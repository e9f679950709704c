"""Dataclasses that only the type checker takes for frozen ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ckpt_backends.statically_frozen import statically_frozen


@statically_frozen
class Quick:
    name: str
    number: int = 1


@dataclass(frozen=True, slots=True)
class Slow:
    name: str
    number: int = 1


@statically_frozen
class Named:
    name: str
    parts: list[int]

    def __hash__(self) -> int:
        return hash(self.name)


@statically_frozen
class Longer(Named):
    more: str = ""

    __hash__ = Named.__hash__


def test_it_compares_hashes_and_copies_as_a_frozen_dataclass_does() -> None:
    for kind in (Quick, Slow):
        one = kind("a")
        assert one == kind("a", 1) != replace(one, number=2)
        assert hash(one) == hash(("a", 1))
        assert not hasattr(one, "__dict__")
        assert repr(one) == f"{kind.__name__}(name='a', number=1)"


def test_a_class_keeps_its_own_hash() -> None:
    assert hash(Named("a", [1])) == hash(Longer("a", [1, 2])) == hash("a")
