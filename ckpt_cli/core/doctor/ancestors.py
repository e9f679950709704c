"""Prove from channel versions that one checkpoint is an ancestor of another.

A version of Python's savers ends in a random number, so no two steps make the same one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ckpt_cli.core.state import Body, Version

_UNIQUE = re.compile(r"(\d{32})\.\d+(?:\.\d+|e-\d+)", re.ASCII)
"""`00000000000000000000000000000003.0.382645557190603`. Old savers end it with a hash of the value,
which two branches may share."""


def known_versions(body: Body) -> set[tuple[str, Version]]:
    """Return the channels and versions that a checkpoint has, or that its nodes have seen."""
    known = {*body.versions.items()}
    for seen in body.seen.values():
        known.update(seen.items())
    return known


def new_versions(body: Body) -> Iterator[tuple[str, Version]]:
    """Yield the channels and versions that a checkpoint itself wrote.

    A checkpoint that knows one of them is a descendant. One that knows none may be one, too.
    """
    return _newest(body.versions)


def _newest(versions: Mapping[str, Version]) -> Iterator[tuple[str, Version]]:
    """Yield the channels that the checkpoint itself wrote: they have the greatest number."""
    numbers = {
        (channel, version): found[1]
        for channel, version in versions.items()
        if isinstance(version, str) and (found := _UNIQUE.fullmatch(version))
    }
    most = max(numbers.values(), default="")
    return (one for one, number in numbers.items() if number == most)
