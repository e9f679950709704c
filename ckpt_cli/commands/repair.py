"""`ckpt repair`: the table of its kinds, which is all that help needs."""

from __future__ import annotations

from ckpt_cli.lazy import CommandRef

COMMANDS = {
    "messages": CommandRef("repair_kinds:messages", "Answer tool calls that have no result."),
    "values": CommandRef("repair_kinds:values", "Restore values that are missing or unreadable."),
    "writes": CommandRef(
        "repair_kinds:writes", "Drop answers that were used already, or that made a task fail."
    ),
}
