"""The failed tasks of one thread, in all of its history: a function for a `StoreWorker`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.support_matrix import limit
from ckpt_cli.core.tasks.attribution import error_start
from ckpt_cli.core.tasks.tasks import HANDLED, RETRIED
from ckpt_cli.core.tree import Key
from ckpt_cli.queries.incidents import Failure, failures_of_threads
from ckpt_cli.render.incidents import BLOCKS, LEFT, failure_state
from ckpt_cli.render.table import step_number, when
from ckpt_cli.render.text import Style, StyledLine, line, safe_text, wrap
from ckpt_cli.render.values import counted
from ckpt_cli.tui.content.checkpoint import Clock
from ckpt_cli.tui.content.tabs import TabContent

_MOST = 2_000
"""Maximum number of failures that are shown; `ckpt errors` prints more."""
_LINES = 3
"""Maximum number of lines of one error."""
_INDENT = "  "
_WORDS = {
    BLOCKS: "waiting for a retry",
    RETRIED: "retried",
    HANDLED: "handled",
    LEFT: "left behind",
}


def read_thread_errors(store: Store, thread: Thread, clock: Clock, width: int) -> TabContent:
    """Return the failed tasks of a thread, newest first, as `ckpt errors THREAD --history` does."""
    found = list(failures_of_threads(store, [thread], history=True))
    if not found:
        lacking = limit("errors", store.capabilities)
        said = "no task of this thread failed" if lacking is None else f"no errors: {lacking.why}"
        return TabContent([line((one, "dim")) for one in wrap(said, width)])
    lines = [line((_summary(found), "bold"))]
    places: dict[int, Key] = {}
    for one in found[:_MOST]:
        lines.append(line(""))
        places[len(lines)] = one.key.checkpoint_ns, one.key.checkpoint_id
        lines += _failure_lines(one, clock, width)
    if len(found) > _MOST:
        lines.append(line((f"… {len(found) - _MOST:,} more; `ckpt errors` prints all", "dim")))
    return TabContent(lines, places=places)


def _summary(found: Sequence[Failure]) -> str:
    states = Counter(map(failure_state, found))
    became = ", ".join(f"{number:,} {_WORDS[state]}" for state, number in states.most_common())
    return f"{counted(len(found), 'failed task')}: {became}"


def _failure_lines(one: Failure, clock: Clock, width: int) -> Iterator[StyledLine]:
    """Yield what became of a task, its step, node and time, and below it the error."""
    state = failure_state(one)
    style: Style = "error" if state == BLOCKS else "dim"
    at = "" if one.at is None else when(one.at, clock.now, clock.zone)
    yield line(
        (f"{state:8}", style),
        f"step {step_number(one.step)}  ",
        (safe_text(one.node), "node"),
        (f"  {at}", "time"),
    )
    parts = [*wrap(safe_text(error_start(one.error)), width - len(_INDENT))]
    for number, part in enumerate(parts[:_LINES], 1):
        more = "…" if number == _LINES < len(parts) else ""
        yield line((f"{_INDENT}{part}{more}", style))
