"""The HTML page about a thread."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from hashlib import sha256
from html import escape
from importlib.resources import files
from itertools import islice
from string import Template
from typing import Any
from xml.etree.ElementTree import Element

from ckpt_backends import shell
from ckpt_backends.codec import to_json
from ckpt_backends.codec.values import Value
from ckpt_backends.model import Status, StoreInfo
from ckpt_cli.core.conversation import Call, Turn, content_text, is_error
from ckpt_cli.core.state import START
from ckpt_cli.core.tasks import (
    HANDLED,
    RETRIED,
    asked_by,
    failed_at,
    has_failed,
    next_paths,
    node_path,
    path_text,
    waiting_paths,
)
from ckpt_cli.core.tree import Key
from ckpt_cli.queries.history import Entry
from ckpt_cli.queries.messages import Conversation
from ckpt_cli.queries.report import ReportedCheckpoint
from ckpt_cli.queries.show import Summary
from ckpt_cli.render.history import given_text
from ckpt_cli.render.markup import add, element, html
from ckpt_cli.render.table import age, duration, size, step_number
from ckpt_cli.render.text import Span, Style, StyledLine, safe_json, safe_text
from ckpt_cli.render.thread import resume_call
from ckpt_cli.render.threads import counted_names, next_node_names
from ckpt_cli.render.tree import has_zones
from ckpt_cli.render.tree_pictures import DrawnTree
from ckpt_cli.render.value_diff import diff_text
from ckpt_cli.render.values import block, call_text, counted, message_label, summary

STYLES: dict[Style, str] = {
    "dim": "opacity:.6",
    "bold": "font-weight:bold",
    "add": "color:#2e8b57",
    "remove": "color:#d3493b",
    "added": "color:#2e8b57",
    "added-part": "color:#2e8b57;font-weight:bold",
    "removed": "color:#d3493b",
    "removed-part": "color:#d3493b;font-weight:bold",
    "change": "color:#9a7009",
    "warn": "color:#9a7009",
    "error": "color:#d3493b;font-weight:bold",
    "head": "font-weight:bold",
    "question": "color:#9464b9",
    "id": "color:#3a7bbf",
    "node": "color:#298484",
    "time": "opacity:.6",
}
"""The style of each meaning; plain text has none. Colours are legible on white and on black."""


def html_of(lines: Iterable[StyledLine]) -> str:
    """Return lines as one block of HTML, with all text escaped: no tag comes from a store."""
    body = "\n".join("".join(map(_span, one.spans)) for one in lines)
    return f'<pre style="font-family:monospace;line-height:1.25;white-space:pre">{body}</pre>'


def _span(span: Span) -> str:
    text, style = span
    css = STYLES.get(style)
    return escape(text) if css is None else f'<span style="{css}">{escape(text)}</span>'


def add_section(page: Element, name: str, title: str) -> Element:
    """Add a section with a title, which also names the section for screen readers."""
    section = add(page, "section", id=name, aria_labelledby=f"{name}-title")
    add(section, "h2", title, id=f"{name}-title")
    return section


def add_table(
    section: Element, label: str, headers: Sequence[str], numbers: Collection[str] = ()
) -> Element:
    """Add a table and return its body; `numbers` are the columns that are set to the right."""
    # A wide table scrolls by itself, so that the page does not.
    box = add(section, "div", class_="scrolls", tabindex=0, role="region", aria_label=label)
    table = add(box, "table")
    row = add(add(table, "thead"), "tr")
    for one in headers:
        add(row, "th", one, scope="col", **({"class_": "number"} if one in numbers else {}))
    return add(table, "tbody")


# States of many checkpoints in little space: each as what differs from its parent's.
#
# A channel that differs is one of these, where VALUE is in the codec's JSON form:
#
# - `[0, VALUE]`: the value; - `[1, AT, GONE, [VALUE, ...]]`: in the parent's list, GONE items at
# AT are replaced by these; - `[2, {KEY: VALUE, ...}, [KEY, ...]]`: in the parent's object, these
# are set, and those removed.


LONGEST_TEXT = 20_000
"""Characters of a text in a value that are kept."""
LARGEST_CHANNEL = 1 << 20
"""Characters of a channel, as JSON, that are kept."""

ChannelText = str | list[str] | dict[str, str]
"""A value as JSON texts: whole, or one for each item of a list or a dict."""
StateText = dict[str, ChannelText]

_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def encoded(value: Any) -> str:
    """Return a value as compact JSON."""
    return _JSON.encode(value)


def state_text(values: Mapping[str, Value]) -> StateText:
    """Return the state of a checkpoint as JSON texts; what is too long is cut, and says so."""
    return {name: _channel_text(value) for name, value in values.items()}


def bounded(values: Mapping[str, Value]) -> dict[str, Any]:
    """Return values in JSON form, each cut like a channel of a state."""
    return {name: json.loads(_joined(text)) for name, text in state_text(values).items()}


def cut_text(text: str) -> str:
    """Return a text, cut if it is too long."""
    more = len(text) - LONGEST_TEXT
    return text if more <= 0 else f"{text[:LONGEST_TEXT]}… ({more} more characters)"


def whole(state: StateText) -> str:
    """Return a state that does not refer to another one, as JSON."""
    return _object((name, f"[0,{_joined(text)}]") for name, text in state.items())


def difference(before: StateText, after: StateText) -> tuple[str, str]:
    """Return the channels that differ and those that are gone, both as JSON."""
    changed = (
        (name, _channel_difference(before.get(name), text))
        for name, text in after.items()
        if before.get(name) != text
    )
    return _object(changed), encoded([name for name in before if name not in after])


def _channel_text(value: Value) -> ChannelText:
    form: Any = to_json(value)
    text = encoded(form)
    if len(text) > LONGEST_TEXT:
        form = _shortened(form)
        text = encoded(form)
        if len(text) > LARGEST_CHANNEL:
            return encoded(_cut(text[:LONGEST_TEXT], f"{size(len(text))} of JSON in all"))
    if isinstance(form, list):
        return list(map(encoded, form))
    if isinstance(form, dict):
        return {key: encoded(one) for key, one in form.items()}
    return text


def _shortened(form: Any) -> Any:
    """Return a JSON value with long texts cut. Recurses, as a value has at most 200 levels."""
    if isinstance(form, str) and len(form) > LONGEST_TEXT:
        return _cut(form[:LONGEST_TEXT], f"{len(form)} characters in all")
    if isinstance(form, list):
        return list(map(_shortened, form))
    if isinstance(form, dict):
        return {key: _shortened(one) for key, one in form.items()}
    return form


def _cut(kept: str, reason: str) -> dict[str, Any]:
    return {"$cut": {"kept": kept, "reason": reason}}


def _channel_difference(before: ChannelText | None, after: ChannelText) -> str:
    if isinstance(before, list) and isinstance(after, list):
        return _list_difference(before, after)
    if isinstance(before, dict) and isinstance(after, dict):
        changed = ((key, text) for key, text in after.items() if before.get(key) != text)
        gone = encoded([key for key in before if key not in after])
        return f"[2,{_object(changed)},{gone}]"
    return f"[0,{_joined(after)}]"


def _list_difference(before: list[str], after: list[str]) -> str:
    shorter = min(len(before), len(after))
    at = next((n for n in range(shorter) if before[n] != after[n]), shorter)
    same_end = 0
    while same_end < shorter - at and before[-1 - same_end] == after[-1 - same_end]:
        same_end += 1
    items = ",".join(after[at : len(after) - same_end])
    return f"[1,{at},{len(before) - at - same_end},[{items}]]"


def _joined(text: ChannelText) -> str:
    if isinstance(text, list):
        return f"[{','.join(text)}]"
    return _object(iter(text.items())) if isinstance(text, dict) else text


def _object(pairs: Iterator[tuple[str, str]] | Any) -> str:
    return "{" + ",".join(f"{encoded(name)}:{text}" for name, text in pairs) + "}"


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


MOST_STEPS = 200
_BRIEF = 0.1
_DEEPEST = 6
"""Levels of subgraphs that are told apart by their indent."""
_WORDS = {"human": "waited for an answer, and ran", "idle": "nothing ran before"}
_OPEN = {
    "human": "waiting for an answer",
    "idle": "failed, nothing runs",
    "run": "running or stopped",
}


def add_timeline(page: Element, timeline: Mapping[str, Any], zone: tzinfo) -> int:
    """Add the newest steps of `ckpt timeline`; return how many older ones are left out."""
    section = add_section(page, "timeline", "Timeline")
    steps = timeline["steps"]
    if timeline["seconds"] is None:
        add(section, "p", "The store holds no times of this thread.", class_="dim")
        return 0
    facts = [
        f"{duration(timeline[key])} {words}"
        for key, words in (
            ("seconds", "in all"),
            ("running_seconds", "running"),
            ("waiting_seconds", "waiting for answers"),
            ("idle_seconds", "idle"),
        )
        if timeline[key]
    ]
    said = "A step takes from the checkpoint before it to its own, which is saved at its end."
    add(section, "p", f"{', '.join(facts)}. {said}", class_="dim")
    steps = list(filter(_is_shown, steps))
    shown = steps[-MOST_STEPS:]
    table = add_table(
        section, "Steps", ("Step", "Nodes", "Saved", "Duration", ""), numbers=("Duration",)
    )
    _add_steps(table, shown, zone)
    if timeline["open"] is not None:
        _add_open(table, timeline["open"], zone)
    if timeline["nodes"]:
        add(section, "h3", "By node")
        _add_nodes(section, timeline["nodes"])
    return len(steps) - len(shown)


def _is_shown(step: Mapping[str, Any]) -> bool:
    """Return whether a step is worth a line: reading the input takes no time."""
    seconds, nodes = step["seconds"], step["nodes"]
    is_brief = seconds is not None and seconds < _BRIEF
    return not is_brief or not (nodes == [START] or (step["depth"] and step["cause"] == "input"))


def _add_steps(table: Element, steps: Sequence[Mapping[str, Any]], zone: tzinfo) -> None:
    outer = [one for one in steps if not one["depth"]]
    longest = max((one["seconds"] or 0 for one in outer if one["kind"] == "run"), default=0)
    began: str | None = None
    until: str | None = None
    for one in steps:
        if not one["depth"]:
            began, until = one["started_at"], one["ended_at"]
        elif until and one["started_at"] and _seconds_between(until, one["started_at"]) >= 0:
            began = until  # The step that called it is not over.
        kind, seconds = one["kind"], one["seconds"]
        row = add(table, "tr")
        add(row, "td", "" if one["step"] is None or one["depth"] else str(one["step"]))
        nodes = add(row, "td", class_=f"depth-{min(one['depth'], _DEEPEST)}")
        add(nodes, "span", counted_names(one["nodes"] or ()) or one["cause"] or "?")
        if kind in _WORDS and seconds is not None:
            add(nodes, "span", f" {_WORDS[kind]}", class_="dim")
        _add_time(add(row, "td", class_="when"), one["ended_at"], zone)
        add(row, "td", "" if seconds is None else duration(seconds), class_="number")
        after = _seconds_between(began, one["started_at"])
        if seconds is None:
            add(row, "td")
            continue
        _add_bar(add(row, "td"), kind, *_shares(after, seconds, longest))


def _shares(after: float, seconds: float, longest: float) -> tuple[float, float]:
    """Return where a bar begins and how long it is, as parts of the longest."""
    if not longest:
        return 0, 0
    begins = min(max(after / longest, 0), 1)
    return begins, min(seconds / longest, 1 - begins)


def _add_bar(cell: Element, kind: str, begins: float, share: float) -> None:
    bar = add(cell, "svg", class_="bar", viewBox="0 0 100 10", aria_hidden="true")
    bar.set("preserveAspectRatio", "none")
    if kind == "run":
        width = max(share * 100, 0.5)
        add(bar, "rect", class_="run", x=begins * 100, y=2, width=width, height=6)
    else:
        # People and pauses take hours where nodes take seconds, so their bars have no scale.
        add(bar, "rect", class_=kind, x=0, y=4, width=100, height=2)


def _add_open(table: Element, step: Mapping[str, Any], zone: tzinfo) -> None:
    row = add(table, "tr")
    add(row, "td", "now")
    nodes = add(row, "td", counted_names(step["nodes"]))
    words = "nothing has run" if step["cause"] == "fork" else _OPEN[step["kind"]]
    add(nodes, "span", f" {words} since", class_="dim")
    _add_time(add(row, "td", class_="when"), step["since"], zone)
    add(row, "td")
    _add_bar(add(row, "td"), "human" if step["kind"] == "human" else "idle", 0, 1)


def _add_nodes(section: Element, nodes: Mapping[str, Mapping[str, Any]]) -> None:
    names = ("Runs", "Total", "Median", "95 %", "Longest")
    table = add_table(section, "Nodes", ("Node", *names), numbers=names)
    for name, one in nodes.items():
        row = add(table, "tr")
        add(row, "td", name)
        add(row, "td", str(one["runs"]), class_="number")
        for key in ("seconds", "p50", "p95", "max"):
            add(row, "td", "" if one[key] is None else duration(one[key]), class_="number")


def _clock(text: str | None, zone: tzinfo) -> str:
    return "" if text is None else local_time(datetime.fromisoformat(text), zone)[:19]


def _add_time(cell: Element, text: str | None, zone: tzinfo) -> None:
    date, _, clock = _clock(text, zone).partition(" ")
    add(cell, "span", f"{date} ", class_="date")
    add(cell, "span", clock)


def _seconds_between(first: str | None, last: str | None) -> float:
    if first is None or last is None:
        return 0
    return (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds()


MOST_MESSAGES = 200
_LONG = 1500
"""Characters of a message that are not folded."""
_TEXT_WIDTH = 100
_ROLES = {"human", "user", "ai", "assistant", "tool", "system"}
_MEANINGS = {
    Status.PENDING: "Something is next and nothing waits: a run is in progress, or it was stopped.",
    Status.DONE: "Nothing is next: the last run ended.",
    Status.UNKNOWN: "What is next cannot be known from what is stored.",
    Status.EMPTY: "The root namespace has no checkpoint.",
}


def add_heading(page: Element, found: Summary, now: datetime, zone: tzinfo) -> None:
    """Add the thread's id, its status, and how large and how old it is."""
    thread, stored = found.facts.row.thread, found.facts.size
    header = add(page, "header")
    add(header, "p", "LangGraph thread", class_="kind")
    add(header, "h1", thread.thread_id or "''")
    marks = add(header, "p", class_="marks")
    for one in _conditions(found):
        add(marks, "span", one.value, class_=f"mark {one.value}")
    facts = [counted(thread.checkpoints, "checkpoint")]
    if stored is not None:
        facts += [counted(stored.writes, "write"), size(stored.bytes)]
    add(header, "p", " · ".join(facts), class_="dim")
    times = [
        f"{name} {local_time(at, zone)} ({age(at, now)} ago)"
        for name, at in (("begun", thread.first_at), ("last active", thread.last_at))
        if at is not None
    ]
    add(header, "p", " · ".join(times), class_="dim")


