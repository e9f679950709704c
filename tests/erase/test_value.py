"""`erase --value` on a real thread: the secret is gone, and the graph goes on."""

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ckpt_backends.erasing.formats import MARKER, Erasure, ScalarPlace
from ckpt_backends.erasing.thread import ThreadEraser
from ckpt_backends.errors import NotFound, Refused, StoreChanged
from ckpt_backends.model import TypedBytes
from ckpt_backends.rows import PlacedValue, ValueKind
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.leaky import (
    SECRET,
    THREAD,
    ask,
    config_of,
    erase,
    graph_of,
    history,
    places_of,
    skeleton,
)
from ckpt_cli.core.values import format_path
from ckpt_cli.operations.log import OperationLog
from ckpt_cli.plans.erase_value import KEPT_WORDS
from tests.erase.person import unpacked
from tests.kit.command import FIXTURES, ckpt, copy_store
from tests.kit.harness import HARNESSES
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.opening import empty_store
from tests.kit.rows import change


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[SqliteHarness]:
    with SqliteHarness(tmp_path, None) as made:
        ask(made, THREAD, SECRET)
        yield made


def test_what_is_named_is_erased_and_nothing_else(harness: SqliteHarness, tmp_path: Path) -> None:
    rows = harness.rows(THREAD)
    planned = erase(harness.url, f"{THREAD}:card.password", dry_run=True)
    assert (SECRET in str(planned), planned["remains"]) == (False, None)
    assert harness.rows(THREAD) == rows
    done = erase(harness.url, f"{THREAD}:sums[2].amount")
    places = {(one["place"], one["path"]) for one in done["places"]}
    assert places == {("value", "sums[2].amount"), ("write", "sums[1].amount")}
    ckpt("-s", harness.url, "replay", THREAD, code=0)
    erase(harness.url, f"{THREAD}@head:metadata:user")
    assert [one for one in places_of(harness.url, THREAD) if "metadata" in one] == []
    assert SECRET.encode() in unpacked(tmp_path)
    erase(harness.url, f"{THREAD}:card")
    assert places_of(harness.url, THREAD) == []
    assert SECRET.encode() not in unpacked(tmp_path)
    _, values, *_ = history(harness, THREAD)[0]
    assert values["card"] == {"password": "[erased]", "list": ["[erased]", "[erased]"]}
    erase(harness.url, f"{THREAD}:messages[0]")
    _, values, *_ = history(harness, THREAD)[0]
    assert values["messages"][0].content == "[erased]"
    assert values["messages"][1].content == "using [erased]"


def test_what_cannot_be_erased_is_refused(harness: SqliteHarness) -> None:
    with harness.saver() as saver:
        log = {"log": ["login", "no name", "messages"]}
        graph_of(saver).update_state(config_of(THREAD, "x"), log, as_node="note")
    wrong = {"messages[0].type": Refused, "nothing": NotFound, "answer": NotFound}
    wrong["metadata:step"] = Refused
    for value, error in wrong.items():
        with pytest.raises(error):
            erase(harness.url, f"{THREAD}:{value}")
    for value in ("log[2]", "log[4]", "log"):
        with pytest.raises(Refused, match="node"):
            erase(harness.url, f"{THREAD}:{value}")


