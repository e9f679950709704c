"""Plans that give broken conversations results for their calls, and take orphaned results away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ckpt_backends import shell
from ckpt_backends.codec import decode
from ckpt_backends.codec.set_keys import list_of, stored_items
from ckpt_backends.codec.values import Value
from ckpt_backends.errors import CkptError, NotFound, Refused, Unsupported
from ckpt_backends.model import Status
from ckpt_backends.protocol import Store
from ckpt_cli.core.conversation.mending import mended
from ckpt_cli.core.conversation.pairing import CallForm, CallPlace, Pairing, pair
from ckpt_cli.core.conversation.tool_result import result_like
from ckpt_cli.core.forking.checkpoint_copy import check_body
from ckpt_cli.core.forking.edit_state import ChannelEdit, check_editable
from ckpt_cli.core.forking.plan import CheckpointPlan
from ckpt_cli.core.random_numbers import random_id
from ckpt_cli.core.values.equality import same
from ckpt_cli.plans.checkpoint_copy import whole
from ckpt_cli.plans.rollback import plan_rollback
from ckpt_cli.plans.root_branch import RETRIES, RollbackOptions, check_store
from ckpt_cli.plans.stored_list import stored_list
from ckpt_cli.queries.doctor.conversations import conversations, counterparts, message_lists
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.redaction import is_redacted
from ckpt_cli.threads.thread import ThreadReader

CONTENT = "The run was stopped before this tool finished, so its result is not known."
"""The content of a result that is added, unless the user gives another one."""
_NAMED = 3
"""Maximum number of tools that a message names."""


class AwaitedCall(Refused):
    """Nothing is broken, but a call has no result yet, and may still get one."""


@dataclass(frozen=True, slots=True)
class _Mended:
    """A conversation after the repair."""

    edit: ChannelEdit
    added: int
    moved: int
    removed: int


def plan_message_repair(
    reader: ThreadReader,
    rows: Store,
    checkpoint_id: str | None,
    now: datetime,
    *,
    content: str | None,
    force: bool,
    final: bool = True,
) -> CheckpointPlan:
    """Plan a copy of a checkpoint of the root, by default of the head, with sound conversations.

    `content` is what the new results say. `force` allows a head that is dated in the future.
    Without `final`, calls of the last messages are left to the application.

    Raises `NotFound` if nothing is broken, `AwaitedCall` if a call may still be answered, `Refused`
    while a question waits, and `Unsupported` if the layout or the form of the messages does not
    allow it.
    """
    check_store(rows)
    reader.check_root()
    chosen = checkpoint_id or reader.head("") or ""
    target = reader.moment("", chosen, state=True)
    target.check_readable()
    found = message_lists(reader, target)
    paired = {
        channel: pair(items, counterparts(target, found, channel))
        for channel, items in conversations(found).items()
    }
    pairs = {channel: _to_mend(one, final=final) for channel, one in paired.items()}
    broken = {channel: one for channel, one in pairs.items() if one.is_broken}
    if not broken:
        raise _nothing_to_repair(reader, target, paired.values())
    if Status.INTERRUPTED in target.conditions:
        raise Refused(
            f"cannot repair thread '{reader.thread_id}': a question waits for an answer, and would"
            " be asked again",
            hint=_answer(reader),
        )
    said = content or CONTENT
    made = [
        _mended(reader, rows, target, channel, found[channel], one, said)
        for channel, one in broken.items()
    ]
    edits = tuple(one.edit for one in made)
    reason = None if reader.is_values_only else "repair messages"
    options = RollbackOptions(edits=edits, force=force, reason=reason)
    plan = plan_rollback(reader, rows, chosen, now, options)
    notes = [note for one in made for note in _mends(one)]
    kept = [note for note in plan.notes if note != RETRIES]
    return replace(plan, action="repair", mends=tuple(notes), notes=tuple(kept))


def _mended(
    reader: ThreadReader,
    rows: Store,
    target: Moment,
    channel: str,
    items: Sequence[Value],
    found: Pairing,
    content: str,
) -> _Mended:
    """Return the edit that mends a conversation. Only new results are written anew."""
    if not reader.is_values_only:
        check_body(target.key, target.body)
    original = whole(rows, target.key, [channel])
    check_editable(original)
    stored = stored_list(reader, target, original, channel)
    parts = stored_items(stored)
    before = [decode(one) for one in parts]
    order = mended(items, found)
    # The caller's writes come after the stored messages. They are merged when the agent runs.
    later = list(range(len(before), len(items)))
    here = order[: len(order) - len(later)]
    if order[len(here) :] != later or not _begins_with(items, before):
        raise Unsupported(
            f"cannot repair '{channel}': the caller's last update changes its messages",
            hint="resume the thread, so that the update is merged, then repair it",
        )
    after = [
        parts[one]
        if isinstance(one, int)
        else result_like(
            parts[one.index],
            call_id=one.id,
            tool=one.call.name,
            content=content,
            message_id=random_id(),
            form=one.form,
        )
        for one in here
    ]
    new = list_of(after, stored)
    values = [decode(one) for one in after]
    if not same(decode(new), values):
        raise Unsupported(f"cannot repair '{channel}': its messages cannot be stored again")
    edit = ChannelEdit("store", channel, [*values, *items[len(before) :]], new)
    added = sum(isinstance(one, CallPlace) for one in order)
    kept = sum(isinstance(one, int) and one in found.orphaned for one in order)
    return _Mended(edit, added, kept, len(found.orphaned) - kept)


def _begins_with(items: Sequence[Value], before: Sequence[Value]) -> bool:
    return len(before) <= len(items) and all(map(same, items, before))


def _mends(one: _Mended) -> Iterator[str]:
    counts = {
        "added for calls without one": one.added,
        "moved behind its call": one.moved,
        "removed: nothing before it makes the call": one.removed,
    }
    for what, number in counts.items():
        if number:
            results = "1 result is" if number == 1 else f"{number} results are"
            yield f"'{one.edit.channel}': {results} {what}"


def _nothing_to_repair(reader: ThreadReader, target: Moment, pairs: Iterable[Pairing]) -> CkptError:
    """Return the error for a checkpoint without a broken conversation.

    The names of tools are values: `--redact` hides them.
    """
    pairs = list(pairs)
    unanswered = [place for one in pairs for place in one.unanswered]
    if unanswered:  # all of them of the form that `_to_mend` leaves out
        return Unsupported(
            f"cannot repair thread '{reader.thread_id}': the result of such a call is a picture of"
            " the screen or a patched file",
            hint="go back to the checkpoint before the call, or send the result as the next input",
        )
    awaited = [place for one in pairs for place in one.awaited]
    if not awaited:
        return NotFound(f"nothing to repair in the messages of thread '{reader.thread_id}'")
    names = dict.fromkeys(f"'{one.call.name}'" for one in awaited)
    if is_redacted(reader.store):
        names = {"a tool": None}
    tools = ", ".join(list(names)[:_NAMED])
    begin = f"cannot repair thread '{reader.thread_id}': "
    if Status.INTERRUPTED in target.conditions:
        return AwaitedCall(
            f"{begin}the call of {tools} waits for the answer to a question",
            hint=_answer(reader),
        )
    return AwaitedCall(
        f"{begin}the call of {tools} has yet to be carried out",
        hint="resume with graph.invoke(None, config); if the agent gets a new message instead,"
        " repair the thread after that",
    )


def _to_mend(found: Pairing, *, final: bool) -> Pairing:
    """Return what to mend; with `final`, also calls that only the application could answer.

    Calls whose result is no text are left where they are.
    """
    left = [one for one in found.unanswered if one.form is not CallForm.DEVICE]
    if not final:
        return replace(found, unanswered=tuple(left))
    left += [one for one in found.final if one.form is not CallForm.DEVICE]
    devices = tuple(one for one in found.final if one.form is CallForm.DEVICE)
    return replace(found, unanswered=tuple(left), final=devices)


def _answer(reader: ThreadReader) -> str:
    line = shell.command("ckpt", "interrupts", ids=[reader.thread_id])
    return f"answer it with Command(resume=...), then repair; `{line}` shows it"
