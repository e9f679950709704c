"""With --redact no command shows a value, in any format, on stdout or on stderr."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC
from pathlib import Path

import pytest
from ormsgpack import Ext, packb

from ckpt_backends.registry import open_store
from ckpt_cli.app import root
from ckpt_cli.core import tasks
from ckpt_cli.queries.tail import StoreTail, Tail
from ckpt_cli.reading.store import RedactedStore
from ckpt_cli.render.history import ENTRY, movement_line, movement_record
from tests.kit.command import ckpt
from tests.kit.hostile.corpus import DDL

CANARY = "canary4711"
THREAD = "the-thread"
FIRST = "1f0a0000-0000-6000-8000-000000000001"
HEAD = "1f0a0000-0000-6000-8001-000000000002"
OLD = "1f0a0000-0000-6000-8001-000000000001"
"""A fork below the head whose body cannot be decoded."""

PLAN = "{plan}"
"""Stands for the file of a saved plan."""
KEY = Path(__file__).with_name("example.key")
# Git keeps no more of a mode than whether a file is executable.
KEY.chmod(0o600)
TARGETS = [THREAD, f"{THREAD}@{FIRST}", f"{THREAD}@{OLD}"]
LINES: dict[str, list[list[str]]] = {
    "threads": [
        ["list"],
        ["list", "--all", "--long"],
        ["list", "--where", "metadata.user=x"],
        ["list", "--sort", "step"],
        ["delete", THREAD, "--dry-run"],
    ],
    "show": [
        *(
            [target, *more]
            for target in TARGETS
            for more in (
                [],
                ["--writes", "--metadata"],
                ["--channel", "notes"],
                ["--path", "notes"],
                ["--path", "notes[]"],
                ["--path", "notes.nothing"],
                ["--path", "messages[0].content"],
                ["--path", "messages[0].nothing"],
                ["--path", "messages[99]"],
                ["--where"],
                ["--raw"],
            )
        ),
        [THREAD, "--channel", "nothing"],
        [THREAD, "--tree"],
        [THREAD, "--tree", "--unfold", "--all-ns"],
        [THREAD, "--mermaid"],
        [THREAD, "--svg", "--unfold", "--all-ns"],
    ],
    "report": [[target, "--all-ns"] for target in TARGETS],
    "history": [[THREAD], [THREAD, "--all-ns"]],
    "purge": [["--match", "*", "--dry-run"], ["--keep-last", "1", "--dry-run"]],
    "gc": [["--scope", "all", "--dry-run"]],
    "erase": [
        [THREAD, "--dry-run"],
        ["--where", f"metadata.user = {CANARY[:6]}", "--dry-run"],
        ["--subject", f"thread = '{THREAD}' or values.notes = 'x'", "--dry-run"],
        ["--verify", "nothing.json"],
    ],
    "export": [[THREAD, "--format", "jsonl"], [THREAD]],
    "import": [["nothing.ckpt.gz"]],
    # Refused here as well; those of each Store are held to the same in `tests/memory`.
    "memory": [
        *(["list"], ["show", "k"], ["search", "."], ["export"], ["delete", "k", "--dry-run"]),
        ["import", "nothing.ckpt.gz"],
        *(["show"], ["list", "--duplicates", "--orphans"]),
        # Refused here; those of DeerFlow are held to the same in `tests/deerflow`.
        ["edit", "k", "--set", "content=x"],
        # Refused here; those of Redis are held to the same in `tests/engines`.
        *(["sessions"], ["sessions", THREAD]),
    ],
    "diff": [
        [THREAD],
        [THREAD, "--stat"],
        [f"{THREAD}@{FIRST}", HEAD],
        [f"{THREAD}@{FIRST}", OLD],
        [THREAD, "--channel", "notes"],
        [THREAD, "--writes"],
        [f"{THREAD}@{FIRST}", "--writes"],
        [f"{THREAD}@{OLD}", "--writes"],
        [THREAD, "--writes", "--reducer", "notes=append"],
    ],
    "replay": [
        [THREAD],
        [THREAD, "--all-steps"],
        [THREAD, "--verify"],
        [f"{THREAD}@{HEAD}", "--verify"],
        ["--all", "--verify"],
        [THREAD, "--verify", "--reducer", "notes=dict_merge"],
    ],
    "stats": [
        [],
        [THREAD],
        ["--since", "5y", "--jobs", "2"],
        ["--by", "channel"],
        [THREAD, "--by", "node,channel"],
        ["--by", "model"],
        ["--by", "user"],
        [THREAD, "--by", "model,node,thread,day,user"],
    ],
    "timeline": [*([target] for target in TARGETS), [THREAD, "--ascii"]],
    "interrupts": [[], [THREAD]],
    "errors": [
        [],
        [THREAD],
        ["--history"],
        ["--summary"],
        *(["--by", one] for one in ("error", "node")),
    ],
    "messages": [
        *([target, *more] for target in TARGETS for more in ([], ["--full"], ["--stat"])),
        [THREAD, "--channel", "notes"],
        [THREAD, "--channel", "nothing"],
    ],
    "sql": [
        [f"SELECT * FROM {table}"]
        for table in ("checkpoints", "tasks", "writes", '"values"', "messages", "interrupts")
    ]
    + [["SELECT * FROM errors"], ["SELECT * FROM usage"], ["SELECT title FROM threads"]],
    "grep": [
        ["."],
        [".", "--head-only"],
        ["-F", CANARY, "--jobs", "2"],
        ["nothing fits this"],
        ["after", "--channel", "messages"],
    ],
    "blame": [
        [THREAD, path]
        for path in ("notes", "number", "messages[0]", "messages[0].content", "notes.n", "nothing")
    ],
    "bisect": [
        *([THREAD, condition] for condition in ("step > 0", "values.number != null")),
        [f"{THREAD}@{FIRST}", "values.messages[].content ~ e", "--binary"],
        [THREAD, "not metadata.user = null and values.notes = null"],
        [THREAD, "--exec", "cat >&2; exit 1"],
    ],
    "du": [[], [THREAD], *(["--by", one] for one in ("thread", "channel", "ns", "type", "table"))],
    "tail": [["--no-such-option"]],
    "rollback": [
        [THREAD, FIRST, "--dry-run"],
        [THREAD, "nothing", "--dry-run"],
        [f"{THREAD}@{HEAD}", "--dry-run", "--root-only"],
        ["--match", "*", "--last-good", "--dry-run"],
        ["--match", "*", "--at", FIRST, "--dry-run"],
    ],
    "fork": [
        [THREAD, FIRST, "--dry-run"],
        [THREAD, FIRST, "--set", 'notes={"x": 1}', "--dry-run"],
        [THREAD, HEAD, "--append", 'messages={"role": "user", "content": "x"}', "--dry-run"],
        ["--match", "*", "--at", FIRST, "--append", 'messages="x"', "--dry-run"],
    ],
    "undo": [[THREAD, "--dry-run"], ["--dry-run"]],
    "redo": [["--dry-run"]],
    "apply": [[PLAN, "--dry-run"], ["nothing.ndjson"]],
    "ops": [["list"], ["show", "nothing"]],
    "copy": [
        *(["--all", "--to", one, "--create", "--dry-run"] for one in ("new.db", "new/")),
        [THREAD, "--as", "new", "--dry-run"],
        [f"{THREAD}@{OLD}", "--as", "new", "--dry-run"],
        ["--match", "*", "--at", "head", "--as", "{thread}-new", "--dry-run"],
    ],
    "rekey": [["--all", "--decrypt", "--aes-key-file", str(KEY), "--dry-run"]],
    "secrets": [[], [THREAD], ["--jobs", "2"], ["--kinds"]],
    "doctor": [[], [THREAD], ["--deep"], [THREAD, "--deep", "--strict"]],
    "repair": [
        *([kind, THREAD, "--dry-run"] for kind in ("messages", "values", "writes")),
        *([kind, "--all", "--dry-run"] for kind in ("messages", "values", "writes")),
        ["values", f"{THREAD}@{FIRST}", "--dry-run"],
        ["values", THREAD, "--reducer", "notes=append", "--dry-run"],
    ],
    "metrics": [[], ["--fast"], ["--since", "5y"]],
    "stores": [[]],
    "demo": [],
}
"""Every command, in every way that shows a part of a store.

