"""Makes the manual pages of a wheel from the Typer application: `ckpt(1)` and one a command.

Each build of a wheel runs it, also that of `pip install .`. To look at a page:
`python hatch_build.py FOLDER && man FOLDER/ckpt-rollback.1`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TOP = Path(__file__).parent
EXIT_CODES = {
    "0": "Done.",
    "1": "A check found something, or a search found nothing.",
    "2": "The command line is wrong.",
    "3": "Not found, or ambiguous.",
    "4": "The store cannot be reached or read, or its layout cannot do this.",
    "5": "Refused: it needs --yes, or a rule of safety forbids it.",
    "6": "The store changed meanwhile; nothing was written.",
    "7": "Done in part.",
    "70": "A fault of ckpt itself.",
    "130": "Interrupted.",
}


class CustomBuildHook(BuildHookInterface[Any]):
    """Adds the pages to a wheel, in `share/man/man1`, where `man` looks beside `bin`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write them into a folder of their own; an editable installation has none."""
        if version == "editable":
            return
        sys.path[:0] = [str(TOP), str(TOP / "backends")]
        folder = Path(mkdtemp())
        for name in write(folder):
            build_data["shared_data"][str(folder / name)] = f"share/man/man1/{name}"


def write(folder: Path) -> list[str]:
    """Write all pages into a folder, and return their names."""
    from ckpt_cli import __version__
    from ckpt_cli.app import COMMANDS, HELP, root

    lines = {words: line for commands in COMMANDS.values() for words, line in commands.items()}
    commands = dict(root().walk())
    pages = {"ckpt": _page("ckpt", HELP, root(), __version__, lines)}
    for words, command in commands.items():
        name = f"ckpt-{words.replace(' ', '-')}"
        pages[name] = _page(f"ckpt {words}", command.help, command, __version__)
    for name, text in pages.items():
        (folder / f"{name}.1").write_text(text, "utf-8")
    return [f"{name}.1" for name in sorted(pages)]


def _page(
    title: str, text: str, command: Any, version: str, commands: dict[str, str] | None = None
) -> str:
    name = title.replace(" ", "-")
    first, _, rest = text.strip().partition("\n")
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    own = [one for one in options if one.rich_help_panel != "Global options"]
    usage = "COMMAND [ARGS]..." if commands else " ".join(map(_argument, arguments))
    return "\n".join(
        [
            f'.TH {_text(name.upper())} 1 "" "ckpt {version}" "ckpt"',
            *(".SH NAME", _text(f"{name} - {first.rstrip('.')}", dashes=False)),
            *(".SH SYNOPSIS", rf"\fB{_text(title)}\fR [OPTIONS] {_text(usage)}".rstrip()),
            *(".SH DESCRIPTION", *_paragraphs(rest)),
            *_list("COMMANDS", (commands or {}).items()),
            *_list("ARGUMENTS", ((_argument(one), _said(one)) for one in arguments)),
            *_list("OPTIONS", ((_option(one), _said(one)) for one in (own or options))),
            *_list("EXIT STATUS", EXIT_CODES.items()),
            ".SH SEE ALSO",
            "The documents: https://langgraph-ckpt.github.io/ckpt/"
            if commands
            else r"\fBckpt\fR(1) has the options of every command.",
            "",
        ]
    )


def _list(heading: str, rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield a section of terms with their text, if there is any."""
    for number, (term, text) in enumerate(rows):
        if number == 0:
            yield f".SH {heading}"
        yield from (".TP", rf"\fB{_text(term)}\fR", _text(text) or r"\&")


def _paragraphs(markdown: str) -> Iterator[str]:
    """Yield the lines of a help text: paragraphs, and code as it stands."""
    for number, part in enumerate(re.split(r"^```\n", f"{markdown.strip()}\n", flags=re.M)):
        if number % 2:
            yield from (".PP", ".RS 4", ".nf", *map(_text, part.splitlines()), ".fi", ".RE")
        else:
            for paragraph in re.split(r"\n{2,}", part.strip()):
                if paragraph:
                    yield from (".PP", *(_text(line.strip()) for line in paragraph.splitlines()))


def _argument(one: Any) -> str:
    shown = one.metavar or one.name.upper()
    bare: str = shown if one.nargs == 1 else f"{shown}..."
    return bare if one.required else f"[{bare}]"


def _option(one: Any) -> str:
    names = ", ".join([*one.opts, *one.secondary_opts])
    return names if one.is_flag or one.count else f"{names} {one.metavar or one.type.name.upper()}"


def _said(one: Any) -> str:
    return " ".join((one.help or "").split())


def _text(text: str, *, dashes: bool = True) -> str:
    """Return a text as roff prints it: no request, and dashes that can be copied."""
    escaped = text.replace("\\", r"\e")
    escaped = escaped.replace("-", r"\-") if dashes else escaped
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


if __name__ == "__main__":
    sys.path[:0] = [str(TOP), str(TOP / "backends")]
    write(Path(sys.argv[1]))
