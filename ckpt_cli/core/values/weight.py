"""Tell large values from small ones, without looking at all of a large one."""

from __future__ import annotations

from ckpt_backends.codec.values import Cut, Tagged, Value


def is_larger(value: Value, most: int) -> bool:
    """Return whether a value has more than `most` parts and characters together."""
    waiting, left = [value], most
    while waiting:
        one = waiting.pop()
        left -= 1 + (len(one) if isinstance(one, str | bytes | list | dict) else 0)
        if left < 0:
            return True
        if isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, Tagged):
            waiting.append(one.payload)
        elif isinstance(one, Cut):
            waiting.append(one.kept)
    return False
