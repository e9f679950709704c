"""Make the page of `ckpt report`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ckpt_backends.errors import NotFound, Unreadable
from ckpt_cli import __version__
from ckpt_cli.api.answer import Watcher, unwatched
from ckpt_cli.api.surroundings import When, time_of
from ckpt_cli.queries.messages import Conversation, conversation
from ckpt_cli.queries.report import (
    ChosenCheckpoints,
    ReportedCheckpoint,
    choose_checkpoints,
    reported_checkpoints,
)
from ckpt_cli.queries.show import summarize
from ckpt_cli.reading import redaction
from ckpt_cli.reading.target import Target
from ckpt_cli.render.report import ReportParts, checkpoint_json, report_page
from ckpt_cli.render.tree import UNICODE, TreeWording
from ckpt_cli.render.tree_pictures import draw_tree
from ckpt_cli.render.values import counted

if TYPE_CHECKING:
    from ckpt_cli.api.thread import CheckpointHandle


def report(
    found: CheckpointHandle,
    *,
    all_ns: bool,
    since: When | None,
    last: int,
    watch: Watcher = unwatched,
) -> Iterable[str]:
    """Yield the page about a thread in pieces; it first shows this checkpoint.

    `watch` gets the checkpoints as they are read. Notes what is not in the page. Raises
    `UsageError` for a time that cannot be read.
    """
    thread, reader = found.thread, found.target.reader
    around = thread.around
    namespaces = reader.namespaces if all_ns else [found.ns]
    key = (found.ns, found.id)
    chosen = choose_checkpoints(
        reader, namespaces, since=time_of(around, since), last=last, keep=key
    )
    tree = thread.read_tree(None if all_ns else found.ns, all_ns=all_ns, keep=found)
    drawn = draw_tree(
        tree.plan, TreeWording(tree.plan, tree.details, tree.refs, UNICODE), around.zone
    )
    places = {one: place for place, one in enumerate(chosen.keys)}
    refs = tree.refs
    parts = ReportParts(
        summary=summarize(reader, thread.operations),
        tree=drawn,
        checkpoints=checkpoint_json(
            watch(_reported(found, chosen)), places, drawn.rows, refs, around.zone
        ),
        start=places[key],
        ref=refs.get(found.id, found.id),
        ns=found.ns,
        checkpoint_id=found.id,
        conversation=_conversation(found.target),
        timeline=found.timeline(since=since, last=last),
        info=reader.store.describe(),
        words=around.names.words,
        left_out=_left_out(chosen),
        version=__version__,
        is_redacted=redaction.is_redacted(reader.store),
        now=around.now,
        zone=around.zone,
    )
    page = report_page(parts)
    for one in page.left_out:
        around.note(one[0].lower() + one[1:].rstrip("."))
    return page.pieces


def _reported(found: CheckpointHandle, chosen: ChosenCheckpoints) -> Iterator[ReportedCheckpoint]:
    by_ns: dict[str, list[str]] = {}
    for ns, checkpoint_id in chosen.keys:
        by_ns.setdefault(ns, []).append(checkpoint_id)
    for ns, ids in by_ns.items():
        yield from reported_checkpoints(found.target.reader, ns, ids, found.thread.operations)


def _conversation(target: Target) -> Conversation | None:
    try:
        return conversation(target, None)
    except (NotFound, Unreadable):
        return None


def _left_out(chosen: ChosenCheckpoints) -> list[str]:
    left_out = []
    if chosen.older:
        option = "an earlier --since" if chosen.before_since else "--last N"
        left_out.append(
            f"{counted(chosen.older, 'older checkpoint')} not included; {option} adds more."
        )
    if chosen.in_calls:
        number = counted(chosen.in_calls, "checkpoint")
        left_out.append(f"{number} in other namespaces not included; --all-ns adds them.")
    return left_out