`demo` reads none; `tail` goes on until it is stopped, and has a case of its own.
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A canary in every part of a store that holds an application's data."""
    path = tmp_path_factory.mktemp("redact") / "store.db"
    with sqlite3.connect(path) as db:
        db.executescript(DDL)
        for checkpoint_id, parent, body in (
            (FIRST, None, _body(FIRST, "before")),
            (HEAD, FIRST, _body(HEAD, "after", more=True)),
            (OLD, FIRST, b"\x93" + CANARY.encode()),
        ):
            db.execute(
                "INSERT INTO checkpoints VALUES (?, '', ?, ?, 'msgpack', ?, ?)",
                (THREAD, checkpoint_id, parent, body, _metadata()),
            )
        for n, (channel, tag, value) in enumerate(_writes()):
            for checkpoint_id in (FIRST, HEAD, OLD):
                node = {"__interrupt__": "asks", "__error__": "fails"}.get(channel, "node")
                db.execute(
                    "INSERT INTO writes VALUES (?, '', ?, ?, ?, ?, ?, ?, ?)",
                    (
                        THREAD,
                        checkpoint_id,
                        _task_id(checkpoint_id, node),
                        f"~__pregel_pull, {node}",
                        n,
                        channel,
                        tag,
                        value,
                    ),
                )
    db.close()
    return path


