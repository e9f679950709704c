"""With --redact no command shows a value, in any format, on stdout or on stderr."""

import json
import re
import shlex
import sqlite3
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ormsgpack import Ext, packb

from ckpt_backends.registry import open_store
from ckpt_cli.app import root
from ckpt_cli.core import tasks
from ckpt_cli.core.redact import redact_metadata
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

KEY = Path(__file__).with_name("example.key")
# Git keeps no more of a mode than whether a file is executable.
KEY.chmod(0o600)
GRAPH = Path(__file__).with_name("graph.json")


class Case(NamedTuple):
    """A command line, and how it ends."""

    words: list[str]
    code: int
    says: bool
    """It prints something."""


def ends(code: int, command: str, *lines: str, says: bool | None = None) -> list[Case]:
    """Return the cases of a command that end with this code."""
    names = {"T": THREAD, "FIRST": FIRST, "HEAD": HEAD, "OLD": OLD, "KEY": str(KEY)}
    names["GRAPH"] = str(GRAPH)
    found = []
    for line in lines:
        parts = (re.split(r"(\W)", word) for word in shlex.split(line))
        words = ["".join(names.get(part, part) for part in one) for one in parts]
        found.append(Case([command, *words], code, code == 0 if says is None else says))
    return found


def silent(command: str, *lines: str) -> list[Case]:
    """Return cases that have nothing to say."""
    return ends(0, command, *lines, says=False)


