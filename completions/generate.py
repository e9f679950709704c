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
from ckpt_cli.app import COMMANDS, root
from ckpt_cli.commands.memory import COMMANDS as MEMORY
from ckpt_cli.commands.sessions import COMMANDS as SESSIONS
from ckpt_cli.commands.threads import COMMANDS as THREADS
from ckpt_cli.lazy import GlobalOption
from ckpt_cli.options import COLORS, FORMATS
from ckpt_cli.queries.disk_usage import BYS
from ckpt_cli.queries.threads import SORTS

FOLDER = Path(__file__).parent
GROUPS = {"threads": THREADS, "sessions": SESSIONS, "memory": MEMORY}

WORDS: Mapping[str, tuple[str, ...]] = {
    "--output": FORMATS,
    "--color": COLORS,
    "--sort": SORTS,
    "--status": tuple(Status),
    "--by": BYS,
    "--to-last": tuple(one for one in Status if one is not Status.EMPTY),
}
"""The values of an option."""
DYNAMIC: Mapping[str, str] = {
    "--store": "store",
    "--config": "file",
    "--at": "ref",
    "--ns": "ns",
    "--channel": "channel",
    "--threads": "store",
    "--memory": "store",
}
"""The kind of an option's value, for `ckpt _complete`; the shell itself completes a `file`."""
ARGUMENTS: Mapping[str, str] = {
    "THREAD": "thread",
    "THREAD[@REF]": "target",
    "REF": "ref",
    "PATH": "file",
    "CHANNEL[.PATH]": "channel",
}


@dataclass(frozen=True)
class Option:
    names: tuple[str, ...]
    takes_value: bool
    help: str

    @property
    def kind(self) -> str:
        """The kind of its value, or `words:...`; empty if it cannot be completed."""
        long = self.names[-1]
        return f"words:{' '.join(WORDS[long])}" if long in WORDS else DYNAMIC.get(long, "")


@dataclass(frozen=True)
class Command:
    name: str
    """With its group, such as `threads list`."""
    help: str
    options: tuple[Option, ...]
    arguments: tuple[str, ...]
    """Kinds."""


def commands() -> list[Command]:
    """All commands with their options; the first is `ckpt` itself, with the global options."""
    group = root()
    context = _context(group)
    found = [Command("", "", (*_options(group, own=False), _HELP), ())]
    for name, ref in COMMANDS.items():
        if name in GROUPS:
            inner: Any = group.get_command(context, name)
            found.append(Command(name, ref.summary, (), ()))
            for sub, sub_ref in GROUPS[name].items():
                found.append(
                    _command(f"{name} {sub}", sub_ref.summary, inner.get_command(context, sub))
                )
        else:
            found.append(_command(name, ref.summary, group.get_command(context, name)))
    return found


_HELP = Option(("--help",), False, "Show this message and exit.")


def _context(group: Any) -> Any:
    return group.make_context("ckpt", ["_"], resilient_parsing=True)


def _command(name: str, summary: str, command: Any) -> Command:
    arguments = (one for one in command.params if one.param_type_name == "argument")
    kinds = (ARGUMENTS.get(_bare(one.metavar or ""), "") for one in arguments)
    return Command(name, summary, tuple(_options(command, own=True)), tuple(kinds))


def _bare(metavar: str) -> str:
    """`[THREAD]` and `[THREAD[@REF]]` without the brackets around them."""
    return metavar[1:-1] if metavar.startswith("[") else metavar


