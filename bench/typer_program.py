"""A Typer program with as many options of the same kinds as `ckpt`, and 41 commands, that does
nothing: as a program it prints help, and `parse` is the start of each baseline.
"""

from collections.abc import Mapping
from typing import Any, Literal

import typer
from typer.main import get_command

_OPTIONS = {
    **dict.fromkeys(("store", "config", "at", "ns", "as_of", "path", "key"), "str | None"),
    **dict.fromkeys(("output", "color"), "Literal['auto', 'never'] | None"),
    **dict.fromkeys(("redact", "copy", "no_pager", "utc", "quiet", "verbose", "debug"), "bool"),
    "channel": "list[str] | None",
}
"""The same for the program and for its command `show`."""


def _function(kinds: Mapping[str, str]) -> Any:
    """Return a function that takes these options, and does nothing."""
    told = [
        f"{name}: {kind} = typer.Option(None, help='What for.')" for name, kind in kinds.items()
    ]
    found: dict[str, Any] = {"typer": typer, "Literal": Literal}
    exec(f"def show({', '.join(told)}): 'Print one checkpoint.'", found)
    return found["show"]


def _program(others: int) -> typer.Typer:
    app = typer.Typer(callback=_function(_OPTIONS), pretty_exceptions_enable=False)
    app.command("show")(_function({"thread": "str", **_OPTIONS}))
    for number in range(others):
        app.command(f"command-{number}")(_function({}))
    return app


def parse() -> None:
    """Parse a command line, as each command of such a program does."""
    words = ["--store", "x", "show", "--thread", "x"]
    get_command(_program(0)).main(words, "peer", standalone_mode=False)


def main() -> None:
    """Run the program, for its help."""
    _program(40)()
