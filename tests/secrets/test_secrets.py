"""`ckpt secrets` finds what savers stored, wherever it hides, says where, and never prints it;
examples are none, and no text makes the search stall."""

import ast
import json
import operator
import pkgutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.store.sqlite import SqliteStore
from langgraph.types import interrupt
from ormsgpack import packb

import ckpt_cli
from ckpt_backends.codec.values import Cut, Tagged
from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.model import Checkpoint
from ckpt_backends.sqlite import store as sqlite
from ckpt_cli.core.secrets import (
    MASK,
    Scanner,
    SecretFinding,
    SecretRule,
    TextRules,
    own_rules,
    parse_ignored,
    rule_table,
)
from tests.kit.agents.steps import config_of
from tests.kit.cases import cases
from tests.kit.command import FIXTURES, SAMPLE, CommandResult, ckpt, copy_store
from tests.kit.rows import change
from tests.secrets.credentials import credentials, inside

THREAD = "user-42"
KNOWN = credentials()
BY_NAME = {
    "password": "Tr0ub4dor&3",
    "api-key": "q8Zk31mPq0LxW9aTt5",
    "secret-key": "V1StGXR8_Z5jdHi6B-myT",
    "access-token": "ya29zX81mPq0LxW9aTt5",
}
URL = "postgresql://reader:" + BY_NAME["password"].replace("&", "-") + "@db.internal:5432/agents"


def planted() -> dict[str, Any]:
    """Each kind once, in some place of the state."""
    kinds = dict(KNOWN)
    one = kinds.pop
    config: dict[str, Any] = {
        "db": {"password": BY_NAME["password"], "url": URL},
        "clientSecret": BY_NAME["secret-key"],
        "headers": [{"name": "x-api-key", "value": BY_NAME["api-key"]}],
        "keys": {one("github-token"): "in a key"},
    }
    places = {
        "config": config,
        "input": f"my key is {one('openai-key')}, keep it",
        "answer": f"Use `{one('anthropic-key')}`.",
        "args": {"auth": {"access_token": BY_NAME["access-token"]}, "jwt": one("jwt")},
        "result": json.dumps({"pem": one("private-key"), "hook": one("slack-webhook")}),
        "line": f"AWS: {one('aws-access-key')} (us-east-1)",
        "blob": b"\x00\xff" + one("stripe-key").encode() + b"\x00",
        "question": [one("telegram-token")],
        "metadata": one("langsmith-key"),
        "item": {"facts": [one("sendgrid-key"), {"deep": one("azure-storage-key")}]},
    }
    config["others"] = kinds
    return places


def secret_texts() -> list[str]:
    """Texts of which none may be printed."""
    return [*(inside(kind, text) for kind, text in KNOWN.items()), *BY_NAME.values(), URL[20:31]]


