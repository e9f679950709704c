"""The parts of a report that need no script: what is wrong, conversation, errors, commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, tzinfo
from typing import Any
from xml.etree.ElementTree import Element

from ckpt_backends import shell
from ckpt_backends.model import Status, StoreInfo
from ckpt_cli.core.conversation.messages import content_text
from ckpt_cli.core.conversation.transcript import Call, Turn, is_error
from ckpt_cli.core.tasks.status import has_failed
from ckpt_cli.core.tasks.step_nodes import asked_by, failed_at, path_text, waiting_paths
from ckpt_cli.queries.messages import Conversation
from ckpt_cli.queries.show import Summary
from ckpt_cli.render.markup import add
from ckpt_cli.render.report.checkpoints import FailedTask, local_time
from ckpt_cli.render.report.state_changes import cut_text
from ckpt_cli.render.report.tables import add_section, add_table
from ckpt_cli.render.resume import resume_call
from ckpt_cli.render.status import next_node_names
from ckpt_cli.render.terminal.units import age, size, step_number
from ckpt_cli.render.values.block import block
from ckpt_cli.render.values.one_line import call_text, counted, message_label, summary

MOST_MESSAGES = 200
_LONG = 1500
"""Characters of a message that are not folded."""
_WIDTH = 100
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
        text = "\n".join(block(one.value, 0, _WIDTH))
        if one.response_schema is not None:
            schema = "\n".join(block(one.response_schema, 2, _WIDTH))
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
    label = add(details, "summary", call_text(call.call, _WIDTH))
    if what:
        add(label, "span", f"  {what}", class_="error" if failed else "dim")
    add(details, "pre", cut_text("\n".join(block(call.call.args, 0, _WIDTH))))
    if answer is not None:
        add(details, "h4", "Result")
        _add_text(details, answer.content)


def _add_text(parent: Element, content: Any) -> None:
    text = content_text(content) if isinstance(content, str | list) else ""
    if not text and content not in (None, "", []):
        text = "\n".join(block(content, 0, _WIDTH))
    if len(text) <= _LONG:
        if text:
            add(parent, "p", text, class_="said")
        return
    details = add(parent, "details", class_="long")
    add(details, "summary", summary(text, _WIDTH))
    add(details, "p", cut_text(text), class_="said")