def _options(command: Any, *, own: bool) -> Iterator[Option]:
    for param in command.params:
        if param.param_type_name == "option" and isinstance(param, GlobalOption) != own:
            yield Option(tuple(param.opts), not param.is_flag, param.help or "")
        elif param.param_type_name == "option" and not own and "--version" in param.opts:
            yield Option(tuple(param.opts), False, param.help or "")


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
    """Option to the kind of its value."""
    options = [option for command in found for option in command.options if option.kind]
    return {name: option.kind for option in options for name in option.names}


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
        "                --ns) ns=$word ;;",
        "            esac",
        "            want=",
        "        elif [[ $word == -* ]]; then",
        '            case "$cmd $word" in',
        '                *" --store="*) store=${word#*=} ;;',
        '                *" --config="*) config=${word#*=} ;;',
        '                *" --ns="*) ns=${word#*=} ;;',
        f"                {valued}) want=$word ;;",
        "            esac",
        "        elif [[ -z $cmd ]]; then",
        "            cmd=$word",
        *(
            line
            for group in GROUPS
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
        "    if [[ -n $want ]]; then",
        "        case $want in",
        *(f'            {name}) kind="{kind}" ;;' for name, kind in _kinds(found).items()),
        "        esac",
        "    elif [[ $cur == -* ]]; then",
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
            for group, inner in GROUPS.items()
        ),
        *(
            f'            "{command.name}:{place}") kind={kind} ;;'
            for command in found
            for place, kind in enumerate(command.arguments)
            if kind
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


def _quoted(name: str) -> str:
    return f'"{name}"' if " " in name else name


BASH = r"""# Bash completion of ckpt. Made by completions/generate.py.

_ckpt() {
    local cur word want= cmd= thread= store= config= ns= kind= place=0 line cut
    local -a words before
    COMPREPLY=()
    # COMP_WORDS breaks words at '@' and ':', which thread ids have.
    line=${COMP_LINE:0:COMP_POINT}
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    cur=${words[${#words[@]}-1]}
    before=("${words[@]:1:${#words[@]}-2}")
@SHARED@
    case $kind in
        "") return ;;
        file)
            compopt -o filenames 2>/dev/null
            while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$cur")
            return ;;
        words:*)
            while IFS= read -r word; do COMPREPLY+=("$word"); done \
                < <(compgen -W "${kind#words:}" -- "$cur") ;;
        *)
            while IFS=$'\t' read -r word _; do
                printf -v word %q "$word"
                COMPREPLY+=("$word")
            done < <("${words[0]/#\~/$HOME}" _complete "$kind" "${cur//\\/}" "$store" "$config" \
                "${thread//\\/}" "$ns" 2>/dev/null)
            if [[ $kind == store ]]; then
                compopt -o filenames 2>/dev/null
                while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$cur")
                # A URL goes on behind its scheme.
                [[ ${COMPREPLY[0]-} == *:// ]] && compopt -o nospace 2>/dev/null
            fi ;;
    esac
    # Readline replaces only what follows the last of its word breaks.
    cut=${cur%"${cur##*[$COMP_WORDBREAKS]}"}
    if [[ -n $cut ]]; then COMPREPLY=("${COMPREPLY[@]#"$cut"}"); fi
}

complete -F _ckpt ckpt
"""

ZSH = r"""#compdef ckpt
# Zsh completion of ckpt. Made by completions/generate.py.

_ckpt() {
    local cur word want= cmd= thread= store= config= ns= kind= place=0
    local -a before found
    before=("${(@Q)words[2,CURRENT-1]}")
    cur=$PREFIX
@SHARED@
    case $kind in
        "") return 1 ;;
        file) _files ;;
        words:*) found=(${=kind#words:}); compadd -a found ;;
        *)
            found=("${(@f)$("${(Q)words[1]}" _complete "$kind" "${(Q)cur}" "$store" "$config" \
                "$thread" "$ns" 2>/dev/null)}")
            found=(${found:#})
            local -a values=("${(@)found%%$'\t'*}") shown=("${(@)found//$'\t'/  -- }")
            # A URL goes on behind its scheme.
            local -a ends=()
            [[ $values[-1] == *:// ]] && ends=(-S '')
            compadd "${ends[@]}" -d shown -a values
            [[ $kind == store ]] && _files ;;
    esac
}

if [[ $funcstack[1] == _ckpt ]]; then _ckpt "$@"; else compdef _ckpt ckpt; fi
"""

FISH = r"""# Fish completion of ckpt. Made by completions/generate.py.

function __ckpt_where
    set -l want ''
    set -l cmd ''
    set -l place 0
    for word in (commandline -opc)[2..-1]
        if test -n "$want"
            set want ''
            continue
        end
        switch "$cmd $word"
            case @VALUED@
                set want $word
            case '* -*'
            case '*'
                if test -z "$cmd"
                    set cmd $word
                else if contains -- $cmd @GROUPS@
                    set cmd "$cmd $word"
                else
                    set place (math $place + 1)
                end
        end
    end
    echo "$cmd:$place"
end

function __ckpt_in
    string match -q -- "$argv[1]:*" (__ckpt_where)
end

function __ckpt_at
    test (__ckpt_where) = $argv[1]
end

function __ckpt_ask
    set -l want ''
    set -l store ''
    set -l config ''
    set -l ns ''
    set -l plain
    for word in (commandline -opc)[2..-1]
        switch $want
            case -s --store
                set store $word
            case --config
                set config $word
            case --ns
                set ns $word
        end
        if test -n "$want"
            set want ''
            continue
        end
        set -l cmd "$plain[1]"
        contains -- "$cmd" @GROUPS@; and set cmd "$plain[1..2]"
        switch "$cmd $word"
            case @VALUED@
                set want $word
            case '* -*'
            case '*'
                set -a plain $word
        end
    end
    set -l skip 2
    contains -- "$plain[1]" @GROUPS@; and set skip 3
    set -l program (commandline -opc)[1]
    set -l word (commandline -ct)
    $program _complete $argv[1] "$word" "$store" "$config" "$plain[$skip]" "$ns" 2>/dev/null
end

complete -c ckpt -f
"""


def _fish(found: list[Command]) -> str:
    valued = " ".join(f"'{one}'" for one in _valued(found))
    lines = [FISH.replace("@VALUED@", valued).replace("@GROUPS@", " ".join(GROUPS))]
    for command in found[1:]:
        group, _, name = command.name.rpartition(" ")
        where = f"__ckpt_at {group}:0"
        lines.append(f"complete -c ckpt -n '{where}' -a {name} -d {_text(command.help)}")
        for place, kind in enumerate(command.arguments):
            if kind:
                where = f'__ckpt_at "{command.name}:{place}"'
                lines.append(f"complete -c ckpt -n '{where}' {_fish_values(kind)}")
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


def _fish_values(kind: str) -> str:
    if kind == "file":
        return "-F"
    if kind.startswith("words:"):
        return f"-a '{kind.removeprefix('words:')}'"
    files = " -F" if kind == "store" else ""
    return f"-a '(__ckpt_ask {kind})'{files}" if kind else ""


def _text(text: str) -> str:
    return "'" + re.sub(r"(['\\])", r"\\\1", text) + "'"


def scripts() -> dict[str, str]:
    """File name to script."""
    found = commands()
    shared = _shared(found)
    return {
        "ckpt.bash": BASH.replace("@SHARED@", shared),
        "_ckpt": ZSH.replace("@SHARED@", shared),
        "ckpt.fish": _fish(found),
    }


if __name__ == "__main__":
    for name, script in scripts().items():
        (FOLDER / name).write_text(script, "utf-8")
