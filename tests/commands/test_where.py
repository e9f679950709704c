"""`--where` in every command that takes many threads: what it chooses, reads, and its errors."""

import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import interrupt

import ckpt_cli
from ckpt_backends.registry import open_store
from ckpt_backends.sql.store import SqlStore
from ckpt_cli.app import root
from ckpt_cli.core.filters import parse_filter
from ckpt_cli.queries.threads import Selection, list_threads
from tests.kit.agents.small import Log, chain, running
from tests.kit.cases import cases
from tests.kit.command import CommandResult, ckpt
from tests.kit.hostile.corpus import HOSTILE_ID, Row, build_store, ordinary_body

CONFIG = """
[filters]
chosen = "checkpoints > 16 or @asks"
asks = "status in (interrupted, error)"
wrong = "idle > 1h and usr = anna"
"""


def takes_many_threads(command: Any) -> bool:
    """Whether a command takes THREAD..., or --match for threads."""
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    several = any(one.nargs == -1 and one.name == "threads" for one in arguments)
    match = next((one for one in command.params if "--match" in one.opts), None)
    return several or "Only thread ids" in (getattr(match, "help", None) or "")


MANY = {name: one for name, one in root().walk() if takes_many_threads(one)}


def ids(answer: CommandResult) -> object:
    """The threads that an answer names, in JSON or in lines of JSON."""
    return set(re.findall(r'"thread_id": ?"([^"]+)"', answer.out)) - {""}


def number(answer: CommandResult) -> object:
    """How many threads an answer counts."""
    found = answer.json
    return found["threads"] if "threads" in found else found["checked"]["threads"]


def erased(answer: CommandResult) -> object:
    """How many threads would be erased."""
    return answer.json["places"][0]["items"]


@dataclass(frozen=True)
class Run:
    words: str = ""
    """What the command needs besides --where."""
    read: Callable[[CommandResult], object] = ids
    found: object = frozenset({"trip-to-kyoto", "refund-4711", "research-agent", "invoice-import"})
    changes: bool = False
    ends: bool = True
    """Whether it ends by itself."""


RUNS = {
    "threads list": Run(),
    "threads delete": Run("--dry-run", changes=True),
    "interrupts": Run(found={"refund-4711"}),
    "errors": Run(found={"invoice-import"}),
    "grep": Run("e"),
    "sql": Run("'SELECT thread_id FROM threads'"),
    "tail": Run(ends=False),
    "stats": Run(read=number, found=4),
    "du": Run(),
    "compat": Run("graph.json"),
    "replay": Run(),
    "doctor": Run(read=number, found=4),
    "secrets": Run(read=lambda answer: "searched 4 threads" in answer.err, found=True),
    "rollback": Run("--last-good --dry-run", found={"invoice-import"}, changes=True),
    "fork": Run("--at head --dry-run", changes=True),
    "purge": Run("--include-interrupted --include-error --dry-run", changes=True),
    "copy": Run("--to other.db --create --dry-run", number, 4, changes=True),
    "erase": Run("--no-mentions --dry-run", erased, 4, changes=True),
    "export": Run("--format jsonl"),
    "rekey": Run("--encrypt --new-key-file key --dry-run", number, 4, changes=True),
    "migrate": Run("--default x=1 --dry-run", changes=True),
    "repair messages": Run("--dry-run", found=set(), changes=True),
    "repair values": Run("--dry-run", found=set(), changes=True),
    "repair writes": Run("--dry-run", found=set(), changes=True),
}


