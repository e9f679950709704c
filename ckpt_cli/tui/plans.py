"""Plans of changes, asked of a store as the panes ask it: nothing is written here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ckpt_backends.change import Change
from ckpt_backends.codec import to_json
from ckpt_backends.errors import NotFound, Refused, UsageError
from ckpt_backends.protocol import Store
from ckpt_cli.core.editing import ChannelEdit, parse_edit
from ckpt_cli.core.plan import Plan
from ckpt_cli.core.purge import Doomed
from ckpt_cli.core.retention import Keep
from ckpt_cli.core.times import parse_time
from ckpt_cli.reading.clone import plan_clone
from ckpt_cli.reading.plan_file import PlanFile, write_plan
from ckpt_cli.reading.purge import Policy, plan_named, plan_purge
from ckpt_cli.reading.repair import plan_repair
from ckpt_cli.reading.rollback import Wishes, plan_rollback
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.reading.threads import Selection
from ckpt_cli.reading.undo import plan_undo
from ckpt_cli.render.diff import diff_text
from ckpt_cli.render.lines import Line, line
from ckpt_cli.render.plan import plan_lines
from ckpt_cli.render.purge import plan_lines as purge_lines
from ckpt_cli.render.repair import repair_lines
from ckpt_cli.tui.reads import Place

Kind: TypeAlias = Literal["replace", "set", "append"]
KINDS: tuple[Kind, ...] = ("replace", "set", "append")
_REASONS = 3
"""Threads that are kept, of which it is said why."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that is about to be made, with the text that says so."""

    lines: Callable[[int], list[Line]]
    """In so many cells."""
    change: Change
    head: Place | None
    """Where the thread stands afterwards; None where that stays, or the thread goes."""


@dataclass(frozen=True, slots=True)
class Removing:
    """What is about to be removed, in a plan file as the commands make it."""

    plan: PlanFile
    lines: Callable[[int], list[Line]]


@dataclass(frozen=True, slots=True)
class Purge:
    """What is to be removed, as it was filled in."""

    match: str = ""
    older_than: str = ""
    keep_last: str = ""

    def policy(self, now: datetime, zone: tzinfo) -> Policy:
        """The policy that `ckpt purge` would make of it. Raises `UsageError`."""
        if self.keep_last and not (self.keep_last.isdecimal() and int(self.keep_last)):
            raise UsageError(f"'{self.keep_last}' is no number of checkpoints to keep")
        found = Policy(
            Selection(match=self.match or None),
            parse_time(self.older_than, now, zone) if self.older_than else None,
            keep=Keep(int(self.keep_last) if self.keep_last else None),
        )
        if found.is_empty:
            raise UsageError("nothing says what is to be removed", hint="fill in one of the lines")
        return found


@dataclass(frozen=True, slots=True)
class Fork:
    """How a checkpoint is to be forked."""

    to: str = ""
    """The new thread; empty for a branch of the same one."""
    edit: ChannelEdit | None = None
    as_node: str | None = None


class Planner:
    """Makes plans for one store; `open_rows` opens it by itself, so that copies are byte for byte.

    Each method is a question for a `Lane`. All raise what the functions of the commands raise.
    """

    def __init__(self, open_rows: Callable[[], Store], now: Callable[[], datetime]) -> None:
        self._open_rows, self._now = open_rows, now

    def rollback(self, store: Store, place: Place) -> Proposal:
        """Go back to a checkpoint."""
        return self._forked(store, place, Fork(), Wishes())

    def fork(self, store: Store, place: Place, how: Fork) -> Proposal:
        """Go on from a checkpoint elsewhere."""
        edits = () if how.edit is None else (how.edit,)
        return self._forked(store, place, how, Wishes(fork=True, edits=edits, as_node=how.as_node))

    def undo(self, store: Store, thread_id: str) -> Proposal:
        """Take back the last change of a thread."""
        with closing(self._open_rows()) as rows:
            plan = plan_undo(ThreadReader(store, thread_id), rows, self._now(), force=False)
        return _proposal(plan)

    def repair(self, store: Store, thread_id: str, told: Mapping[str, str]) -> Proposal:
        """Put back values that are gone or damaged."""
        found = plan_repair(ThreadReader(store, thread_id), told)
        if not found.rebuilt:
            reasons = "; ".join(one.reason for one in found.refused)
            raise Refused(reasons or "nothing is missing or unreadable")
        return Proposal(lambda width: list(repair_lines(found, width)), found.change, head=None)

    def delete(self, store: Store, thread_id: str, path: Path) -> Removing:
        """Remove a thread, whatever it waits for."""
        return self._removing(store, path, plan_named(store, [thread_id]))

    def purge(self, store: Store, policy: Policy, path: Path) -> Removing:
        """Remove threads, or what is old inside them."""
        return self._removing(store, path, plan_purge(store, policy, self._now()))

    def _removing(self, store: Store, path: Path, threads: Iterable[Doomed]) -> Removing:
        plan = write_plan(path, store.describe(), self._now(), threads)
        if not plan.going:
            why = "; ".join(f"{name}: {reason}" for name, reason in plan.kept[:_REASONS])
            raise Refused("nothing to remove" + (f": {why}" if why else ""))
        return Removing(plan, lambda width: list(purge_lines(plan, width)))

    def _forked(self, store: Store, place: Place, how: Fork, wishes: Wishes) -> Proposal:
        if place.checkpoint_ns:
            raise UsageError(
                "this checkpoint belongs to a subgraph",
                hint="go to the step that called it: Esc leaves the subgraph",
            )
        reader = ThreadReader(store, place.thread_id)
        with closing(self._open_rows()) as rows:
            if how.to:
                plan = plan_clone(reader, rows, place.checkpoint_id, how.to, wishes)
            else:
                plan = plan_rollback(reader, rows, place.checkpoint_id, self._now(), wishes)
        return _proposal(plan, values=how.edit is not None)


def editable(store: Store, place: Place, channel: str, kind: Kind) -> str:
    """What an editor is opened with: the channel's value as JSON, where it is to be replaced."""
    reader = ThreadReader(store, place.thread_id)
    moment = reader.moment(place.checkpoint_ns, place.checkpoint_id, state=[channel])
    moment.check_readable()
    values = reader.state(moment, [channel]).values
    if channel not in values:
        raise NotFound(f"no channel '{channel}' at this checkpoint")
    found: Any = to_json(values[channel]) if kind == "replace" else None
    return json.dumps(found, ensure_ascii=False, indent=2) + "\n"


def edit_of(channel: str, kind: Kind, text: str) -> ChannelEdit:
    """What came back from the editor. Raises `UsageError`."""
    return parse_edit(kind, f"{channel}={text}")


def channels_of(store: Store, place: Place) -> list[str]:
    """The channels that hold a value at a checkpoint."""
    reader = ThreadReader(store, place.thread_id)
    moment = reader.moment(place.checkpoint_ns, place.checkpoint_id, state=True)
    return list(reader.state(moment).values)


def _proposal(plan: Plan, *, values: bool = False) -> Proposal:
    """A plan with its text; with `values`, what changes is shown in full."""

    def lines(width: int) -> list[Line]:
        found = list(plan_lines(plan, width))
        if values:
            found += [line(""), *diff_text(plan.changes, width=width)]
        return found

    key = plan.head
    head = None if key is None else Place(key.thread_id, key.checkpoint_ns, key.checkpoint_id)
    return Proposal(lines, plan.change, head)
