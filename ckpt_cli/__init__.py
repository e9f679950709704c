"""`ckpt`: inspects, verifies and rolls back LangGraph checkpoints.

As a library (`docs/python.md`), it reads stores:

    import ckpt_cli as ckpt

    with ckpt.open("agent.db") as store:
        print(store["user-42"].head.values)

The names below are the whole public interface. Each is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ckpt_backends.codec.values import Cut, Opaque, Tagged
    from ckpt_backends.errors import (
        Ambiguous,
        CkptError,
        NotFound,
        PartlyDone,
        StoreChanged,
        StoreUnavailable,
        UnknownLayout,
        Unreadable,
        Unsupported,
        UsageError,
    )
    from ckpt_cli.api.answer import Answer, AnswerList, to_json
    from ckpt_cli.api.memory import MemoryHandle, MemoryHits, MemoryItems
    from ckpt_cli.api.opening import open, open_memory  # noqa: A004 - users write `ckpt.open`
    from ckpt_cli.api.questions import SearchHits
    from ckpt_cli.api.store import StoreHandle
    from ckpt_cli.api.stores import layouts, stores
    from ckpt_cli.api.thread import CheckpointHandle, ThreadHandle

__version__ = "0.2.0"

__all__ = [
    "Ambiguous",
    "Answer",
    "AnswerList",
    "CheckpointHandle",
    "CkptError",
    "Cut",
    "MemoryHandle",
    "MemoryHits",
    "MemoryItems",
    "NotFound",
    "Opaque",
    "PartlyDone",
    "SearchHits",
    "StoreChanged",
    "StoreHandle",
    "StoreUnavailable",
    "Tagged",
    "ThreadHandle",
    "UnknownLayout",
    "Unreadable",
    "Unsupported",
    "UsageError",
    "__version__",
    "layouts",
    "open",
    "open_memory",
    "stores",
    "to_json",
]

_HOMES = {
    "ckpt_backends.codec.values": ("Cut", "Opaque", "Tagged"),
    "ckpt_backends.errors": (
        *("Ambiguous", "CkptError", "NotFound", "PartlyDone", "StoreChanged"),
        *("StoreUnavailable", "UnknownLayout", "Unreadable", "Unsupported", "UsageError"),
    ),
    "ckpt_cli.api.answer": ("Answer", "AnswerList", "to_json"),
    "ckpt_cli.api.memory": ("MemoryHandle", "MemoryHits", "MemoryItems"),
    "ckpt_cli.api.opening": ("open", "open_memory"),
    "ckpt_cli.api.questions": ("SearchHits",),
    "ckpt_cli.api.store": ("StoreHandle",),
    "ckpt_cli.api.stores": ("layouts", "stores"),
    "ckpt_cli.api.thread": ("CheckpointHandle", "ThreadHandle"),
}
"""The module of each public name."""


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            from importlib import import_module

            found = getattr(import_module(home), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module 'ckpt_cli' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
