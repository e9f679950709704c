"""The HTML page about a thread."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from hashlib import sha256
from html import escape
from importlib.resources import files
from itertools import islice
from string import Template
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

from ckpt_backends import shell
from ckpt_backends.codec import to_json
from ckpt_backends.codec.values import Value
from ckpt_backends.model import Status
from ckpt_cli.core import tasks
from ckpt_cli.core.conversation import Call, Turn, content_text, is_error
from ckpt_cli.core.timeline import OpenStep, Timeline
from ckpt_cli.core.tree import Key
from ckpt_cli.queries.history import Entry
from ckpt_cli.queries.messages import Conversation
from ckpt_cli.queries.report import Report, ReportedCheckpoint
from ckpt_cli.queries.show import Summary
from ckpt_cli.render import timeline
from ckpt_cli.render.history import given_text
from ckpt_cli.render.show import PLAINTEXT, resume_call
from ckpt_cli.render.table import age, duration, size, step_number
from ckpt_cli.render.text import Style, StyledLine, Ui, safe_json, safe_text
from ckpt_cli.render.threads import counted_names, next_node_names, user_of
from ckpt_cli.render.tree import has_zones
from ckpt_cli.render.tree_pictures import add, draw_tree, element, html
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
    body = "\n".join(
        "".join(
            f'<span style="{STYLES[style]}">{escape(text)}</span>'
            if style in STYLES
            else escape(text)
            for text, style in one.spans
        )
        for one in lines
    )
    return f'<pre style="font-family:monospace;line-height:1.25;white-space:pre">{body}</pre>'


def add_section(page: Element, name: str, title: str) -> Element:
    """Add a section with a title, which also names the section for screen readers."""
    section = add(page, "section", id=name, aria_labelledby=f"{name}-title")
    add(section, "h2", title, id=f"{name}-title")
    return section


def add_table(section: Element, label: str, *headers: Element) -> Element:
    """Add a table and return its body."""
    # A wide table scrolls by itself, so that the page does not.
    box = add(section, "div", class_="scrolls", tabindex=0, role="region", aria_label=label)
    table = add(box, "table")
    add_row(add(table, "thead"), *headers)
    return add(table, "tbody")


def add_row(table: Element, *cells: str | Element) -> None:
    """Add a row of cells; a text and another element become one."""
    row = add(table, "tr")
    for one in cells:
        if isinstance(one, str):
            add(row, "td", one)
        else:
            (row if one.tag in {"td", "th"} else add(row, "td")).append(one)


def header(text: str, **attributes: str) -> Element:
    """Return the title of a column."""
    return element("th", text, scope="col", **attributes)


# The checkpoints, as the script of the page reads them.


LONGEST_TEXT = 20_000
"""Characters of a text in a value that are kept."""
LARGEST_CHANNEL = 1 << 20
"""Characters of a channel, as JSON, that are kept."""
MOST_BYTES = 16 << 20
"""Characters of checkpoints in a page. The newest states come first."""
_WIDTH = 160
_MOST_LINES = 200
"""Lines of changes at one checkpoint."""
_QUESTION_WIDTH = 80
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def bounded(value: Value) -> Any:
    """Return a value in JSON form; what is too long is cut, and says so."""
    form: Any = to_json(value)
    if len(_JSON.encode(form)) <= LONGEST_TEXT:
        return form
    form = _shortened(form)
    text = _JSON.encode(form)
    if len(text) <= LARGEST_CHANNEL:
        return form
    return _cut(text[:LONGEST_TEXT], f"{size(len(text))} of JSON in all")


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


def cut_text(text: str) -> str:
    """Return a text, cut if it is too long."""
    more = len(text) - LONGEST_TEXT
    return text if more <= 0 else f"{text[:LONGEST_TEXT]}… ({more} more characters)"


class StateTexts:
    """States of many checkpoints in little space: each JSON text is kept once, with a number.

    A channel is one of these: the number of its text; for a list, runs `[FIRST, COUNT]` of the
    numbers of its items; for an object, the number of each of its values.
    """

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        """Text to number, counted from 0."""
        self.size = 0
        """Characters of all texts."""

    def state(self, values: Mapping[str, Value]) -> dict[str, Any]:
        """Return the channels of a state."""
        return {name: self._channel(bounded(value)) for name, value in values.items()}

    def _channel(self, form: Any) -> Any:
        if isinstance(form, dict):
            return {key: self._number(one) for key, one in form.items()}
        if not isinstance(form, list):
            return self._number(form)
        runs: list[list[int]] = []
        for number in map(self._number, form):
            if runs and sum(runs[-1]) == number:
                runs[-1][1] += 1
            else:
                runs.append([number, 1])
        return runs

    def _number(self, form: Any) -> int:
        text = _JSON.encode(form)
        number = self.numbers.setdefault(text, len(self.numbers))
        self.size += len(text) if number == len(self.numbers) - 1 else 0
        return number


class FailedTask(NamedTuple):
    """An error that is stored at a checkpoint of a report."""

    place: int
    ref: str
    at: str
    """When its step began."""
    node: str
    error: str
    became: str
    """`retried`, `handled` or `''`."""


class PageData(NamedTuple):
    """The checkpoints of a page."""

    text: str
    """JSON: `{"start": PLACE, "checkpoints": [...], "values": [...]}`."""
    without_state: int
    """Number of the oldest checkpoints of which the state does not fit into the page."""
    failures: Sequence[FailedTask]
    """Oldest first."""


def page_data(
    report: Report, found: Iterable[ReportedCheckpoint], rows: Mapping[Key, int], zone: tzinfo
) -> PageData:
    """Return the checkpoints of a report, oldest first.

    `found` has them newest first; `rows` are their rows in the picture of the tree.
    """
    # A table without a primary key may have a checkpoint twice.
    places = {key: place for place, key in enumerate(dict.fromkeys(report.chosen.keys))}
    records = [""] * len(places)
    texts = StateTexts()
    failures: list[FailedTask] = []
    used = without_state = 0
    for one in found:
        moment = one.entry.moment
        key = moment.key.checkpoint_ns, moment.key.checkpoint_id
        place, ref, failed = places[key], _ref(key[1], report.tree.refs), _failures(one.entry)
        at = local_time(moment.at, zone)
        record: dict[str, Any] = {
            "id": key[1],
            "ns": key[0],
            "step": moment.number,
            "made": _made(one.entry, report.tree.refs),
            "row": rows.get(key),
            "facts": list(filter(lambda fact: fact[1], _facts(one.entry, report.tree.refs, at))),
            "metadata": {name: bounded(value) for name, value in moment.metadata.items()},
            "troubles": [*map(_error, failed), *_questions(one.entry)],
            "rebuilt": dict(one.state.rebuilt),
        }
        if used + texts.size < MOST_BYTES:
            record["state"] = texts.state(one.state.values)
            if one.before is not None:
                record |= {"changed": list(one.changes), "changes": _changes(one)}
        else:
            without_state += 1
        records[place] = _JSON.encode(record)
        used += len(records[place])
        failures += (FailedTask(place, ref, at, *error) for error in failed)
    failures.sort(key=lambda one: one.place)
    start = places[report.target.checkpoint_ns, report.target.checkpoint_id]
    parts = f'"checkpoints":[{",".join(records)}],"values":[{",".join(texts.numbers)}]'
    return PageData(f'{{"start":{start},{parts}}}', without_state, failures)


def _changes(one: ReportedCheckpoint) -> list[list[list[str]]]:
    """Return what changed since the parent: lines of pieces, each a style and a text."""
    lines = diff_text(one.changes, width=_WIDTH)
    shown = [[[style, text] for text, style in line.spans] for line in islice(lines, _MOST_LINES)]
    if more := sum(1 for _ in lines):
        shown.append([["dim", f"… {more} more lines"]])
    return shown


def _ref(checkpoint_id: str, refs: Mapping[str, str]) -> str:
    return refs.get(checkpoint_id) or checkpoint_id[-8:]


def _facts(entry: Entry, refs: Mapping[str, str], at: str) -> Iterator[tuple[str, str]]:
    """Yield what a list tells of a checkpoint; a text is empty if there is nothing to tell."""
    moment, parent_id = entry.moment, entry.moment.checkpoint.parent_checkpoint_id
    yield "Checkpoint", moment.key.checkpoint_id
    yield "Namespace", moment.key.checkpoint_ns
    yield "Made from", "" if parent_id is None else _ref(parent_id, refs)
    yield "Saved", at
    yield "Input", "" if entry.given is None else cut_text(given_text(entry.given))
    yield "Next", next_node_names(tasks.next_paths(moment.step))
    yield "Status", "" if entry.children else ", ".join(moment.conditions)
    yield "Writes", str(len(moment.writes) or "")
    if entry.operation is not None:
        done = entry.operation.operation
        yield "Operation", f"{done.action} {done.op}" + (f": {done.reason}" if done.reason else "")
    yield "Cannot be read", moment.body.problem.reason if moment.body.problem is not None else ""
    yield "Warning", PLAINTEXT if entry.plaintext else ""


def _failures(entry: Entry) -> list[tuple[str, str, str]]:
    """Return each error with its node, and with what became of it."""
    ns = entry.moment.key.checkpoint_ns
    return [
        (
            tasks.path_text(tasks.node_path(ns, tasks.failed_at(run))),
            cut_text(run.error),
            tasks.RETRIED if run.finished else tasks.HANDLED if run.handled else "",
        )
        for run in entry.moment.step.runs
        if run.error is not None
    ]


def _error(found: tuple[str, str, str]) -> tuple[str, str, str]:
    """Return an error as the page shows it: kind, title and text."""
    node, error, became = found
    return "error", f"{node} failed" + (f" ({became})" if became else ""), error


def _questions(entry: Entry) -> Iterator[tuple[str, str, str]]:
    """Yield each question in the same form."""
    for one in entry.moment.step.questions:
        node = tasks.path_text(tasks.node_path(entry.moment.key.checkpoint_ns, tasks.asked_by(one)))
        text = cut_text("\n".join(block(one.value, 0, _QUESTION_WIDTH)))
        yield "question", f"{node} asks" + (" (answered)" if one.answered else ""), text


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
        return f"fork of {_ref(origin, refs)}" if isinstance(origin, str) else "fork"
    return "?" if nodes is None else counted_names(nodes) or "?"


# The sections.


MOST_STEPS = 200
_DEEPEST = 6
"""Levels of subgraphs that are told apart by their indent."""


def add_timeline(page: Element, found: Timeline, zone: tzinfo) -> int:
    """Add the newest steps of `ckpt timeline`; return how many older ones are left out."""
    section = add_section(page, "timeline", "Timeline")
    if found.seconds is None:
        add(section, "p", "The store holds no times of this thread.", class_="dim")
        return 0
    said = "A step takes from the checkpoint before it to its own, which is saved at its end."
    add(section, "p", f"{timeline.spent_text(found)}. {said}", class_="dim")
    steps = list(filter(timeline.is_shown, found.steps))
    number = header("Duration", class_="number")
    heads = (*map(header, ("Step", "Nodes", "Saved")), number, header(""))
    table = add_table(section, "Steps", *heads)
    for row in timeline.bar_rows(steps[-MOST_STEPS:]):
        _add_step(table, row, zone)
    if found.open is not None:
        _add_open(table, found.open, zone)
    if found.nodes:
        add(section, "h3", "By node")
        names = ("Runs", "Total", "Median", "95 %", "Longest")
        numbers = (header(name, class_="number") for name in names)
        table = add_table(section, "Nodes", header("Node"), *numbers)
        for name, node in timeline.by_total(found.nodes).items():
            one = timeline.NODE_TIME.record(node)
            times = (_time_text(one[key]) for key in ("seconds", "p50", "p95", "max"))
            texts = (str(one["runs"]), *times)
            add_row(table, name, *(element("td", text, class_="number") for text in texts))
    return max(len(steps) - MOST_STEPS, 0)


def _time_text(seconds: float | None) -> str:
    return "" if seconds is None else duration(seconds)


def _add_step(table: Element, row: timeline.BarRow, zone: tzinfo) -> None:
    nodes = element("td", class_=f"depth-{min(row.depth, _DEEPEST)}")
    add(nodes, "span", row.name)
    if row.mark:
        add(nodes, "span", f"  {row.mark}", class_="dim")
    bar: str | Element = ""
    if row.length is not None:
        begins = min(row.begins, 1)
        bar = _bar(row.kind, begins * 100, max(min(row.length, 1 - begins) * 100, 0.5))
    took = element("td", _time_text(row.seconds), class_="number")
    add_row(table, row.number, nodes, _when(row.end, zone), took, bar)


def _bar(kind: str, begins: float, width: float) -> Element:
    """Return a bar, whose ends are given in per cent; only that of a run is thick."""
    bar = element("svg", class_="bar", viewBox="0 0 100 10", aria_hidden="true")
    bar.set("preserveAspectRatio", "none")
    y, height = (2, 6) if kind == "run" else (4, 2)
    add(bar, "rect", class_=kind, x=begins, y=y, width=width, height=height)
    return bar


def _add_open(table: Element, step: OpenStep, zone: tzinfo) -> None:
    nodes = element("td", counted_names(step.nodes))
    add(nodes, "span", f" {timeline.open_words(step)} since", class_="dim")
    kind = "human" if step.kind == "human" else "idle"
    add_row(table, "now", nodes, _when(step.since, zone), "", _bar(kind, 0, 100))


def _when(at: datetime | None, zone: tzinfo) -> Element:
    date, _, clock = local_time(at, zone)[:19].partition(" ")
    cell = element("td", class_="when")
    add(cell, "span", f"{date} ", class_="date")
    add(cell, "span", clock)
    return cell


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


def heading(found: Summary, ui: Ui) -> Element:
    """Return the thread's id, its status, and how large and how old it is."""
    thread, stored = found.thread.row.thread, found.thread.size
    head = element("header")
    add(head, "p", "LangGraph thread", class_="kind")
    add(head, "h1", thread.thread_id or "''")
    marks = add(head, "p", class_="marks")
    for status in (Status.EMPTY,) if found.head is None else found.head.moment.conditions:
        add(marks, "span", status.value, class_=f"mark {status.value}")
    user = user_of(found.thread.row)
    facts = [] if user is None else [f"user {user}"]
    facts.append(counted(thread.checkpoints, "checkpoint"))
    if stored is not None:
        facts += [counted(stored.writes, "write"), size(stored.bytes)]
    add(head, "p", " · ".join(facts), class_="dim")
    times = [
        f"{name} {local_time(at, ui.zone)} ({age(at, ui.now)} ago)"
        for name, at in (("begun", thread.first_at), ("last active", thread.last_at))
        if at is not None
    ]
    add(head, "p", " · ".join(times), class_="dim")
    return head


