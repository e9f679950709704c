"""`ckpt tui --write`: the main screen with keys that change the store.

The one module of this package from which a store can be changed, imported for `--write` alone.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from textual import work
from textual.app import SuspendNotSupported
from textual.binding import BindingType
from textual.worker import WorkerCancelled

from ckpt_backends.change import Change
from ckpt_backends.errors import CkptError, UsageError
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_store, open_writable
from ckpt_cli.changing.purging import Pace, run_purge
from ckpt_cli.core.editing import ChannelEdit
from ckpt_cli.core.purge import Report
from ckpt_cli.reading.plan_file import PlanFile
from ckpt_cli.render.lines import Span
from ckpt_cli.render.purge import report_lines
from ckpt_cli.tui.app import CkptApp
from ckpt_cli.tui.command_line import match_of
from ckpt_cli.tui.keys import LOOKING, Key, bindings
from ckpt_cli.tui.plans import (
    Fork,
    Kind,
    Planner,
    Proposal,
    Removing,
    channels_of,
    edit_of,
    editable,
)
from ckpt_cli.tui.screens.forms import ForkForm, PurgeForm
from ckpt_cli.tui.screens.main import MainScreen
from ckpt_cli.tui.screens.plan import PlanScreen

_WIDTH = 200
"""Cells of what is said of a purge."""

CHANGING: Sequence[Key] = (
    Key("B", "rollback", "Roll back", "Go back to this checkpoint", "B", True),
    Key("F", "fork", "Fork", "Go on from this checkpoint elsewhere", "F", True),
    Key("U", "undo", "Undo", "Take back the last change of this thread", "U", True),
    Key("P", "repair", "Repair", "Put back values that are gone or damaged", "P"),
    Key("D", "delete", "Delete", "Remove this thread, whatever it waits for", "D"),
    Key("X", "purge", "Purge", "Remove threads, or what is old inside them", "X"),
)


class WritingApp(CkptApp):
    """`ckpt tui --write`."""

    def get_default_screen(self) -> MainScreen:
        return WritingScreen(self.desk)

    def open_rows(self) -> Store:
        """The store by itself, whose bytes nothing has changed on their way: for copies."""
        return open_store(self.desk.opening.url)

    def apply(self, change: Change) -> None:
        """Carry out a change. Raises what `WritableStore.apply` raises."""
        with open_writable(self.desk.opening.url) as writable:
            writable.apply(change)

    def remove(self, plan: PlanFile) -> Report:
        """Carry out a purge, batch by batch. Raises what `WritableStore.remove` raises."""
        with open_writable(self.desk.opening.url) as writable:
            return run_purge(writable, plan.threads(), Pace(), None, lambda: "")


class WritingScreen(MainScreen):
    """The main screen with keys that change the store; each shows its plan and asks."""

    app: WritingApp
    BINDINGS: ClassVar[list[BindingType]] = bindings(CHANGING)

    def on_mount(self) -> None:
        super().on_mount()
        self.status.add_class("write")
        self._planner = Planner(self.app.open_rows, self.desk.now)

    @property
    def key_table(self) -> Sequence[Key]:
        return [*CHANGING, *LOOKING]

    def mode(self) -> Span:
        return "WRITE", "bold"

    @work(exclusive=True, group="change")
    async def action_rollback(self) -> None:
        if (place := self.here()) is not None:
            question = partial(self._planner.rollback, place=place)
            await self._propose(question, "Roll the thread back?", "rolled back; U takes it back")

    @work(exclusive=True, group="change")
    async def action_undo(self) -> None:
        if self.view.thread_id is not None:
            question = partial(self._planner.undo, thread_id=self.view.thread_id)
            await self._propose(question, "Undo this?", "undone")

    @work(exclusive=True, group="change")
    async def action_repair(self) -> None:
        if self.view.thread_id is not None:
            question = partial(self._planner.repair, thread_id=self.view.thread_id, told={})
            await self._propose(question, "Put these values back?", "put back")

    @work(exclusive=True, group="change")
    async def action_fork(self) -> None:
        if (place := self.here()) is None:
            return
        lane = self.desk.detail
        channels = await self.ask(lane, partial(channels_of, place=place), self.tell_error)
        if channels is None:
            return
        wish = await self.app.push_screen_wait(ForkForm(channels))
        if wish is None:
            return
        to, channel, kind, node = wish
        edit = None
        if channel:
            value = partial(editable, place=place, channel=channel, kind=kind)
            before = await self.ask(lane, value, self.tell_error)
            edit = None if before is None else self._edit(channel, kind, before)
            if edit is None:
                return
        question = partial(self._planner.fork, place=place, how=Fork(to, edit, node))
        said = f"forked to '{to}'; U there removes it" if to else "forked; U takes it back"
        await self._propose(question, "Fork the thread?", said)

    def _edit(self, channel: str, kind: Kind, text: str) -> ChannelEdit | None:
        """The value as edited; the editor comes again with what is no JSON."""
        while (after := self.edited(text)) is not None:
            try:
                return edit_of(channel, kind, after)
            except UsageError as error:
                self.tell_error(error)
                text = after
        return None

    async def _propose(self, question: Callable[[Store], Proposal], ask: str, said: str) -> None:
        """Show what a plan says, carry it out if that is wanted, and go to what was made."""
        found = await self.ask(self.desk.detail, question, self.tell_error)
        if found is None or not await self.app.push_screen_wait(PlanScreen(ask, found.lines)):
            return
        try:
            await asyncio.to_thread(self.app.apply, found.change)
        except CkptError as error:
            self.tell_error(error)
            return
        await self.listed_anew()
        if found.head is not None:
            self.jump(found.head)
        self.say(said)

    async def listed_anew(self) -> None:
        """List all threads, and wait for it."""
        while True:
            # Another look that comes due, or is asked for, takes the place of this one.
            with suppress(WorkerCancelled):
                await self.load_threads().wait()
                return

    @work(exclusive=True, group="change")
    async def action_delete(self) -> None:
        thread = self.rows.thread
        if thread is not None:
            planned = partial(self._planner.delete, thread_id=thread.thread_id)
            await self._propose_removal(planned, "Remove this thread?")

    @work(exclusive=True, group="change")
    async def action_purge(self) -> None:
        wanted = self.rows.listing.wanted.text
        form = PurgeForm(match_of(wanted) if wanted else "", self.desk.now(), self.desk.zone)
        if (policy := await self.app.push_screen_wait(form)) is not None:
            planned = partial(self._planner.purge, policy=policy)
            await self._propose_removal(planned, "Remove all of this?")

    async def _propose_removal(self, planned: Callable[..., Removing], ask: str) -> None:
        """Show what would go, and remove it if that is wanted."""
        with TemporaryDirectory(prefix="ckpt-") as folder:
            question = partial(planned, path=Path(folder) / "plan.ndjson")
            found = await self.ask(self.desk.detail, question, self.tell_error)
            if found is None or not await self.app.push_screen_wait(PlanScreen(ask, found.lines)):
                return
            try:
                report = await asyncio.to_thread(self.app.remove, found.plan)
            except CkptError as error:
                self.tell_error(error)
                return
            lines = [text.text for text in report_lines(found.plan, report, _WIDTH)]
            self.say("; ".join(lines), is_error=bool(report.stopped))
        self.load_threads()

    def edited(self, text: str) -> str | None:
        """A text as the user's editor leaves it; None where nothing was changed."""
        command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
        with TemporaryDirectory(prefix="ckpt-") as folder:
            path = Path(folder) / "value.json"
            path.write_text(text, "utf-8")
            try:
                with self.app.suspend():
                    # The user's own choice of editor, as git runs it.
                    code = subprocess.run([*command, str(path)], check=False).returncode  # noqa: S603
            except (OSError, SuspendNotSupported) as error:
                self.say(f"cannot run the editor '{command[0]}': {error}", is_error=True)
                return None
            after = path.read_text("utf-8")
        if code or after == text:
            self.say("the value was not changed")
            return None
        return after
