"""Commands that are imported when they are called; help and completion need only their line."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from keyword import iskeyword
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from ckpt_backends import shell
from ckpt_backends.errors import UsageError
from ckpt_backends.url import printable

MARKUP: Any = "markdown"
"""In the help, paragraphs are filled, brackets stay, and indented examples are code."""


def without_type_of_flags(params: Iterable[Any]) -> None:
    """Let the help show `--full` where it would show `--full <bool>`."""
    for one in params:
        if one.param_type_name == "option" and one.is_flag:
            one.metavar = ""


def _python_name(word: str) -> str:
    """Return the name of a command in Python: `list_` for `list`."""
    return f"{word}_" if iskeyword(word) or hasattr(builtins, word) else word


class LazyCommand(TyperCommand):
    """The name and the line of a command. Its function is imported when it is called."""

    def __init__(self, name: str, line: str, panel: str | None = None, module: str = "") -> None:
        super().__init__(name, help=line, rich_help_panel=panel, rich_markup_mode=MARKUP)
        self.module = module or name
        self._command: Any = None

    def load(self, shared: Sequence[Any]) -> Any:
        """Import the command, and add the options that it shares with all others."""
        if self._command is None:
            module = import_module(f"ckpt_cli.commands.{_python_name(self.module)}")
            app = typer.Typer(add_completion=False, rich_markup_mode=MARKUP)
            app.command(self.name)(getattr(module, _python_name(self.name or "")))
            self._command = get_command(app)
            without_type_of_flags(self._command.params)
            self._command.params += shared
        return self._command

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Parse the arguments of the command itself."""
        command = self.load(parent.command.shared)
        return command.make_context(info_name, args, parent=parent, **extra)


class Group(TyperGroup):
    """Commands by name, and what was once a name of one."""

    moved: Mapping[str, str] = {}
    """The words of a command line that has no command, to what does it now."""

    @property
    def shared(self) -> list[Any]:
        """The options that may also stand behind the commands of this group."""
        return [*self.params]

    def loaded(self, name: str) -> Any:
        """Return a command of this group, imported; None if there is no such command."""
        found = self.commands.get(name)
        return found.load(self.shared) if isinstance(found, LazyCommand) else found

    def named_in(self, argv: Sequence[str]) -> str:
        """Return the words of the command that a wrong command line most likely means."""
        for at, word in enumerate(argv):
            if (found := self.commands.get(word)) is not None:
                inner = found.named_in(argv[at + 1 :]) if isinstance(found, Group) else ""
                return f"{word} {inner}".strip()
        return ""

    def walk(self, above: str = "") -> Iterator[tuple[str, Any]]:
        """Yield all commands, imported, by their words."""
        for name in self.commands:
            found, words = self.loaded(name), f"{above} {name}".strip()
            if isinstance(found, Group):
                yield from found.walk(words)
            else:
                yield words, found

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that is named. Raises `UsageError` for a name of former times."""
        above, moved = ctx.command_path.split(" ")[1:], ctx.find_root().command.moved
        for given in () if args[0] in self.commands else (args[:2], args[:1]):
            words = " ".join([*above, *given])
            if now := moved.get(words):
                raise UsageError(f"there is no `ckpt {words}`", hint=f"use `ckpt {now}`")
        return super().resolve_command(ctx, args)


_STORES = frozenset({"STORE", "URL", "[NAME=]STORE"})
"""The metavars of options that name a store, perhaps with a password."""
_VALUES = frozenset({"CHANNEL=JSON", "FIELD=VALUE", "FILTER", "THREAD:PATH", "CONTENT"})
"""The metavars of options that hold values of a store or name a person."""
_MASK = "..."


def command_text(command: Group, argv: Sequence[str]) -> str:
    """Return a command line to read, with each value of the store masked.

    The parser itself says which word is the value of an option, however it was written.
    """
    words: list[str] = []
    left: list[str] = [*argv]
    context: typer.Context | None = None
    while True:
        # With its parent: a command keeps the first option --help that it makes, with those names.
        context = typer.Context(command, parent=context, **command.context_settings)
        given, left, order = command.make_parser(context).parse_args(left)
        values = {name: iter(v if isinstance(v, list) else [v]) for name, v in given.items()}
        ids: list[str] = []
        options: list[str] = []
        for one in order:
            if one.param_type_name == "option":
                options += _option(one, next(values[one.name or ""], None))
            else:
                found = given[one.name or ""]
                ids += found if isinstance(found, list | tuple) else [found]
        ids = [one for one in ids if isinstance(one, str)]
        # A word that looks like an option is none behind `--`.
        hidden = any(one.startswith("-") for one in ids)
        words += [*options, "--", *ids] if hidden else [*ids, *options]
        following = command.loaded(left[0]) if isinstance(command, Group) and left else None
        if following is None:
            return shell.command("ckpt", *words)
        words.append(left.pop(0))
        command = following


def _option(one: Any, value: object) -> list[str]:
    """Return an option with its value, as it is printed."""
    name = one.opts[0]
    if one.is_flag or one.count or value is None:
        return [name]
    if one.metavar in _VALUES:
        return [name, _MASK]
    return [name, printable(str(value)) if one.metavar in _STORES else str(value)]
