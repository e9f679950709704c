"""`ckpt tui --write`: what the keys of the main screen do that change the store.

This is the only module of the package that can change a store; it is imported only for `--write`.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from textual.app import SuspendNotSupported
from textual.worker import WorkerCancelled

from ckpt_backends.errors import CkptError, UsageError
from ckpt_backends.files import TemporaryFolder
from ckpt_backends.model import CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_cli.apply.changes import carry_out
from ckpt_cli.apply.purge import run_purge
from ckpt_cli.apply.recording import Recorder
from ckpt_cli.core.retention import PurgeReport
from ckpt_cli.operations.log import user_name
from ckpt_cli.plans.purge import Policy
from ckpt_cli.render.purge import RemovedThreads, removal_lines
from ckpt_cli.render.purge import question as question_of
from ckpt_cli.render.text import StyledLine, Ui, safe_text
from ckpt_cli.tui.command_line import match_of, purge_command, write_command
from ckpt_cli.tui.editor import edit, editor_of
from ckpt_cli.tui.plans import (
    Editable,
    EditedValue,
    Fork,
    Kind,
    Mending,
    Planner,
    Reviewed,
    ReviewedRemoval,
    channels_of,
    editable,
    mending,
)
from ckpt_cli.tui.reading import ask, say, screen_hint, show_error
from ckpt_cli.tui.screens.dialogs import PlanScreen
from ckpt_cli.tui.screens.forms import ForkForm, ForkWish, PurgeForm, Refuse
from ckpt_cli.tui.screens.main import MainScreen

_Answer = TypeVar("_Answer")

_WIDTH = 200
"""Width of the result of a purge, in columns."""
_UNDO = "; press U to undo"
_PLAN_FILE = "plan.ndjson"
_COMMENTS = re.compile("^#.*\n?", re.MULTILINE)
"""Lines of the edited file that are not part of the value: no line of JSON starts with #."""
_CANCEL = "Save to see the plan; leave it unchanged to cancel. Lines that start with # are ignored."
_HEADINGS: Mapping[Kind, str] = {
    "replace": f"The value of '{{}}' as JSON.\n{_CANCEL}",
    "set": f"JSON to merge into '{{}}' by its reducer.\n{_CANCEL}",
    "append": f"JSON to append to '{{}}', as one item.\n{_CANCEL}",
}

_REPAIRS: Mapping[Mending, str] = {
    "messages": "Answer these tool calls?",
    "values": "Restore these values?",
    "writes": "Drop this answer?",
}


class Writing:
    """What `--write` adds to a main screen; each change shows its plan and asks first."""

    def __init__(self, main: MainScreen) -> None:
        self._main, self._context = main, main.context
        self._planner = Planner(self._context.opening, self._context.now)

    async def run(self, action: str, op: str) -> None:
        """Show the plan of a change, and carry it out if the user agrees."""
        changes: Mapping[str, Callable[[], Awaitable[None]]] = {
            "rollback": self._roll_back,
            "fork": self._fork,
            "undo": self._undo,
            "undo_operation": partial(self._undo_operation, op),
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

    async def _undo(self) -> None:
        if (thread_id := self._main.here_thread()) is not None:
            question = partial(self._planner.undo, thread_id=thread_id)
            await self._propose(question, "Undo this?")

    async def _undo_operation(self, op: str) -> None:
        """Undo what an operation did to this thread."""
        if (thread_id := self._main.here_thread()) is not None:
            question = partial(self._planner.undo_operation, thread_id=thread_id, op=op)
            await self._propose(question, "Undo this operation?")

    async def _repair(self) -> None:
        finding = self._main.inspector.rows.finding
        if (thread_id := self._main.here_thread()) is None:
            return
        kind = "values" if finding is None else mending(finding)
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
        channels = await self._ask(partial(channels_of, place=place))
        if channels is None:
            return
        form = ForkForm(channels, partial(self._planned_fork, place))
        if (found := await self._main.app.push_screen_wait(form)) is not None:
            await self._review(found, "Fork this checkpoint?", _UNDO)

    async def _planned_fork(
        self, place: CheckpointKey, wish: ForkWish, refuse: Refuse
    ) -> Reviewed | None:
        """Return the plan of a fork, with the value that the user edits, if any."""
        to, channel, kind, node = wish
        edit = None
        if channel:
            value = partial(editable, place=place, channel=channel, kind=kind)
            before = await self._ask(value, refuse)
            edit = None if before is None else self._edit(before)
            if edit is None:
                return None
        question = partial(self._planner.fork, place=place, how=Fork(to, edit, node))
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

            async def plan(policy: Policy, refuse: Refuse) -> ReviewedRemoval | None:
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
        self, question: Callable[[Store], Reviewed], ask: str, hint: str = ""
    ) -> None:
        """Make a plan, and apply it if the user agrees."""
        if (found := await self._ask(question)) is not None:
            await self._review(found, ask, hint)

    async def _review(self, found: Reviewed, ask: str, hint: str) -> None:
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

    async def _review_removal(self, found: ReviewedRemoval) -> None:
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

    def _apply(self, found: Reviewed) -> Sequence[str]:
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

    def _remove(self, found: ReviewedRemoval) -> tuple[PurgeReport, Sequence[str]]:
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

    def _edit(self, before: Editable) -> EditedValue | None:
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
