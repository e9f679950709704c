"""`ckpt demo`: a sample store to try everything on."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from ckpt_backends.errors import Refused, UsageError
from ckpt_cli import diagnostics


def demo(
    ctx: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Where to write the store.")],
) -> None:
    """Write a small sample store.

    A real LangGraph application wrote it: an agent with tools, a fan-out, a subgraph, a
    question that waits, a fork. An existing file is never overwritten.

    \b
      ckpt demo sample.db
      ckpt -s sample.db threads list
      ckpt -s sample.db show trip-to-kyoto --tree
    """
    try:
        sample = (files("ckpt_cli.data") / "sample.db").read_bytes()
        with path.open("xb") as target:
            target.write(sample)
    except FileExistsError:
        raise Refused(f"'{path}' exists already", hint="name a new file, or remove it") from None
    except OSError as error:
        raise UsageError(f"cannot write '{path}': {(error.strerror or '').lower()}") from error
    if not ctx.obj.settings.get("quiet"):
        diagnostics.note(f"wrote '{path}'; now try: ckpt -s {path} threads list")
