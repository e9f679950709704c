"""Which codes can occur on which storage layout, and what mends them: tables of docs/doctor.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ckpt_backends.declaration import LAST_STORED, Backend, is_read_only
from ckpt_backends.model import Capability as C
from ckpt_cli.core.doctor.codes import CODES
from ckpt_cli.core.support_matrix import LIMITS, limit

_NOTHING = C(0)
STATEMENT = "statement"
"""What mends a fault of an engine, in place of a command."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a code cannot occur: a capability that a layout lacks, or a trait that it has."""

    why: str
    lacking: C = _NOTHING
    having: C = _NOTHING

    def applies(self, can: C) -> bool:
        return self.lacking not in can or bool(self.having & can)


_NO_HISTORY = Obstacle("keeps the newest checkpoint only", lacking=C.HISTORY)
_NO_WRITES = Obstacle("stores no writes of tasks", lacking=C.WRITES)
_ONE_STATE = Obstacle("keeps the values of the newest checkpoint only", having=C.LATEST_VALUES)
_NO_BODY = Obstacle("stores values only, no checkpoints and no metadata", having=C.VALUES_ONLY)
_NO_VERSIONS = Obstacle("stores values only, without versions", having=C.VALUES_ONLY)
_DONE_WRITES = Obstacle(
    "stores writes with the checkpoint that they produced", having=C.VALUES_ONLY
)
_INSIDE = Obstacle("values are stored inside checkpoints", having=C.INLINE_VALUES)
_BY_TIME = Obstacle(LAST_STORED, having=C.VALUES_ONLY)

OBSTACLES: Mapping[str, tuple[Obstacle, ...]] = {
    "value-missing": (_INSIDE, _NO_VERSIONS),
    "body-unreadable": (_NO_BODY,),
    "state-mismatch": (_NO_HISTORY, _NO_WRITES, _ONE_STATE),
    "delta-unanchored": (_NO_HISTORY, _NO_WRITES, _NO_VERSIONS),
    "state-by-library": (_NO_HISTORY, _NO_WRITES, _NO_VERSIONS),
    "branches-share-value": (_NO_HISTORY, _INSIDE, _NO_VERSIONS),
    "step-uncommitted": (_NO_WRITES, _DONE_WRITES),
    "resume-stale": (_NO_WRITES, _DONE_WRITES),
    "answer-unused": (_NO_WRITES, _DONE_WRITES),
    "head-not-newest": (_NO_HISTORY,),
    "id-not-increasing": (_NO_HISTORY, _BY_TIME),
    "parent-missing": (_NO_HISTORY,),
    "write-orphaned": (
        _NO_WRITES,
        Obstacle("its saver leaves writes of replaced checkpoints", lacking=C.HISTORY),
    ),
    "value-orphaned": (
        _INSIDE,
        _ONE_STATE,
        Obstacle("keeps one value of each channel", lacking=C.HISTORY),
    ),
    "namespace-orphaned": (_NO_HISTORY, _NO_BODY),
    "memory-of-abandoned-branch": (_NO_HISTORY, _NO_BODY),
    "messages-emptied": (_NO_HISTORY, _NO_BODY, _NO_WRITES),
}
"""Why codes cannot occur, as far as capabilities tell; the first that applies counts."""

ENGINES: Mapping[str, str] = {
    "rows-hidden": "the engine refuses to read what a user may not see",
    "file-damaged": "the engine checks its files itself",
    "value-replaced": "LangGraph.js has no such saver, or the engine refuses such values",
    "keys-evicted": "the engine removes no rows by itself",
    "saver-limit": "its saver depends on no setting that is known",
    "index-missing": "its saver creates no index",
    "schema-old": "its saver has no migrations",
    "ttl-partial": "its rows do not expire one by one",
    "index-stale": "no index or pointer can disagree with the rows",
    "journal-hot": "the engine has no rollback journal beside its file",
    "log-large": "the engine bounds its log",
    "space-free": "the engine reports no unused space",
    "document-near-limit": "values have no limit that a state comes close to",
}
"""Codes of engines, each with the reason where a backend does not declare it."""


def why_not(code: str, layout: str, backend: Backend) -> str:
    """Return why a code cannot occur on a layout of a backend; `''` if it can."""
    can = backend.layouts[layout]
    found = next((one for one in OBSTACLES.get(code, ()) if one.applies(can)), None)
    if found is not None:
        return found.why
    names = (f"{layout}:{code}", code)
    for name in names:
        if name in backend.impossible_faults:
            return backend.impossible_faults[name]
    is_declared = any(name in backend.engine_faults for name in names)
    return "" if is_declared else ENGINES.get(code, "")


def mended_by(code: str, layout: str, backend: Backend) -> str:
    """Return what mends findings of a code on a layout: the name of a command, or `statement`.

    `''` if no finding has a fix. A finding has one only if a plan shows that it is mended by it.
    """
    names = {f"{layout}:{code}", code}
    if why_not(code, layout, backend) or not names.isdisjoint(backend.unmended_faults):
        return ""
    if not names.isdisjoint(backend.mended_faults):
        return STATEMENT
    words = CODES[code].fix.split()
    command = next((one for one in LIMITS if one.split() == words[: len(one.split())]), "")
    if not command:
        return ""
    found = limit(command, backend.layouts[layout], read_only=is_read_only(backend))
    return "" if found is not None and found.cell == "no" else command


def fix_matrix(backends: Iterable[Backend]) -> tuple[list[str], list[list[str]]]:
    """Return the layouts, and the rows of the matrix of fixes: each a code, its command, and a cell
    for each layout: `yes`, `statement`, `none`, or `''` where the code cannot occur.
    """
    layouts = dict(sorted((name, one) for one in backends for name in one.layouts))
    rows = []
    for code in CODES:
        found = {name: mended_by(code, name, one) for name, one in layouts.items()}
        commands = sorted({*found.values()} - {"", STATEMENT})
        cells = [
            STATEMENT
            if found[name] == STATEMENT
            else "yes"
            if found[name]
            else ""
            if why_not(code, name, one)
            else "none"
            for name, one in layouts.items()
        ]
        rows.append([code, *(commands or [""]), *cells])
    return [*layouts], rows


def matrix(backends: Iterable[Backend]) -> tuple[list[str], list[list[str]], list[str]]:
    """Return the layouts, the rows of the matrix, and the reasons of cells that are not `found`.

    Each row is a code with a cell for each layout. A cell is `found`, or the number of a reason.
    """
    layouts = dict(sorted((name, one) for one in backends for name in one.layouts))
    reasons: dict[str, int] = {}
    rows = []
    for code in CODES:
        cells = [code]
        for name, backend in layouts.items():
            why = why_not(code, name, backend)
            cells.append(f"({reasons.setdefault(why, len(reasons) + 1)})" if why else "found")
        rows.append(cells)
    return [*layouts], rows, [f"{number}. {why}" for why, number in reasons.items()]