def test_what_is_left_is_told(harness: SqliteHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    thread = f"of {SECRET}"
    ask(harness, thread, SECRET)
    words = ("-s", harness.url, "erase", "--yes", "-o", "json", "--value")
    kept = ckpt(*words, f"{thread}:card.password").json["remains"]["places"]
    assert "checkpoints.thread_id" in {one["place"] for one in kept}
    monkeypatch.setattr("ckpt_cli.apply.erase._edits", lambda *_: iter(()))
    ckpt(*words, f"{THREAD}:card.password", code=7, says="changed while its values were erased")


@pytest.mark.parametrize("adds_rows", [True, False])
def test_nothing_is_written_if_the_thread_moved(
    harness: SqliteHarness, monkeypatch: pytest.MonkeyPatch, adds_rows: bool
) -> None:
    def moved(*_: object) -> None:
        if adds_rows:
            ask(harness, THREAD, "another")
        else:
            change(harness.path, "UPDATE checkpoints SET metadata = '{}'")

    monkeypatch.setattr("ckpt_cli.commands.erase._check_found", moved)
    with pytest.raises(StoreChanged):
        erase(harness.url, f"{THREAD}:card.password")
    assert places_of(harness.url, THREAD)


def test_numbers_in_metadata_of_earlier_releases_are_erased() -> None:
    metadata = {"source": "loop", "writes": {"login": {"pin": 4711, "other": 4711}}, "step": 4711}
    eraser = ThreadEraser("sqlite", Erasure(frozenset(), (ScalarPlace(("pin",), 4711),)), None)
    stored = TypedBytes("json", json.dumps(metadata).encode())
    made = eraser.erased(PlacedValue(ValueKind.METADATA, stored, "here"))
    assert json.loads(made.data) == {**metadata, "writes": {"login": {"pin": 0, "other": 4711}}}


@pytest.mark.parametrize("wrapped", ["{}", "[{}]"])
def test_numbers_in_a_write_to_a_list_are_erased(wrapped: str) -> None:
    place = ScalarPlace(("sums", 2, "amount"), 4711)
    stored = TypedBytes("json", wrapped.replace("{}", '{"amount":4711}').encode())
    value = PlacedValue(ValueKind.WRITE, stored, "here", channel="sums")
    made = ThreadEraser("sqlite", Erasure(frozenset(), (place,)), None).erased(value)
    assert made.data.decode() == wrapped.replace("{}", '{"amount":0}')


def test_metadata_with_encrypted_fields_are_erased_in_all_fields() -> None:
    opened = TypedBytes("json", json.dumps(SECRET).encode(), encrypted=True)
    keys: Any = SimpleNamespace(
        opened_with=lambda *_: (opened, None),
        sealed=lambda one, *_, **__: TypedBytes("json+aes", one.data),
    )
    stored = {
        "source": "loop",
        "user": "encrypted.aes:" + b64encode(b"sealed").decode(),
        "note": SECRET,
    }
    eraser = ThreadEraser("sqlite", Erasure(frozenset({SECRET})), keys)
    value = TypedBytes("json", json.dumps(stored).encode())
    made = json.loads(eraser.erased(PlacedValue(ValueKind.METADATA, value, "here")).data)
    sealed = b64encode(json.dumps(MARKER).encode()).decode()
    assert made == {**stored, "user": f"encrypted.aes:{sealed}", "note": MARKER}


def test_what_secrets_finds_is_erased(tmp_path: Path) -> None:
    secret = "sk-" + "ant-api03-" + "aB3dE5gH7jK9mN1pQ3sT5vX7zA9cE1gI3kM5oQ7sU9wY1" * 2 + "AAAAAA"
    with SqliteHarness(tmp_path, None) as harness:
        for thread in (THREAD, "other"):
            ask(harness, thread, secret)
        found = ckpt("-s", harness.url, "secrets", "-o", "ndjson", code=1)
        assert len(found.out.splitlines()) > 10
        records = tmp_path / "found.ndjson"
        memory = {"thread_id": None, "place": "memory", "path": ".", "value": None}
        records.write_text(found.out + json.dumps(memory))
        done = ckpt("-s", harness.url, "erase", "--values-from", records, "--yes", "-o", "json")
        assert done.code == 7
        assert secret not in done.out + done.err
        assert places_of(harness.url, THREAD, secret) == []
        assert places_of(harness.url, "other", secret) == []
        ckpt("-s", harness.url, "secrets", code=0)
        _, values, *_ = history(harness, THREAD)[0]
        assert values["messages"][0].content == "my password is [erased]"


RECORD = {"thread_id": THREAD, "checkpoint_ns": "", "checkpoint_id": "x", "place": "value"}


def test_lines_of_another_form_are_refused(harness: SqliteHarness, tmp_path: Path) -> None:
    records = tmp_path / "found.ndjson"
    wrong: list[dict[str, Any]] = [
        *({"thread_id": ["x"]}, {"path": 5}, {"checkpoint_ns": None}),
        *({"place": "write", "idx": 1e400}, {"place": ["x"]}),
    ]
    lines = [json.dumps({**RECORD, "path": "card", "value": "x", **one}) for one in wrong]
    for line in (*lines, "[" * 100_000, "5" * 10_000, "{}"):
        records.write_text(f"\n{line}\n")
        ckpt("-s", harness.url, "erase", "--values-from", records, "--yes", code=2, says="line 2")


def test_a_list_without_places_of_threads(harness: SqliteHarness, tmp_path: Path) -> None:
    """Tools such as jq write U+2028 and U+0085 as they are, which end no line."""
    records = tmp_path / "found.ndjson"
    words = ("-s", harness.url, "erase", "--values-from", records, "-o", "json", "--yes")
    ckpt(*words, code=2, says="no such file")
    other = {**RECORD, "thread_id": "a\u2028b\x85", "path": "card", "value": "x"}
    for text, code, said in (
        ("", 0, ""),
        (json.dumps(other, ensure_ascii=False) + "\r\n", 3, "no thread"),
        (json.dumps({**RECORD, "place": "memory", "path": ".", "value": None}), 7, "1 record left"),
    ):
        records.write_text(text)
        ckpt(*words, code=code, says=said)


def test_the_command_tells_what_is_rewritten_and_records_no_value(harness: SqliteHarness) -> None:
    words = ("-s", harness.url, "erase", "--value", f"{THREAD}:card.password")
    asked = ckpt(*words)
    assert "rewrites stored history" in asked.out
    assert ckpt(*words, "--yes", "-o", "json").json["remains"]["done"]
    operation = next(iter(OperationLog.of_user().newest_first()))
    assert (operation.action, bool(operation.cannot_undo)) == ("erase", True)
    assert SECRET not in f"{operation}{asked.out}{asked.err}"


def test_redacted_plans_name_channels_only(harness: SqliteHarness) -> None:
    done = erase(harness.url, f"{THREAD}:card.password", dry_run=True, redact=True)
    assert {one["path"] for one in done["places"]} >= {"card", "messages", "user"}
    assert places_of(harness.url, THREAD)
    erase(harness.url, f"{THREAD}:card.password", redact=True)
    assert places_of(harness.url, THREAD) == []


@pytest.mark.nightly
def test_large_changes_wait_for_no_reader(harness: SqliteHarness, tmp_path: Path) -> None:
    """In a file without a WAL, what does not fit into the cache would wait for the reader."""
    with harness.saver() as saver:
        for number in range(8):
            update = {"log": [f"{number} {SECRET} {'x' * 1_000_000}"]}
            graph_of(saver).update_state(config_of(THREAD, "x"), update, as_node="note")
    harness.connection.execute("PRAGMA journal_mode = delete")
    erase(harness.url, f"{THREAD}:card.password")
    assert SECRET.encode() not in unpacked(tmp_path)


# Stores of earlier releases and of LangGraph.js

ERAS = sorted(one.parent.name for one in FIXTURES.glob("*/store.db"))


def texts_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[str, str]]:
    """Yield the long enough texts in a printed value, after their paths."""
    if isinstance(value, str) and len(value) > 8 and value not in KEPT_WORDS:
        yield format_path(path), value
    pairs = enumerate(value) if isinstance(value, list) else ()
    for key, one in value.items() if isinstance(value, dict) else pairs:
        if key != "id" and not str(key).startswith("$"):
            yield from texts_in(one, (*path, key))


