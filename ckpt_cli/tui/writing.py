"""`ckpt tui --write`: what the keys of the main screen do that change the store.

This is the only module of the package that can change a store; it is imported only for `--write`.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, tzinfo
from functools import partial
from pathlib import Path
from typing import ClassVar, Generic, TypeAlias, TypeVar

from textual import work
from textual.app import ComposeResult, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.widgets import Input, Label, Static
from textual.worker import WorkerCancelled

from ckpt_backends.errors import CkptError, StoreUnavailable, UsageError, reason_of
from ckpt_backends.files import TemporaryFolder, read_regular, writing
from ckpt_backends.model import CheckpointKey
from ckpt_backends.platform import ENDING
from ckpt_backends.protocol import Store
from ckpt_cli.apply.changes import carry_out
from ckpt_cli.apply.purge import run_purge
from ckpt_cli.apply.recording import Recorder
from ckpt_cli.core.retention import PurgeReport
from ckpt_cli.ending import heed, restored, unwind
from ckpt_cli.operations.log import user_name
from ckpt_cli.plans.purge import Policy
from ckpt_cli.render.purge import RemovedThreads, removal_lines
from ckpt_cli.render.purge import question as question_of
from ckpt_cli.render.text import StyledLine, Ui, line, safe_text
from ckpt_cli.tui import plans
from ckpt_cli.tui.command_line import match_of, purge_command, write_command
from ckpt_cli.tui.reading import ask, say, screen_hint, screen_message, show_error
from ckpt_cli.tui.screens.dialogs import KeyLine, PlanScreen
from ckpt_cli.tui.screens.main import MainScreen
from ckpt_cli.tui.styles import as_text, title

_LONGEST_EDIT = 256 << 20
_PATIENCE = 2.0
"""Seconds in which an editor that was told to end can restore the terminal."""


def editor_of(environment: Mapping[str, str]) -> list[str]:
    """The command line of the user's editor. Raises `UsageError` if it cannot be parsed."""
    for name in ("VISUAL", "EDITOR"):
        text = environment.get(name, "")
        try:
            command = shlex.split(text)
        except ValueError as error:
            raise UsageError(
                f"cannot run the editor in {name}: {str(error).lower()}", hint=f"export {name}=vim"
            ) from None
        if command:
            return command
    return ["vi"]


