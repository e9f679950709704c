"""The reducers that a user names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ckpt_backends.errors import UsageError
from ckpt_cli.core.merging import CUSTOM, REDUCERS


def told_reducers(profile: Mapping[str, str], options: Iterable[str]) -> dict[str, str]:
    """Channel to reducer, from the profile and from `--reducer`. Raises `UsageError`."""
    told = dict(profile)
    for option in options:
        channel, equals, name = option.rpartition("=")
        if not equals or not channel:
            raise UsageError(
                f"'{option}' is not CHANNEL=NAME", hint="for instance --reducer messages=append"
            )
        told[channel] = name
    for channel, name in told.items():
        if name not in {*REDUCERS, CUSTOM}:
            known = ", ".join([*REDUCERS, CUSTOM])
            raise UsageError(f"no reducer '{name}' for channel '{channel}'", hint=f"known: {known}")
    return told