def add_problem(page: Element, found: Summary) -> None:
    """Add the errors and questions for which the thread waits, and the call that resumes it."""
    if found.head is None:
        add(add_section(page, "problem", "What is next"), "p", _MEANINGS[Status.EMPTY])
        return
    head, known = found.head.moment, found.head.resume
    failed = list(filter(tasks.has_failed, head.step.runs))
    asked = head.step.open_questions
    title = "What is wrong" if failed else "What it waits for" if asked else "What is next"
    section = add_section(page, "problem", title)
    for run in failed:
        _add_trouble(
            section, "error", f"{tasks.path_text(tasks.failed_at(run))} failed", run.error or ""
        )
    for one in asked:
        text = "\n".join(block(one.value, 0, _TEXT_WIDTH))
        if one.response_schema is not None:
            schema = "\n".join(block(one.response_schema, 2, _TEXT_WIDTH))
            text += f"\n\nThe answer must fit:\n{schema}"
        _add_trouble(section, "question", f"{tasks.path_text(tasks.asked_by(one))} asks", text)
    if not failed and not asked:
        add(section, "p", _MEANINGS.get(head.status, ""))
    follows = next_node_names(tasks.waiting_paths(head.step))
    words = f"Head: {head.key.checkpoint_id}, step {step_number(head.number)}. Next: {follows}."
    add(section, "p", words)
    if known is not None and (resume := resume_call(head, known)).call is not None:
        add(section, "h3", "Resume")
        config = f"config = {resume.config}"
        add(add(section, "pre"), "code", f"{config}\n{resume.call}")
        add(section, "p", f"This {'; '.join(resume.does)}.", class_="dim")