def edit(command: list[str], text: str) -> str:
    """Let an editor change a text in a private file, which is removed afterwards.

    Raises `CkptError` if the editor fails, or if the file is no text afterwards.
    """
    with TemporaryFolder() as folder:
        path = folder / "value.json"
        try:
            with writing(path) as file:
                file.write(text.encode("utf-8", "surrogatepass"))
            code = _run([*command, str(path)])
        except (OSError, ValueError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            raise CkptError(
                f"cannot run the editor '{command[0]}': {reason}", hint="export EDITOR=vim"
            ) from error
        if code:
            how = f"exit code {code}" if code > 0 else signal.Signals(-code).name
            raise CkptError(f"the editor '{command[0]}' ended with {how}; nothing was changed")
        return _read(path)


def _read(path: Path) -> str:
    try:
        return read_regular(path, _LONGEST_EDIT).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    except StoreUnavailable as error:
        reason = error.message.rpartition(": ")[2]
    except OSError as error:
        reason = reason_of(error)
    raise CkptError(f"cannot read the edited value: {reason}; nothing was changed")


def _run(command: list[str]) -> int:
    """The exit code of an editor; negative if it was killed by a signal."""
    with _signals_for_editor():
        # The user's choice of editor, run as git runs it.
        editor = subprocess.Popen(command)  # noqa: S603
        try:
            return editor.wait()
        except BaseException:
            editor.terminate()
            with suppress(subprocess.TimeoutExpired):
                editor.wait(_PATIENCE)
            editor.kill()
            editor.wait()
            raise


@contextmanager
def _signals_for_editor() -> Iterator[None]:
    """Leave Ctrl-C to the editor, and raise `Ended` at the signals that end this process.

    The screen cannot heed them while it waits for the editor.
    """
    with restored(signal.SIGINT, *ENDING):
        # Not SIG_IGN, which the editor would inherit.
        signal.signal(signal.SIGINT, lambda *_: None)
        heed(unwind)
        yield


_Result = TypeVar("_Result")
_Plan = TypeVar("_Plan")

Refuse: TypeAlias = Callable[[CkptError], None]
Planning: TypeAlias = Callable[[_Result, Refuse], Awaitable[_Plan | None]]
"""Plans what was filled in; None if there is no plan, after it called `Refuse` with the reason."""


class DialogForm(ModalScreen[_Plan | None], Generic[_Result, _Plan]):
    """Fields to fill in; Enter makes a plan of them, Escape cancels.

    The form stays until there is a plan, so that a field can be corrected.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Show plan", priority=True),
        Binding("escape", "dismiss(None)", "Cancel", key_display="Esc"),
    ]

    def __init__(
        self,
        heading: str,
        fields: Sequence[tuple[str, Input]],
        result: Callable[[], _Result],
        plan: Planning[_Result, _Plan],
    ) -> None:
        """`fields` have labels; `result` is what was filled in, and raises `UsageError`."""
        super().__init__()
        self._heading, self._fields = heading, fields
        self._result, self._plan = result, plan
        self._is_planning = False
        self._refusal = Static(id="refusal")

    def compose(self) -> ComposeResult:
        with Vertical(classes="box form") as box:
            title(box, self._heading)
            for label, field in self._fields:
                yield Label(label, markup=False)
                yield field
            yield self._refusal
        yield KeyLine()

    @work
    async def action_submit(self) -> None:
        if self._is_planning:
            return
        self._is_planning = True
        self._refusal.update()
        try:
            if (found := await self._plan(self._result(), self._refuse)) is not None:
                self.dismiss(found)
        except CkptError as error:
            self._refuse(error)
        finally:
            self._is_planning = False

    def _refuse(self, error: CkptError) -> None:
        """Say why there is no plan, below the fields."""
        told = screen_hint(error)
        hint = f"\nhint: {safe_text(told)}" if told else ""
        text = as_text(line((safe_text(screen_message(error)), "error"), hint))
        text.no_wrap = False
        self._refusal.update(text)


ForkWish: TypeAlias = tuple[str, str, plans.Kind, str | None]
"""The new thread, the channel to edit and how, and the node to continue after."""


class ForkForm(DialogForm[ForkWish, plans.Reviewed]):
    """The new thread, the channel to edit and how, and the node to continue after."""

    def __init__(self, channels: Sequence[str], plan: Planning[ForkWish, plans.Reviewed]) -> None:
        self._channels = channels
        self._to = Input(placeholder="empty: a new branch of this thread", compact=True, id="to")
        self._channel = Input(
            placeholder=safe_text(", ".join(channels)[:200]) or "none",
            # A suggestion is drawn and taken over as it is.
            suggester=SuggestFromList([one for one in channels if safe_text(one) == one]),
            compact=True,
            id="channel",
        )
        self._kind = Input(
            "replace", suggester=SuggestFromList(plans.KINDS), compact=True, id="kind"
        )
        self._node = Input(
            placeholder="empty: keep the next nodes of the checkpoint", compact=True, id="node"
        )
        fields = [
            ("New thread id", self._to),
            ("Channel to edit in $EDITOR", self._channel),
            ("How to edit: replace, set (merged by the reducer) or append", self._kind),
            ("Continue as if this node had just run", self._node),
        ]
        super().__init__("Fork", fields, self._wish, plan)

    def _wish(self) -> ForkWish:
        kind = next((one for one in plans.KINDS if one == self._kind.value), None)
        if kind is None:
            raise UsageError(
                f"cannot edit with '{self._kind.value}'", hint=f"use {', '.join(plans.KINDS)}"
            )
        return self._to.value, self._chosen(), kind, self._node.value or None

    def _chosen(self) -> str:
        """Return the channel that was typed, or the only one that starts with it.

        Raises `UsageError` if no channel, or more than one, starts with it.
        """
        typed = self._channel.value
        found = [one for one in self._channels if one.startswith(typed)]
        if not typed or typed in found:
            return typed
        if len(found) != 1:
            raise UsageError(
                f"no channel '{typed}'", hint=f"use one of {', '.join(self._channels)}"
            )
        return found[0]


class PurgeForm(DialogForm[Policy, plans.ReviewedRemoval]):
    """The threads, their age, and how many checkpoints of each to keep."""

    def __init__(
        self, match: str, now: datetime, zone: tzinfo, plan: Planning[Policy, plans.ReviewedRemoval]
    ) -> None:
        self._now, self._zone = now, zone
        self._match = Input(match, placeholder="empty: all threads", compact=True, id="match")
        self._age = Input(placeholder="30d or 2026-04-07; empty: any age", compact=True, id="age")
        self._keep = Input(placeholder="empty: remove whole threads", compact=True, id="keep")
        fields = [
            ("Match thread ids (GLOB)", self._match),
            ("Last active before", self._age),
            ("Checkpoints to keep in each thread", self._keep),
        ]
        super().__init__("Purge", fields, self._wish, plan)

    def _wish(self) -> Policy:
        values = self._match.value, self._age.value, self._keep.value
        return plans.policy_of(*values, self._now, self._zone)


_Answer = TypeVar("_Answer")

_WIDTH = 200
"""Width of the result of a purge, in columns."""
_UNDO = "; press U to undo"
_PLAN_FILE = "plan.ndjson"
_COMMENTS = re.compile("^#.*\n?", re.MULTILINE)
"""Lines of the edited file that are not part of the value: no line of JSON starts with #."""
_CANCEL = "Save to see the plan; leave it unchanged to cancel. Lines that start with # are ignored."
_HEADINGS: Mapping[plans.Kind, str] = {
    "replace": f"The value of '{{}}' as JSON.\n{_CANCEL}",
    "set": f"JSON to merge into '{{}}' by its reducer.\n{_CANCEL}",
    "append": f"JSON to append to '{{}}', as one item.\n{_CANCEL}",
}

_REPAIRS: Mapping[plans.Mending, str] = {
    "messages": "Answer these tool calls?",
    "values": "Restore these values?",
    "writes": "Drop this answer?",
}


class Writing:
    """What `--write` adds to a main screen; each change shows its plan and asks first."""

    def __init__(self, main: MainScreen) -> None:
        self._main, self._context = main, main.context
        self._planner = plans.Planner(self._context.opening, self._context.now)

    async def run(self, action: str, op: str) -> None:
        """Show the plan of a change, and carry it out if the user agrees."""
        changes: Mapping[str, Callable[[], Awaitable[None]]] = {
            "rollback": self._roll_back,
            "fork": self._fork,
            "undo": self._undo,
            "undo_operation": partial(self._undo, op),
            "repair": self._repair,
            "delete": self._delete,
            "purge": self._purge,
        }
        await changes[action]()

    # Plans

    async def _roll_back(self) -> None:
        if (place := self._main.here()) is not None:
            question = partial(self._planner.rollback, place=place)
            await self._propose(question, "Roll back this thread?", _UNDO)

    async def _undo(self, op: str = "") -> None:
        """Undo the last change of this thread, or what an operation did to it."""
        if (thread_id := self._main.here_thread()) is not None:
            question = partial(self._planner.undo, thread_id=thread_id, op=op)
            await self._propose(question, f"Undo this{' operation' if op else ''}?")

    async def _repair(self) -> None:
        finding = self._main.inspector.rows.finding
        if (thread_id := self._main.here_thread()) is None:
            return
        kind = "values" if finding is None else plans.mending(finding)
        if kind is None:
            said = "no repair mends this finding; press c for what helps"
            say(self._main, said, is_error=True)
            return
        reducers = self._context.rules.reducers
        question = partial(self._planner.repair, thread_id=thread_id, kind=kind, reducers=reducers)
        await self._propose(question, _REPAIRS[kind], _UNDO)

    async def _fork(self) -> None:
        if (place := self._main.here()) is None:
            return
        channels = await self._ask(partial(plans.channels_of, place=place))
        if channels is None:
            return
        form = ForkForm(channels, partial(self._planned_fork, place))
        if (found := await self._main.app.push_screen_wait(form)) is not None:
            await self._review(found, "Fork this checkpoint?", _UNDO)

    async def _planned_fork(
        self, place: CheckpointKey, wish: ForkWish, refuse: Refuse
    ) -> plans.Reviewed | None:
        """Return the plan of a fork, with the value that the user edits, if any."""
        to, channel, kind, node = wish
        edit = None
        if channel:
            value = partial(plans.editable, place=place, channel=channel, kind=kind)
            before = await self._ask(value, refuse)
            edit = None if before is None else self._edit(before)
            if edit is None:
                return None
        question = partial(self._planner.fork, place=place, to=to, edit=edit, as_node=node)
        return await self._ask(question, refuse)

    async def _delete(self) -> None:
        if (thread := self._main.threads_pane.rows.thread) is None:
            self._main.here_thread()
            return
        with TemporaryFolder() as folder:
            path = folder / _PLAN_FILE
            question = partial(self._planner.delete, thread_id=thread.thread_id, path=path)
            if (found := await self._ask(question)) is not None:
                await self._review_removal(found)

    async def _purge(self) -> None:
        wanted = self._main.threads_pane.listing.wanted
        if wanted.where is not None:
            said = purge_command(self._context.store_words, wanted)
            say(self._main, f"to purge by this filter, run `{said}`", is_error=True)
            return
        match = match_of(wanted.text) if wanted.text else ""
        with TemporaryFolder() as folder:
            path = folder / _PLAN_FILE

            async def plan(policy: Policy, refuse: Refuse) -> plans.ReviewedRemoval | None:
                question = partial(self._planner.purge, policy=policy, path=path)
                return await self._ask(question, refuse)

            form = PurgeForm(match, self._context.now(), self._context.zone, plan)
            if (found := await self._main.app.push_screen_wait(form)) is not None:
                await self._review_removal(found)

    async def _ask(
        self, question: Callable[[Store], _Answer], refuse: Refuse | None = None
    ) -> _Answer | None:
        """Return an answer; None after an error, which is shown."""
        shown = refuse or partial(show_error, self._main)
        return await ask(self._main, self._context.detail, question, shown)

    # Review

    async def _propose(
        self, question: Callable[[Store], plans.Reviewed], ask: str, hint: str = ""
    ) -> None:
        """Make a plan, and apply it if the user agrees."""
        if (found := await self._ask(question)) is not None:
            await self._review(found, ask, hint)

    async def _review(self, found: plans.Reviewed, ask: str, hint: str) -> None:
        """Show a plan, apply it if the user agrees, and go to the new head."""
        main = self._main
        notes = await self._carried_out(ask, found.lines, partial(self._apply, found))
        if notes is None:
            return
        # The list of threads does not show that a value changed.
        main.forget()
        await self.listed_anew()
        if found.head is not None:
            main.jump(found.head)
        is_undoable = found.head is not None or found.action == "repair"
        say(main, "; ".join([f"{found.done}{hint}" if is_undoable else found.done, *notes]))

    async def _carried_out(
        self, ask: str, lines: Callable[[int], list[StyledLine]], what: Callable[[], _Answer]
    ) -> _Answer | None:
        """Show a plan, and do what it says if the user agrees; None if not, or after an error."""
        if not await self._main.app.push_screen_wait(PlanScreen(ask, lines)):
            return None
        try:
            return await asyncio.to_thread(what)
        except CkptError as error:
            show_error(self._main, error)
            return None

    async def listed_anew(self) -> None:
        """List all threads again, and wait until that is done."""
        while True:
            # A refresh that starts at the same time replaces this one.
            with suppress(WorkerCancelled):
                await self._main.threads_pane.load().wait()
                return

    async def _review_removal(self, found: plans.ReviewedRemoval) -> None:
        """Show what would be removed, and remove it if the user agrees."""
        ask = f"{question_of(found.plan.sums)} This cannot be undone."
        removed = await self._carried_out(ask, found.lines, partial(self._remove, found))
        if removed is not None:
            report, notes = removed
            removal = RemovedThreads(found.plan, report, is_dry_run=False)
            ui = Ui(self._context.now(), width=_WIDTH)
            lines = [text.text for text in removal_lines(removal, ui)]
            say(self._main, "; ".join([*lines, *notes]), is_error=bool(report.stopped))
            self._main.threads_pane.load()

    # Writing

    def _apply(self, found: plans.Reviewed) -> Sequence[str]:
        """Record what is proposed and carry it out; return what the user has to know.

        Raises the error of what was not done.
        """
        notes = list[str]()
        recorder = self._recorder(notes.append)
        with (
            self._planner.opened() as stores,
            recorder.operation(found.action, undoes=found.undoes) as recording,
        ):
            total = len(found.proposals)
            report = carry_out(recording, found.proposals, stores, total=total)
            for error in report.errors:
                raise error
        return [one for one in (*notes, report.not_erased) if one]

    def _remove(self, found: plans.ReviewedRemoval) -> tuple[PurgeReport, Sequence[str]]:
        """Record a purge and carry it out, batch by batch; return what the user has to know, too.

        Raises what `WritableStore.remove` raises.
        """
        notes: list[str] = []
        recorder = self._recorder(notes.append)
        with recorder.operation(found.action, cannot_undo="no archive was made") as recording:
            report = run_purge(self._context.opening.url, found.plan.threads(), recording)
        return report, notes

    def _recorder(self, note: Callable[[str], None]) -> Recorder:
        context = self._context
        command = write_command(context.store_words)
        url, now = context.opening.url, context.now()
        return Recorder(url, user_name(), command, now, note, context.audit)

    # Editing

    def _edit(self, before: plans.Editable) -> plans.EditedValue | None:
        """Return the edited value; None if it was not changed.

        If the text is invalid, the editor opens again with the reason.
        """
        text, heading = before.text, _HEADINGS[before.kind].format(safe_text(before.channel))
        while (after := self.edited(text, heading)) is not None:
            try:
                # Blank lines keep the line numbers in an error those of the file.
                return before.read(_COMMENTS.sub("\n", after))
            except UsageError as error:
                text, heading = _COMMENTS.sub("", after), _refusal(error)
        return None

    def edited(self, text: str, heading: str) -> str | None:
        """Open a text below a heading in the user's editor.

        Returns what the editor saved, with the heading; None if nothing was changed.
        """
        try:
            command = editor_of(os.environ)
            with self._main.app.suspend():
                after = edit(command, f"{_comments(heading)}{text}")
        except CkptError as error:
            show_error(self._main, error)
            return None
        except SuspendNotSupported:
            say(self._main, "cannot start an editor in this terminal", is_error=True)
            return None
        if _COMMENTS.sub("", after) == text:
            say(self._main, "the value was not changed; nothing to do")
            return None
        return after


def _refusal(error: UsageError) -> str:
    """Return why a text was rejected, and what to do."""
    told = screen_hint(error)
    hint = f"hint: {told}\n" if told else ""
    return f"{error.message}\n{hint}Correct it and save, or leave it unchanged to cancel."


def _comments(heading: str) -> str:
    """Return lines that are not part of the value."""
    lines = safe_text(heading, newlines=True).splitlines()
    return "".join(f"# {one}\n" for one in lines)