STATE = ["", "--writes --metadata", "--channel notes", "--path notes[]", "--where"]
STATE += ["--path messages[0].content"]
NOTHING = ["--path notes.nothing", "--path messages[99]"]
APPEND = """--append 'messages={"role": "user", "content": "x"}' --dry-run"""
CASES = [
    *ends(0, "threads", "list", "list --all --long", "delete T --dry-run"),
    *silent("threads", "list --where metadata.user=x"),
    *ends(0, "show", *(f"{one} {more}" for one in ("T", "T@FIRST") for more in STATE)),
    *ends(0, "show", "T@OLD --writes --metadata", "T@OLD --where", "T --as pytest"),
    *ends(0, "show", "T --tree --unfold --all-ns", "T --mermaid", "T --svg --unfold --all-ns"),
    *ends(2, "show", "T --raw", "T@OLD --raw"),
    *ends(3, "show", *(f"T {one}" for one in NOTHING), "T --channel nothing"),
    *ends(4, "show", "T@OLD --channel notes", "T@OLD --path notes.nothing"),
    *ends(0, "report", "T --all-ns", "T@OLD --all-ns"),
    *ends(0, "history", "T --all-ns"),
    *ends(0, "purge", "--match '*' --dry-run", "--keep-last 1 --dry-run"),
    *ends(0, "gc", "--scope all --dry-run"),
    *ends(0, "erase", "T --dry-run", "--where 'metadata.user = canary' --dry-run"),
    *ends(0, "erase", "--subject \"thread = 'T' or values.notes = 'x'\" --dry-run"),
    *ends(2, "erase", "--verify nothing.json"),
    *ends(0, "export", "T --format jsonl"),
    *ends(2, "export", "T"),
    *ends(4, "import", "nothing.ckpt.gz"),
    # Sessions are those of Redis: they are held to the same in `tests/engines`.
    *ends(0, "memory", "list", "show k", "search canary", "export", "delete k --dry-run", "show"),
    *silent("memory", "list --duplicates", "list --orphans"),
    *ends(4, "memory", "import nothing.ckpt.gz", "edit k --set text=x", "sessions T"),
    *ends(0, "diff", "T", "T --stat", "T@FIRST HEAD", "T --channel notes", "T --writes"),
    *ends(0, "diff", "T@OLD --writes", "T --writes --reducer notes=append"),
    *ends(4, "diff", "T@FIRST OLD"),
    *ends(0, "replay", "T", "T --all-steps", "T@HEAD --verify", "--all --verify"),
    *ends(0, "replay", "T --verify --reducer notes=dict_merge"),
    *ends(0, "stats", "", "T --by node,channel", "--since 5y --jobs 2"),
    *ends(0, "stats", "T --by model,node,thread,day,user"),
    *ends(0, "timeline", "T", "T@OLD"),
    *ends(0, "interrupts", "", "T"),
    *ends(0, "errors", "T", "--history", "--summary", "--by error"),
    *ends(0, "messages", "T", "T --full", "T@FIRST --full", "T --stat"),
    *ends(3, "messages", "T --channel notes", "T --channel nothing"),
    *ends(4, "messages", "T@OLD", "T@OLD --stat"),
    *ends(0, "sql", *(f"'SELECT * FROM {one}'" for one in ("checkpoints", "tasks", "writes"))),
    *ends(0, "sql", *(f"'SELECT * FROM {one}'" for one in ("messages", "interrupts", "errors"))),
    *ends(0, "sql", "'SELECT * FROM \"values\"'", "'SELECT title FROM threads'"),
    *silent("sql", "'SELECT * FROM usage'"),
    *ends(0, "grep", ".", ". --head-only", "-F canary4711 --jobs 2"),
    *ends(7, "grep", "'nothing fits this'", "after --channel messages"),
    *ends(0, "blame", "T notes", "T number", "T messages[0].content"),
    *ends(3, "blame", "T nothing"),
    *ends(0, "bisect", "T 'step > 0'", "T@FIRST 'values.messages[].content ~ e' --binary"),
    *ends(1, "bisect", "T 'not metadata.user = null and values.notes = null'"),
    *ends(2, "bisect", "T --exec 'cat >&2; exit 1'"),
    *ends(0, "du", "", "T", "--by thread", "--by channel", "--by type"),
    # It goes on until it is stopped, and has a test of its own.
    *ends(2, "tail", "--no-such-option"),
    *ends(0, "rollback", "T FIRST --dry-run", "--match '*' --last-good --dry-run"),
    *ends(3, "rollback", "T nothing --dry-run"),
    *ends(0, "fork", "T FIRST --set 'notes={\"x\": 1}' --dry-run"),
    *ends(5, "fork", f"T HEAD {APPEND}"),
    *silent("fork", "--match '*' --at FIRST --append 'messages=\"x\"' --dry-run"),
    *ends(3, "undo", "T --dry-run", "--dry-run"),
    *ends(3, "redo", "--dry-run"),
    *ends(0, "apply", "PLAN --dry-run"),
    *ends(2, "apply", "nothing.ndjson"),
    *silent("ops", "list"),
    *ends(3, "ops", "show nothing"),
    *ends(0, "copy", "--all --to new.db --create --dry-run", "T --as new --dry-run"),
    *ends(4, "copy", "T@OLD --as new --dry-run"),
    *ends(0, "compat", "GRAPH", "GRAPH --from GRAPH"),
    *ends(0, "migrate", "T --rename-node asks=other --rename-channel notes=other --dry-run"),
    *ends(5, "migrate", "T --to GRAPH --dry-run"),
    *ends(0, "rekey", "--all --decrypt --aes-key-file KEY --dry-run"),
    *ends(0, "secrets", "--kinds"),
    *ends(7, "secrets", "", "T --jobs 2"),
    *silent("doctor", "", "T"),
    *ends(7, "doctor", "--deep", "T --deep --strict"),
    *silent("repair", *(f"{one} --all --dry-run" for one in ("messages", "values", "writes"))),
    *ends(3, "repair", "messages T --dry-run", "values T --reducer notes=append --dry-run"),
    *ends(5, "repair", "values T@FIRST --dry-run"),
    *ends(0, "metrics", "", "--fast"),
    *ends(0, "stores", ""),
]
"""Every command, in every way that shows a part of a store.

The body at `OLD` cannot be read, and nothing is recorded of the store.
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
                        *(THREAD, checkpoint_id, _task_id(checkpoint_id, node)),
                        *(f"~__pregel_pull, {node}", n, channel, tag, value),
                    ),
                )
        db.execute("CREATE TABLE store (prefix text, key text, value text, created_at, updated_at)")
        item = json.dumps({"text": CANARY, CANARY: [CANARY]})
        made = "2026-11-21 22:28:27"
        db.execute("INSERT INTO store VALUES ('users', 'k', ?, ?, ?)", (item, made, made))
    db.close()
    return path


def _body(checkpoint_id: str, text: str, *, more: bool = False) -> bytes:
    said: dict[str, Any] = {"content": f"{text} {CANARY}", "type": "human"}
    said |= {"id": CANARY, "name": CANARY}
    said["tool_calls"] = [{"name": CANARY, "args": {CANARY: CANARY}, "id": CANARY}]
    values = {
        "messages": [Ext(5, packb(["langchain_core.messages.human", "HumanMessage", said, "x"]))],
        "notes": {CANARY: [CANARY, {CANARY: text}], "n": CANARY.encode()},
        "number": 4711,
        **({"added": {CANARY: CANARY}} if more else {"gone": CANARY}),
        **{f"branch:to:{node}": CANARY for node in ("asks", "fails", "node")},
    }
    body = {"v": 4, "ts": "2026-04-07T10:00:00+00:00", "id": checkpoint_id}
    body |= {"channel_values": values, "channel_versions": dict.fromkeys(values, f"{1:032}.0.5")}
    return packb({**body, "versions_seen": {}, "pending_sends": [[CANARY, CANARY]]})


def _task_id(checkpoint_id: str, node: str) -> str:
    origin = tasks.origin_of(checkpoint_id, "", 2, 4, is_numeric=False)
    assert origin is not None
    return next(tasks.pull_ids(origin, node, [[f"branch:to:{node}"]]))


def _metadata() -> str:
    kept = {"source": "loop", "step": 1, "parents": {}}
    own = {"user": CANARY, "writes": {"node": {CANARY: CANARY}}, "score": [4711, CANARY]}
    marks = {"forked_from": CANARY, "forked_by": "ckpt", "reason": CANARY}
    return json.dumps({**kept, **own, **marks})


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


FORMS = ("table", "json", "ndjson", "tsv")
EVERY = [
    pytest.param(*one, FORMS[at % 4 :: 4], id=" ".join(one.words)) for at, one in enumerate(CASES)
]
EVERY += [
    pytest.param(*one, FORMS, id=f"{' '.join(one.words)}, each form", marks=pytest.mark.nightly)
    for one in CASES
]


@pytest.mark.parametrize(("words", "code", "says", "forms"), EVERY)
def test_no_command_shows_a_value(
    store: Path, words: list[str], code: int, says: bool, forms: Sequence[str]
) -> None:
    """It ends as it should, and tells no value in any of these forms."""
    if "PLAN" in words:
        plan = store.with_name("plan.ndjson")
        ckpt("-s", store, "rollback", THREAD, FIRST, "--plan-out", plan, code=0)
        assert CANARY not in plan.read_text()
        words = [str(plan) if one == "PLAN" else one for one in words]
    for form in ("table",) if words[0] == "report" else forms:
        answer = ckpt("-s", store, "--redact", "-o", form, *words, code=code)
        assert answer.out.strip() or not says
        for text in (answer.out, answer.err):
            assert CANARY not in text, form
            assert CANARY.encode().hex(" ") not in text, form
            assert "Y2FuYXJ5" not in text, form  # in base64


def test_tail_shows_no_value(store: Path) -> None:
    with RedactedStore(open_store(str(store))) as redacted:
        entries = Tail(redacted, THREAD, None, all_ns=True).last(9)
        found = list(StoreTail(None, None, all_ns=True).last(redacted, 9))
    assert len(entries) == len(found) == 3
    movements = list(map(movement_record, found))
    assert CANARY not in json.dumps([*map(ENTRY.record, entries), *movements])
    assert all(CANARY not in movement_line(one, UTC).text for one in movements)


def test_every_command_is_tried() -> None:
    # What the screen shows is tried in tests/screen/test_live.py, what the server says in
    # tests/doors/test_mcp.py; the others open no store.
    tried = {one.words[0] for one in CASES}
    assert tried | {"tui", "mcp", "trust", "completion", "demo"} == set(root().commands)


def test_what_is_kept(store: Path) -> None:
    shown = ckpt("-s", store, "--redact", "show", THREAD + "@" + HEAD, "-o", "json").json
    assert shown["values"]["messages"] == {"$type": "ckpt.redacted", "$value": "list, 1 item"}
    assert shown["values"]["number"] == {"$type": "ckpt.redacted", "$value": "int"}
    assert (shown["metadata"]["source"], shown["metadata"]["parents"]) == ("loop", {})
    assert shown["metadata"]["user"] == {"$type": "ckpt.redacted", "$value": "str, 10 characters"}
    # Only what a run takes from its config is named there.
    resume = ckpt("-s", store, "--redact", "show", THREAD, "-o", "json").json["resume"]
    assert resume["metadata"] == {"user": None}
    text = ckpt("-s", store, "--redact", "show", THREAD + "@" + HEAD, "--writes").out
    assert "messages: (list, 1 item)" in text
    assert "(dict, 1 item)" in text
    assert redact_metadata({"parents": {"": HEAD}}) == {"parents": {"": HEAD}}
    assert CANARY not in str(redact_metadata({"parents": {"": [CANARY]}}))
