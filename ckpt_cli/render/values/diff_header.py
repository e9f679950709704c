"""Print the names of the two checkpoints that a diff compares."""

from __future__ import annotations

from collections.abc import Iterator

from ckpt_cli.queries.diff import Comparison
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import Span, StyledLine, line
from ckpt_cli.render.terminal.units import step_number
from ckpt_cli.threads.checkpoint import Moment


def diff_header_lines(found: Comparison) -> Iterator[StyledLine]:
    """Yield the old and the new checkpoint of a diff, in the way git names two files."""
    is_first = found.after.checkpoint.parent_checkpoint_id is None
    before: tuple[Span, ...] = (("nothing" if is_first else "the parent is not stored", "dim"),)
    if found.before is not None:
        before = _named(found.before)
    yield line(("--- ", "remove"), *before)
    yield line(("+++ ", "add"), *_named(found.after))


def _named(moment: Moment) -> tuple[Span, ...]:
    key = moment.key
    ns = f" {safe_text(key.checkpoint_ns)}" if key.checkpoint_ns else ""
    return (
        (safe_text(key.thread_id), "head"),
        (f"@{safe_text(key.checkpoint_id)}", "id"),
        (f"{ns}  step {step_number(moment.number)}", "dim"),
    )