def add_problem(page: Element, found: Summary) -> None:
    """Add the errors and questions for which the thread waits, and the call that resumes it."""
    head = found.head
    if head is None:
        add(add_section(page, "problem", "What is next"), "p", _MEANINGS[Status.EMPTY])
        return
    runs = (*head.step.tasks, *head.step.others)
    failed = [run for run in runs if has_failed(run)]
    asked = [one for run in runs for one in run.questions if one.is_open]
    title = "What is wrong" if failed else "What it waits for" if asked else "What is next"
    section = add_section(page, "problem", title)
    for run in failed:
        _trouble(section, "error", f"{path_text(failed_at(run))} failed", run.error or "")
    for one in asked:
        text = "\n".join(block(one.value, 0, _TEXT_WIDTH))
        if one.response_schema is not None:
            schema = "\n".join(block(one.response_schema, 2, _TEXT_WIDTH))
            text += f"\n\nThe answer must fit:\n{schema}"
        _trouble(section, "question", f"{path_text(asked_by(one))} asks", text)
    if not failed and not asked:
        add(section, "p", _MEANINGS.get(head.status, ""))
    follows = next_node_names(waiting_paths(head.step))
    add(
        section,
        "p",
        f"Head: {head.key.checkpoint_id}, step {step_number(head.number)}. Next: {follows}.",
    )
    if found.resume is not None and (resume := resume_call(head, found.resume)).call is not None:
        add(section, "h3", "Resume")
        config = f"config = {resume.config}"
        add(add(section, "pre"), "code", f"{config}\n{resume.call}")
        add(section, "p", f"This {'; '.join(resume.does)}.", class_="dim")