def _add_trouble(section: Element, kind: str, title: str, text: str) -> None:
    found = add(section, "div", class_=f"trouble {kind}")
    add(found, "h3", title)
    add(found, "pre", cut_text(text))


def add_errors(page: Element, failures: Sequence[FailedTask]) -> None:
    """Add all errors that are stored at the checkpoints of the page."""
    section = add_section(page, "errors", "Errors")
    if not failures:
        add(section, "p", "No error is stored at these checkpoints.", class_="dim")
        return
    heads = map(header, ("Node", "Checkpoint", "Step began", "Error", "Outcome"))
    table = add_table(section, "Errors", *heads)
    for one in failures:
        link = element("a", one.ref, href="#checkpoints", data_place=one.place)
        error = element("pre", one.error)
        add_row(table, one.node, link, one.at, error, one.became or "not retried")


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


def add_commands(page: Element, report: Report, words: Sequence[str]) -> None:
    """Add the commands that show the same from the store, each with what it does."""
    listed = add(add_section(page, "commands", "Commands"), "dl")
    where = ["--ns", report.target.checkpoint_ns] if report.target.checkpoint_ns else []
    at = ["--at", report.target.checkpoint_id]
    commands = [
        ("Show the status, and how to resume", ["show"]),
        ("Draw the tree", ["show", "--tree", *where]),
        ("Show the state at the checkpoint", ["show", *at, *where]),
        ("Show what changed there", ["diff", *at, *where]),
        ("Verify the steps against what the tasks wrote", ["replay", "--verify"]),
    ]
    if report.summary.thread.can_roll_back:
        rollback = ["rollback", "--last-good", "--dry-run"]
        commands.append(("Plan to go back to before the failed step", rollback))
    for does, command in commands:
        text = shell.command("ckpt", *words, *command, ids=[report.target.reader.thread_id])
        add(listed, "dt", does)
        add(add(add(listed, "dd"), "pre"), "code", text)


