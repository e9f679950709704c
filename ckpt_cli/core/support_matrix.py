"""Which commands work on which storage layout: the support matrix of docs/stores.md."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Mapping
from typing import NamedTuple

from ckpt_backends.app_sessions import NO_SESSIONS
from ckpt_backends.errors import ONLY_READ
from ckpt_backends.model import Capability as C

NO_HISTORY = "keeps no history to go back to"
ONE_STATE = "keeps the values of the newest checkpoint only"
NO_ANSWERS = "stores no answers to questions"
NO_STEPS = "stores no writes from which values could be rebuilt"


_NOTHING = C(0)


class Limit(NamedTuple):
    """What changes for a command if a layout lacks a capability, or has a certain trait."""

    lacking: C
    cell: str
    """Text of the cell in the matrix; `no` if the command refuses."""
    why: str
    having: C = _NOTHING
    """The trait that causes the limit, if no capability is lacking."""

    def applies(self, can: C) -> bool:
        return self.lacking not in can or bool(self.having & can)


_NEWEST = Limit(C.HISTORY, "newest", "each namespace has its newest checkpoint only")
_NOT_ADDED = Limit(C.HISTORY, "no", NO_HISTORY)
_ADDS_NOTHING = Limit(C.ADDING, "no", "ckpt cannot add checkpoints here")
_OVERWRITES = Limit(_NOTHING, "no", ONE_STATE, having=C.LATEST_VALUES)
_ONE_STATE = Limit(
    _NOTHING,
    "newest state",
    "older checkpoints are listed with their writes, but their state is not stored",
    having=C.LATEST_VALUES,
)
_SHOWN = Limit(
    _NOTHING, "writes", "writes are shown, but cannot be verified", having=C.LATEST_VALUES
)
_NO_WRITES = Limit(C.WRITES, "none", "no writes are stored, so no questions, errors or nodes")
_ONE = Limit(
    C.HISTORY,
    "nothing",
    "each namespace has one checkpoint, so there is no step to compare or prune",
)
_UNTIMED = Limit(
    C.HISTORY, "no times", "each namespace has one checkpoint, so no step has a known time"
)

_NO_ANSWERS = (
    Limit(C.WRITES, "no", NO_ANSWERS),
    Limit(_NOTHING, "no", NO_ANSWERS, having=C.VALUES_ONLY),
)
_REBUILT = (
    Limit(C.WRITES, "no", NO_STEPS),
    Limit(
        _NOTHING,
        "head",
        "values are part of a checkpoint, so a copy of the head gets them",
        having=C.INLINE_VALUES,
    ),
)

LIMITS: Mapping[str, tuple[Limit, ...]] = {
    "threads list": (),
    "show": (_ONE_STATE,),
    "show --tree": (_NEWEST,),
    "history": (_NEWEST,),
    "diff": (_NEWEST, _OVERWRITES),
    "messages": (),
    "grep": (_ONE_STATE,),
    "blame": (_NEWEST, _ONE_STATE),
    "bisect": (_NEWEST, _ONE_STATE),
    "tail": (_NEWEST,),
    "du": (),
    "interrupts": (_NO_WRITES,),
    "errors": (_NO_WRITES,),
    "stats": (_NO_WRITES,),
    "stats --by model": (),
    "timeline": (_UNTIMED,),
    "report": (_NEWEST, _ONE_STATE),
    "diff --writes": (_ONE, _NO_WRITES, _SHOWN),
    "replay": (_ONE, _NO_WRITES, _SHOWN),
    "rollback": (_NOT_ADDED, _OVERWRITES, _ADDS_NOTHING),
    "fork": (_NOT_ADDED, _OVERWRITES, _ADDS_NOTHING),
    "undo": (_NOT_ADDED, _OVERWRITES, _ADDS_NOTHING),
    "repair messages": (_NOT_ADDED, _OVERWRITES, _ADDS_NOTHING),
    "repair values": (_NOT_ADDED, _OVERWRITES, _ADDS_NOTHING, *_REBUILT),
    "repair writes": (_NOT_ADDED, _OVERWRITES, _ADDS_NOTHING, *_NO_ANSWERS),
    "copy --as": (_NOT_ADDED, _OVERWRITES, _ADDS_NOTHING),
    "copy --at REF --as": (_NOT_ADDED, _OVERWRITES, _ADDS_NOTHING),
    "memory sessions": (Limit(C.SESSIONS, "no", NO_SESSIONS),),
    "export": (),
    "purge": (),
    "purge --keep-last": (_ONE,),
    "threads delete": (),
    "gc": (),
}
"""The limits of each command; the first that applies counts. `replay --repair` has those of
`repair values`.
"""


CHANGING = frozenset(
    {
        *("rollback", "fork", "copy --as", "copy --at REF --as", "undo"),
        *("repair messages", "repair values", "repair writes"),
        *("purge", "purge --keep-last", "threads delete", "gc"),
    }
)
"""The commands that change a store."""
_CHANGES_NOTHING = Limit(_NOTHING, "no", "this adapter cannot change stores")
_ONLY_READ = Limit(_NOTHING, "no", ONLY_READ, having=C.READ_ONLY)


def limit(command: str, can: C, *, read_only: bool = False) -> Limit | None:
    """Return the limit of a command on a layout with these capabilities; None if there is no
    limit. `read_only` says that its backend opens no store for changing.
    """
    if command in CHANGING and _ONLY_READ.applies(can):
        return _ONLY_READ
    if command in CHANGING and read_only:
        return _CHANGES_NOTHING
    return next((one for one in LIMITS[command] if one.applies(can)), None)
