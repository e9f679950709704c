"""Read back what a report holds."""

from __future__ import annotations

import json
import re
from typing import Any


def data_of(page: str) -> dict[str, Any]:
    """Return what the page's script reads."""
    found = re.search('<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def states(checkpoints: list[dict[str, Any]]) -> list[dict[str, Any] | None]:
    """Return the state of each checkpoint, rebuilt as the page's script does; None if left out."""
    found: dict[int, dict[str, Any] | None] = {}

    def state(place: int) -> dict[str, Any] | None:
        one = checkpoints[place]
        if place not in found:
            base = state(one["base"]) if "base" in one else {}
            found[place] = None if base is None or "state" not in one else _changed(base, one)
        return found[place]

    return [state(place) for place in range(len(checkpoints))]


def _changed(base: dict[str, Any], one: dict[str, Any]) -> dict[str, Any]:
    gone = set(one.get("gone", ()))
    kept = {name: value for name, value in base.items() if name not in gone}
    changes = one["state"].items()
    return kept | {name: _value(base.get(name), change) for name, change in changes}


def _value(before: Any, change: list[Any]) -> Any:
    if change[0] == 0:
        return change[1]
    if change[0] == 1:
        _, at, gone, items = change
        return [*before[:at], *items, *before[at + gone :]]
    return {key: value for key, value in {**before, **change[1]}.items() if key not in change[2]}