class Leaky(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    config: dict[str, Any]
    log: Annotated[list[str], operator.add]
    blob: bytes
    asked: str


def run(saver: Any, planted: dict[str, Any]) -> None:
    """Run a graph that puts what is planted where agents put it, and stops at a question."""

    def connect(_: Leaky) -> Leaky:
        call = {"name": "call", "args": planted["args"], "id": "call-1"}
        return {
            "messages": [AIMessage(planted["answer"], id="m-ai", tool_calls=[call])],
            "config": planted["config"],
        }

    def use(_: Leaky) -> Leaky:
        return {
            "messages": [ToolMessage(planted["result"], tool_call_id="call-1", id="m-tool")],
            "log": [planted["line"]],
            "blob": planted["blob"],
        }

    def ask(_: Leaky) -> Leaky:
        return {"asked": interrupt({"draft": planted["question"]})}

    graph: Any = StateGraph(Leaky)
    graph.add_sequence([connect, use, ask])
    graph.add_edge(START, "connect")
    graph.compile(checkpointer=saver).invoke(
        {"messages": [HumanMessage(planted["input"], id="m-human")]},
        {"configurable": {"thread_id": THREAD}, "metadata": {"session": planted["metadata"]}},
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with a thread, and with an item of long-term memory."""
    path, given = tmp_path_factory.mktemp("secrets") / "leaky.db", planted()
    with SqliteSaver.from_conn_string(str(path)) as saver:
        run(saver, given)
    with SqliteStore.from_conn_string(str(path)) as items:
        items.setup()
        items.put(("users", "anna"), "profile", given["item"])
    return path


@pytest.fixture(scope="module")
def found(store: Path) -> list[dict[str, Any]]:
    answer = ckpt("-s", store, "secrets", "-o", "json", code=1)
    records: list[dict[str, Any]] = json.loads(answer.out)
    return records


def test_every_kind_is_found(found: list[dict[str, Any]]) -> None:
    kinds = {one["kind"] for one in found}
    assert len(kinds) > 30
    assert kinds == {*KNOWN, *BY_NAME, "url-password"}


def test_each_place_is_told_once(found: list[dict[str, Any]]) -> None:
    told = [(one["place"], one["path"], one["kind"]) for one in found]
    for place, path, kind in (
        ("value", "config.db.password", "password"),
        ("value", "config.db.url", "url-password"),
        ("value", "config.clientSecret", "secret-key"),
        ("value", "config.headers[0].value", "api-key"),
        ("value", "config.keys", "github-token"),
        ("value", "messages[0].content", "openai-key"),
        ("value", "messages[1].tool_calls[0].args.auth.access_token", "access-token"),
        ("value", "messages[2].content", "private-key"),
        ("value", "messages[2].content", "slack-webhook"),
        ("value", "log[0]", "aws-access-key"),
        ("value", "blob", "stripe-key"),
        ("write", "__interrupt__[0].value.draft[0]", "telegram-token"),
        ("write", "log[0]", "aws-access-key"),
        ("metadata", "session", "langsmith-key"),
        ("memory", "facts[1].deep", "azure-storage-key"),
    ):
        assert told.count((place, path, kind)) == 1, path


def test_a_path_can_be_pasted_and_memory_names_the_item(
    found: list[dict[str, Any]], store: Path
) -> None:
    for one in found:
        if one["place"] == "value":
            target = f"{THREAD}@{one['checkpoint_id']}"
            ckpt("-s", store, "show", target, "--path", one["path"], "-o", "json", code=0)
            assert one["value"] == f"{target}:{one['path']}"
        elif one["place"] == "write":
            assert one["value"].split(":", 1)[1].startswith(f"write:{one['task_id']}:{one['idx']}:")
        elif one["place"] == "memory":
            assert (one["namespace"], one["key"]) == (["users", "anna"], "profile")
            assert one["thread_id"] is one["value"] is one["checkpoint_id"] is None


@cases(
    "words",
    *("-o table", "-o json", "-o ndjson", "-o tsv", "-v --debug", "--redact -o json", "--jobs 2"),
    *("no-such-thread --debug", "--where values.config.db.password=x --debug"),
)
def test_no_secret_is_printed(store: Path, words: str) -> None:
    answer = ckpt("-s", store, "secrets", *words.split())
    for text in secret_texts():
        assert text not in answer.out + answer.err


def test_processes_and_python_answer_alike(store: Path, found: list[dict[str, Any]]) -> None:
    answer = ckpt("-s", store, "secrets", "--jobs", "2", "-o", "ndjson")
    assert [json.loads(line) for line in answer.out.splitlines()] == found
    with ckpt_cli.open(store) as opened:
        search = opened.secrets()
        assert [one.to_dict() for one in search] == found
        assert search.complete
        kinds = opened.secrets(THREAD, ignore=["*-key", "*-token"])
        assert not any(one["kind"].endswith(("-key", "-token")) for one in kinds)


def test_redacted_paths_keep_no_keys(store: Path) -> None:
    answer = ckpt("-s", store, "secrets", THREAD, "--redact", "-o", "json")
    assert "clientSecret" not in answer.out
    assert all(
        one["path"].startswith(("*", one["channel"] or "*")) for one in json.loads(answer.out)
    )


TOKENS = [credentials(seed)["github-token"] for seed in range(8)]
"""Distinct secrets of one kind."""


def put(
    path: Path, thread: str, *states: dict[str, Any], parent: str | None = None, serde: Any = None
) -> list[str]:
    """Store one checkpoint for each state, each the child of the one before; returns the ids."""
    ids = []
    with closing(sqlite3.connect(path, check_same_thread=False)) as db:
        saver = SqliteSaver(db, serde=serde)
        for step, values in enumerate(states):
            one = empty_checkpoint()
            one["channel_values"] = values
            one["channel_versions"] = dict.fromkeys(values, step + 1)
            place = {} if parent is None else {"checkpoint_id": parent}
            metadata: Any = {"source": "loop", "step": step, "parents": {}}
            made = saver.put(config_of(thread, **place), one, metadata, {})
            parent = made["configurable"]["checkpoint_id"]
            ids.append(parent)
    return ids


def search(path: Path, *words: str, code: int = 1) -> list[dict[str, Any]]:
    """Return the findings of an answer that tells no token."""
    found: list[dict[str, Any]] = json.loads(hides(path, "-o", "json", *words, code=code).out)
    return found


def hides(path: Path, *words: str, code: int = 1) -> CommandResult:
    """Search; return the answer, which tells no token."""
    answer = ckpt("-s", path, "secrets", "--debug", *words, code=code)
    assert not any(token[-12:] in answer.out + answer.err for token in TOKENS)
    return answer


def test_each_secret_is_told_once_with_its_newest_checkpoint(path: Path) -> None:
    old, new = ({"config": {"key": one}} for one in TOKENS[:2])
    ids = put(path, "t", {"a": 1}, old, old, new, new, new)
    # A message is followed when others are removed.
    first = {"role": "user", "content": "hi", "id": "1"}
    leak = {"role": "user", "content": TOKENS[0], "id": "2"}
    of_messages = put(path, "messages", {"messages": [first, leak]}, {"messages": [leak]})
    # Two branches with the same versions are both searched.
    (root,) = put(path, "branches", {"a": 1})
    for token in TOKENS[:2]:
        put(path, "branches", {"a": token}, parent=root)
    put(path, "text", {"a": " ".join(TOKENS)})
    found = search(path)
    told = [(one["checkpoint_id"], one["checkpoints"]) for one in found if one["thread_id"] == "t"]
    assert sorted(told) == [(ids[2], 2), (ids[5], 3)]
    (one,) = (one for one in found if one["thread_id"] == "messages")
    assert (one["path"], one["checkpoint_id"]) == ("messages[0].content", of_messages[1])
    assert one["checkpoints"] == 2
    assert [one["thread_id"] for one in found].count("branches") == 2
    assert [one["path"] for one in found if one["thread_id"] == "text"] == ["a"]


def test_names_that_are_secrets_are_masked(path: Path) -> None:
    put(path, f"user {TOKENS[0]}", {TOKENS[1]: {TOKENS[2]: {"x": [TOKENS[3]]}}, "b": TOKENS[4]})
    found = search(path)
    assert {one["thread_id"] for one in found} == {"user ***"}
    assert {one["path"] for one in found} == {"***", "b"}
    assert {one["value"] for one in found} == {None}
    for form in ("table", "tsv"):
        hides(path, "-o", form, "-v")
    hides(path, f"user {TOKENS[0][:15]}", code=3)


def test_records_of_an_older_state_quote_no_secret(path: Path, tmp_path: Path) -> None:
    put(path, "t", {"a": {TOKENS[1]: "x"}, "b": {"c": TOKENS[0]}})
    (record,) = (one for one in search(path) if one["channel"] == "b")
    records = tmp_path / "found.ndjson"
    for changed in ({"path": "a.gone"}, {"thread_id": "s"}):
        records.write_text(json.dumps({**record, **changed}))
        answer = ckpt("-s", path, "erase", "--values-from", records, "--debug", code=3)
        assert not any(token[-12:] in answer.out + answer.err for token in TOKENS)


def test_a_channel_named_as_a_prefix_is_quoted(path: Path) -> None:
    put(path, "t", {"write:x": [TOKENS[0]], "metadata:y": TOKENS[0]})
    values = {one["value"].partition(":")[2] for one in search(path)}
    assert values == {'["write:x"][0]', '["metadata:y"]'}


def test_bytes_that_cannot_be_decoded_are_searched(path: Path) -> None:
    put(path, "t", {"a": 1})
    groq = credentials()["groq-key"]
    stored = packb([groq])
    # The length of a text looks like a part of the key.
    assert b"8" + groq[:4].encode() in stored
    for tag, data, kind in (
        ("zip", b"\xff\x00" + TOKENS[0].encode(), "github-token"),
        ("msgpack", b"\xc1" + stored, "groq-key"),
    ):
        change(path, "UPDATE checkpoints SET type = ?, checkpoint = ?", tag, data)
        (one,) = search(path, code=7)
        assert (one["place"], one["channel"], one["kind"]) == ("value", None, kind)


def test_a_long_or_deep_value_is_searched_to_its_end(path: Path) -> None:
    put(path, "t", {"a": [*range(100), *[0] * 500_000, TOKENS[0]], "b": TOKENS[1]})
    value: Any = TOKENS[0]
    for n in range(95):
        value = [value] if n % 2 else {"k": value}
    put(path, "deep", {"a": value}, {"a": value})
    found = search(path)
    assert {one["path"] for one in found if one["thread_id"] == "t"} == {"a[500100]", "b"}
    assert [one["checkpoints"] for one in found if one["thread_id"] == "deep"] == [2]


def test_a_write_without_a_checkpoint_is_searched(path: Path) -> None:
    put(path, "t", {"a": 1})
    columns = "thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, value"
    row = ("lost", "", "1f0a0000-0000-6000-8000-000000000001", "task", 0, "a", "msgpack")
    statement = f"INSERT INTO writes ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    change(path, statement, *row, packb(TOKENS[0]))
    (one,) = search(path)
    assert (one["thread_id"], one["place"], one["task_id"]) == ("lost", "write", "task")


def test_encrypted_values_are_named_and_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "k" * 32
    serde = EncryptedSerializer.from_pycryptodome_aes(key=key.encode())
    put(path, "t", {"a": TOKENS[0]}, serde=serde)
    ckpt("-s", path, "secrets", code=7, says="1 value, encrypted")
    monkeypatch.setenv("LANGGRAPH_AES_KEY", key)
    (one,) = search(path)
    assert one["path"] == "a"


@pytest.mark.parametrize("failure", [StoreUnavailable, ValueError])
def test_an_error_midway_quotes_no_secret(
    path: Path, monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    put(path, "t", {"a": TOKENS[0]})
    put(path, "u", {"a": TOKENS[1]})
    real = sqlite.SqliteStore.checkpoints

    def failing(self: Any, thread_id: str, **options: Any) -> Iterator[Checkpoint]:
        yield from real(self, thread_id, **options)
        if thread_id == "u" and options.get("body"):
            raise failure(f"cannot read {TOKENS[2]}")

    monkeypatch.setattr(sqlite.SqliteStore, "checkpoints", failing)
    assert {one["thread_id"] for one in search(path, "-v", code=7)} == {"t", "u"}


def test_a_profile_leaves_out_what_it_ignores(path: Path, tmp_path: Path) -> None:
    put(path, "user-1", {"a": {"k": [TOKENS[0]]}, "b": credentials()["jwt"]})
    put(path, "test-1", {"a": TOKENS[0]})
    config = tmp_path / "ckpt.toml"

    def kept(*entries: str) -> list[tuple[str, str]]:
        text = f'[stores.x]\nurl = "store.db"\n[stores.x.secrets]\nignore = {json.dumps(entries)}'
        config.write_text(text)
        answer = ckpt("--config", str(config), "-s", "x", "secrets", "-o", "json")
        if answer.code == 2:
            return [("error", answer.err)]
        return sorted((one["thread_id"], one["path"]) for one in json.loads(answer.out))

    everything = [("test-1", "a"), ("user-1", "a.k[0]"), ("user-1", "b")]
    assert kept() == everything
    assert kept("jwt") == everything[:2]
    assert kept("a.k[]:*", "b:github-token") == [everything[0], everything[2]]
    assert kept("*@test-*") == everything[1:]
    assert kept("a:github-token@test-*", "*-key") == everything[1:]
    assert kept("*") == []
    assert "3 left out" in ckpt("--config", str(config), "-s", "x", "secrets").err
    for wrong in ("github-tokens", "a[:jwt", ""):
        ((_, error),) = kept(wrong)
        assert "profile 'x'" in error


def test_an_entry_for_threads_leaves_out_nothing_of_memory() -> None:
    in_memory = SecretFinding("memory", "jwt", ("a",), key="k")
    for entry, fits in (("jwt", True), ("jwt@*", True), ("jwt@test-*", False)):
        (ignored,) = parse_ignored([entry])
        assert ignored.fits(in_memory) is fits, entry


def test_the_library_is_asked_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(path, "t", {"a": 1})
    for name in [one for one in sys.modules if one.startswith("detect_secrets")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "detect_secrets", None)
    ckpt("-s", path, "secrets", code=2, says="langgraph-ckpt[secrets]")


@pytest.mark.parametrize(
    "source", [SAMPLE, *sorted(FIXTURES.glob("*/store.db"))], ids=lambda one: one.parent.name
)
def test_ordinary_stores_hold_no_secrets(source: Path, tmp_path: Path) -> None:
    assert json.loads(ckpt("-s", copy_store(source, tmp_path), "secrets", "-o", "json").out) == []


@pytest.fixture(scope="module")
def scanner() -> Scanner:
    return Scanner()


@pytest.mark.parametrize("kind", KNOWN)
@pytest.mark.parametrize("around", [("", ""), ("key: ", "."), ('{"a": "', '"}'), ("\n", "\n")])
def test_a_form_is_found_as_a_whole(scanner: Scanner, kind: str, around: tuple[str, str]) -> None:
    for seed in range(3):
        text = credentials(seed)[kind]
        (part,) = scanner.parts(text.join(around))
        assert (part.kind, part.path) == (kind, ())
        # A token may take a full stop with it.
        assert text in part.text + "."
        assert len(part.text) <= len(text) + 1


@cases(
    "kind text secret",
    ("assigned-secret", '{{"client_secret": "{}", "n": 1}}', "V1StGXR8Z5jdHi6BmyT"),
    ("assigned-secret", 'args: {{\\"api_key\\": \\"{}\\"}}', "V1StGXR8Z5jdHi6BmyT"),
    ("authorization-header", "Authorization: Bearer {}", "V1StGXR8Z5jdHi6BmyT9qL"),
    ("authorization-header", "authorization: basic {}", "YW5uYTpUcjB1YjRkb3ImMw=="),
    ("url-password", "see redis://:{}@cache:6379/0", "p4ss-w0rd"),
    ("aws-secret-key", KNOWN["aws-access-key"] + " {} us", "wJa1rXUtnFEMIK7MDENG" * 2),
    ("azure-sas", "https://x.blob.core.windows.net/c?se=1&sig={}&sp=r", "aB3" * 14 + "c%3D"),
)
def test_what_is_around_tells_a_secret(scanner: Scanner, kind: str, text: str, secret: str) -> None:
    found = {one.kind: one.text for one in scanner.parts(text.format(secret))}
    assert found[kind] == secret


@cases(
    "value",
    *(
        {"password": text}
        for text in (
            *("***", "changeme", "<password>", "${DB_PASSWORD}", "{{ pw }}", "REDACTED"),
            *("your-password", "vault:db/pw", "", "12345678", "the password of the user"),
            *("[erased]", "https://example.com/reset", "6f1b2c3d-0000-4000-8000-123456789abc"),
        )
    ),
    {"password": None, "secret": 4711, "api_key": True, "token": 12.5},
    {"password": {"type": "string", "description": "The password"}},
    {"api_key": "OPENAI_API_KEY"},
    {"token": "hello"},
    {"next_page_token": "CAUQAA9xkLm31mPq0LxW9"},
    {"max_tokens": "4096", "token_count": "12"},
    {"idempotency_key": "V1StGXR8Z5jdHi6BmyT", "cache_key": "V1StGXR8Z5jdHi6BmyT"},
    {"id": "run--6f1b2c3d-0000-4000-8000-123456789abc", "tool": "call_V1StGXR8Z5jdHi6BmyT9qLx"},
    "ghp_" + "x" * 36,
    "sk-" + "ant-api03-" + "x" * 95,
    "postgresql://user:password@localhost/db and https://me:${TOKEN}@example.com",
    "Use `Authorization: Bearer <token>`, or a bearer of internationalization.",
    '{"password": "string", "token": "abc", "secret_name": "db-credentials-secret"}',
    "eyJ" + "hbGciOi.not.json",
    "-----BEGIN PRIVATE KEY-----",
    ids=repr,
)
def test_examples_are_no_secrets(scanner: Scanner, value: object) -> None:
    assert list(scanner.parts(value)) == []  # type: ignore[arg-type]


def test_paths_skip_classes_and_keys_that_are_secrets(scanner: Scanner) -> None:
    token, other = KNOWN["groq-key"], KNOWN["npm-token"]
    message = Tagged("m.HumanMessage", {"content": [{"text": token}], "id": "1"})
    value = {"messages": [Tagged("builtins.tuple", [message, message])]}
    found = list(scanner.parts(value))  # type: ignore[arg-type]
    assert [one.path for one in found] == [("messages", 0, n, "content", 0, "text") for n in (0, 1)]
    found = list(scanner.parts({"a": [{token: {"deep": [other]}}]}))
    assert [(one.path, one.kind) for one in found] == [
        (("a", 0), "groq-key"),
        (("a", 0), "npm-token"),
    ]
    assert scanner.masked(f"user {token}!") == f"user {MASK}!"
    assert scanner.masked("user-42") == "user-42"
    scanned = scanner.scan(Cut([token], 99, "long"))
    assert ([one.text for one in scanned.parts], scanned.is_whole) == ([token], False)


LETTERS = "hornTiger-battery&staple"


@cases(
    "text key kind",
    *(("Tr0ub4dor&3", key, "password") for key in ("db_password", "pwd", "Passwd")),
    *((BY_NAME["access-token"], key, "access-token") for key in ("bot_token", "idToken")),
    *((BY_NAME["access-token"], key, "secret-key") for key in ("secret", "app-secret")),
    *((LETTERS, key, kind) for key, kind in (("passphrase", "password"), ("api_key", None))),
    *(("k8Zk3", "password", None), ("k8Zk31", "password", "password")),
    *(("k8Zk31mPq0L", "api_key", None), ("k8Zk31mPq0Lx", "api_key", "api-key")),
    *(("Tr0ub4dor&3", key, None) for key in ("name", "x" * 93 + "password")),
)
def test_the_name_of_a_field_tells_what_it_holds(
    scanner: Scanner, text: str, key: str, kind: str | None
) -> None:
    found = [(one.kind, one.text) for one in scanner.parts(text, key=key)]
    assert found == ([(kind, text)] if kind else [])


def test_a_secret_is_found_wherever_long_texts_are_cut(scanner: Scanner) -> None:
    random, key = Random(3), KNOWN["private-key"]
    filler = "lorem ipsum dolor " * 12_000
    for at in (0, 48_000, 49_152 - len(key) // 2, 65_536 - len(key) // 2, 65_530, 98_300):
        start = at + random.randrange(20)
        text = filler[:start] + key + " " + filler[start:]
        assert [one.text for one in scanner.parts(text)] == [key]
    tokens = [credentials(seed)["groq-key"] for seed in range(400)]
    spread = "".join(f"{filler[:900]}{one} " for one in tokens)
    assert [one.text for one in scanner.parts(spread)] == tokens


@cases(
    "text",
    "eyJ" * 100_000,
    "-----BEGIN PRIVATE KEY-----" * 10_000,
    "AKIA" + "Q" * 200_000,
    "a://a:" * 40_000,
    '"api_key' * 30_000,
    "A" * 200_000 + "_PASSWORD",
    "\ud800password\x00" * 20_000,
    ids=lambda text: text[:12],
)
def test_hostile_texts_are_searched_to_the_end(scanner: Scanner, text: str) -> None:
    token = KNOWN["npm-token"]
    assert token in {one.text for one in scanner.parts(f"{text}\n{token}\n")}
    assert scanner.stopped == 0


def test_a_rule_that_takes_long_is_counted_and_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckpt_cli.core.secrets._SECONDS", 0.05)
    rules = TextRules([SecretRule("slow", r"(?:a|aa)+$", ("a",)), *own_rules()])
    for n in range(5):
        text = "a" * 60 + f"b {KNOWN['npm-token']} {n}"
        assert [one.kind for one in rules.find(text)] == ["npm-token"]
    assert rules.stopped == 3


def test_every_detector_of_the_library_is_used_or_left_out() -> None:
    package = import_module("detect_secrets.plugins")
    found = set()
    for module in pkgutil.iter_modules(package.__path__):
        spec = find_spec(f"detect_secrets.plugins.{module.name}")
        assert spec is not None
        assert spec.origin is not None
        found |= {
            one.name
            for one in ast.parse(Path(spec.origin).read_text("utf-8")).body
            if isinstance(one, ast.ClassDef)
            and any(
                isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == "secret_type"
                for part in one.body
            )
        }
    table = rule_table()
    assert found == {*table["left_out"], *(one["name"] for one in table["detectors"])}
