"""`ckpt demo`: write a sample store."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

from typer import Argument, Context

from ckpt_backends import shell
from ckpt_backends.errors import Refused, UsageError, reason_of
from ckpt_backends.files import writing
from ckpt_cli import diagnostics
from ckpt_cli.session import Session


def demo(
    ctx: Context, path: Annotated[Path, Argument(metavar="PATH", help="File to create.")]
) -> None:
    """Create a small sample store.

    A real LangGraph application wrote it. It has an agent with tools, parallel tasks, a subgraph,
    an open question, a failed step and a fork. An existing file is not overwritten.

    ```
    ckpt demo sample.db
    ckpt -s sample.db threads list
    ckpt -s sample.db show trip-to-kyoto --tree
    ```
    """
    session: Session = ctx.obj
    try:
        sample = (files("ckpt_cli.data") / "sample.db").read_bytes()
        with writing(path, replace=False) as target:
            target.write(sample)
    except FileExistsError:
        raise Refused(
            f"cannot create '{path}': the file exists", hint="use another file name"
        ) from None
    except OSError as error:
        hint = "give a file in a folder that is writable"
        raise UsageError(f"cannot create '{path}': {reason_of(error)}", hint=hint) from error
    if not session.settings.get("quiet"):
        look = shell.command("ckpt", "-s", str(path), "threads", "list")
        diagnostics.note(f"created '{path}'; now try: {look}")