def report_page(
    report: Report, found: Iterable[ReportedCheckpoint], words: Sequence[str], version: str, ui: Ui
) -> tuple[str, list[str]]:
    """Return the page, and sentences about what is not in it.

    `words` are the options that name the store in a command, `version` that of `ckpt`.
    """
    tree = draw_tree(report.tree, ui.zone)
    data = page_data(report, found, tree.rows, ui.zone)
    target = report.target
    before, after, notes = element("main"), element("main"), element("div")
    add_problem(before, report.summary)
    hidden_steps = add_timeline(after, report.timeline, ui.zone)
    ref = report.tree.refs.get(target.checkpoint_id, target.checkpoint_id)
    hidden_messages = add_conversation(after, report.conversation, ref)
    add_errors(after, data.failures)
    add_commands(after, report, words)
    left_out = [
        *_not_included(report),
        *(
            f"{counted(n, 'oldest ' + noun)} {where}."
            for n, noun, where in (
                (data.without_state, "checkpoint", "listed without state"),
                (tree.left_out, "row", "of the tree not drawn"),
                (hidden_steps, "step", "of the timeline not shown"),
                (hidden_messages, "message", "of the conversation not shown"),
            )
            if n
        ),
    ]
    if report.is_redacted:
        add(notes, "p", "Values are replaced by their types and sizes.", class_="note")
    if left_out:
        note = add(notes, "div", class_="note")
        for one in left_out:
            add(note, "p", one)
    tree.picture.set("aria-label", "The checkpoints of the thread as a tree")
    page = _document(
        title=escape(safe_text(f"{target.reader.thread_id} · LangGraph thread"), quote=False),
        heading=html(heading(report.summary, ui)),
        notes=html(notes),
        before="".join(map(html, before)),
        tree=html(tree.picture),
        after="".join(map(html, after)),
        about=html(_about(report, version, ui)),
        # Base64 has no sign that could end the element it stands in.
        data=b64encode(zlib.compress(safe_json(data.text).encode())).decode(),
    )
    return page, left_out