def add_errors(page: Element, failures: Sequence[FailedTask]) -> None:
    """Add all errors that are stored at the checkpoints of the page."""
    section = add_section(page, "errors", "Errors")
    if not failures:
        add(section, "p", "No error is stored at these checkpoints.", class_="dim")
        return
    table = add_table(section, "Errors", ("Node", "Checkpoint", "Step began", "Error", "Outcome"))
    for one in failures:
        row = add(table, "tr")
        add(row, "td", one.node)
        add(add(row, "td"), "a", one.ref, href="#checkpoints", data_place=one.place)
        add(row, "td", one.at)
        add(add(row, "td"), "pre", one.error)
        add(row, "td", one.became or "not retried")


def add_conversation(page: Element, found: Conversation | None, ref: str) -> int:
    """Add the newest messages at a checkpoint; return how many older ones are left out."""
    section = add_section(page, "conversation", "Conversation")
    if found is None or not found.turns:
        add(section, "p", "No channel holds messages.", class_="dim")
        return 0
    first = max(len(found.turns) - MOST_MESSAGES, 0)
    add(section, "p", f"Channel {found.channel} at {ref}.", class_="dim")
    for turn in found.turns[first:]:
        if turn.answers is None or turn.answers < first:
            _add_turn(section, turn, found.turns)
    return first