@pytest.fixture
def folder(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which `ckpt` runs: with the sample store and a configuration of a stranger."""
    monkeypatch.chdir(tmp_path)
    os.replace(sample, "sample.db")
    Path("ckpt.toml").write_text(CONFIG)
    Path("key").write_text("k" * 32)
    Path("graph.json").write_text('{"ckpt_graph": 1, "graphs": {"agent": 0}, "parts": [{}]}')
    Path("key").chmod(0o600)
    return tmp_path


def run(command: str, where: str, *options: str) -> CommandResult:
    words = [*command.split(), *shlex.split(RUNS[command].words), "--where", where]
    return ckpt("-s", "sample.db", *options, "-o", "json", *words)


def test_every_command_with_many_threads_takes_a_filter() -> None:
    for name, command in MANY.items():
        (where,) = [one for one in command.params if "--where" in one.opts]
        assert where.metavar == "FILTER", name
    assert set(MANY) == set(RUNS), "add a new command to RUNS"


@pytest.mark.parametrize("command", sorted(name for name, one in RUNS.items() if one.ends))
def test_a_filter_with_an_alias_chooses(folder: Path, command: str) -> None:
    one = RUNS[command]
    answer = run(command, "@chosen and thread != nobody", "--config", "ckpt.toml")
    assert answer.code == 0, answer.err
    assert one.read(answer) == one.found


@pytest.mark.parametrize("command", ["threads list", "doctor", "sql", "purge"])
def test_a_short_form_that_finds_nothing_is_explained(folder: Path, command: str) -> None:
    note = "note: 'stat=...' was read as metadata.stat; did you mean the field status?\n"
    assert run(command, "stat=error").err.count(note) == 1
    assert "was read as" not in run(command, "user_id=mara").err


@pytest.mark.parametrize("command", sorted(RUNS))
def test_a_wrong_filter_is_shown_with_its_place(folder: Path, command: str) -> None:
    words = [*command.split(), *shlex.split(RUNS[command].words)]
    answer = ckpt("-s", "sample.db", *words, "--where", "status error")
    assert (answer.code, answer.out, "  status error\n         ^\n" in answer.err) == (2, "", True)

    format_ = "json" if RUNS[command].ends else "ndjson"
    where = ["--where", "checkpoints > 3 and @wrong", "--config", "ckpt.toml", "-o", format_]
    answer = ckpt("-s", "sample.db", *words, *where)
    error = json.loads(answer.err.splitlines()[-1])
    assert (answer.code, error["position"]) == (2, len("idle > 1h and "))
    assert error["message"] == "cannot read @wrong in 'ckpt.toml': no field 'usr'"


@pytest.mark.parametrize("command", sorted(name for name, one in RUNS.items() if one.ends))
def test_a_stranger_does_not_choose_what_is_changed(folder: Path, command: str) -> None:
    answer = run(command, "@chosen")
    if not RUNS[command].changes:
        assert RUNS[command].read(answer) == RUNS[command].found
        return
    error = json.loads(answer.err.splitlines()[-1])
    assert (answer.code, error["position"]) == (2, 0)
    assert "is not trusted and defines it" in error["message"]
    assert f"`ckpt trust {folder}/ckpt.toml`" in error["hint"]
    ckpt("trust", "--yes", code=0)
    assert run(command, "@chosen").code == 0


def test_an_error_tells_what_may_stand_there(folder: Path) -> None:
    answer = ckpt("-s", "sample.db", "threads", "list", "--where", "idle > 1h or @stuk")
    assert (answer.code, answer.err.splitlines()) == (
        2,
        [
            "ckpt: cannot read the filter: no filter '@stuk'",
            "  idle > 1h or @stuk",
            "               ^",
            "hint: use @chosen, @asks, @wrong",
        ],
    )


@cases(
    "text shown above",
    ("user = '漢字' and x = 1", "user = '漢字' and x = 1", "                  ^"),
    ("user = '\x1b[31m' x", r"user = '\x1b[31m' x", "                  ^"),
    (f"user = {'a' * 200} {'b' * 200}", f"…{'a' * 48} {'b' * 24}…", " " * 50 + "^"),
    ids=["wide", "escaped", "long"],
)
def test_the_caret_stands_under_the_place(sample: Path, text: str, shown: str, above: str) -> None:
    answer = ckpt("-s", sample, "threads", "list", "--where", text)
    assert answer.err.splitlines()[1:3] == [f"  {shown}", f"  {above}"]


def filtered(store: Path, text: str) -> set[str]:
    words = ["threads", "list", "-o", "json", "--where", text]
    return {row["thread_id"] for row in ckpt("-s", store, *words).json}


def test_what_cannot_be_read_is_not_null(path: Path) -> None:
    rows = [
        Row("bad metadata", "metadata", "json", b"{"),
        Row("bad body", "checkpoint", "msgpack", b"\xc1"),
        Row("good", "checkpoint", "msgpack", ordinary_body(HOSTILE_ID)),
    ]
    build_store(path, rows)
    bad, body, good = (f"hostile {one}" for one in ("bad metadata", "bad body", "good"))
    assert filtered(path, "metadata.gone = null") == {body, good}
    assert filtered(path, "metadata.gone != x") == {bad, body, good}
    assert filtered(path, "values.gone = null") == {bad, good}


@cases(
    "text counts",
    ("status = done and checkpoints > 16", {"heads": 2}),
    ("not (checkpoints <= 16 or status = error)", {"heads": 2}),
    ("thread = nobody and values.hotel = x", {}),
    ("bytes > 20KiB", {"sizes": 8}),
    ("bytes > 20KiB and source = update", {"heads": 8, "sizes": 1}),
    ("status in (error, interrupted) and thread != nobody", {"heads": 2}),
    ("not (status != interrupted or step < 0)", {"heads": 1}),
    ("checkpoints > 16 and step > 10 and bytes > 0", {"heads": 2, "sizes": 1}),
)
def test_only_what_decides_is_read(
    sample: Path, text: str, counts: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of so many threads, more than the index."""
    read: Counter[str] = Counter()

    def counted(method: str, name: str) -> None:
        original = getattr(SqlStore, method)

        def noted(self: SqlStore, keys: Sequence[Any], **parts: Any) -> Any:
            read[name] += len(keys)
            return original(self, keys, **parts)

        monkeypatch.setattr(SqlStore, method, noted)

    counted("checkpoints_at", "heads")
    counted("sizes", "sizes")
    with open_store(str(sample)) as store:
        list(list_threads(store, Selection(where=parse_filter(text)), sizes=False))
    assert dict(read) == counts


# Whose a thread is: found in its metadata, told, inherited, and asked for everywhere


ASKING = chain(Log, {"ask": lambda _: {"log": [interrupt("sure?")]}})
FAILING = chain(Log, {"charge": lambda _: {"log": [str(1 / 0)]}})
DONE = chain(Log, {"act": lambda _: {"log": ["acted"]}})


OTHERS = {"moved", "alone"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Threads of anna, ben and 42; anna's second one was resumed without its metadata."""
    path = tmp_path_factory.mktemp("users") / "store.db"
    for graph, thread, metadata in (
        (DONE, "a1", {"user_id": "anna", "tenant": "acme"}),
        (DONE, "a2", {"user_id": "anna", "tenant": "acme"}),
        (DONE, "a2", {}),
        (ASKING, "a3", {"user_id": "anna"}),
        (FAILING, "b1", {"user_id": "ben", "tenant": "acme"}),
        (FAILING, "n1", {"user_id": 42, "tenant": "other"}),
        (DONE, "moved", {"user_id": "anna"}),
        (DONE, "moved", {"user_id": "ben"}),
        (DONE, "alone", {}),
    ):
        config: Any = {"configurable": {"thread_id": thread}, "metadata": metadata}
        with running(path, graph) as agent, suppress(ZeroDivisionError):
            agent.invoke({"log": ["go"]}, config)
    return path


def found(store: Path, *words: str) -> Any:
    return ckpt("-s", store, *words, "-o", "json").json


def test_lists_name_the_user_whose_place_is_told_in_a_profile(store: Path, tmp_path: Path) -> None:
    listed = {one["thread_id"]: one.get("user") for one in found(store, "threads", "list")}
    anna = dict.fromkeys(("a1", "a2", "a3"), "anna")
    assert listed == {**anna, "b1": "ben", "n1": "42", "moved": "ben", "alone": None}
    assert "USER" in ckpt("-s", store, "threads", "list", "-o", "table").out
    assert [one["user"] for one in found(store, "interrupts")] == ["anna"]
    assert {one["user"] for one in found(store, "errors")} == {"ben", "42"}
    assert found(store, "show", "a1")["user"] == "anna"
    assert "user anna · " in ckpt("-s", store, "report", "a1").out
    for words in (["threads", "list"], ["errors"], ["interrupts"], ["show", "a1"]):
        said = ckpt("-s", store, "--redact", *words, "-o", "json").out
        assert ("anna" in said, '"ben"' in said) == (False, False)
    # A list of threads without users does not hide those of others.
    with ckpt_cli.open(str(store)) as opened:
        assert len(list(opened.listed(match="alone"))) == 1
        assert [one["user"] for one in opened.interrupts()] == ["anna"]

    # The place of users is told in a profile and shown.
    def stores(*words: str) -> tuple[str | None, str | None]:
        (one,) = ckpt(*words, "stores", "-o", "json").json
        return one.get("user_key"), one.get("user_key_why")

    assert stores("-s", str(store)) == ("metadata.user_id", "5 of 7 heads have it")
    config = tmp_path / "ckpt.toml"
    config.write_text(f'[stores.prod]\nurl = "{store}"\nuser = "metadata.tenant"\n')
    prod = ("--config", str(config), "-s", "prod")
    assert stores(*prod) == ("metadata.tenant", "told in the configuration")
    listed = ckpt(*prod, "threads", "list", "--user", "other", "-o", "json").json
    assert [one["thread_id"] for one in listed] == ["n1"]
    refused = ckpt("-s", store, "threads", "list", "--user-key", "tenant")
    assert (refused.code, "write metadata.KEY or values.CHANNEL" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "threads"),
    [
        (["list", "--user", "anna"], {"a1", "a2", "a3"}),
        (["list", "--where", "user != anna"], {"b1", "n1", "moved", "alone"}),
        (["list", "--where", "user = null"], {"alone"}),
        (["list", "--where", "metadata.tenant = acme"], {"a1", "a2", "b1"}),
        (["list", "--where", "any.metadata.user_id = anna"], {"a1", "a2", "a3", "moved"}),
        (["list", "--user", "acme", "--user-key", "metadata.tenant"], {"a1", "a2", "b1"}),
        (["list", "--user", "acted", "--user-key", "values.log[-1]"], {"a1", "a2"} | OTHERS),
        (["interrupts", "--user", "anna"], {"a3"}),
        (["errors", "--user", "ben"], {"b1"}),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)  # fmt: skip
def test_threads_are_chosen_by_their_user(store: Path, words: list[str], threads: set[str]) -> None:
    begin = ["threads"] if words[0] == "list" else []
    assert {one["thread_id"] for one in found(store, *begin, *words)} == threads


def test_what_happened_is_counted_by_user_and_by_any_key(store: Path) -> None:
    def counted(by: str) -> list[tuple[str, int]]:
        key = by.partition(".")[0]
        return [(one[key], one["failures"]) for one in found(store, "errors", "--by", by)]

    assert counted("user") == [("42", 1), ("ben", 1)]
    assert counted("metadata.tenant") == [("acme", 1), ("other", 1)]
    assert counted("metadata.nothing") == [("(none)", 2)]
    ckpt("-s", store, "errors", "--by", "tenant", code=2, says="error, node, user, metadata.KEY")
    by_user = found(store, "stats", "--by", "user")["by"]
    assert {one["user"] for one in by_user} == {"anna", "ben", "42", None}
    text = ckpt("-s", store, "metrics", "--by-user").out
    assert 'ckpt_open_questions_by_user{store="' in text
    assert ',user="anna"} 1' in text
    assert found(store, "metrics", "--by-user")["failed_by_user"] == {"ben": 1, "42": 1}
    assert "failed_by_user" not in found(store, "metrics")
    assert "by_user" not in ckpt("-s", store, "metrics").out
