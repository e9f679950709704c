"""Converts the versions of channels between the two forms that savers for Python count in.

Some savers count with integers, the default of `BaseCheckpointSaver.get_next_version`, which
refuses texts. Others count with texts, which sort as numbers do: 32 digits, a dot, and a random
number. They accept integers, but return a text for the next version, and LangGraph compares it with
the others. So a thread can only go on if all its versions have the form of its saver.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from ckpt_backends.model import TypedBytes
from ckpt_backends.transfer.bodies import OpenBody
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.form import Form, Language

_NUMBER = re.compile(r"[0-9]{1,31}")
_DIGITS = 10**16


def convert_versions(found: OpenBody, target: Form, where: str, *, by_value: bool) -> None:
    """Convert the versions in a body to the form of a layout. Raises `CannotHold`.

    With `by_value`, integers become different texts if the values in the body differ: two branches
    of a thread have the same integers, but one layout may store one value for each version.
    """
    if target.language is not Language.PYTHON:
        return
    now, seen = found.fields.get("channel_versions"), found.fields.get("versions_seen")
    if not isinstance(now, dict):
        return
    maps = [now, *seen.values()] if isinstance(seen, dict) else [now]
    if not target.counts_with_integers and _are_texts(maps):
        return
    made = {
        channel: converted_version(
            version, target, where, found.values.get(channel) if by_value else None
        )
        for channel, version in now.items()
        if version is not None
    }
    found.fields["channel_versions"] = now | made
    if isinstance(seen, dict):
        found.fields["versions_seen"] = {
            node: {
                channel: made[channel]
                if channel in made and version == now[channel]
                else converted_version(version, target, where)
                for channel, version in versions.items()
            }
            for node, versions in seen.items()
        }


def _are_texts(maps: Iterable[object]) -> bool:
    """Whether all versions in some maps have the form of savers that count with texts."""
    found: set[object] = set()
    for versions in maps:
        if not isinstance(versions, dict):
            return False
        try:
            found.update(versions.values())
        except TypeError:  # a list, in a damaged store
            return False
    for one in found:  # noqa: SIM110 - `all` takes three times as long
        if one.__class__ is not str or "." not in one:
            return False
    return True


def converted_version(
    version: Any, target: Form, where: str, value: TypedBytes | None = None
) -> Any:
    """One version in the form of a layout. Raises `CannotHold`."""
    if version.__class__ is str and not target.counts_with_integers and "." in version:
        return version
    if target.language is not Language.PYTHON:
        return version
    is_number = isinstance(version, float) and version.is_integer()
    if is_number or (isinstance(version, str) and _NUMBER.fullmatch(version)):
        # Keys have integers as texts.
        version = int(version)
    if target.counts_with_integers and isinstance(version, str):
        number = version.partition(".")[0]
        if number.isdecimal() and number.isascii():
            return int(number)
        raise CannotHold(f"{where} has the version '{version}', which is no number")
    if not target.counts_with_integers and type(version) is int:
        return f"{version:032}.0.{_fraction(value):016}"
    if isinstance(version, str) or type(version) is int:
        return version
    raise CannotHold(f"{where} has a version that is neither a text nor an integer: {version}")


def absent_version(version: str) -> str | None:
    """A version with the same number, for a channel without a value; None if there is none.

    It differs in the part that savers choose at random.
    """
    number, dot, rest = version.partition(".")
    return f"{number}.{rest}0" if dot else None


def replace_version(found: OpenBody, channel: str, old: str, new: str) -> None:
    """Give a channel of a body another version, as the one that it has and as the one seen."""
    found.fields["channel_versions"] = found.fields["channel_versions"] | {channel: new}
    seen = found.fields.get("versions_seen")
    if isinstance(seen, dict):
        found.fields["versions_seen"] = {
            node: versions | {channel: new} if versions.get(channel) == old else versions
            for node, versions in seen.items()
        }


def _fraction(value: TypedBytes | None) -> int:
    """Sixteen digits that follow from a value, in place of the random number of a saver."""
    if value is None:
        return 0
    digest = blake2b(value.type.encode("utf-8", "surrogatepass"), digest_size=8)
    digest.update(b"\0" + value.data)
    return int.from_bytes(digest.digest(), "big") % _DIGITS
