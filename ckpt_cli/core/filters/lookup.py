"""Find what a path of a filter selects in the metadata or the state."""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_backends.codec.values import Cut, Opaque, Value
from ckpt_backends.errors import NotFound
from ckpt_cli.core.values.paths import Path, select


def values_at(root: Mapping[str, Value], path: Path) -> tuple[Value, ...]:
    """Return the values at a path, several for a path with `[]`; none if it does not exist.

    A key that itself contains the dots of the path is found first. What lies below a value that
    could not be read is that value, so that it is not taken for null.
    """
    names = [step for step in path if isinstance(step, str)]
    whole = ".".join(names)
    if len(names) == len(path) and whole in root:
        return (root[whole],)
    return _selected(dict(root.items()), path)


def values_in(root: Value, path: Path) -> tuple[Value, ...]:
    """Return the values at a path in any value; the value itself for an empty path."""
    return _selected(root, path) if path else (root,)


def _selected(root: Value, path: Path) -> tuple[Value, ...]:
    try:
        return tuple(one.value for one in select(root, path))
    except NotFound:
        above = _selected(root, path[:-1])
        return tuple(one for one in above if isinstance(one, Opaque | Cut))
