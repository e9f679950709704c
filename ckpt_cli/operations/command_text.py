"""The command line of an operation as it is recorded: without secrets and without values."""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Sequence

from ckpt_backends import shell
from ckpt_backends.url import printable

_STORES = frozenset({"-s", "--store", "--to", "--memory"})
"""Options that name a store, perhaps with a password."""
_VALUES = frozenset({"--set", "--value", "--subject", "--where"})
"""Options that hold values of a store or name a person."""
_MASK = "..."


def command_text(argv: Sequence[str]) -> str:
    """Return a command line to read, with each value of the store masked."""
    return shell.command("ckpt", *_masked(argv))


def user_name() -> str:
    """Return the name of the user of the operating system; `''` if it has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _masked(argv: Sequence[str]) -> Iterator[str]:
    before = ""
    for word in argv:
        name, equals, value = word.partition("=")
        if before in _VALUES:
            yield _MASK
        elif before in _STORES:
            yield printable(word)
        elif equals and name in _VALUES:
            yield f"{name}={_MASK}"
        elif equals and name in _STORES:
            yield f"{name}={printable(value)}"
        else:
            yield word
        before = word if word.startswith("-") else ""
