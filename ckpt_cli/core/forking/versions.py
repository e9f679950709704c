"""The versions of channels, and which of them a copy may use."""

from __future__ import annotations

from collections.abc import Iterable

from ckpt_backends.model import Checkpoint
from ckpt_cli.core.random_numbers import random_fraction
from ckpt_cli.core.state import Body, Version


def next_version(body: Body, above: int = 0) -> Version:
    """Return a version greater than all versions of a body and than `above`, as savers make it.

    Source: `get_next_version` of the savers: a text of a number and a random fraction; in
    LangGraph.js a number.
    """
    numbers = [_number(one) for one in body.versions.values()]
    number = max(above, *numbers, 0) + 1
    if body.versions and all(isinstance(one, int) for one in body.versions.values()):
        return number
    return f"{number:032}.{random_fraction():016}"


def raised_channel(body: Body) -> str:
    """Return the channel that `raise_version` changes: usually one that is already empty."""
    return "__start__" if "__start__" in body.versions else min(body.versions)


def greatest_version(bodies: Iterable[Body]) -> int:
    """Return the greatest version number in some bodies; 0 if there is none."""
    return max((_number(one) for body in bodies for one in body.versions.values()), default=0)


def is_numbered(original: Checkpoint, body: Body) -> bool:
    """Return whether values are stored apart under plain numbers, as LangGraph.js does."""
    return (
        original.blobs is not None
        and bool(body.versions)
        and all(isinstance(one, int) for one in body.versions.values())
    )


def _number(version: Version) -> int:
    """Return the number at the start of a version; 0 if there is none."""
    text = str(version).partition(".")[0]
    return int(text) if text.isdecimal() else 0
