"""Help: complete, in plain words, with one name for one thing, and quick."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ckpt_cli.app import root
from tests.kit.cases import cases
from tests.kit.command import SAMPLE, ckpt

ROOT = root()
COMMANDS: dict[str, Any] = dict(ROOT.walk())
"""All commands, as the table of commands describes them."""
OPTIONS = [
    pytest.param(option, id=f"{name} {max(option.opts, key=len)}")
    for name, command in COMMANDS.items()
    for option in command.params
    if option.param_type_name == "option" and option not in ROOT.params
]
EXISTING = {"--help"} | {
    name for command in (ROOT, *COMMANDS.values()) for one in command.params for name in one.opts
}
METAVARS = {
    **dict.fromkeys(("--older-than", "--keep-within", "--grace"), "AGE"),
    **dict.fromkeys(("--since", "--until", "--as-of"), "TIME"),
    **dict.fromkeys(("--limit", "--page", "--top", "--jobs"), "N"),
    **dict.fromkeys(("--memory", "--threads"), "STORE"),
    **{"--match": "GLOB", "--ns": "NAMESPACE", "--channel": "CHANNEL", "--reason": "TEXT"},
}
"""What an option with a value is called in each command that has it."""
STUMBLED_OVER = re.compile(
    r"\b(so many|whose|of its own|the room|may be repeated|as (it|[a-z]+) has it)\b", re.IGNORECASE
)


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_has_the_same_name_and_value_everywhere_and_a_short_sentence(option: Any) -> None:
    if not option.is_flag:
        assert option.metavar is not None, "it would be shown as <str> or <int range>"
        assert METAVARS.get(max(option.opts, key=len), option.metavar) == option.metavar
    text = option.help or ""
    assert text[:1].isupper()
    assert text.endswith((".", "]"))
    assert STUMBLED_OVER.search(text) is None


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_in_plain_words_with_an_example(name: str) -> None:
    command: Any = ROOT
    for word in name.split():
        command = command.commands[word]
    # The table of commands says what the command says.
    assert command.help == COMMANDS[name].help.partition("\n")[0]
    assert STUMBLED_OVER.search(COMMANDS[name].help) is None
    assert set(re.findall(r"(?<![\w-])--[a-z][\w-]*", COMMANDS[name].help)) <= EXISTING
    answer = ckpt(*name.split(), "--help")
    assert (answer.code, "\n  ckpt " in answer.out) == (0, True)
    assert "Global options" in answer.out


def test_every_command_has_a_file_of_tests_with_its_name() -> None:
    folder = Path(__file__).parent
    assert [one for one in ROOT.commands if not (folder / f"test_{one}.py").exists()] == []


@pytest.mark.parametrize("group", ["threads", "memory"])
def test_a_group_alone_prints_its_help(group: str) -> None:
    answer = ckpt(*group.split())
    assert (answer.code, answer.err) == (2, "")
    assert answer.out.strip() == ckpt(*group.split(), "--help").out.strip()
    assert f"Usage: ckpt {group}".strip() in answer.out


RUN = "import sys; from ckpt_cli.run import run; code = run(sys.argv[1:]);"


def python(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


SQL = {"duckdb", "prompt_toolkit", "numpy"}
DRIVERS = {"sqlite3", "psycopg", "redis", "langgraph", "langchain_core", "asyncio", "textual", *SQL}
DECODERS = {"ormsgpack", "ckpt_backends.codec.msgpack"}
BASIC = {"typer", "dataclasses", "inspect", "json", "pathlib", "ckpt_cli.session"}
HEAVY = {"xxhash", "ckpt_cli.commands.show", *DRIVERS, *DECODERS}
CHANGING = {
    *("ckpt_backends.changes", "ckpt_backends.rows", "ckpt_backends.plugins"),
    *("ckpt_backends.sql.write", "ckpt_backends.codec.stored", "ckpt_cli.operations.log"),
    *("ckpt_cli.config.trust", "ckpt_cli.api.opening", "ckpt_cli.core.retention"),
    *("ckpt_cli.core.reducers", "ckpt_cli.plans.fork"),
}
SHOWING = {
    *("rich", "psycopg", "Crypto", "pickletools", "asyncio", "ckpt_backends.postgres.connect"),
    *(
        "ckpt_cli.config.profiles",
        "ckpt_cli.core.tree",
        "ckpt_cli.core.diff",
        "ckpt_cli.core.search",
    ),
}
ONE_THREAD = {"ckpt_cli.api.thread", "ckpt_cli.render.show", "ckpt_cli.core.filters"}
MEMORY = {"ckpt_backends.memory", "ckpt_cli.api.memory"}
LISTS = {"rich", "asyncio", "psycopg", "redis", *ONE_THREAD, *MEMORY, *SQL}


@cases(
    "words used unused",
    *((one, set(), HEAVY) for one in ("--help", "--bogus", "bogus")),
    ("--version", set(), HEAVY | BASIC),
    ("show trip-to-kyoto@~1", set(), CHANGING),  # at the head, it also looks for memory
    ("show trip-to-kyoto -o json", {"ckpt_cli.commands.show"}, SHOWING | CHANGING),
    ("threads list", DECODERS, CHANGING | LISTS),
    ("sql --schema writes", {"ckpt_cli.commands.sql"}, SQL),
    ("_complete target", set(), {"click", "rich", "ormsgpack", "ckpt_cli.diagnostics"}),
    ("threads list --all -o json", {"ckpt_cli.queries.threads"}, DECODERS | LISTS),
)
def test_a_command_loads_only_what_it_uses(
    words: str, used: set[str], unused: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CKPT_STORE", str(SAMPLE))
    program = f"{RUN} print(*sys.modules, sep='\\n', file=sys.stderr)"
    loaded = {*python(program, *words.split()).stderr.split()}
    assert "ckpt_cli.run" in loaded
    assert used <= loaded
    assert not unused & loaded
    assert "lark" not in loaded  # what reads filters


def test_a_commands_help_loads_no_driver() -> None:
    """Asked of one process: what one command loads is still there after the others."""
    program = (
        "import sys; from ckpt_cli.run import run\n"
        "for name in sys.argv[2:]:\n"
        "    assert run([*name.split(), '--help']) == 0\n"
        "    loaded = [one for one in sys.argv[1].split() if one in sys.modules]\n"
        "    if loaded: sys.exit(f'{name} --help loads {loaded}')"
    )
    # The decoder of msgpack is no driver: the command that looks for types needs its names.
    done = python(program, " ".join(DRIVERS | {"xxhash"}), *COMMANDS)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Global options") == len(COMMANDS)
