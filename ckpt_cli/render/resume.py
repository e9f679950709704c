"""Print the call with which an application resumes a thread."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ckpt_backends.model import Status
from ckpt_cli.core.tasks.status import has_failed
from ckpt_cli.render.status import counted_names
from ckpt_cli.render.terminal.fields import field

if TYPE_CHECKING:
    from ckpt_cli.core.tasks.tasks import Question
    from ckpt_cli.render.terminal.styled_text import StyledLine
    from ckpt_cli.threads.checkpoint import Moment


@dataclass(frozen=True, slots=True)
class ResumeCall:
    """The call that resumes a thread from its head, in the language of the application."""

    config: str
    """What `config` stands for in the call."""
    call: str
    """With `...` for each answer to a question, or for a new input."""
    does: str


def resume_call(head: Moment) -> ResumeCall | None:
    """Return the call that resumes a thread; None if it is not known what would run."""
    step = head.step
    is_javascript = head.body.is_javascript
    runs = (*step.tasks, *step.others)
    asked = [one for run in runs for one in run.questions if not one.answered]
    retried = [run.node for run in runs if has_failed(run)]
    failed = "the failed task"
    if None not in retried:
        failed = counted_names([node for node in retried if node is not None])
    given = "null" if is_javascript else "None"
    if Status.INTERRUPTED in head.conditions:
        given = _answer(asked, is_javascript=is_javascript)
        does = "answers " + ("the question" if len(asked) == 1 else f"the {len(asked)} questions")
        does += f" and runs {failed} again" if retried else ""
    elif Status.ERROR in head.conditions:
        does = f"runs {failed} again"
    elif step.next == ():
        given, does = "{...}", "starts a new run with a new input"
    elif step.next is None:
        return None
    else:
        nodes = counted_names(step.waiting or step.next)
        does = f"runs {nodes}; first make sure that no run is in progress"
    call = f"graph.invoke({given}, config)"
    return ResumeCall(
        _config(head.key.thread_id, is_javascript=is_javascript),
        f"await {call}" if is_javascript else call,
        does,
    )


def resume_lines(head: Moment, width: int) -> Iterator[StyledLine]:
    """Yield the call that resumes a thread from its head, and what it does."""
    found = resume_call(head)
    if found is not None:
        yield from field("resume", found.call, width)
        yield from field("", found.does, width, "dim")


def config_lines(head: Moment, width: int) -> Iterator[StyledLine]:
    """Yield what `config` stands for in that call."""
    found = resume_call(head)
    if found is not None:
        yield from field("config", found.config, width)


def resume_record(head: Moment) -> dict[str, Any] | None:
    """Return the same for JSON."""
    found = resume_call(head)
    if found is None:
        return None
    configurable = {"thread_id": head.key.thread_id}
    return {"configurable": configurable, "call": found.call, "does": found.does}


def _config(thread_id: str, *, is_javascript: bool) -> str:
    text = literal(thread_id, is_javascript=is_javascript)
    if is_javascript:
        return f"{{configurable: {{thread_id: {text}}}}}"
    return f'{{"configurable": {{"thread_id": {text}}}}}'


def _answer(asked: Sequence[Question], *, is_javascript: bool) -> str:
    """Return the command that answers questions, with `...` for each answer."""
    ids = [one.interrupt_id for one in asked]
    texts = [literal(one, is_javascript=is_javascript) for one in ids if one is not None]
    answers = ", ".join(f"{text}: ..." for text in texts)
    answer = f"{{{answers}}}" if len(texts) == len(ids) else "..."
    return f"new Command({{resume: {answer}}})" if is_javascript else f"Command(resume={answer})"


def literal(text: str, *, is_javascript: bool) -> str:
    """Return a text that a store holds as a string of the language: pasted, it does nothing."""
    if text.isprintable() and not set(text) & {'"', "\\"}:
        return f'"{text}"'
    return json.dumps(text) if is_javascript else repr(text)
