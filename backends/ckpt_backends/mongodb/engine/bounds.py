"""Limits for what a MongoDB server may claim, which the driver believes.

Importing this module sets them in the driver, for the whole process. No real server exceeds them.
"""

from __future__ import annotations

import threading
from typing import Any

from pymongo import hello
from pymongo.errors import OperationFailure
from pymongo.synchronous import auth, pool

_MOST_BYTES = 48_000_000
"""Bytes of one message; all releases of MongoDB claim this number."""
_MOST_ROUNDS = 1_000_000
"""Iterations of SCRAM; MongoDB's default is 15,000. The driver computes them without a break."""


class Hello(hello.Hello[Any]):
    """The answer to the first command on a connection."""

    @property
    def max_message_size(self) -> int:
        return min(int(super().max_message_size), _MOST_BYTES)


def _parsed(response: bytes) -> dict[bytes, bytes]:
    """The parts of a SCRAM message. Raises `OperationFailure`."""
    found: dict[bytes, bytes] = _parse(response)
    if int(found.get(b"i", 0)) > _MOST_ROUNDS:
        raise OperationFailure(f"more than {_MOST_ROUNDS} iterations of SCRAM", 18)
    return found


def _quiet(told: threading.ExceptHookArgs) -> None:
    """Do not print what the driver's threads did not expect; the main thread has its own error."""
    if told.thread is None or not told.thread.name.startswith("pymongo_"):
        _hook(told)


_PARSE, _HELLO = "_parse_scram_response", "Hello"
_parse = getattr(auth, _PARSE)
_hook = threading.excepthook
setattr(auth, _PARSE, _parsed)
setattr(pool, _HELLO, Hello)
threading.excepthook = _quiet
