"""Load a whole store through LangGraph's own saver: strict_loading.py URL ALLOWED -> JSON.

`ALLOWED` is the list of `ckpt doctor --types -o json`. What the saver returns depends on
LANGGRAPH_STRICT_MSGPACK. Prints all values in a comparable form, as a serializer with default
options loads them and as one with the list does, and which classes were blocked.
"""

import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

from langgraph.checkpoint.serde.event_hooks import register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(
    0, str(Path(__file__).parents[2] / "backends/ckpt_backends/testing/scenarios/stored_types")
)


@contextmanager
def opened(url: str, serde: Any = None) -> Iterator[Any]:
    if url.startswith("postgres"):
        from langgraph.checkpoint.postgres import PostgresSaver

        with PostgresSaver.from_conn_string(url) as saver:
            saver.serde = serde or saver.serde
            yield saver
        return
    from langgraph.checkpoint.sqlite import SqliteSaver

    yield SqliteSaver(sqlite3.connect(f"file:{url}?mode=ro", uri=True), serde=serde)


def plain(value: Any, types: set[str]) -> Any:
    """Return a form of a value that can be compared, and add the classes in it to `types`."""
    if value is None or (isinstance(value, bool | int | str) and type(value) in (bool, int, str)):
        return value
    kind = f"{type(value).__module__}.{type(value).__name__}"
    types.add(kind)
    if isinstance(value, dict):
        return [kind, [[plain(key, types), plain(one, types)] for key, one in value.items()]]
    if isinstance(value, Enum):
        return [kind, value.name]
    if isinstance(value, set | frozenset):
        return [kind, sorted(repr(plain(one, types)) for one in value)]
    if isinstance(value, list | tuple) or kind == "collections.deque":
        return [kind, [plain(one, types) for one in value]]
    if kind == "numpy.ndarray":
        return [kind, str(value.dtype), repr(value.tolist())]
    if hasattr(value, "__dict__"):
        return [kind, plain(vars(value), types)]
    return [kind, repr(value)]


def loaded(saver: Any) -> dict[str, Any]:
    blocked: set[str] = set()
    types: set[str] = set()

    def listen(event: Any) -> None:
        if event["kind"] != "msgpack_unregistered_allowed":
            blocked.add(f"{event['module']}.{event['name']}")

    forget = register_serde_event_listener(listen)
    values = [
        plain([one.config, one.checkpoint, one.metadata, one.pending_writes], types)
        for one in saver.list(None)
    ]
    forget()
    return {"values": values, "types": sorted(types), "blocked": sorted(blocked)}


def main() -> None:
    url, allowed = sys.argv[1], [tuple(one) for one in json.loads(sys.argv[2])]
    found = {}
    with opened(url) as saver:
        found["default"] = loaded(saver)
        found["with_allowlist"] = loaded(saver.with_allowlist(allowed))
    with opened(url, JsonPlusSerializer(allowed_msgpack_modules=allowed)) as saver:
        found["allowed"] = loaded(saver)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
