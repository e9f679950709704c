"""Short forms: how to fork, what to purge."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, tzinfo
from typing import ClassVar, Generic, TypeAlias, TypeVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.widgets import Input, Label, Static

from ckpt_backends.errors import CkptError, UsageError
from ckpt_cli.plans.purge import Policy
from ckpt_cli.render.text import line, safe_text
from ckpt_cli.tui.plans import KINDS, Kind, Purge, Reviewed, ReviewedRemoval
from ckpt_cli.tui.reading import screen_hint, screen_message
from ckpt_cli.tui.screens.dialogs import KeyLine
from ckpt_cli.tui.styles import as_text, title

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


ForkWish: TypeAlias = tuple[str, str, Kind, str | None]
"""The new thread, the channel to edit and how, and the node to continue after."""


class ForkForm(DialogForm[ForkWish, Reviewed]):
    """The new thread, the channel to edit and how, and the node to continue after."""

    def __init__(self, channels: Sequence[str], plan: Planning[ForkWish, Reviewed]) -> None:
        self._channels = channels
        self._to = Input(placeholder="empty: a new branch of this thread", compact=True, id="to")
        self._channel = Input(
            placeholder=safe_text(", ".join(channels)[:200]) or "none",
            # A suggestion is drawn and taken over as it is.
            suggester=SuggestFromList([one for one in channels if safe_text(one) == one]),
            compact=True,
            id="channel",
        )
        self._kind = Input("replace", suggester=SuggestFromList(KINDS), compact=True, id="kind")
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


class PurgeForm(DialogForm[Policy, ReviewedRemoval]):
    """The threads, their age, and how many checkpoints of each to keep."""

    def __init__(
        self, match: str, now: datetime, zone: tzinfo, plan: Planning[Policy, ReviewedRemoval]
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
        found = Purge(self._match.value, self._age.value, self._keep.value)
        return found.policy(self._now, self._zone)
