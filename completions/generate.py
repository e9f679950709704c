"""Writes the completions for bash, zsh and fish from the commands' own options.

Run it after a change of an option: `python completions/generate.py`. A test compares. The scripts
hold commands and options; thread ids and refs come from `ckpt _complete`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ckpt_backends.model import Status
from ckpt_cli.app import root
from ckpt_cli.lazy import Group

TEMPLATES = Path(__file__).parent
FOLDER = TEMPLATES.parent / "ckpt_cli" / "completions"

WORDS: Mapping[str, tuple[str, ...]] = {"--status": tuple(Status)}
"""The values of an option."""
KINDS: Mapping[str, str] = {
    "URL": "store",
    "STORE": "store",
    "FILE": "file",
    "DIR": "file",
    "THREAD": "thread",
    "THREAD[@REF]": "target",
    "REF": "ref",
    "CHANNEL": "channel",
    "CHANNEL[.PATH]": "channel",
    "KEY": "item",
    "KEYS": "grouping",
    "SESSION": "session",
    "OP": "op",
    "UNDO|OP": "undone",
    "THREAD|OP": "change",
    "FILTER": "filter",
}
"""By metavar, the kind of a value for `ckpt _complete`; the shell itself completes a `file`."""
NAMED_KINDS: Mapping[tuple[str, str], str] = {
    ("--ns", "NAMESPACE"): "ns",
    ("--namespace", "NAMESPACE"): "namespace",
    ("namespace", "NAMESPACE"): "namespace",
    ("path", "PATH"): "file",
    ("--sort", "KEY"): "",
    ("--by", "KEY"): "",
}
"""By the name and metavar of an option or argument, the kind if the metavar does not tell it."""


@dataclass(frozen=True)
class Option:
    names: tuple[str, ...]
    takes_value: bool
    kind: str
    """The kind of its value, or `words:...`; empty if it cannot be completed."""
    help: str


@dataclass(frozen=True)
class Argument:
    kind: str
    is_repeated: bool


@dataclass(frozen=True)
class Command:
    name: str
    """With its group, such as `threads list`."""
    help: str
    options: tuple[Option, ...]
    arguments: tuple[Argument, ...]


def commands() -> list[Command]:
    """All commands with their options; the first is `ckpt` itself, with the global options."""
    group = root()
    context = group.make_context("ckpt", ["_"], resilient_parsing=True)
    found = [Command("", "", (*_options(context, group.params), _HELP), ())]
    named = dict(group.walk())
    for name, one in group.commands.items():
        if isinstance(one, Group):
            found.append(Command(name, one.help or "", (), ()))
            inner = {f"{name} {sub}": ref for sub, ref in one.commands.items()}
        else:
            inner = {name: one}
        for words, ref in inner.items():
            own = [p for p in named[words].params if p not in group.params]
            arguments = (
                Argument(_kind(context, param), param.nargs == -1)
                for param in own
                if param.param_type_name == "argument"
            )
            options = _options(context, own)
            found.append(Command(words, ref.help or "", tuple(options), tuple(arguments)))
    return found


_HELP = Option(("--help",), False, "", "Show this message and exit.")


def groups(found: list[Command]) -> dict[str, list[str]]:
    """The names of groups, with the names of their commands."""
    of: dict[str, list[str]] = {}
    for command in found:
        group, _, name = command.name.rpartition(" ")
        if group:
            of.setdefault(group, []).append(name)
    return of


def _options(context: Any, params: list[Any]) -> Iterator[Option]:
    for param in params:
        if param.param_type_name == "option":
            kind = "" if param.is_flag else _kind(context, param)
            names = (*param.opts, *param.secondary_opts)
            yield Option(names, not param.is_flag, kind, param.help or "")


def _kind(context: Any, param: Any) -> str:
    """The kind of a value: its choices, or by its name and a metavar such as `[THREAD]...`."""
    name = param.opts[-1]
    choices = [one.value for one in param.shell_complete(context, "")] or WORDS.get(name)
    if choices:
        return f"words:{' '.join(choices)}"
    bare = param.metavar.removesuffix("...")
    bare = bare[1:-1] if bare.startswith("[") else bare
    return NAMED_KINDS.get((name, bare), KINDS.get(bare, ""))


def _valued(found: list[Command]) -> list[str]:
    """Patterns of command and option, for all options that take a value.

    An option that takes one in some commands only, such as `--where`, is named with them.
    """
    options = [(command.name, option) for command in found for option in command.options]
    flags = {name for _, option in options if not option.takes_value for name in option.names}
    patterns = dict.fromkeys(
        f"{command if name in flags else '*'} {name}"
        for command, option in options
        if option.takes_value
        for name in option.names
    )
    return list(patterns)


def _kinds(found: list[Command]) -> dict[str, str]:
    """Pattern of command and option to the kind of its value."""
    kinds = [
        (command.name, name, option.kind)
        for command in found
        for option in command.options
        if option.takes_value
        for name in option.names
    ]
    of_name: dict[str, set[str]] = {}
    for _, name, kind in kinds:
        of_name.setdefault(name, set()).add(kind)
    return {
        f"{'*' if len(of_name[name]) == 1 else command} {name}": kind
        for command, name, kind in kinds
        if kind
    }


def _shared(found: list[Command]) -> str:
    """The part that bash and zsh share: it finds what to complete from the words before."""
    words = [command.name for command in found if command.name]
    top = [name for name in words if " " not in name]
    valued = "|".join(_pattern(one) for one in _valued(found))
    lines = [
        '    for word in "${before[@]}"; do',
        "        if [[ -n $want ]]; then",
        "            case $want in",
        "                -s|--store) store=$word ;;",
        "                --config) config=$word ;;",
        "                --ns|--namespace) ns=$word ;;",
        "            esac",
        "            want=",
        "        elif [[ -z $ended && $word == -* ]]; then",
        '            case "$cmd $word" in',
        '                *" --") ended=1 ;;',
        '                *" --store="*) store=${word#*=} ;;',
        '                *" --config="*) config=${word#*=} ;;',
        '                *" --ns="*|*" --namespace="*) ns=${word#*=} ;;',
        f"                {valued}) want=$word ;;",
        "            esac",
        "        elif [[ -z $cmd ]]; then",
        "            cmd=$word",
        *(
            line
            for group in groups(found)
            for line in (
                f"        elif [[ $cmd == {group} ]]; then",
                f'            cmd="{group} $word"',
            )
        ),
        "        else",
        "            [[ $place == 0 ]] && thread=$word",
        "            place=$((place + 1))",
        "        fi",
        "    done",
        "    if [[ -z $want && -z $ended && $cur == --*=* ]]; then",
        "        want=${cur%%=*} lead=${cur%%=*}= cur=${cur#*=}",
        "    fi",
        "    is_value=$want$ended",
        "    if [[ -n $want ]]; then",
        '        case "$cmd $want" in',
        *(
            f'            {_pattern(name)}) kind="{kind}" ;;'
            for name, kind in _kinds(found).items()
        ),
        "        esac",
        "    elif [[ -z $ended && $cur == -* ]]; then",
        "        case $cmd in",
        *(
            f'            {_quoted(command.name)}) kind="words:{_names(command)}" ;;'
            for command in found
            if command.options and command.name
        ),
        "        esac",
        f'        kind="${{kind:-words:}} {_names(found[0])}"',
        "    elif [[ -z $cmd ]]; then",
        f'        kind="words:{" ".join(top)}"',
        "    else",
        '        case "$cmd:$place" in',
        *(
            f'            "{group}:0") kind="words:{" ".join(inner)}" ;;'
            for group, inner in groups(found).items()
        ),
        *(
            f'            {_place(command.name, place, one)}) kind="{one.kind}" ;;'
            for command in found
            for place, one in enumerate(command.arguments)
            if one.kind
        ),
        "        esac",
        "    fi",
    ]
    return "\n".join(lines)


def _names(command: Command) -> str:
    return " ".join(name for option in command.options for name in option.names)


def _pattern(text: str) -> str:
    """A pattern whose first character may be `*`, with the rest in quotes."""
    return f'*"{text[1:]}"' if text.startswith("*") else f'"{text}"'


def _place(command: str, place: int, argument: Argument) -> str:
    """The pattern of an argument's place; a repeated one is the last or the only one."""
    if not argument.is_repeated:
        return f'"{command}:{place}"'
    return f'"{command}:"' + ("[!0]*" if place else "*")


