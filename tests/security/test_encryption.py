"""Encrypted stores: keys that fit or not, rows in plain text, and envelopes of Agent Server."""

import json
import os
import subprocess
import sys
from base64 import b64decode, b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from Crypto.Cipher import AES
from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.encryption import (
    CHANGED,
    WRONG_KEY,
    decrypted,
    encrypted,
    keys_of_environment,
    keys_of_file,
)
from ckpt_backends.errors import UsageError
from ckpt_backends.testing.official import drive
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from tests.kit.cases import cases
from tests.kit.command import FIXTURES, ckpt, copy_store
from tests.kit.eras import era_python
from tests.kit.rows import change

KEY = "0123456789abcdef"
NO_KEY = "encrypted; set LANGGRAPH_AES_KEY or add --aes-key-file FILE"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return copy_store(FIXTURES / "lg-1.2.22-serde" / "store.db", tmp_path)


def private(path: Path, text: str) -> Path:
    """Write a file of keys."""
    path.write_bytes(text.encode())
    path.chmod(0o600)
    return path


def test_the_key_of_the_environment(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    answer = ckpt("-s", store, "show", "aes-chat")
    assert "Und auf Deutsch? 你好" in answer.out
    assert answer.err == ""
    monkeypatch.setitem(sys.modules, "Crypto.Cipher", None)
    answer = ckpt("-s", store, "show", "aes-chat", code=0, says="pip install 'langgraph-ckpt[aes]'")
    assert KEY not in answer.out + answer.err


@cases(
    "name text size",
    ("LANGGRAPH_AES_KEY", "secret-key", 10),
    ("LANGGRAPH_AES_FALLBACK_KEYS", f"{KEY},secret", 6),
)
def test_a_key_of_a_wrong_length(
    store: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, size: int
) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    monkeypatch.setenv(name, text)
    answer = ckpt("-s", store, "show", "aes-chat", "--debug")
    assert (answer.code, f"{name} has {size} bytes" in answer.err) == (2, True)
    assert "secret" not in answer.out + answer.err
    ckpt("-s", store, "show", "pickle-unused", code=0)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_key_file_that_others_can_read_is_refused(store: Path, tmp_path: Path, mode: int) -> None:
    file, link = private(tmp_path / "key", KEY), tmp_path / "link"
    file.chmod(mode)
    link.symlink_to(file)
    rekey = ("rekey", "aes-chat", "--new-key-file", file, "--dry-run")
    for words in (("--aes-key-file", file, "show", "aes-chat"), rekey):
        answer = ckpt("-s", store, *words, code=5, out="")
        assert f"other users can read it (mode {mode:04o})" in answer.err
        assert f"hint: chmod 600 {file}" in answer.err
    ckpt("-s", store, "--aes-key-file", link, "show", "aes-chat", code=5)


@pytest.mark.parametrize("size", [16, 24, 32])
def test_keys_of_each_size(size: int, tmp_path: Path) -> None:
    key = ("schlüssel" + "x" * 32)[: size - 2] + "\n"
    assert keys_of_file(str(private(tmp_path / "key", key))) == (key.encode(),)
    for end in ("", "\n", "\r\n"):
        assert keys_of_file(str(private(tmp_path / "key", "x" * size + end))) == (b"x" * size,)
    text = "ü" + "x" * (size - 2)
    assert keys_of_environment({"LANGGRAPH_AES_KEY": text}) == (text.encode(),)
    with pytest.raises(UsageError):
        keys_of_environment({"LANGGRAPH_AES_KEY": text + "x"})
    for path, said in ((private(tmp_path / "y", text + "x"), "has"), (tmp_path / "z", "no such")):
        with pytest.raises(UsageError, match=said):
            keys_of_file(str(path))


def test_plain_rows_beside_encrypted_are_told(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    history = ckpt("-s", store, "history", "aes-after-plain", "-o", "json")
    assert {row["step"] for row in history.json if row.get("plaintext")} == {-1, 0, 1, 2, 3}
    assert history.err.startswith("warning: 5 checkpoints stored unencrypted")
    assert "warning  stored unencrypted" in ckpt("-s", store, "show", "aes-after-plain@step:1").out
    assert "plaintext" not in ckpt("-s", store, "show", "aes-after-plain", "-o", "json").json
    for thread in ("pickle-unused", "aes-chat"):
        answer = ckpt("-s", store, "history", thread, "-o", "json")
        assert not any("plaintext" in row for row in answer.json)
        assert answer.err == ""
    # A plain head of an encrypted thread.
    change(
        store,
        "INSERT INTO checkpoints SELECT 'aes-chat', '', '1ffe5fb3-2ac5-64af-8009-5d0b6978bc63',"
        " NULL, type, checkpoint, metadata FROM checkpoints WHERE thread_id = 'pickle-unused'"
        " ORDER BY checkpoint_id DESC LIMIT 1",
    )
    assert ckpt("-s", store, "show", "aes-chat", "-o", "json").json["plaintext"] is True


def test_what_needs_a_value_says_that_the_key_is_missing(store: Path) -> None:
    for words in ("messages aes-chat", "show aes-chat --path messages", "blame aes-chat messages"):
        answer = ckpt("-s", store, *words.split(), "-o", "json", code=4, out="")
        error = json.loads(answer.err.splitlines()[-1])
        assert error["error"] == "unreadable"
        assert error["hint"] == "set LANGGRAPH_AES_KEY or add --aes-key-file FILE"


def test_a_search_that_could_not_read_all_does_not_say_that_nothing_is_there(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["grep", "Deutsch", "--match", "aes-chat"]
    for more in ([], ["--head-only"], ["--jobs", "2"]):
        monkeypatch.delenv("LANGGRAPH_AES_KEY", raising=False)
        ckpt("-s", store, *words, *more, code=7, says="could not be read")
        monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
        found = ckpt("-s", store, *words, *more)
        assert (found.code, "Und auf Deutsch?" in found.out) == (0, True)


OLD = "fedcba9876543210fedcba9876543210"
FIELD = "encrypted.aes:"
CONTEXT = {"__langgraph_encryption_type__": "aes"}


def header(key: str) -> bytes:
    """Return what Agent Server stores before a nonce: a magic text, a version, the key's id."""
    name = sha256(b"langgraph-aes-key-id-v1\x00" + key.encode()).digest()[:16]
    return b"LGAES-ENVELOPE\x00\x00\x01" + name


def enveloped(data: bytes, key: str) -> bytes:
    cipher = AES.new(key.encode(), AES.MODE_EAX)
    cipher.update(header(key))
    text, tag = cipher.encrypt_and_digest(data)
    return header(key) + cipher.nonce + tag + text


def field(value: Any, key: str) -> str:
    """Return a field of metadata as `AesEncryptionInstance.encrypt_value` stores it."""
    cipher = AES.new(key.encode(), AES.MODE_EAX)
    text, tag = cipher.encrypt_and_digest(json.dumps(value).encode())
    return FIELD + b64encode(cipher.nonce + tag + text).decode()


def stored_values(store: Path) -> list[tuple[str, str, int, str, bytes]]:
    return [
        (table, column, *row)
        for table, column in (("checkpoints", "checkpoint"), ("writes", "value"))
        for row in change(store, f"SELECT rowid, type, {column} FROM {table}")
    ]


def seal(store: Path, key: str) -> None:
    """Encrypt a store: each value in an envelope, and two fields of each metadata."""
    for table, column, number, tag, data in stored_values(store):
        statement = f"UPDATE {table} SET {column} = ?, type = ? WHERE rowid = ?"
        change(store, statement, enveloped(data, key), f"{tag}+aes", number)
    for number, text in change(store, "SELECT rowid, metadata FROM checkpoints"):
        sealed = {"user_id": field("anna", key), "plan": field({"seats": [1, None]}, key)}
        made = json.dumps({**json.loads(text), "__encryption_context__": CONTEXT, **sealed})
        change(store, "UPDATE checkpoints SET metadata = ? WHERE rowid = ?", made.encode(), number)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same thread, not encrypted."""
    store = tmp_path_factory.mktemp("plain") / "store.db"
    with SqliteSaver.from_conn_string(str(store)) as saver:
        drive(saver, SCENARIOS["chat"])
    change(store, "PRAGMA wal_checkpoint(TRUNCATE)")
    return store


@pytest.fixture
def sealed(plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    store = copy_store(plain, tmp_path)
    seal(store, KEY)
    return store


def metadata_of(store: Path) -> list[Any]:
    found = change(store, "SELECT metadata FROM checkpoints ORDER BY checkpoint_id")
    return [json.loads(text) for (text,) in found]


@pytest.mark.parametrize("key", [None, OLD])
def test_an_erasure_is_not_complete_if_the_field_of_the_person_does_not_open(
    sealed: Path, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    if key is None:
        monkeypatch.delenv("LANGGRAPH_AES_KEY")
    else:
        monkeypatch.setenv("LANGGRAPH_AES_KEY", key)
    words = ("erase", "--subject", "metadata.user_id = anna", "--no-mentions", "-o", "json")
    answer = json.loads(ckpt("-s", sealed, *words, "--yes", code=7).out)
    assert not answer["complete"]
    assert [(one["kind"], one["items"]) for one in answer["places"]] == [("threads", 1)]


def test_what_does_not_open_says_why(sealed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LANGGRAPH_AES_KEY")
    for why in (NO_KEY, WRONG_KEY):
        shown = ckpt("-s", sealed, "history", "chat", "-o", "json")
        assert (shown.code, {row["problem"] for row in shown.json}) == (0, {why})
        assert shown.err == f"note: values are {why}\n"
        monkeypatch.setenv("LANGGRAPH_AES_KEY", OLD)
    stored = next(data for _, _, _, _, data in stored_values(sealed))
    assert decrypted(stored, OLD.encode()) == (None, WRONG_KEY)
    assert decrypted(stored[:-1] + b"x", KEY.encode()) == (None, CHANGED)
    assert decrypted(stored[:40], KEY.encode())[1] == "encrypted and cut off"
    newer = stored[:16] + b"\x02" + stored[17:]
    assert decrypted(newer, KEY.encode())[1].endswith("the unknown version 2")


@pytest.mark.parametrize("place", ["LANGGRAPH_AES_FALLBACK_KEYS", "LANGGRAPH_AES_LEGACY_KEY", ""])
def test_keys_before_a_rotation_are_tried(
    place: str, sealed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", OLD)
    words = ["-s", str(sealed)]
    if place:
        monkeypatch.setenv(place, f"{'x' * 24},{KEY}" if place.endswith("KEYS") else KEY)
    else:
        words += ["--aes-key-file", str(private(tmp_path / "keys", f"{OLD}\n{KEY}\n"))]
    assert ckpt(*words, "show", "chat", "-o", "json").json["metadata"]["user_id"] == "anna"
    assert "chat" in ckpt(*words, "threads", "list", "--where", 'metadata.user_id = "anna"').out
    ckpt(*words, "rollback", "chat", "~2", "--yes", code=0)
    made = max(stored_values(sealed), key=lambda row: row[2] if row[0] == "checkpoints" else 0)
    assert made[4].startswith(header(OLD))
    assert decrypted(b64decode(metadata_of(sealed)[-1]["user_id"][len(FIELD) :]), OLD.encode())[0]


def test_rollbacks_edits_and_their_undo_stay_in_envelopes(plain: Path, sealed: Path) -> None:
    ckpt("-s", sealed, "copy", "chat", "--as", "other", "--yes", code=0)
    before = metadata_of(sealed)
    ckpt("-s", sealed, "rollback", "--match", "*", "--steps", "2", "--yes", code=0)
    added = metadata_of(sealed)[len(before) :]
    assert len(added) == 2
    for one in added:
        assert one["__encryption_context__"] == CONTEXT
        for name, value in (("user_id", b'"anna"'), ("plan", b'{"seats":[1,null]}')):
            data = b64decode(one[name].removeprefix(FIELD))
            assert decrypted(data, KEY.encode()) == (value, "")
    for _, _, _, tag, data in stored_values(sealed):
        assert tag.endswith("+aes")
        assert data.startswith(header(KEY))
    known = ckpt("-s", plain, "show", "chat@~2", "-o", "json").json["values"]
    assert ckpt("-s", sealed, "show", "chat", "-o", "json").json["values"] == known
    edit = ("--set", 'messages=[{"role": "user", "content": "edited"}]')
    for words in (["fork", "chat", "~2", *edit], ["undo", "chat"]):
        ckpt("-s", sealed, *words, "--yes", code=0)
        assert all(data.startswith(header(KEY)) for *_, data in stored_values(sealed)), words


def test_rekey_puts_all_in_envelopes_of_the_new_key(
    plain: Path, sealed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = private(tmp_path / "new", OLD)
    known = ckpt("-s", plain, "show", "chat", "-o", "json").json["values"]
    ckpt("-s", sealed, "rekey", "--all", "--new-key-file", new, "--yes", code=0)
    assert all(data.startswith(header(OLD)) for *_, data in stored_values(sealed))
    monkeypatch.setenv("LANGGRAPH_AES_KEY", OLD)
    shown = ckpt("-s", sealed, "show", "chat", "-o", "json")
    assert (shown.err, shown.json["values"]) == ("", known)
    assert shown.json["metadata"]["plan"] == {"seats": [1, None]}
    ckpt("-s", sealed, "rekey", "--all", "--decrypt", "--yes", code=0)
    assert metadata_of(sealed)[0]["user_id"] == "anna"
    monkeypatch.delenv("LANGGRAPH_AES_KEY")
    assert ckpt("-s", sealed, "show", "chat", "-o", "json").json["values"] == known


@pytest.mark.release
def test_the_published_code_reads_what_was_written(sealed: Path, tmp_path: Path) -> None:
    ckpt("-s", sealed, "rollback", "chat", "~2", "--yes", code=0)
    python = era_python("agent-server-0.18", "dev")
    stored = [b64encode(data).decode() for *_, data in stored_values(sealed)]
    (tmp_path / "stored.json").write_text(json.dumps([stored, metadata_of(sealed)]))
    done = subprocess.run(
        [python, FIXTURES / "make" / "agent_server_keys.py", tmp_path / "stored.json", KEY],
        check=True,
        capture_output=True,
        env={**os.environ, "DATABASE_URI": ":memory:", "REDIS_URI": "fake"},
    )
    values, metadata, theirs = json.loads(done.stdout)
    assert [b64decode(one) for one in values] == [
        decrypted(data, KEY.encode())[0] for *_, data in stored_values(sealed)
    ]
    assert {(one["user_id"], str(one["plan"])) for one in metadata} == {
        ("anna", "{'seats': [1, None]}")
    }
    # And the other way round: what that code encrypts.
    change(sealed, "UPDATE checkpoints SET metadata = ?", json.dumps(theirs).encode())
    shown = ckpt("-s", sealed, "show", "chat", "-o", "json").json["metadata"]
    assert shown["user_id"] == {"name": "anna"}


def test_equal_values_look_equal_only_at_the_same_place() -> None:
    """A nonce is a hash of place and value, so that a copy that is made again is the same."""
    key, value = b"0123456789abcdef", b"the same"
    first, again, other = (encrypted(value, key, place, True) for place in ("a", "a", "b"))
    assert first == again
    assert first[:16] != other[:16]
