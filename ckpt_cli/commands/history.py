"""`ckpt history`: list the checkpoints of a thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from ckpt_backends.errors import NotFound, Unreadable
from ckpt_backends.model import CheckpointKey
from ckpt_cli.core.short_refs import short_refs
from ckpt_cli.options import Namespace, argument, flag, option
from ckpt_cli.queries.history import history_entries
from ckpt_cli.queries.messages import conversation
from ckpt_cli.render.history import history_columns
from ckpt_cli.render.messages import message_records
from ckpt_cli.render.records import entry_record
from ckpt_cli.render.thread import PLAINTEXT
from ckpt_cli.render.values.one_line import counted
from ckpt_cli.session import Session
from ckpt_cli.threads.target import Target, find_thread
from ckpt_cli.threads.thread import ThreadReader


def history(
    session: Session,
    thread: Annotated[str | None, argument("[THREAD]", "Thread id. [default: the newest]")] = None,
    ns: Namespace = None,
    all_ns: Annotated[bool, flag("List all namespaces.")] = False,
    limit: Annotated[
        int | None, option("N", "Show at most N. [default: all]", "-n", "--limit", min=1)
    ] = None,
    messages: Annotated[bool, flag("Add the conversation at each checkpoint, in JSON.")] = False,
) -> None:
    """List a thread's checkpoints, newest first.

    NODE lists the nodes that ran just before the checkpoint, NEXT the nodes that run after it.
    STATUS and WRITES are those of the step after it; "retried" means that a node failed, was run
    again and finished. A narrow terminal shows fewer columns; -o tsv prints all.

    \b
      ckpt -s agent.db history user-42
      ckpt -s agent.db history user-42 --ns 'research:*' -n 20
      ckpt -s agent.db history user-42 -o ndjson | jq .next
      ckpt -s agent.db history user-42 --messages -o json
    """
    reader = find_thread(session.store, thread, session.note)
    entries = history_entries(reader, ns, all_ns=all_ns, limit=limit)
    ids = [one.key.checkpoint_id for name in reader.namespaces for one in reader.index(name)]
    columns = history_columns(short_refs(ids), session.now, session.zone, all_ns=all_ns)
    plain = 0

    def records() -> Iterator[dict[str, Any]]:
        nonlocal plain
        for entry in entries:
            plain += entry.plaintext
            record = entry_record(entry)
            if messages:
                record["messages"] = _said(reader, entry.moment.key)
            yield record

    session.output.records(records(), columns)
    if plain:
        session.warn(f"{counted(plain, 'checkpoint')} {PLAINTEXT}")


def _said(reader: ThreadReader, key: CheckpointKey) -> list[dict[str, Any]]:
    """The messages at a checkpoint, if it has a conversation."""
    target = Target(reader, key.checkpoint_ns, key.checkpoint_id, chosen=True)
    try:
        return list(message_records(conversation(target, None).turns, 0))
    except (NotFound, Unreadable):
        return []