def _quoted(name: str) -> str:
    return f'"{name}"' if " " in name else name


def _fish(found: list[Command]) -> str:
    lines = []
    for command in found[1:]:
        group, _, name = command.name.rpartition(" ")
        where = f'__ckpt_at "{group}" 0'
        lines.append(f"complete -c ckpt -n '{where}' -a {name} -d {_text(command.help)}")
        for place, one in enumerate(command.arguments):
            if one.kind:
                last = f" {_MANY}" if one.is_repeated else ""
                where = f'__ckpt_at "{command.name}" {place}{last}'
                values = _fish_values(one.kind, " argument")
                lines.append(f"complete -c ckpt -n '{where}' {values}")
    for command in found:
        where = f" -n '__ckpt_in \"{command.name}\"'" if command.name else ""
        for option in command.options:
            names = " ".join(
                f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                for name in option.names
            )
            exclusive = "-r" if option.kind in {"file", "store"} else "-x"
            value = f" {exclusive} {_fish_values(option.kind)}".rstrip()
            value = value if option.takes_value else ""
            lines.append(f"complete -c ckpt{where} {names}{value} -d {_text(option.help)}")
    return "\n".join(lines) + "\n"


_MANY = 9999
"""More arguments than a command line has."""


def _fish_values(kind: str, what: str = "") -> str:
    if kind == "file":
        return "-F"
    if kind.startswith("words:"):
        return f"-a '{kind.removeprefix('words:')}'"
    files = " -F" if kind == "store" else ""
    return f"-a '(__ckpt_ask {kind}{what})'{files}" if kind else ""


def _text(text: str) -> str:
    return "'" + re.sub(r"(['\\])", r"\\\1", text) + "'"


def scripts() -> dict[str, str]:
    """File name to script."""
    found = commands()
    shared = _shared(found)
    bash, zsh, fish = (
        (TEMPLATES / f"template.{name}").read_text("utf-8") for name in ("bash", "zsh", "fish")
    )
    valued = " ".join(f"'{one}'" for one in _valued(found))
    fish = fish.replace("@VALUED@", valued).replace("@GROUPS@", " ".join(groups(found)))
    return {
        "ckpt.bash": bash.replace("@SHARED@", shared),
        "_ckpt": zsh.replace("@SHARED@", shared),
        "ckpt.fish": fish + _fish(found),
    }


if __name__ == "__main__":
    for name, script in scripts().items():
        (FOLDER / name).write_text(script, "utf-8")