def add_commands(page: Element, commands: Iterable[tuple[str, str]]) -> None:
    """Add commands, each with what it does."""
    section = add_section(page, "commands", "Commands")
    listed = add(section, "dl")
    for does, text in commands:
        add(listed, "dt", does)
        add(add(add(listed, "dd"), "pre"), "code", text)


def commands(
    thread_id: str, checkpoint_id: str, ns: str, words: Sequence[str], summary: Summary
) -> Iterable[tuple[str, str]]:
    """Yield the commands that show the same from the store, each with what it does."""
    where = [] if not ns else ["--ns", ns]

    def line(*more: str) -> str:
        return shell.command("ckpt", *words, *more, ids=[thread_id])

    at = ["--at", checkpoint_id]
    yield "Show the status, and how to resume", line("show")
    yield "Draw the tree", line("show", "--tree", *where)
    yield "Show the state at the checkpoint", line("show", *at, *where)
    yield "Show what changed there", line("diff", *at, *where)
    yield "Verify the steps against what the tasks wrote", line("replay", "--verify")
    if summary.facts.can_roll_back:
        yield (
            "Plan to go back to before the failed step",
            line("rollback", "--last-good", "--dry-run"),
        )


def add_about(page: Element, info: StoreInfo, facts: Iterable[tuple[str, str]]) -> None:
    """Add what the page was made from."""
    footer = add(page, "footer")
    listed = add(footer, "dl", class_="facts")
    stored = [
        ("Store", info.url),
        ("Layout", f"{info.layout}, {info.saver}"),
        ("Engine", info.engine),
    ]
    for name, text in (*stored, *facts):
        add(listed, "dt", name)
        add(listed, "dd", text)


