"""What is measured: a command line on a store, the same work by other means, and the budget.

The first word of a command line is the program: `ckpt`; `raw`, a function of `raw.py`; `official`,
one of `agents.py`, by the official library; `screen`, one of `screen.py`; `typer`, a program that
does nothing; or `python`. Facts of the store stand in braces.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from bench import agents
from bench.stores import ENGINES, Store

_SQL = ENGINES[:2]


class Row(NamedTuple):
    """A measurement; its answer is checked as `CHECKS` has it for the program beside it."""

    group: str
    store: str
    """A recipe of `agents.py`, or nothing."""
    ours: str
    beside: str = ""
    most: float | None = None
    """How many times as long as `beside` it may take."""
    start: str = ""
    """What only starts: it may take as long, and `most` times the rest of `beside`."""
    seconds: float | None = None
    rate: str = ""
    """The fact that tells the number of checkpoints, of which 2,000 must be done in a second."""
    of_value: float = 0
    """How many times as much memory as the store's one large value takes it may use."""
    change: str = ""
    """`copy` or `purge`: each run gets a store that it may change."""
    engines: tuple[str, ...] = ("sqlite",)
    rounds: int = 5


Found = list[Any]
"""Rows with the id of a thread first, or ids of checkpoints."""


def _all(store: Store, ours: Any, theirs: Found) -> bool:
    numbers = {one["thread_id"]: one["checkpoints"] for one in ours}
    return numbers == {row[0]: row[2] for row in theirs} and len(ours) == int(
        store.facts["threads"]
    )


def _newest(_: Store, ours: Any, theirs: Found) -> bool:
    if len(theirs[0]) == 1:  # All threads in no order.
        return {one["thread_id"] for one in ours} <= {row[0] for row in theirs}
    return [one["head"] for one in ours] == [row[1] for row in theirs[:50]]


def _steps(_: Store, ours: Any, __: object) -> bool:
    steps = ours if isinstance(ours, list) else ours["steps"]
    return len({one["checkpoint_id"] for one in steps}) == len(steps) > 0


CHECKS: Mapping[str, Callable[[Store, Any, Found], bool]] = {
    "raw writes": lambda _, ours, found: (
        {one["thread_id"] for one in ours} == {row[0] for row in found} != set()
    ),
    "raw every": _all,
    "raw newest": _newest,
    "raw head": lambda _, ours, __: (
        bool(ours["values"]["messages"])
        and bool(ours["interrupts"]) == (ours["status"] == "interrupted")
    ),
    "ckpt threads list": lambda store, ours, __: len(ours) == int(store.facts["threads"]),
    "official history": lambda _, ours, ids: [one["checkpoint_id"] for one in ours] == ids,
    "ckpt grep": lambda _, ours, __: ours == [],
    "ckpt show --tree": _steps,
    "ckpt timeline": _steps,
    "ckpt replay": lambda _, ours, __: all(
        one["match"] == one["transitions"] > 0
        for one in (ours if isinstance(ours, list) else [ours])
    ),
    "ckpt doctor": lambda store, ours, __: (
        ours["findings"] == [] and ours["checked"]["threads"] == int(store.facts["threads"])
    ),
}
"""Whether what `ckpt` says with `-o json` is right, by the beginning of what stands beside it and
finds something, or else of its own line. Where only memory is measured, nothing is compared.
"""

_PURGE = "ckpt purge --match old-* --include-interrupted --include-pending --include-error --yes -q"
_COPY, _COPIED = "ckpt copy --all --to {target} --yes -q", "raw copy {target}"
_TEXT, _SLOW = "-F 'zebra finch'", "ckpt grep [qx]+[jz]+[qx]+"
_LIST = "ckpt threads list --all"
_START, _ASKING = "raw start", "raw writes __interrupt__ bodies"
_ERRORS = "raw writes __error__"
_LONG = ("loop", "straight", "forked")