def exported(url: str) -> dict[str, list[Any]]:
    """Return all that is stored of each thread."""
    found: dict[str, list[Any]] = {}
    for line in ckpt("-s", url, "export", "--all", "--format", "jsonl").out.split("\n")[:-1]:
        record = json.loads(line)
        found.setdefault(record["thread_id"], []).append(record)
    return found


def stored(records: list[Any]) -> str:
    """Return it as a text, but for the lengths of values."""
    return re.sub("'bytes': [0-9]+", "", repr(records))


def check_erased(url: str) -> None:
    """Erase a text of each thread, and compare all values with those before."""
    texts, before = {}, exported(url)
    for thread, records in before.items():
        root = (one for one in records if not one["checkpoint_ns"])
        head = max(root, key=lambda one: str(one["checkpoint_id"]))
        for path, text in texts_in(head["values"]):
            texts[thread] = path, text
    assert texts
    ids = {thread: skeleton(url, thread) for thread in texts}
    erase(url, *(f"{thread}:{path}" for thread, (path, _) in texts.items()))
    after = exported(url)
    for thread, (_, text) in texts.items():
        expected = stored(before[thread]).replace(repr(text)[1:-1], MARKER)
        assert stored(after[thread]).replace('"', "'") == expected.replace('"', "'")
        assert skeleton(url, thread) == ids[thread]
        assert places_of(url, thread, text) == []


@pytest.mark.in_ci("lg-0.2.14", "lg-1.2.22]")
@pytest.mark.parametrize(
    "era", [pytest.param(one, marks=() if one in ERAS[:3] else pytest.mark.engines) for one in ERAS]
)
def test_stores_of_earlier_releases(era: str, tmp_path: Path) -> None:
    check_erased(str(copy_store(FIXTURES / era / "store.db", tmp_path)))


@pytest.mark.engines
@pytest.mark.parametrize(
    "kind",
    [one for one in HARNESSES if one.recording and not one.read_only],
    ids=lambda one: one.name,
)
def test_stores_of_javascript(
    kind: type[Harness], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with empty_store(kind, request, tmp_path) as harness:
        harness.restore_recording(frozenset({"chat", "fanout-send", "interrupt-nested", "error"}))
        check_erased(harness.url)
