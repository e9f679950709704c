"""`ckpt memory edit`: edit a fact or a section of DeerFlow's memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from typer import Argument, Context, Option

from ckpt_backends.codec import decode, to_json
from ckpt_backends.memory.protocol import Item
from ckpt_backends.registry import open_memory
from ckpt_cli.apply.memory import check_editable, edit_item
from ckpt_cli.commands.memory import Under
from ckpt_cli.commands.plan_out import PlanOut, plannable
from ckpt_cli.core.memory.edit_fact import changes, parse_fields, refuse_duplicate
from ckpt_cli.core.memory.item_filter import parse_namespace
from ckpt_cli.core.redact import redact
from ckpt_cli.queries.memory import find_key, stored_item
from ckpt_cli.render.terminal.fields import field
from ckpt_cli.render.terminal.styled_text import StyledLine, line
from ckpt_cli.render.terminal.table import Column
from ckpt_cli.render.values.block import block
from ckpt_cli.session import Session

_COLUMNS = (
    Column("FIELD", "field", style="head"),
    Column("BEFORE", "before"),
    Column("AFTER", "after"),
)


@plannable("memory edit", writes="write")
def edit(
    ctx: Context,
    key: Annotated[str, Argument(metavar="KEY", help="Key, or NAMESPACE/KEY.")],
    fields: Annotated[
        list[str], Option("--set", metavar="FIELD=VALUE", help="Set a field; repeatable.")
    ],
    namespace: Under = "",
    write: Annotated[
        bool, Option("--write", help="Write the change. [default: only show it]")
    ] = False,
    plan_out: PlanOut = None,
) -> None:
    """Edit a fact or a section of DeerFlow's memory.

    Sets content, category or confidence of a fact, or the summary of a section, in memory.json.
    Everything else in the file stays. If the file changes meanwhile, nothing is written and the
    exit code is 6.

    ```
    ckpt -s memory.json memory edit fact_a1b2c3d4 --set category=goal
    ckpt -s memory.json memory edit fact_a1b2c3d4 --set confidence=0.5 --write
    ckpt -s memory.json memory edit workContext --set summary='Writes Go.' --write
    ```
    """
    session: Session = ctx.obj
    check_editable(session.names.store_url)
    with open_memory(session.names.store_url) as memory:
        address = find_key(memory, key, parse_namespace(namespace))
        item = stored_item(memory, address)
        new = parse_fields(fields, address.namespace[-1])
        if session.review is not None:
            session.review.see_item(memory, address)
        others = list(memory.items(prefix=address.namespace, values=True))
    refuse_duplicate(item, new, others)
    found = changes(None if item.value is None else decode(item.value), new)
    if write and found:
        with session.recorder.operation("memory edit") as recording:
            edit_item(session.names.store_url, item, found, recording)
    if session.settings.get("redact"):
        found = {name: (redact(before), redact(after)) for name, (before, after) in found.items()}
    record = _record(item, found, written=write and bool(found))
    session.output.document(
        lambda: record,
        lambda: _lines(item, found, session.output.width),
        rows=lambda: [{"field": name, **one} for name, one in record["changes"].items()],
        columns=_COLUMNS,
    )
    if not found:
        session.note("nothing to do: the fields already have these values")
    elif not write:
        session.note("nothing was written; add --write to write it")


def _record(item: Item, found: Mapping[str, tuple[Any, Any]], *, written: bool) -> dict[str, Any]:
    return {
        "namespace": list(item.key.namespace),
        "key": item.key.key,
        "changes": {
            name: {"before": to_json(before), "after": to_json(after)}
            for name, (before, after) in found.items()
        },
        "written": written,
    }


def _lines(item: Item, found: Mapping[str, tuple[Any, Any]], width: int) -> Iterator[StyledLine]:
    yield from field("key", item.key.key, width, "head")
    for name, (before, after) in found.items():
        yield line("")
        yield line((name, "head"))
        yield from (line((f"- {text}", "remove")) for text in block(before, 0, width - 2))
        yield from (line((f"+ {text}", "add")) for text in block(after, 0, width - 2))