def _body(checkpoint_id: str, text: str, *, more: bool = False) -> bytes:
    said = {"content": f"{text} {CANARY}", "type": "human", "id": CANARY, "name": CANARY}
    message = Ext(5, packb(["langchain_core.messages.human", "HumanMessage", said, "x"]))
    values = {
        "messages": [message],
        "notes": {CANARY: [CANARY, {CANARY: text}], "n": CANARY.encode()},
        "number": 4711,
        **({"added": {CANARY: CANARY}} if more else {"gone": CANARY}),
        **{f"branch:to:{node}": CANARY for node in ("asks", "fails", "node")},
    }
    return packb(
        {
            "v": 4,
            "ts": "2026-04-07T10:00:00+00:00",
            "id": checkpoint_id,
            "channel_values": values,
            "channel_versions": dict.fromkeys(values, f"{1:032}.0.5"),
            "versions_seen": {},
            "pending_sends": [[CANARY, CANARY]],
        }
    )


def _task_id(checkpoint_id: str, node: str) -> str:
    origin = tasks.origin_of(checkpoint_id, "", 2, 4, is_numeric=False)
    assert origin is not None
    return next(tasks.pull_ids(origin, node, [[f"branch:to:{node}"]]))


def _metadata() -> str:
    return json.dumps(
        {
            "source": "loop",
            "step": 1,
            "parents": {},
            "user": CANARY,
            "writes": {"node": {CANARY: CANARY}},
            "forked_from": CANARY,
            "score": [4711, CANARY],
        }
    )


def _writes() -> list[tuple[str, str, bytes]]:
    question = {"value": {CANARY: CANARY}, "id": "0" * 32}
    interrupt = Ext(2, packb(["langgraph.types", "Interrupt", question]))
    error = Ext(0, packb(["builtins", "ValueError", CANARY]))
    return [
        ("notes", "msgpack", packb({CANARY: CANARY})),
        ("notes", "json", json.dumps({CANARY: CANARY}).encode()),
        ("notes", "pickle", b"X\x0a\x00\x00\x00" + CANARY.encode() + b"."),
        ("notes", "pickle", b"I" + CANARY.encode() + b"\n."),
        ("notes", "zip", CANARY.encode()),
        ("notes", "json", b"[" + CANARY.encode()),
        ("notes", "bytes", CANARY.encode()),
        ("__interrupt__", "msgpack", packb([interrupt])),
        ("__error__", "msgpack", packb(error)),
        ("__error__", "json", json.dumps(CANARY).encode()),
        ("__resume__", "msgpack", packb([CANARY])),
    ]


CASES = [[name, *words] for name, lines in LINES.items() for words in lines]
FORMS = ("table", "json", "ndjson", "tsv")
ENDS = {
    1: [["bisect", THREAD, "not metadata.user = null and values.notes = null"]],
    2: [
        *(["show", target, "--raw"] for target in TARGETS),
        ["erase", "--verify", "nothing.json"],
        ["export", THREAD],
        ["bisect", THREAD, "--exec", "cat >&2; exit 1"],
        ["tail", "--no-such-option"],
        ["apply", "nothing.ndjson"],
    ],
    3: [
        *(
            ["show", target, "--path", path]
            for target in TARGETS[:2]
            for path in ("notes.nothing", "messages[0].nothing", "messages[99]")
        ),
        *([one, THREAD, "--channel", "nothing"] for one in ("show", "messages")),
        ["messages", THREAD, "--channel", "notes"],
        ["blame", THREAD, "nothing"],
        ["rollback", THREAD, "nothing", "--dry-run"],
        *(["undo", THREAD, "--dry-run"], ["undo", "--dry-run"], ["redo", "--dry-run"]),
        ["ops", "show", "nothing"],
        *(["repair", kind, THREAD, "--dry-run"] for kind in ("messages", "values", "writes")),
        ["repair", "values", THREAD, "--reducer", "notes=append", "--dry-run"],
    ],
    4: [
        *(
            ["show", TARGETS[2], *words[1:]]
            for words in LINES["show"]
            if words[0] == TARGETS[2] and words[1:2] in (["--channel"], ["--path"])
        ),
        *(["messages", *words] for words in LINES["messages"] if words[0] == TARGETS[2]),
        ["diff", f"{THREAD}@{FIRST}", OLD],
        ["import", "nothing.ckpt.gz"],
        *(["memory", *words] for words in LINES["memory"]),
        ["copy", f"{THREAD}@{OLD}", "--as", "new", "--dry-run"],
    ],
    5: [
        ["fork", THREAD, HEAD, "--append", LINES["fork"][2][3], "--dry-run"],
        ["repair", "values", f"{THREAD}@{FIRST}", "--dry-run"],
    ],
    7: [
        *(["grep", "nothing fits this"], ["grep", "after", "--channel", "messages"]),
        *(["secrets", *words] for words in LINES["secrets"] if words != ["--kinds"]),
        *(["doctor", *words] for words in LINES["doctor"] if "--deep" in words),
    ],
}
"""The lines that do not end with 0, by their exit code.

The body at `OLD` cannot be read, nothing is recorded of the store, and it has no memory.
"""
SILENT = [
    ["threads", "list", "--where", "metadata.user=x"],
    ["sql", "SELECT * FROM usage"],
    ["fork", *LINES["fork"][-1]],
    ["ops", "list"],
    *(["doctor"], ["doctor", THREAD]),
    *(["repair", kind, "--all", "--dry-run"] for kind in ("messages", "values", "writes")),
]
"""The lines that end with 0 and have nothing to say."""


