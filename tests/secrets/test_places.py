"""Where secrets can hide: damaged, encrypted and huge values, names, branches, lost rows."""

import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from ormsgpack import packb

from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.model import Checkpoint
from ckpt_backends.sqlite.store import SqliteStore
from tests.kit.agents.steps import config_of
from tests.kit.command import FIXTURES, SAMPLE, CommandResult, ckpt, copy_store
from tests.kit.rows import change
from tests.secrets.credentials import credentials

TOKENS = [credentials(seed)["github-token"] for seed in range(8)]
"""Distinct secrets of one kind."""
KIND = "github-token"


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
    answer = ckpt("-s", path, "secrets", "--debug", *words)
    assert answer.code == code, answer.err
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
        answer = ckpt("-s", path, "erase", "--values-from", records, "--debug")
        assert answer.code == 3
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
        ("zip", b"\xff\x00" + TOKENS[0].encode(), KIND),
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


def test_encrypted_values_are_named_and_read_with_the_key(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "k" * 32
    serde = EncryptedSerializer.from_pycryptodome_aes(key=key.encode())
    put(path, "t", {"a": TOKENS[0]}, serde=serde)
    answer = ckpt("-s", path, "secrets")
    assert answer.code == 7
    assert "1 value, encrypted" in answer.err
    monkeypatch.setenv("LANGGRAPH_AES_KEY", key)
    (one,) = search(path)
    assert one["path"] == "a"


@pytest.mark.parametrize("failure", [StoreUnavailable, ValueError])
def test_an_error_midway_quotes_no_secret(
    path: Path, monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    put(path, "t", {"a": TOKENS[0]})
    put(path, "u", {"a": TOKENS[1]})
    real = SqliteStore.checkpoints

    def failing(self: Any, thread_id: str, **options: Any) -> Iterator[Checkpoint]:
        yield from real(self, thread_id, **options)
        if thread_id == "u" and options.get("body"):
            raise failure(f"cannot read {TOKENS[2]}")

    monkeypatch.setattr(SqliteStore, "checkpoints", failing)
    found = search(path, "-v", code=7)
    assert {one["thread_id"] for one in found} == {"t", "u"}


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


def test_the_library_is_asked_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(path, "t", {"a": 1})
    for name in [one for one in sys.modules if one.startswith("detect_secrets")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "detect_secrets", None)
    answer = ckpt("-s", path, "secrets")
    assert answer.code == 2
    assert "langgraph-ckpt[secrets]" in answer.err


@pytest.mark.parametrize(
    "source", [SAMPLE, *sorted(FIXTURES.glob("*/store.db"))], ids=lambda one: one.parent.name
)
def test_ordinary_stores_hold_no_secrets(source: Path, tmp_path: Path) -> None:
    answer = ckpt("-s", copy_store(source, tmp_path), "secrets", "-o", "json")
    assert json.loads(answer.out) == []
