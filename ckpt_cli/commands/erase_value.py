"""`ckpt erase --value`: overwrite single values in the history of threads."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from ckpt_backends.changes.remains import Remains
from ckpt_backends.erasing.thread import ChangedPath
from ckpt_backends.errors import (
    CkptError,
    NotFound,
    PartlyDone,
    Refused,
    StoreChanged,
    StoreUnavailable,
    Unsupported,
    UsageError,
)
from ckpt_backends.files.regular_file import read_regular
from ckpt_backends.transfer.sealing import WithKeys
from ckpt_cli.apply.erase_value import erase_values_of, kept_places
from ckpt_cli.apply.writable import check_removable, refuse_copy, writable_store
from ckpt_cli.commands.confirm import confirm
from ckpt_cli.core.values.paths import Selected, format_path
from ckpt_cli.diagnostics import progress
from ckpt_cli.operations.steps import OperationStep
from ckpt_cli.plans.erase_value import (
    EraseValuePlan,
    ErasingSide,
    ToErase,
    collected,
    plan_erasure,
)
from ckpt_cli.plans.facts import key_fact
from ckpt_cli.plans.value_targets import RecordedPlaces, ValuePlace, named_place
from ckpt_cli.render.erase_value import (
    erased_columns,
    erased_lines,
    erased_record,
    erased_rows,
    remains_lines,
)
from ckpt_cli.render.values.one_line import counted
from ckpt_cli.session import Session
from ckpt_cli.threads import redaction

_LONGEST = 256 << 20
"""Bytes of a list of values."""
_NOT_UNDONE = "an erasure cannot be taken back"


def erase_values(
    session: Session,
    targets: Sequence[str],
    values_from: str | None = None,
    *,
    ns: str | None = None,
    dry_run: bool = False,
    yes: bool = False,
    rewrite: bool = False,
) -> None:
    """Overwrite the values that `targets` name (`THREAD[@REF]:PATH`), in the whole threads.

    `values_from` is a file with records of `ckpt secrets`, of which only the secret parts are
    erased; `-` is stdin. `rewrite` lets the engine rewrite whole tables to remove old bytes.
    Raises `NotFound`, `UsageError`, `Refused`, `StoreChanged`, `Unsupported` and `PartlyDone`.
    """
    if not targets and values_from is None:
        raise UsageError("no value to erase", hint="give --value 'THREAD:PATH', or --values-from -")
    if not dry_run:
        refuse_copy(session.names.store_url)
    check_removable(session.store)
    side = _side(session)
    recorded = RecordedPlaces()
    asked = _asked(session, targets, values_from, ns, recorded)
    left = _left_out(recorded)
    if not asked:
        _print(session, (), None, dry_run=False)
        session.note("no record names a value of a thread: nothing to erase")
        if left is not None:
            raise left
        return
    plans = [plan_erasure(side, one) for one in asked]
    _check_found(plans)
    if session.review is not None:
        for one, plan in zip(asked, plans, strict=True):
            session.review.see(_fact(session.review.header.seed, one, plan))
    if dry_run:
        _print(session, plans, None, dry_run=True)
        if left is not None:
            session.note(left.message)
        session.note_dry_run()
        return
    if not yes:
        if not session.output.machine:
            shown = _shown(session, plans)
            session.output.document(tuple, lambda: erased_lines(shown, session.output.width))
        confirm(f"{_question(plans)} for good?")
    done, problems, remains = _carry_out(session, side, plans, rewrite=rewrite)
    _print(session, done, remains, dry_run=False, is_shown=not yes)
    if problems:
        raise PartlyDone(
            f"{counted(len(problems), 'thread')} not finished: {problems[0].message}",
            hint="stop the agents, then run the command again to erase the rest",
        )
    if left is not None:
        raise left


def _fact(seed: str, asked: ToErase, plan: EraseValuePlan) -> dict[str, Any]:
    """Return what a saved plan says of a thread: digests only, which take long to guess from."""
    values = "\0".join([*sorted(asked.texts), *sorted(map(repr, asked.scalars))])
    return {
        "thread_id": plan.thread_id,
        "digest": list(plan.digest),
        "values": key_fact(seed, values.encode("utf-8", "surrogatepass")),
    }


def _side(session: Session) -> ErasingSide:
    found = session.opening.keys()()
    keys = WithKeys(found) if found else None
    return ErasingSide(session.rows, session.rows.describe().layout, keys)


def _asked(
    session: Session,
    targets: Sequence[str],
    values_from: str | None,
    ns: str | None,
    recorded: RecordedPlaces,
) -> list[ToErase]:
    """Return what is erased in each thread."""
    # Redacted values would not be found in what is stored.
    store = session.editable
    found = collected(
        (place, place.read())
        for place in (
            named_place(store, one, ns, session.now, session.zone, session.note) for one in targets
        )
    )
    if values_from is not None:
        from ckpt_cli.api.secrets import without_secrets  # loads the rules

        try:
            _add_recorded(found, recorded.read(store, _lines(values_from)))
        except NotFound as error:
            raise without_secrets(error) from None  # it lists ids and keys that are there
    session.rows.refresh()
    return list(found.values())


def _add_recorded(found: dict[str, ToErase], places: Iterable[ValuePlace]) -> None:
    """Add the secret parts of what is at some places. Raises `NotFound` and `Refused`."""
    from ckpt_cli.core.secrets.scanner import Scanner  # loads the rules

    scanner = Scanner()
    ordered = sorted(places, key=lambda one: one.source)
    for _, of_source in groupby(ordered, lambda one: one.source):
        root = None
        for place in of_source:
            thread_id = place.reader.thread_id
            asked = found.setdefault(thread_id, ToErase(thread_id))
            if root is None:
                root = place.root()
                asked.names |= place.names()
            for one in place.read(root):
                for part in scanner.parts(one.value, key=_last_name(one)):
                    asked.add_text(part.text, format_path(place.path))


def _left_out(recorded: RecordedPlaces) -> PartlyDone | None:
    """Return the error for records that name no value of a thread; None if there are none."""
    skipped = recorded.skipped_memory + recorded.skipped_unnamed
    if not skipped:
        return None
    return PartlyDone(
        f"{counted(skipped, 'record')} left: {recorded.skipped_memory} of long-term memory,"
        f" {recorded.skipped_unnamed} without a place",
        hint="delete such items with `ckpt memory delete`, such threads with `ckpt erase`",
    )


def _last_name(one: Selected) -> str | None:
    last = one.path[-1] if one.path else None
    return last if isinstance(last, str) else None


def _lines(place: str) -> Iterator[str]:
    """Yield the lines of a file or of stdin. Raises `UsageError`."""
    try:
        data = _read_stdin() if place == "-" else read_regular(Path(place), _LONGEST)
    except StoreUnavailable as error:
        raise UsageError(error.message, hint=error.hint) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"cannot read '{place}': {reason}") from error
    # Other line ends may stand in an id.
    yield from data.decode("utf-8", "replace").split("\n")


def _read_stdin() -> bytes:
    data = sys.stdin.buffer.read(_LONGEST + 1)
    if len(data) > _LONGEST:
        raise UsageError(f"cannot read stdin: it is longer than {_LONGEST} bytes")
    return data


def _check_found(plans: Sequence[EraseValuePlan]) -> None:
    """Raise `NotFound` if there is nothing to erase."""
    if not any(one.counts.places for one in plans):
        raise NotFound(
            "nothing stored has this value",
            hint="values inside of compressed data or base64 are not found",
        )


def _question(plans: Sequence[EraseValuePlan]) -> str:
    threads = counted(len(plans), "thread")
    number = sum(one.counts.checkpoints for one in plans)
    return f"Overwrite these values in {counted(number, 'checkpoint')} of {threads}"


def _carry_out(
    session: Session,
    side: ErasingSide,
    plans: Sequence[EraseValuePlan],
    *,
    rewrite: bool,
) -> tuple[list[EraseValuePlan], list[CkptError], Remains]:
    """Erase the values, and then what is left of them in the engine.

    Returns the plans that were carried out, why others were not, and what remains. Raises what
    `erase_values_of` raises if nothing was erased.
    """
    done: list[EraseValuePlan] = []
    problems: list[CkptError] = []
    readers = (session.store, session.rows)
    with (
        session.recorder.operation("erase", cannot_undo=_NOT_UNDONE) as recording,
        writable_store(session.names.store_url, readers) as writable,
    ):
        writable.begin_erasure()
        for plan in progress(plans, total=len(plans), label="erasing"):
            # An id that contains what is erased would keep it in the log.
            is_erased = plan.erasure.replaced(plan.thread_id) != plan.thread_id
            recording.intend([OperationStep(None if is_erased else plan.thread_id, None, None)])
            try:
                left = erase_values_of(side, writable, plan)
            except (StoreChanged, Unsupported, Refused) as error:
                if not done and plan is plans[-1]:
                    raise
                recording.not_done([plan.thread_id])
                problems.append(error)
                continue
            done.append(plan)
            if left:
                problems.append(StoreChanged(left))
        for reader in readers:
            reader.refresh()
        remains = writable.erase_remains(rewrite=rewrite)
    kept = tuple(one for plan in done for one in kept_places(side, plan))
    return done, problems, remains._replace(places=(*kept, *remains.places))


def _print(
    session: Session,
    plans: Sequence[EraseValuePlan],
    remains: Remains | None,
    *,
    dry_run: bool,
    is_shown: bool = False,
) -> None:
    output = session.output
    plans = _shown(session, plans)

    def record() -> Any:
        found = [erased_record(one, remains, dry_run=dry_run) for one in plans]
        return found[0] if len(found) == 1 else found

    def lines() -> Iterator[Any]:
        if not is_shown:
            yield from erased_lines(plans, output.width, is_done=not dry_run)
        if remains is not None:
            yield from remains_lines(remains)

    output.document(record, lines, rows=lambda: erased_rows(plans), columns=erased_columns())


def _shown(session: Session, plans: Sequence[EraseValuePlan]) -> Sequence[EraseValuePlan]:
    """Return the plans as they may be shown."""
    if not redaction.is_redacted(session.store):
        return plans
    return [_without_keys(one) for one in plans]


def _without_keys(plan: EraseValuePlan) -> EraseValuePlan:
    """Return a plan whose places are channels only: keys of dicts may be data."""
    places: Counter[ChangedPath] = Counter()
    for one, number in plan.counts.places.items():
        places[replace(one, path=one.path[:1])] += number
    return replace(plan, counts=replace(plan.counts, places=places))
