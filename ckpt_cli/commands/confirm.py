"""Ask a person before something is written."""

from __future__ import annotations

from ckpt_backends.errors import Refused
from ckpt_cli import diagnostics


def confirm(question: str) -> None:
    """Ask a person. Raises `Refused` where there is none, or the answer is no."""
    answer = diagnostics.ask(question)
    if answer is None:
        raise Refused(
            "confirmation needed, but there is no terminal; nothing was written",
            hint="add --yes to go ahead, or --dry-run to see the plan",
        )
    if not answer:
        raise Refused("not confirmed; nothing was written")