def _conditions(found: Summary) -> Sequence[Status]:
    return (Status.EMPTY,) if found.head is None else found.head.conditions


def _trouble(section: Element, kind: str, title: str, text: str) -> None:
    found = add(section, "div", class_=f"trouble {kind}")
    add(found, "h3", title)
    add(found, "pre", cut_text(text))


def _add_turn(section: Element, turn: Turn, turns: Sequence[Turn]) -> None:
    message = turn.message
    role = message.role if message.role in _ROLES else "other"
    said = add(section, "article", class_=f"turn {role}")
    title = add(said, "h3", message_label(message))
    facts = [f"[{turn.index}]", turn.model or ""]
    facts += [f"{turn.usage.total} tokens"] if turn.usage is not None else []
    add(title, "span", "  ".join(filter(None, facts)), class_="dim")
    _add_text(said, message.content)
    for call in turn.calls:
        _add_call(said, call, turns)


def _add_call(said: Element, call: Call, turns: Sequence[Turn]) -> None:
    answer = None if call.result is None else turns[call.result].message
    failed = answer is not None and is_error(answer)
    details = add(said, "details", class_="call failed" if failed else "call")
    what = "no result" if answer is None else "failed" if failed else ""
    label = add(details, "summary", call_text(call.call, _TEXT_WIDTH))
    if what:
        add(label, "span", f"  {what}", class_="error" if failed else "dim")
    add(details, "pre", cut_text("\n".join(block(call.call.args, 0, _TEXT_WIDTH))))
    if answer is not None:
        add(details, "h4", "Result")
        _add_text(details, answer.content)


