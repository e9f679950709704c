"""The reducers that the user names."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from ckpt_backends import shell
from ckpt_backends.errors import NotFound, UsageError
from ckpt_cli.core.replay.reducers import CUSTOM, REDUCERS

_KNOWN = [*REDUCERS, CUSTOM]


def named_reducers(options: Iterable[str]) -> dict[str, str]:
    """Parse `--reducer CHANNEL=NAME` options to channel and reducer. Raises `UsageError`."""
    named: dict[str, str] = {}
    for option in options:
        channel, equals, name = option.rpartition("=")
        if not equals or not channel:
            hint = "write it as CHANNEL=NAME, such as notes=append"
            raise UsageError(f"cannot read --reducer '{option}'", hint=hint)
        named[channel] = name
    return named


def known_reducers(chosen: dict[str, str]) -> dict[str, str]:
    """Return channel to reducer. Raises `UsageError` for an unknown reducer."""
    for channel, name in chosen.items():
        if name not in _KNOWN:
            raise UsageError(
                f"no reducer '{name}' for channel '{channel}'",
                hint=did_you_mean(name, _KNOWN) or f"reducers: {', '.join(_KNOWN)}",
            )
    return chosen


def unknown_channel(name: str, known: Collection[str], where: str) -> NotFound:
    """Return the error for a channel that does not exist."""
    there = f"channels: {', '.join(map(shell.word, sorted(known)))}" if known else None
    return NotFound(
        f"no channel '{name}' in {where}", hint=did_you_mean(name, sorted(known)) or there
    )


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return a hint with known names that are similar to an unknown one; None if there are none."""
    close = get_close_matches(name, list(known), n=3)
    return f"did you mean {' or '.join(map(shell.name, close))}?" if close else None
