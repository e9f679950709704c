"""What `rollback` and `fork` share: change many threads by one plan."""

from __future__ import annotations

from collections.abc import Sequence

from ckpt_backends.errors import UsageError
from ckpt_cli.commands.change_many import TargetId, change_many
from ckpt_cli.commands.thread_targets import ThreadTargets
from ckpt_cli.plans.one_of_many import PLACE, ManyRollbacks, new_thread_id
from ckpt_cli.plans.rollback_target import TargetOptions
from ckpt_cli.plans.root_branch import RollbackOptions, check_store
from ckpt_cli.render.change_many import ChangeWords
from ckpt_cli.session import Session


def rollback_many(
    session: Session,
    targets: ThreadTargets,
    target: TargetOptions,
    options: RollbackOptions,
    *,
    to: str | None = None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Roll back or fork many threads, each to the checkpoint that `target` chooses.

    `to` is the template of the ids of new threads. Raises `UsageError` for words that do not say
    to which checkpoint, or that would give all new threads the same id.
    """
    target.check()
    if to is not None and PLACE not in to:
        raise UsageError(
            f"--to '{to}' names one thread, but many would be forked",
            hint=f"put {PLACE} into it: --to '{to}-{PLACE}'",
        )
    check_store(session.rows)
    ids = targets.all(session)
    _check_refs(ids, target)
    words = ChangeWords("rollback", "roll back", "rolled back", "rolling back")
    if options.fork:
        new_id = None if to is None else lambda thread_id: new_thread_id(to, thread_id)
        words = ChangeWords("fork", "fork", "forked", "forking", new_id)
    plans = ManyRollbacks(session.editable, target, options, session.now, session.zone, to)
    change_many(session, ids, plans.plan, words, dry_run=dry_run, yes=yes, reason=options.reason)


def _check_refs(ids: Sequence[TargetId], target: TargetOptions) -> None:
    """Raise `UsageError` unless each thread has a checkpoint, or an option chooses it."""
    named = [thread_id for thread_id, checkpoint_id, _ in ids if checkpoint_id is not None]
    if target.given and named:
        raise UsageError(
            f"a checkpoint of thread '{named[0]}' is given, so {target.given[0]} cannot choose one",
            hint="give the threads alone",
        )
    if not target.given and not target.head_by_default and len(named) < len(ids):
        raise UsageError("no checkpoint given", hint=f"give {target.options}, for all threads")