def _add_text(parent: Element, content: Any) -> None:
    text = content_text(content) if isinstance(content, str | list) else ""
    if not text and content not in (None, "", []):
        text = "\n".join(block(content, 0, _TEXT_WIDTH))
    if len(text) <= _LONG:
        if text:
            add(parent, "p", text, class_="said")
        return
    details = add(parent, "details", class_="long")
    add(details, "summary", summary(text, _TEXT_WIDTH))
    add(details, "p", cut_text(text), class_="said")


_BUTTONS = (
    ("first", "«", "First checkpoint"),
    ("previous", "‹", "Previous checkpoint"),
    ("next", "›", "Next checkpoint"),
    ("last", "»", "Last checkpoint"),
)

_DATA = "<!-- data -->"


@dataclass(frozen=True, slots=True)
class ReportParts:
    """Everything that a page shows."""

    summary: Summary
    tree: DrawnTree
    checkpoints: CheckpointJson
    start: int
    """Place of the checkpoint that is shown first."""
    ref: str
    """Its short ref."""
    ns: str
    checkpoint_id: str
    conversation: Conversation | None
    timeline: Mapping[str, Any]
    """As `ckpt timeline -o json` prints it."""
    info: StoreInfo
    words: Sequence[str]
    """The options that name the store in a command."""
    left_out: Sequence[str]
    """What is not in the page: sentences."""
    is_redacted: bool
    version: str
    """Of `ckpt`."""
    now: datetime
    zone: tzinfo


@dataclass(frozen=True, slots=True)
class ReportPage:
    """A page, and what is not in it."""

    pieces: Iterable[str]
    """The text; it may be too long to be put together in memory."""
    left_out: Sequence[str]
    """Sentences."""


