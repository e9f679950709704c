"""The layouts that tests of this folder run on, and moments at which something happens to them."""

from collections.abc import Callable
from itertools import count
from typing import Any, ClassVar

import pytest
from redis.client import Pipeline

from ckpt_backends.redis.engine.layout import LOCK
from ckpt_backends.testing.harness import Harness
from tests.kit.harness import HARNESSES
from tests.kit.harness.redis import PlainRedisHarness

HOSTILE = [
    *("a", "a:b", "a:b:c", "A", "a$b", "a$", "a*", "a[bc]", "a,b", "ab", "a?", "a\\b"),
    *("a:__empty__", "a:", 'o"b', "a\nb", "100%", "$ne", "$where", ".*", "^a", "a.b", "\u00e4"),
    *("a}", "a}:x", "a}:x:y", "{a", "{}", "}", "a}:b}:c", "x}::1", "a#", "a#b", "#a", "a##"),
]
"""Thread ids of which a pattern, a split or an index might take one for another."""


class ColonHashHarness(PlainRedisHarness):
    """The saver of hashes with its older separator."""

    name: ClassVar[str] = "redis-hash-colon"
    separator: ClassVar[str] = ":"


_KINDS: list[type[Harness]] = [*HARNESSES, ColonHashHarness]
LAYOUTS = {one.name: one for one in _KINDS}


SHARED = {b"", b"lg:seq", b"lg:threads", LOCK}
"""Keys of a Redis that no thread has for itself."""


def names(place: Any) -> set[bytes]:
    """Return the names of the keys of a Redis, but for those in `SHARED`."""
    return {*place.client.scan_iter(count=1000)} - SHARED


def held(place: Harness) -> dict[bytes, Any]:
    """Return the keys of a Redis with what they hold, but for those in `SHARED`."""
    found: Any = place.fingerprint()
    return {name: one for name, one in found.items() if name not in SHARED}


def before_call(
    patch: pytest.MonkeyPatch, name: str, act: Callable[[], object], time: int = 1
) -> list[object]:
    """Do something once, before the driver of Redis begins to watch keys ("watch") or to send a
    transaction ("multi") for the first or another time. Return what is filled then.
    """
    original, done, times = getattr(Pipeline, name), list[object](), count(1)

    def late(pipe: Any, *given: Any) -> Any:
        if next(times) == time:
            done.append(None)
            act()
        return original(pipe, *given)

    patch.setattr(Pipeline, name, late)
    return done
