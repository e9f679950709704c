"""`--plan-out FILE`: save the plan of a command for `ckpt apply`, and change nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial, wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Context, Option

from ckpt_backends import shell
from ckpt_backends.errors import PartlyDone, UsageError
from ckpt_cli import __version__
from ckpt_cli.ending import ReaderGone
from ckpt_cli.session import Consent, Session

if TYPE_CHECKING:
    from ckpt_cli.plans.saved_plan import PlannedStore

PlanOut = Annotated[
    Path | None,
    Option(
        "--plan-out",
        metavar="FILE",
        help="Save the plan in FILE for `ckpt apply`; write nothing else.",
    ),
]
TERMS = "plan_terms"
"""The attribute of a command that tells how its plan is saved and applied."""
_OF_RUN = frozenset({"dry_run", "yes", "plan_out"})
"""Options of a run, not of its plan."""
_TARGET = "to"
_FILES = frozenset({"values_from"})
"""Options that name a file by a text; `-` is stdin."""
KEYS_OF_REMOVAL = frozenset({"sign_key"})


@dataclass(frozen=True, slots=True)
class PlanTerms:
    """How the plan of a command is saved and applied."""

    action: str
    """The words of the command."""
    again: frozenset[str] = frozenset()
    """Options that a plan does not hold and that are given again: keys, servers, waivers."""
    is_removal: bool = False
    """Whether the plan is a list of threads to remove."""
    writes: str | None = None
    """The option without which the command only shows its plan; None if it has --dry-run."""
    only_with: str | None = None
    """The option without which the command only reads; None if it always makes a plan."""
    reads_with: str | None = None
    """The option with which the command only reads."""

    def changes(self, values: Mapping[str, Any]) -> bool:
        """Return whether a command with these options may change a store."""
        if self.only_with is not None and not values.get(self.only_with):
            return False
        if self.reads_with is not None and values.get(self.reads_with):
            return False
        return bool(values.get(self.writes)) if self.writes else not values.get("dry_run")


def plannable(
    action: str,
    *,
    again: Iterable[str] = (),
    is_removal: bool = False,
    writes: str | None = None,
    only_with: str | None = None,
    reads_with: str | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that carries out --plan-out of a command with the words `action`.

    The command hands each fact of its plan to `session.review`, if there is one, before it writes.
    One that removes threads saves their list by itself. The other arguments are as in `PlanTerms`.
    """
    terms = PlanTerms(action, frozenset(again), is_removal, writes, only_with, reads_with)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        defaults = {one.name: one.default for one in signature(command).parameters.values()}

        @wraps(command)
        def run(ctx: Context, *, plan_out: Path | None = None, **values: Any) -> None:
            session: Session = ctx.obj
            changes = terms.changes(values)
            if plan_out is not None or changes:
                session.changes_store()
            if plan_out is None and changes and values.get(_TARGET) is None:
                # Late: it loads what opens a store for writing.
                from ckpt_cli.apply.recording import refuse_copy

                refuse_copy(session.names.store_url)
            is_shown = plan_out is not None or bool(values.get("dry_run"))
            session.consent = Consent(is_shown, bool(values.get("yes")), values.get("reason"))
            if is_removal:
                command(ctx, plan_out=plan_out, **values)
            elif plan_out is None:
                command(ctx, **values)
            else:
                _save(session, plan_out, terms, partial(command, ctx), values, defaults)

        setattr(run, TERMS, terms)
        return run

    return decorate


removes = partial(plannable, again=KEYS_OF_REMOVAL, is_removal=True)
"""Decorates a command that removes threads."""


def _save(
    session: Session,
    path: Path,
    terms: PlanTerms,
    act: Callable[..., None],
    values: Mapping[str, Any],
    defaults: Mapping[str, Any],
) -> None:
    """Run a command as with --dry-run, and write its plan. Raises what the command raises."""
    from ckpt_cli.core.forking import new_seed, seeded
    from ckpt_cli.plans.saved_plan import NO_STORE, PlanHeader, PlannedStore, writing_plan

    given = {name: one for name, one in values.items() if one != defaults[name]}
    target = given.get(_TARGET) if _TARGET in terms.again else None
    header = PlanHeader(
        action=terms.action,
        kind="command",
        store=_store(session, is_needed=target is None),
        layout="",
        made_at=session.now,
        by=__version__,
        command=session.command,
        reason=values.get("reason"),
        seed=new_seed(),
        options=stored_options(given, without=terms.again),
        again=tuple(name for name in given if name in terms.again),
        target=NO_STORE if target is None else PlannedStore.of(session.names.url_of(target)),
    )
    only_shown = {"dry_run": True} if terms.writes is None else {terms.writes: False}
    ended: PartlyDone | ReaderGone | None = None
    with seeded(header.seed), writing_plan(path, header) as review:
        session.review = review
        try:
            act(**{**values, **only_shown})
        except (PartlyDone, ReaderGone) as error:
            # The plan is complete before it is shown.
            ended = error
    note_saved(session, path)
    if ended is not None:
        raise ended


def stored_options(given: Mapping[str, Any], *, without: Iterable[str]) -> dict[str, Any]:
    """Return options as a plan stores them; paths are absolute. Raises `UsageError` for stdin."""
    left = {*_OF_RUN, *without}
    stored = {name: _stored(one) for name, one in given.items() if name not in left}
    for name in _FILES & stored.keys():
        if stored[name] == "-":
            raise UsageError(
                "a plan cannot read stdin again", hint="write it to a file, and give that"
            )
        stored[name] = os.path.abspath(stored[name])
    return stored


def _stored(value: Any) -> Any:
    if isinstance(value, Path):
        return os.path.abspath(value)
    return list(map(_stored, value)) if isinstance(value, list) else value


def note_saved(session: Session, path: Path) -> None:
    """Say how the plan is carried out."""
    again = shell.command("ckpt", *session.names.words, "apply", ids=[str(path)])
    session.note(f"wrote the plan to '{path}'; carry it out with `{again}`")


def _store(session: Session, *, is_needed: bool) -> PlannedStore:
    from ckpt_cli.plans.saved_plan import NO_STORE, PlannedStore

    try:
        return PlannedStore.of(session.names.store_url)
    except UsageError:
        if is_needed:
            raise
        return NO_STORE
