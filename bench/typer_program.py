"""A Typer program with as many options of the same kinds as `ckpt`, and 41 commands, that does
nothing: as a program it prints help, and `parse` is the start of each baseline.
"""

from inspect import Parameter, Signature
from typing import Annotated, Any, Literal

import typer
from typer.main import get_command

_OPTIONS: dict[str, Any] = {
    **dict.fromkeys(("store", "config", "at", "ns", "as_of", "path", "key"), str | None),
    **dict.fromkeys(("output", "color"), Literal["auto", "never"] | None),
    **dict.fromkeys(("redact", "copy", "no_pager", "utc", "quiet", "verbose", "debug"), bool),
    "channel": list[str] | None,
}
"""The same for the program and for its command `show`."""


def _function(kinds: dict[str, Any]) -> Any:
    """Return a function that takes these options, and does nothing."""

    def show(**_: Any) -> None:
        """Print one checkpoint."""

    parameters = []
    for name, kind in kinds.items():
        told: Any = typer.Option(f"--{name.replace('_', '-')}", help="What it is for.")
        if name == "thread":
            told = typer.Argument(metavar="THREAD", help="What is shown.")
        of: Any = Annotated[kind, told]
        default = False if kind is bool else None
        parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=of))
    show.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    show.__annotations__ = {one.name: one.annotation for one in parameters}
    return show


def _program(others: int) -> typer.Typer:
    shared = _function(_OPTIONS)
    app = typer.Typer(callback=shared, add_completion=False, pretty_exceptions_enable=False)
    for name in ("show", *(f"command-{number}" for number in range(others))):
        app.command(name)(_function({"thread": str | None, **_OPTIONS} if name == "show" else {}))
    return app


def parse() -> None:
    """Parse a command line, as each command of such a program does."""
    get_command(_program(0)).main(["--store", "x", "show", "thread"], "peer", standalone_mode=False)


def main() -> None:
    """Run the program, for its help."""
    _program(40)()
