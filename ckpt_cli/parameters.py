"""Turns the annotated parameters of a command into parameters of the parser.

`takes`, `argument`, `option` and `flag` in `ckpt_cli.options` make the annotations.
"""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Callable, Iterator
from inspect import Parameter, signature
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, get_args, get_origin

import click

_LARGEST = 999_999_999
"""Products of two such numbers fit into the 64 bits that databases and iterators take."""


class ParameterHelp(NamedTuple):
    """How a parameter of a command is shown and checked."""

    help: str
    metavar: str | None = None
    names: tuple[str, ...] = ()
    """Empty: an option has the name of its parameter."""
    positional: bool = False
    min: Any = None
    max: Any = None
    """The lowest and the highest number that are allowed."""
    check: Callable[[str | None], str | None] | None = None


class CommandArgument(click.Argument):
    """An argument with a line in the help."""

    line = ""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:  # noqa: ARG002
        required = "  [required]" if self.required else ""
        return self.metavar or "", f"{self.line}{required}"

    def get_usage_pieces(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [f"{{{self.metavar}}}" if self.required else self.metavar or ""]


class WholeNumber(click.IntRange):
    """An integer with at most nine digits; errors do not call it a range."""

    name = "whole number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if abs(found) > _LARGEST:
            self.fail(f"{found} is too large", param, ctx)
        return found


class Number(click.FloatRange):
    """A number; errors do not call it a range."""

    name = "number"


def parameters(command: Callable[..., None]) -> Iterator[click.Parameter]:
    """Yield the parser's parameters for all parameters of a command but the first, the session."""
    _, *own = signature(command, eval_str=True).parameters.values()
    for one in own:
        kind, shown = get_args(one.annotation)
        yield _parameter(one.name, kind, shown, one.default)


def _parameter(name: str, kind: Any, shown: ParameterHelp, default: Any) -> click.Parameter:
    required = default is Parameter.empty
    single, many = _item(kind)
    more: dict[str, Any] = {
        "type": _type(single, shown),
        "required": required,
        "callback": _kept(shown, many),
        "metavar": shown.metavar,
    }
    if not (required or many):
        more["default"] = default
    if shown.positional:
        argument = CommandArgument([name], nargs=-1 if many else 1, **more)
        argument.line = shown.help
        return argument
    flag = single is bool
    return click.Option(
        [name, *(shown.names or (f"--{name.replace('_', '-')}",))],
        # With False, some releases of the parser let the value of an option be left out.
        is_flag=flag or None,
        multiple=many,
        help=shown.help,
        show_default=not (flag or required or default in {None, ""}),
        **more,
    )


def _item(kind: Any) -> tuple[Any, bool]:
    """Return the type of one value, and whether there may be many: `list[str] | None` is
    `(str, True)`.
    """
    kinds = [one for one in get_args(kind) if one is not NoneType]
    if get_origin(kind) is list:
        return kinds[0], True
    return _item(kinds[0]) if kinds else (kind, False)


def _type(single: Any, shown: ParameterHelp) -> "click.ParamType[Any]":
    if single is int:
        return WholeNumber(shown.min, shown.max)
    if single is float:
        return Number(shown.min, shown.max)
    if single is Path:
        return click.Path(path_type=Path)
    return {bool: click.BOOL, str: click.STRING}[single]


def _kept(shown: ParameterHelp, many: bool) -> Callable[..., Any] | None:
    """Return the parser's callback: it makes lists, None if there is no value, and checks."""

    def keep(ctx: click.Context, param: click.Parameter, value: Any) -> Any:  # noqa: ARG001
        if many:
            return list(value) or None
        return shown.check(value) if shown.check else value

    return keep if many or shown.check else None
