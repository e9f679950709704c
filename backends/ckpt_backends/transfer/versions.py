"""Converts the versions of channels between the two forms that savers for Python count in.

Some savers count with integers, the default of `BaseCheckpointSaver.get_next_version`, which refuses
texts. Others count with texts, which sort as numbers do: 32 digits, a dot, and a random number. They
accept integers, but return a text for the next version, and LangGraph compares it with the others.
So a thread can only go on if all its versions have the form of its saver.
"""

from __future__ import annotations

import re
from typing import Any

from ckpt_backends.transfer.bodies import OpenBody
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.form import Form, Language

_NUMBER = re.compile(r"[0-9]{1,31}")


def convert_versions(found: OpenBody, target: Form, where: str) -> None:
    """Convert the versions in a body to the form of a layout. Raises `CannotHold`."""
    if target.language is not Language.PYTHON:
        return
    fields = found.fields
    for name in ("channel_versions", "versions_seen"):
        if isinstance(fields.get(name), dict):
            fields[name] = _converted(fields[name], target, where)


def _converted(found: Any, target: Form, where: str) -> Any:
    if isinstance(found, dict):
        return {name: _converted(one, target, where) for name, one in found.items()}
    return None if found is None else converted_version(found, target, where)


def converted_version(version: Any, target: Form, where: str) -> Any:
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
        return f"{version:032}.{0:016}"
    if isinstance(version, str) or type(version) is int:
        return version
    raise CannotHold(f"{where} has a version that is neither a text nor an integer: {version}")
