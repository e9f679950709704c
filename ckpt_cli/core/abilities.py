"""Which command does what on which layout: the matrix of docs/stores.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ckpt_backends.model import Capability as C

NO_HISTORY = "keeps no history to go back to"


@dataclass(frozen=True, slots=True)
class Limit:
    """What becomes of a command where a layout lacks something."""

    lacking: C
    cell: str
    """What the matrix says; `no` where the command refuses."""
    why: str


_NEWEST = Limit(C.HISTORY, "newest", "each namespace has its newest checkpoint only")
_NOT_ADDED = Limit(C.HISTORY, "no", NO_HISTORY)
_NO_WRITES = Limit(C.WRITES, "none", "no writes are stored, so no questions, errors or nodes")
_ONE = Limit(C.HISTORY, "nothing", "there is one checkpoint a namespace, and nothing before it")

LIMITS: Mapping[str, tuple[Limit, ...]] = {
    "threads list": (),
    "threads show": (),
    "show": (),
    "show --tree": (_NEWEST,),
    "history": (_NEWEST,),
    "diff": (_NEWEST,),
    "messages": (),
    "grep": (),
    "blame": (_NEWEST,),
    "tail": (_NEWEST,),
    "du": (),
    "interrupts": (_NO_WRITES,),
    "stats": (_NO_WRITES,),
    "diff --writes": (_ONE, _NO_WRITES),
    "replay": (_ONE, _NO_WRITES),
    "rollback": (_NOT_ADDED,),
    "fork": (_NOT_ADDED,),
    "fork --to": (_NOT_ADDED,),
    "undo": (_NOT_ADDED,),
    "threads copy": (_NOT_ADDED,),
    "sessions list": (Limit(C.SESSIONS, "no", "hold no sessions"),),
    "export": (),
    "purge": (),
    "purge --keep-last": (_ONE,),
    "threads delete": (),
    "gc": (),
}
"""By command, the first that applies. `replay --repair` is not here: values that can be put back
are those that a layout keeps apart."""


def limit(command: str, can: C) -> Limit | None:
    """What a layout with these capabilities lacks for a command; None where it does all."""
    return next((one for one in LIMITS[command] if one.lacking not in can), None)
