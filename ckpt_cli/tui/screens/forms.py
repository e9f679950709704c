"""Short forms: how to fork, what to purge."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import ClassVar, Generic, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.widgets import Footer, Input, Label

from ckpt_backends.errors import CkptError, UsageError
from ckpt_cli.plans.purge import Policy
from ckpt_cli.tui.panes.styles import title
from ckpt_cli.tui.plans import KINDS, Kind, Purge

_Result = TypeVar("_Result")


class DialogForm(ModalScreen[_Result | None], Generic[_Result]):
    """Fields to fill in; Enter submits, Escape cancels."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Show plan", priority=True),
        Binding("escape", "dismiss(None)", "Cancel", key_display="Esc"),
    ]
    HEADING: ClassVar[str]

    def fields(self) -> Sequence[tuple[str, Input]]:
        """Return the labels and fields."""
        raise NotImplementedError

    def result(self) -> _Result:
        """Return what was filled in. Raises `UsageError` if it is invalid."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        with Vertical(classes="box form") as box:
            title(box, self.HEADING)
            for label, field in self.fields():
                yield Label(label, markup=False)
                yield field
        yield Footer(show_command_palette=False)

    def action_submit(self) -> None:
        try:
            self.dismiss(self.result())
        except CkptError as error:
            hint = f"; {error.hint}" if error.hint else ""
            self.notify(f"{error.message}{hint}", severity="error", markup=False)


class ForkForm(DialogForm[tuple[str, str, Kind, str | None]]):
    """The new thread, the channel to edit and how, and the node to continue after."""

    HEADING = "Fork"

    def __init__(self, channels: Sequence[str]) -> None:
        super().__init__()
        self._channels = channels
        self._to = Input(placeholder="empty: a new branch of this thread", compact=True, id="to")
        self._channel = Input(
            placeholder=", ".join(channels)[:200] or "none",
            suggester=SuggestFromList(channels),
            compact=True,
            id="channel",
        )
        self._kind = Input("replace", suggester=SuggestFromList(KINDS), compact=True, id="kind")
        self._node = Input(
            placeholder="empty: keep the next nodes of the checkpoint", compact=True, id="node"
        )

    def fields(self) -> Sequence[tuple[str, Input]]:
        return [
            ("New thread id", self._to),
            ("Channel to edit in $EDITOR", self._channel),
            ("How to edit: replace, set (merged by the reducer) or append", self._kind),
            ("Continue as if this node had just run", self._node),
        ]

    def result(self) -> tuple[str, str, Kind, str | None]:
        kind = next((one for one in KINDS if one == self._kind.value), None)
        if kind is None:
            raise UsageError(
                f"cannot edit with '{self._kind.value}'", hint=f"use {', '.join(KINDS)}"
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


class PurgeForm(DialogForm[Policy]):
    """The threads, their age, and how many checkpoints of each to keep."""

    HEADING = "Purge"

    def __init__(self, match: str, now: datetime, zone: tzinfo) -> None:
        super().__init__()
        self._now, self._zone = now, zone
        self._match = Input(match, placeholder="empty: all threads", compact=True, id="match")
        self._age = Input(placeholder="30d or 2026-04-07; empty: any age", compact=True, id="age")
        self._keep = Input(placeholder="empty: remove whole threads", compact=True, id="keep")

    def fields(self) -> Sequence[tuple[str, Input]]:
        return [
            ("Match thread ids (GLOB)", self._match),
            ("Last active before", self._age),
            ("Checkpoints to keep in each thread", self._keep),
        ]

    def result(self) -> Policy:
        found = Purge(self._match.value, self._age.value, self._keep.value)
        return found.policy(self._now, self._zone)
