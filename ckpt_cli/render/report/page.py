"""The page of `ckpt report`: one HTML file that loads nothing and runs only its own script."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from hashlib import sha256
from importlib.resources import files
from string import Template
from typing import Any
from xml.etree.ElementTree import Element

from ckpt_backends.model import StoreInfo
from ckpt_cli.queries.messages import Conversation
from ckpt_cli.queries.show import Summary
from ckpt_cli.render.markup import add, element, html
from ckpt_cli.render.report import sections
from ckpt_cli.render.report.checkpoints import CheckpointJson, local_time
from ckpt_cli.render.report.tables import add_section
from ckpt_cli.render.report.timeline import add_timeline
from ckpt_cli.render.tree.svg import DrawnTree
from ckpt_cli.render.values.one_line import counted

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
    sections.add_heading(body, parts.summary, parts.now, parts.zone)
    # Filled last, when it is known what the sections leave out.
    notes = add(body, "div")
    main = add(body, "main")
    sections.add_problem(main, parts.summary)
    _add_checkpoints(main, parts.tree)
    hidden_steps = add_timeline(main, parts.timeline, parts.zone)
    hidden = sections.add_conversation(main, parts.conversation, parts.ref)
    sections.add_errors(main, parts.checkpoints.failures)
    thread_id = parts.summary.facts.row.thread.thread_id
    commands = sections.commands(
        thread_id, parts.checkpoint_id, parts.ns, parts.words, parts.summary
    )
    sections.add_commands(main, commands)
    sections.add_about(body, parts.info, _about(parts))
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
