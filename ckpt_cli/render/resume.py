"""Print the call with which an application resumes a thread, and what it does."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ckpt_backends.model import Status
from ckpt_cli.core.tasks.resume import UserMetadata, user_metadata
from ckpt_cli.core.tasks.step_nodes import path_text
from ckpt_cli.render.status import counted_names
from ckpt_cli.render.terminal.fields import command_field, field
from ckpt_cli.render.terminal.safe_text import safe_text

if TYPE_CHECKING:
    from ckpt_cli.core.tasks.resume import Resume
    from ckpt_cli.core.tasks.step_nodes import NodePath
    from ckpt_cli.core.tasks.tasks import Question
    from ckpt_cli.render.terminal.styled_text import StyledLine
    from ckpt_cli.threads.checkpoint import Moment

_OWN_HANDLER, _DEFAULT_HANDLER = "__error_handler__", "__default_error_handler__"


@dataclass(frozen=True, slots=True)
class ResumeCall:
    """The call that resumes a thread from its head, in the language of the application."""

    config: str
    """What `config` stands for in the call."""
    call: str | None
    """With `...` for each answer to a question, or for a new input; None if it is not known
    whether anything is left to resume."""
    does: Sequence[str]
    """What it does: a few sentences without a subject."""


def resume_call(head: Moment, found: Resume) -> ResumeCall:
    """Return the call that resumes a thread, and what it does."""
    is_javascript = head.body.is_javascript
    given = "null" if is_javascript else "None"
    # Several tasks of one call store the same question.
    asked = list(
        {
            one.interrupt_id or (one.task_id, place): one
            for run in (*head.step.tasks, *head.step.others)
            for place, one in enumerate(run.questions)
            if one.is_open
        }.values()
    )
    if asked and found.stored_answer != "next":
        given = _answer(asked, is_javascript=is_javascript)
    elif found.runs == () and not (found.applies or found.handlers):
        given = "{...}"
    call = f"{'await ' if is_javascript else ''}graph.invoke({given}, config)"
    at = {"thread_id": head.key.thread_id}
    config = config_text(at, user_metadata(head.metadata), is_javascript=is_javascript)
    if head.conditions == (Status.UNKNOWN,):
        return ResumeCall(config, None, ("the store does not say whether a node is left to run",))
    return ResumeCall(config, call, tuple(_sentences(head, found, asked)))


def _sentences(head: Moment, found: Resume, asked: Sequence[Question]) -> Iterator[str]:
    if asked and found.stored_answer == "next":
        yield "gives the answer that is stored already to the first question"
    elif asked:
        yield "answers the question" if len(asked) == 1 else f"answers the {len(asked)} questions"
    if found.applies:
        results, them = ("results", "them") if len(found.applies) > 1 else ("result", "it")
        yield f"uses the saved {results} of {_names(found.applies)} without running {them}"
    yield from _runs(head, found)
    if found.saved_inside:
        yield "before LangGraph 1.2.16, a subgraph does not use its saved results: nodes run again"
    if found.answered:
        yield (
            f"gives {_names(found.answered)} the same answer again: it is stored, and comes before"
            " any other"
        )
    if found.stored_answer == "again" and asked:
        yield "without an answer, the last one is used again"
    elif found.stored_answer in ("again", "next") and not asked:
        yield "if a node asks, it gets the answer that was given last"
    elif found.stored_answer == "unused":
        yield "the answer that was given last is stored, too, but no question gets it"
    if head.conditions == (Status.PENDING,):
        yield "first make sure that no run is in progress"


def _runs(head: Moment, found: Resume) -> Iterator[str]:
    """Yield which nodes and error handlers run."""
    if head.step.next is None and Status.ERROR in head.conditions:
        yield "runs the failed task again; the store does not say whether others run"
        return
    if found.possible:
        yield (
            f"runs {_names(found.possible)}; those that are deferred run later, and the store does"
            " not say which they are"
        )
        return
    if found.runs is None:
        yield "goes on, but the store does not say which node runs"
        return
    repeats = set(found.repeats)
    again = [path for path in found.runs if path in repeats]
    fresh = [path for path in found.runs if path not in repeats]
    parts = []
    if again:
        parts.append(f"{_names(again)} again")
    if fresh:
        parts.append(_names(fresh))
    for path in found.handlers:
        parts.append(handler_words(path) + (" again" if path in repeats else ""))
    if parts:
        yield "runs " + ", and ".join(parts)
    elif found.applies:
        yield "ends there: no node is left to run"
    else:
        yield "starts a new run with a new input"


def handler_words(path: NodePath) -> str:
    """Return the name of an error handler for people: `the error handler of charge`."""
    name = path[-1]
    if name == _DEFAULT_HANDLER:
        words = "the default error handler"
    else:
        words = f"the error handler of {safe_text(name.removeprefix(_OWN_HANDLER))}"
    return words if len(path) == 1 else f"{words} in {_names([path[:-1]])}"


def resume_lines(head: Moment, found: Resume, width: int) -> Iterator[StyledLine]:
    """Yield the call that resumes a thread from its head, and what it does."""
    call = resume_call(head, found)
    if call.call is not None:
        yield from field("resume", call.call, width)
        for sentence in call.does:
            yield from field("", sentence, width, "dim")


def config_lines(head: Moment, found: Resume) -> Iterator[StyledLine]:
    """Yield what `config` stands for in that call."""
    call = resume_call(head, found)
    if call.call is not None:
        yield command_field("config", call.config)


def resume_record(head: Moment, found: Resume) -> dict[str, Any]:
    """Return the same for JSON; `runs` is null if it cannot be told."""
    call = resume_call(head, found)
    return {
        "configurable": {"thread_id": head.key.thread_id},
        "metadata": dict(user_metadata(head.metadata)),
        "call": call.call,
        "does": "; ".join(call.does),
        "runs": None if found.runs is None else _texts(found.runs),
        "applies": _texts(found.applies),
        "asks": _texts(found.asks),
        "handlers": _texts(found.handlers),
        "repeats": _texts(found.repeats),
        **({"possible": _texts(found.possible)} if found.possible else {}),
        **({"assumed": True} if found.assumed else {}),
        **({"answered": _texts(found.answered)} if found.answered else {}),
        **({"stored_answer": found.stored_answer} if found.stored_answer else {}),
    }


def _names(paths: Collection[NodePath]) -> str:
    return counted_names(_texts(paths))


def _texts(paths: Collection[NodePath]) -> list[str]:
    return [path_text(path) for path in paths]


def config_text(
    configurable: Mapping[str, str], metadata: UserMetadata, *, is_javascript: bool
) -> str:
    """Return a config as a literal of the language, with `...` for each value that is hidden."""
    parts = {"configurable": configurable, **({"metadata": metadata} if metadata else {})}
    shown = {name: _mapping(part, is_javascript=is_javascript) for name, part in parts.items()}
    keys = {name: name if is_javascript else f'"{name}"' for name in parts}
    return f"{{{', '.join(f'{keys[name]}: {text}' for name, text in shown.items())}}}"


def _mapping(found: UserMetadata, *, is_javascript: bool) -> str:
    def key(name: str) -> str:
        is_bare = is_javascript and name.isascii() and name.isidentifier()
        return name if is_bare else literal(name, is_javascript=is_javascript)

    def value(one: str | int | float | bool | None) -> str:
        if isinstance(one, str):
            return literal(one, is_javascript=is_javascript)
        if one is None:
            return "..."
        return json.dumps(one) if is_javascript else repr(one)

    return f"{{{', '.join(f'{key(name)}: {value(one)}' for name, one in found.items())}}}"


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
