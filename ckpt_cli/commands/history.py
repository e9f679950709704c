"""`ckpt history`: list the checkpoints of a thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Context, Option

from ckpt_backends.errors import Unreadable
from ckpt_cli.api.thread import CheckpointHandle
from ckpt_cli.core.refs import short_refs
from ckpt_cli.options import AsOf, Namespace, number
from ckpt_cli.render.history import history_columns
from ckpt_cli.render.show import PLAINTEXT
from ckpt_cli.render.values import counted
from ckpt_cli.session import Session

if TYPE_CHECKING:
    from ckpt_cli.reading.thread import ThreadReader


def history(
    ctx: Context,
    thread: Annotated[
        str | None, Argument(metavar="THREAD", help="Thread id. [default: the newest]")
    ] = None,
    ns: Namespace = None,
    all_ns: Annotated[bool, Option("--all-ns", help="List all namespaces.")] = False,
    limit: Annotated[int | None, number("Show at most N. [default: all]", "-n", "--limit")] = None,
    messages: Annotated[
        bool, Option("--messages", help="Add the conversation at each checkpoint, in JSON.")
    ] = False,
    as_of: AsOf = None,
) -> None:
    """List a thread's checkpoints, newest first.

    NODE lists the nodes that ran just before the checkpoint, NEXT the nodes that run after it.
    STATUS and WRITES are those of the step after it; "retried" means that a node failed, was run
    again and finished. A narrow terminal shows fewer columns; -o tsv prints all.

    ```
    ckpt -s agent.db history user-42
    ckpt -s agent.db history user-42 --ns 'research:*' -n 20
    ckpt -s agent.db history user-42 -o ndjson | jq .next
    ckpt -s agent.db history user-42 --messages -o json
    ```
    """
    session: Session = ctx.obj
    found = session.thread(thread)
    reader = found.reader
    shorts = _short_refs(reader) if session.output.table else {}
    columns = history_columns(shorts, all_ns=all_ns)
    plain = 0

    def records() -> Iterator[dict[str, Any]]:
        nonlocal plain
        for one in found.history(ns=ns, all_ns=all_ns, limit=limit):
            plain += one.entry.plaintext
            record = one.listed().to_dict()
            if messages:
                record["messages"] = _said(one)
            yield record

    session.output.records(records(), columns)
    if plain:
        session.warn(f"{counted(plain, 'checkpoint')} {PLAINTEXT}")


def _short_refs(reader: ThreadReader) -> Mapping[str, str]:
    """The refs that a table shows, by the id of each checkpoint of the thread."""
    return short_refs(
        [one.key.checkpoint_id for name in reader.namespaces for one in reader.index(name)]
    )


def _said(checkpoint: CheckpointHandle) -> list[dict[str, Any]]:
    """The messages at a checkpoint, if it has a conversation that can be read."""
    try:
        return checkpoint.messages
    except Unreadable:
        return []
