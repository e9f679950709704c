"""Find the checkpoint to roll back to or fork from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, tzinfo

from ckpt_backends import shell
from ckpt_backends.errors import NotFound, UsageError
from ckpt_backends.model import Status
from ckpt_backends.protocol import Store
from ckpt_cli.core.forking.marks import BY, FROM, NAME
from ckpt_cli.core.state import read_metadata
from ckpt_cli.core.tasks.tasks import Task
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.target import Target, TargetArguments, find_checkpoint
from ckpt_cli.threads.thread import ThreadReader

ROLLBACK_OPTIONS = "a REF, --steps N, --to-last STATUS, --last-good or --as-of TIME"
FORK_OPTIONS = "a REF such as `head`, or --as-of TIME"
COPY_OPTIONS = "--at REF, such as `--at head`, or --as-of TIME"


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """How the user chose the checkpoint: at most one of the first six fields is set."""

    ref: str | None = None
    at: str | None = None
    as_of: str | None = None
    steps: int | None = None
    to_last: str | None = None
    last_good: bool = False
    options: str = ROLLBACK_OPTIONS
    """The options of the command, for a hint."""
    head_by_default: bool = False
    """Whether a thread without a REF means its head."""

    @property
    def given(self) -> list[str]:
        """The names of what was given, as the user knows them."""
        values = {
            "a REF": self.ref,
            "--at": self.at,
            "--as-of": self.as_of,
            "--steps": self.steps,
            "--to-last": self.to_last,
            "--last-good": self.last_good or None,
        }
        return [name for name, value in values.items() if value is not None]

    def check(self) -> None:
        """Raise `UsageError` if more than one is given, or one that says nothing."""
        given = self.given
        if len(given) > 1:
            raise UsageError(
                f"{given[0]} cannot be combined with {given[1]}", hint="use one of them"
            )
        if (self.at if self.ref is None else self.ref) == "":
            raise UsageError("the REF is empty", hint="`head` is the newest checkpoint")


def find_target(
    store: Store,
    thread: str,
    target_options: TargetOptions,
    now: datetime,
    zone: tzinfo,
    note: Callable[[str], None],
) -> Target:
    """Return the chosen checkpoint of the root namespace.

    Raises `NotFound`, `Ambiguous`, or `UsageError` if no checkpoint is chosen, or more than one.
    """
    target_options.check()
    said = target_options.given
    at = target_options.at if target_options.ref is None else target_options.ref
    found = find_checkpoint(
        store, TargetArguments(thread, at, as_of=target_options.as_of), now, zone, note
    )
    if (
        found.chosen
        and said
        and said[0].startswith("--")
        and at is None
        and target_options.as_of is None
    ):
        raise UsageError(
            f"'{thread}' names a checkpoint already, so {said[0]} cannot choose one",
            hint=f"give the thread alone: {shell.word(found.reader.thread_id)}",
        )
    if not said and not found.chosen and not target_options.head_by_default:
        raise UsageError(
            f"no checkpoint given for thread '{found.reader.thread_id}'",
            hint=f"give {target_options.options}; {_tree(found.reader)} lists the checkpoints",
        )
    return chosen_from(found, target_options, note)


def chosen_from(
    found: Target, target_options: TargetOptions, note: Callable[[str], None]
) -> Target:
    """Return the checkpoint that the options choose, starting from another one of the thread.

    Raises `NotFound`.
    """
    reader, start = found.reader, found.checkpoint_id
    if target_options.steps is not None:
        chosen = _up(reader, start, target_options.steps)
    elif target_options.to_last is not None:
        chosen = _last_with(reader, start, Status(target_options.to_last))
    elif target_options.last_good:
        chosen = _input_of_failed(reader, start, note)
    else:
        return found
    return Target(reader, "", chosen, True)


def _up(reader: ThreadReader, start: str, steps: int) -> str:
    """Return the ancestor N steps up; a copy added by `ckpt` and its original count as one step."""
    line = reader.ancestry("", start)
    copies = {
        one.key.checkpoint_id
        for one in reader.store.checkpoints(
            reader.thread_id, checkpoint_ns="", checkpoint_ids=line, metadata=True
        )
        if (metadata := read_metadata(one)).get(BY) == NAME
        and metadata.get(FROM) == one.parent_checkpoint_id
    }
    found = [one for one in line if one not in copies]
    if steps >= len(found):
        raise NotFound(
            f"--steps {steps} is too far for thread '{reader.thread_id}':"
            f" its head has {len(found) - 1 or 'no'} earlier checkpoint{'s' * (len(found) != 2)}",
            hint=_list_them(reader),
        )
    return found[steps]


def _last_with(reader: ThreadReader, start: str, status: Status) -> str:
    for moment in _moments(reader, reader.ancestry("", start)[1:]):
        if status in moment.conditions:
            return moment.key.checkpoint_id
    raise NotFound(
        f"no earlier checkpoint of thread '{reader.thread_id}' has status {status}",
        hint=_list_them(reader),
    )


def _input_of_failed(reader: ThreadReader, start: str, note: Callable[[str], None]) -> str:
    """Return the checkpoint from which the last failed step started, even if a retry succeeded.

    It contains the answers to earlier questions, so that nobody is asked again.
    """
    for moment in _moments(reader, reader.ancestry("", start)):
        if has_failed_step(moment):
            nodes = [task.node or "?" for task in failed_tasks(moment)]
            step = "?" if moment.number is None else moment.number + 1
            failed = f" ({', '.join(dict.fromkeys(nodes))})" if nodes else ""
            note(f"the last step that failed is step {step}{failed}; going back to its input")
            return moment.key.checkpoint_id
    raise NotFound(
        f"no step failed on the current branch of thread '{reader.thread_id}'",
        hint=f"{_tree(reader)} shows all branches",
    )


def failed_tasks(moment: Moment) -> list[Task]:
    """Return the tasks of a checkpoint's step that failed, even if a retry succeeded."""
    return [task for task in moment.step.tasks if task.error and not task.handled]


def has_failed_step(moment: Moment) -> bool:
    """Return whether the step after a checkpoint failed, even if a retry succeeded."""
    return bool(failed_tasks(moment)) or moment.status is Status.ERROR


def _list_them(reader: ThreadReader) -> str:
    return f"`{shell.command('ckpt', 'history', ids=[reader.thread_id])}` lists them"


def _tree(reader: ThreadReader) -> str:
    return f"`{shell.command('ckpt', 'show', '--tree', ids=[reader.thread_id])}`"


def _moments(reader: ThreadReader, ids: list[str]) -> Iterator[Moment]:
    """Yield these checkpoints, newest first."""
    if ids:
        yield from reader.moments("", ids)