def _about(report: Report, version: str, ui: Ui) -> Element:
    """Return what the page was made from."""
    about = element("dl", class_="facts")
    values = "replaced by their types and sizes (--redact)" if report.is_redacted else "shown"
    for name, text in (
        ("Store", report.info.url),
        ("Layout", f"{report.info.layout}, {report.info.saver}"),
        ("Engine", report.info.engine),
        ("Values", values),
        ("Made", f"{local_time(ui.now, ui.zone)} by ckpt {version}"),
    ):
        add(about, "dt", name)
        add(about, "dd", text)
    return about


def _not_included(report: Report) -> Iterator[str]:
    chosen = report.chosen
    if chosen.older:
        option = "an earlier --since" if chosen.before_since else "--last N"
        yield f"{counted(chosen.older, 'older checkpoint')} not included; {option} adds more."
    if chosen.in_calls:
        number = counted(chosen.in_calls, "checkpoint")
        yield f"{number} in other namespaces not included; --all-ns adds them."


def _document(**parts: str) -> str:
    folder = files("ckpt_cli.data").joinpath("report")
    page, *styles, script = (
        folder.joinpath(name).read_text("utf-8")
        for name in ("page.html", "page.css", "tree.css", "page.js")
    )
    style = "".join(styles)
    hashes = {"style_hash": _hash(style), "script_hash": _hash(script)}
    return Template(page).substitute(parts, **hashes, style=style, script=script)


def _hash(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()