def test_lines_that_end_otherwise_are_tried() -> None:
    assert [one for lines in [*ENDS.values(), SILENT] for one in lines if one not in CASES] == []


@pytest.mark.parametrize("words", CASES, ids=" ".join)
def test_no_command_shows_a_value_in_one_form(store: Path, words: list[str]) -> None:
    hides(store, words, FORMS[CASES.index(words) % len(FORMS)])


@pytest.mark.slow
@pytest.mark.parametrize("words", CASES, ids=" ".join)
def test_no_command_shows_a_value(store: Path, words: list[str]) -> None:
    hides(store, words, *FORMS)


def hides(store: Path, words: list[str], *forms: str) -> None:
    """No output of a command, in any of these forms, tells a value; it ends as it should."""
    expected = next((code for code, lines in ENDS.items() if words in lines), 0)
    says = expected == 0 and words not in SILENT
    if words[0] == "report":
        forms = ("table",)
    plan = store.with_name("plan.ndjson")
    if PLAN in words:
        assert ckpt("-s", store, "rollback", THREAD, FIRST, "--plan-out", plan).code == 0
        assert CANARY not in plan.read_text()
        words = [str(plan) if one == PLAN else one for one in words]
    for form in forms:
        answer = ckpt("-s", store, "--redact", "-o", form, *words)
        assert answer.code == expected, answer.err
        assert answer.out.strip() or not says
        for text in (answer.out, answer.err):
            assert CANARY not in text, form
            assert CANARY.encode().hex(" ") not in text, form
            assert "Y2FuYXJ5" not in text, form  # in base64


def test_tail_shows_no_value(store: Path) -> None:
    with RedactedStore(open_store(str(store))) as redacted:
        entries = Tail(redacted, THREAD, None, all_ns=True).last(9)
    assert len(entries) == 3
    assert CANARY not in json.dumps(list(map(ENTRY.record, entries)))


def test_tail_of_the_store_shows_no_value(store: Path) -> None:
    with RedactedStore(open_store(str(store))) as redacted:
        found = list(StoreTail(None, None, all_ns=True).last(redacted, 9))
    assert len(found) == 3
    records = list(map(movement_record, found))
    assert CANARY not in json.dumps(records)
    assert all(CANARY not in movement_line(one, UTC).text for one in records)


def test_every_command_is_tried() -> None:
    # What the screen shows is tried in tests/tui/test_hostile.py, what the server says in
    # tests/mcp/test_tools.py; the others open no store.
    assert {*LINES, "tui", "mcp", "trust", "completion"} == set(root().commands)


def test_the_canary_would_be_seen(store: Path) -> None:
    for words in (
        ["show", THREAD],
        ["history", THREAD, "-o", "json"],
        ["diff", f"{THREAD}@{HEAD}"],
    ):
        assert CANARY in ckpt("-s", store, *words).out


def test_what_is_kept(store: Path) -> None:
    shown = ckpt("-s", store, "--redact", "show", THREAD + "@" + HEAD, "-o", "json").json
    assert shown["values"]["messages"] == {"$type": "ckpt.redacted", "$value": "list, 1 item"}
    assert shown["values"]["number"] == {"$type": "ckpt.redacted", "$value": "int"}
    assert shown["metadata"]["source"] == "loop"
    assert shown["metadata"]["user"] == {"$type": "ckpt.redacted", "$value": "str, 10 characters"}
    text = ckpt("-s", store, "--redact", "show", THREAD + "@" + HEAD, "--writes").out
    assert "messages: (list, 1 item)" in text
    assert "(dict, 1 item)" in text


def test_raw_bytes_are_refused(store: Path) -> None:
    answer = ckpt("-s", store, "--redact", "show", THREAD, "--raw")
    assert answer.code == 2
    assert "cannot be combined with --redact" in answer.err