ROWS = [
    Row("start", "", "ckpt --version", "python -c 'import typer'", 0.5, rounds=15),
    Row("start", "", "ckpt --help", "typer --help", 1.2, rounds=15),
    Row("start", "", "ckpt show --help", "typer show --help", 1.2, rounds=15),
    Row("start", "small", "ckpt _complete thread a4 {url} '' x", "raw start", 1.3, rounds=15),
    # Threads.
    Row("list", "agents", "ckpt threads list", "raw newest", 1.5, engines=ENGINES),
    Row(
        "list", "agents", "ckpt threads list --all -o json", "raw every", 3, _START, engines=ENGINES
    ),
    Row("list", "agents", f"{_LIST} --as-of 1s -o json", f"{_LIST} -o json", 2, engines=_SQL),
    Row("filters", "agents", "ckpt interrupts -o json", _ASKING, 2, _START, engines=ENGINES),
    *(
        Row("filters", store, f"ckpt {words} -o json", beside, 2, _START, engines=engines)
        for store, words, beside, engines in (
            ("agents", "threads list --all --status interrupted", "raw writes __interrupt__", _SQL),
            ("small", "interrupts", _ASKING, _SQL),
            ("small", "errors", _ERRORS, _SQL),
            ("small", "threads list --all --status error", _ERRORS, _SQL),
        )
    ),
    # One thread.
    Row(
        "show", "agents", "ckpt show {waiting} -o json", "raw head {waiting}", 1.3, engines=ENGINES
    ),
    Row("show", "long", "ckpt show straight -o json", "raw head straight", 1.3, engines=_SQL),
    *(Row("tree", "long", f"ckpt show --tree {one}", seconds=1) for one in _LONG),
    *(Row("tree", "long", f"ckpt timeline {one}", seconds=1.5) for one in _LONG),
    *(Row("tree", "long", f"ckpt report {one} --last {{number}}", seconds=3) for one in _LONG),
    *(
        Row("history", "states", f"ckpt history {one} -o ndjson", f"official history {one}", 0.5)
        for one in ("carried", "blob")
    ),
    Row(
        *("history", "states", "ckpt history messages -o ndjson", "official history messages", 0.5),
        engines=ENGINES,
    ),
    # Values.
    *(
        Row("grep", store, f"ckpt grep {words}", "raw values", most, _START)
        for store, words, most in (
            ("agents", _TEXT, 3),
            ("agents", "-F 98765432101", 10),
            ("agents", "'z.bra f[i]nch'", 10),
            ("long", _TEXT, 3),
            ("states", _TEXT, 3),
        )
    ),
    Row("grep", "copied", f"{_SLOW} --jobs 2", _SLOW, 1 / 1.8, rounds=1),
    *(
        Row("replay", "states", f"ckpt replay {one} --verify", rate="number")
        for one in agents.KINDS
    ),
    Row("replay", "states", "ckpt replay --all --verify", rate="checkpoints"),
    Row("replay", "states", "ckpt doctor --deep", rate="checkpoints"),
    Row("doctor", "agents", "ckpt doctor", engines=ENGINES, rounds=1),
    # Changes.
    Row("copy", "copied", _COPY, _COPIED, 2, change="copy", rounds=1),
    Row("copy", "agents", _COPY, _COPIED, 2, change="copy", engines=ENGINES[1:], rounds=1),
    Row("purge", "agents", _PURGE, "raw delete old-", 2, change="purge", rounds=2),
    Row("purge", "small", _PURGE, "raw delete old-", 2, change="purge", engines=ENGINES, rounds=2),
    # The memory for a million threads, and for one large value.
    *(
        Row("memory", "vast", f"ckpt {one}", rounds=0)
        for one in ("threads list --all -o json", "interrupts", "errors", f"grep {_TEXT}", "doctor")
    ),
    *(
        Row("memory", "value", f"ckpt {one} large", of_value=2.5, rounds=0)
        for one in ("show", "show --tree", "history", "replay --verify", f"grep {_TEXT}", "doctor")
    ),
    # The screen.
    *(
        Row("screen", "long", f"screen step {one}", seconds=0.1, rounds=1)
        for one in ("state", "diff", "writes", "messages")
    ),
]