def report_page(parts: ReportParts) -> ReportPage:
    """Return the page."""
    body = element("body")
    add(body, "a", "Skip to the checkpoints", class_="skip", href="#checkpoints")
    add_heading(body, parts.summary, parts.now, parts.zone)
    # Filled last, when it is known what the sections leave out.
    notes = add(body, "div")
    main = add(body, "main")
    add_problem(main, parts.summary)
    _add_checkpoints(main, parts.tree)
    hidden_steps = add_timeline(main, parts.timeline, parts.zone)
    hidden = add_conversation(main, parts.conversation, parts.ref)
    add_errors(main, parts.checkpoints.failures)
    thread_id = parts.summary.facts.row.thread.thread_id
    listed = commands(thread_id, parts.checkpoint_id, parts.ns, parts.words, parts.summary)
    add_commands(main, listed)
    add_about(body, parts.info, _about(parts))
    left_out = [*parts.left_out]
    for n, noun, where in (
        (parts.checkpoints.without_state, "checkpoint", "listed without state"),
        (parts.tree.left_out, "row", "of the tree not drawn"),
        (hidden_steps, "step", "of the timeline not shown"),
        (hidden, "message", "of the conversation not shown"),
    ):
        if n:
            left_out.append(f"{counted(n, 'oldest ' + noun)} {where}.")
    _add_notes(notes, parts, left_out)
    return ReportPage(_document(thread_id, body, parts), left_out)


def _about(parts: ReportParts) -> Sequence[tuple[str, str]]:
    return [
        (
            "Values",
            "replaced by their types and sizes (--redact)" if parts.is_redacted else "shown",
        ),
        ("Made", f"{local_time(parts.now, parts.zone)} by ckpt {parts.version}"),
    ]


def _add_notes(notes: Element, parts: ReportParts, left_out: Sequence[str]) -> None:
    if parts.is_redacted:
        add(notes, "p", "Values are replaced by their types and sizes.", class_="note")
    if left_out:
        found = add(notes, "div", class_="note")
        for one in left_out:
            add(found, "p", one)


def _add_checkpoints(main: Element, tree: DrawnTree) -> None:
    section = add_section(main, "checkpoints", "Checkpoints")
    split = add(section, "div", class_="split")
    picture = add(
        split, "div", id="tree", class_="picture", tabindex=0, role="region", aria_label="Tree"
    )
    tree.picture.set("aria-label", "The checkpoints of the thread as a tree")
    picture.append(tree.picture)
    stepper = add(split, "div", id="stepper", hidden="hidden")
    controls = add(
        stepper, "div", class_="controls", role="group", aria_label="Choose a checkpoint"
    )
    before, after = _BUTTONS[:2], _BUTTONS[2:]
    for name, sign, label in before:
        add(controls, "button", sign, id=name, type="button", aria_label=label, title=label)
    slider = {"id": "slider", "type": "range", "min": "0", "max": "0", "value": "0"}
    add(controls, "input", None, **slider, aria_label="Checkpoint")
    for name, sign, label in after:
        add(controls, "button", sign, id=name, type="button", aria_label=label, title=label)
    add(stepper, "p", "Keys: ← → one step, Home and End the first and the last.", class_="keys dim")
    add(stepper, "p", "", id="position", class_="position", aria_live="polite")
    add(stepper, "dl", id="facts", class_="facts")
    add(stepper, "div", id="metadata", class_="state")
    add(stepper, "div", id="troubles")
    for name, title in (("changes", "Changes"), ("state", "State")):
        add(stepper, "h3", title)
        add(stepper, "div", id=name, class_="state" if name == "state" else "changes")
    add(
        add(split, "noscript"),
        "p",
        "The state at each checkpoint is shown by a script in this file, which does not run here."
        " Open the file in a browser.",
        class_="note",
    )


def _document(thread_id: str, body: Element, parts: ReportParts) -> Iterator[str]:
    folder = files("ckpt_cli.data").joinpath("report")

    def read(name: str) -> str:
        return folder.joinpath(name).read_text("utf-8")

    title = element("title")
    add(title, "x", f"{thread_id} · LangGraph thread")
    style, script = read("page.css") + read("tree.css"), read("page.js")
    page = Template(read("page.html")).substitute(
        title=html(title[0])[3:-4],
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        body=html(body),
        data=_DATA,
    )
    before, after = page.rsplit(_DATA, 1)
    yield f'{before}{{"start":{parts.start},"checkpoints":['
    for place, record in enumerate(parts.checkpoints.records):
        yield f",{record}" if place else record
    yield f"]}}{after}"


def _hash(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()
