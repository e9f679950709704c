"""The checkpoints of a report as JSON, which the page's script shows one at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from itertools import islice
from typing import Any

from ckpt_cli.core.tasks.step_nodes import (
    HANDLED,
    RETRIED,
    asked_by,
    failed_at,
    next_paths,
    node_path,
    path_text,
)
from ckpt_cli.core.tree.rows import Key
from ckpt_cli.queries.history import Entry
from ckpt_cli.queries.report import ReportedCheckpoint
from ckpt_cli.render.history import given_text
from ckpt_cli.render.report.state_changes import (
    StateText,
    bounded,
    cut_text,
    difference,
    encoded,
    state_text,
    whole,
)
from ckpt_cli.render.status import counted_names, next_node_names
from ckpt_cli.render.terminal.safe_text import safe_json, safe_text
from ckpt_cli.render.terminal.styled_text import StyledLine
from ckpt_cli.render.tree.lines import has_zones
from ckpt_cli.render.values.block import block
from ckpt_cli.render.values.diff import diff_text

MOST_BYTES = 16 << 20
"""Characters of states and changes in a page. The newest checkpoints come first."""
_WIDTH = 160
_MOST_LINES = 200
"""Lines of changes at one checkpoint."""
_QUESTION_WIDTH = 80


@dataclass(frozen=True, slots=True)
class FailedTask:
    """An error that is stored at a checkpoint of a report."""

    place: int
    ref: str
    at: str
    """When its step began."""
    node: str
    error: str
    became: str
    """`retried`, `handled` or `''`."""


@dataclass(frozen=True, slots=True)
class CheckpointJson:
    """The checkpoints of a report."""

    records: Sequence[str]
    """One JSON text for each, oldest first, safe inside a `<script>` element."""
    without_state: int
    """Number of the oldest checkpoints of which the state does not fit into the page."""
    failures: Sequence[FailedTask]
    """Oldest first."""


def checkpoint_json(
    found: Iterable[ReportedCheckpoint],
    keys: Mapping[Key, int],
    rows: Mapping[Key, int],
    refs: Mapping[str, str],
    zone: tzinfo,
) -> CheckpointJson:
    """Return checkpoints in the order of `keys`; `rows` are their rows in the picture of the tree.

    Children must come before their parents, so that a state is told by what differs.
    """
    writer = _Writer(keys)
    failures: list[FailedTask] = []
    for one in found:
        key = one.entry.moment.key
        place = keys[key.checkpoint_ns, key.checkpoint_id]
        facts = _facts(one.entry, keys, refs, zone)
        facts["row"] = rows.get((key.checkpoint_ns, key.checkpoint_id))
        facts["rebuilt"] = dict(one.state.rebuilt)
        writer.add(place, facts, one)
        failures += (
            FailedTask(
                place, facts["ref"], facts["at"], error["node"], error["text"], error["became"]
            )
            for error in facts["errors"]
        )
    failures.sort(key=lambda one: one.place)
    records = [text for _, text in sorted(writer.records.items())]
    return CheckpointJson(records, writer.without_state, failures)


def script_json(text: str) -> str:
    """Return a JSON text that cannot end the `<script>` element it stands in."""
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return safe_json(text)


class _Writer:
    """Writes records while there is space."""

    def __init__(self, keys: Mapping[Key, int]) -> None:
        self.records: dict[int, str] = {}
        self.without_state = 0
        self._keys = keys
        self._left = MOST_BYTES
        self._texts: dict[int, StateText] = {}
        """States of checkpoints to come, to which those written before refer."""

    def add(self, place: int, facts: dict[str, Any], one: ReportedCheckpoint) -> None:
        pieces = [encoded(facts)[:-1]]
        # A checkpoint to which another one refers is written however large it is.
        needed = self._texts.pop(place, None)
        if self._left > 0 or needed is not None:
            state = needed if needed is not None else state_text(one.state.values)
            pieces += self._state(state, one)
        else:
            self.without_state += 1
        self.records[place] = script_json(",".join(pieces) + "}")
        self._left -= len(self.records[place])

    def _state(self, state: StateText, one: ReportedCheckpoint) -> list[str]:
        moment = one.entry.moment
        parent = self._keys.get(
            (moment.key.checkpoint_ns, moment.checkpoint.parent_checkpoint_id or "")
        )
        changes = [] if one.before is None else [f'"changes":{encoded(_changes(one))}']
        if one.before is None or parent is None or parent in self.records or self._left <= 0:
            return [f'"state":{whole(state)}', *changes]
        if parent not in self._texts:
            self._texts[parent] = state_text(one.before.values)
        differs, gone = difference(self._texts[parent], state)
        return [f'"base":{parent},"state":{differs},"gone":{gone}', *changes]


def _changes(one: ReportedCheckpoint) -> list[list[list[str]]]:
    """Return what changed since the parent: lines of pieces, each a style and a text."""
    lines = diff_text(one.changes, width=_WIDTH)
    shown = [_pieces(line) for line in islice(lines, _MOST_LINES)]
    if more := sum(1 for _ in lines):
        shown.append([["dim", f"… {more} more lines"]])
    return shown


def _pieces(line: StyledLine) -> list[list[str]]:
    return [[style, text] for text, style in line.spans]


def _facts(
    entry: Entry, keys: Mapping[Key, int], refs: Mapping[str, str], zone: tzinfo
) -> dict[str, Any]:
    moment = entry.moment
    key, step = moment.key, moment.step
    parent_id = moment.checkpoint.parent_checkpoint_id
    runs = (*step.tasks, *step.others)
    questions = [one for run in runs for one in run.questions]
    return {
        "id": key.checkpoint_id,
        "ref": refs.get(key.checkpoint_id) or key.checkpoint_id[-8:],
        "ns": key.checkpoint_ns,
        "parent": keys.get((key.checkpoint_ns, parent_id or "")),
        "parent_ref": None if parent_id is None else refs.get(parent_id) or parent_id[-8:],
        "step": moment.number,
        "made": _made(entry, refs),
        "given": None if entry.given is None else cut_text(given_text(entry.given)),
        "at": local_time(moment.at, zone),
        "next": next_node_names(next_paths(step)),
        "status": [] if entry.children else [one.value for one in moment.conditions],
        "writes": len(moment.writes),
        "metadata": bounded(moment.metadata),
        "errors": [
            {
                "node": path_text(node_path(key.checkpoint_ns, failed_at(run))),
                "text": cut_text(run.error),
                "became": RETRIED if run.finished else HANDLED if run.handled else "",
            }
            for run in runs
            if run.error is not None
        ],
        "questions": [
            {
                "node": path_text(node_path(key.checkpoint_ns, asked_by(one))),
                "text": cut_text("\n".join(block(one.value, 0, _QUESTION_WIDTH))),
                "answered": one.answered,
            }
            for one in questions
        ],
        "operation": _operation(entry),
        "problem": None if moment.body.problem is None else moment.body.problem.reason,
        "plaintext": entry.plaintext,
    }


def local_time(at: datetime | None, zone: tzinfo) -> str:
    """Return a time in a zone with its offset; `''` if it is not known."""
    if at is None or not has_zones(at):
        return ""
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S %z}"


def _made(entry: Entry, refs: Mapping[str, str]) -> str:
    """Return what made a checkpoint: an input, an update, a fork, or the nodes that ran."""
    source, nodes = entry.moment.source, entry.nodes
    if source in {"input", "update"}:
        return source
    if source == "fork":
        origin = entry.moment.metadata.get("forked_from")
        return f"fork of {refs.get(origin, origin[-8:])}" if isinstance(origin, str) else "fork"
    return "?" if nodes is None else counted_names(nodes) or "?"


def _operation(entry: Entry) -> str | None:
    if entry.operation is None:
        return None
    done = entry.operation.operation
    return safe_text(f"{done.action} {done.op}" + (f": {done.reason}" if done.reason else ""))
