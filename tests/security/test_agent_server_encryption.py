"""Values that Agent Server 0.17 and later encrypted: in an envelope, and fields of metadata."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from Crypto.Cipher import AES
from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.encryption import CHANGED, WRONG_KEY, decrypted
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.testing.scenarios.running import ScenarioRun
from tests.kit.command import FIXTURES, ckpt, era_python

KEY, OLD = "0123456789abcdef", "fedcba9876543210fedcba9876543210"
FIELD = "encrypted.aes:"
CONTEXT = {"__langgraph_encryption_type__": "aes"}
THREAD = "chat"


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


def rows(store: Path) -> Iterator[tuple[str, str, int, str, bytes]]:
    with closing(sqlite3.connect(store)) as db:
        for table, column in (("checkpoints", "checkpoint"), ("writes", "value")):
            found = db.execute(f"SELECT rowid, type, {column} FROM {table}").fetchall()
            yield from ((table, column, *row) for row in found)


def seal(store: Path, key: str) -> None:
    """Encrypt a store: each value in an envelope, and two fields of each metadata."""
    for table, column, number, tag, data in rows(store):
        with closing(sqlite3.connect(store)) as db, db:
            statement = f"UPDATE {table} SET {column} = ?, type = ? WHERE rowid = ?"
            db.execute(statement, (enveloped(data, key), f"{tag}+aes", number))
    with closing(sqlite3.connect(store)) as db, db:
        for number, text in db.execute("SELECT rowid, metadata FROM checkpoints").fetchall():
            metadata = {**json.loads(text), "__encryption_context__": CONTEXT}
            for name, value in (("user_id", "anna"), ("plan", {"seats": [1, None]})):
                metadata[name] = field(value, key)
            db.execute(
                "UPDATE checkpoints SET metadata = ? WHERE rowid = ?",
                (json.dumps(metadata).encode(), number),
            )


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same thread, not encrypted."""
    store = tmp_path_factory.mktemp("plain") / "store.db"
    with SqliteSaver.from_conn_string(str(store)) as saver:
        one = SCENARIOS[THREAD]
        one.drive(ScenarioRun(one.build(saver), one.thread_config(), {"durability": "sync"}))
    return store


@pytest.fixture
def sealed(plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    store = tmp_path / "sealed.db"
    with closing(sqlite3.connect(plain)) as db, closing(sqlite3.connect(store)) as copy:
        db.backup(copy)
    seal(store, KEY)
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    return store


def metadata_of(store: Path) -> list[Any]:
    with closing(sqlite3.connect(store)) as db:
        found = db.execute("SELECT metadata FROM checkpoints ORDER BY checkpoint_id").fetchall()
    return [json.loads(text) for (text,) in found]


def test_values_and_fields_are_read(plain: Path, sealed: Path) -> None:
    words = ("show", THREAD, "-o", "json")
    shown, known = ckpt("-s", sealed, *words), ckpt("-s", plain, *words)
    assert shown.err == ""
    assert shown.json["values"] == known.json["values"] != {}
    assert shown.json["next"] == known.json["next"]
    assert shown.json["metadata"]["user_id"] == "anna"
    assert shown.json["metadata"]["plan"] == {"seats": [1, None]}
    found = ckpt("-s", sealed, "threads", "list", "--where", 'metadata.user_id = "anna"')
    assert THREAD in found.out


@pytest.mark.parametrize("key", [None, OLD])
def test_an_erasure_is_not_complete_if_the_field_of_the_person_does_not_open(
    sealed: Path, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    if key is None:
        monkeypatch.delenv("LANGGRAPH_AES_KEY")
    else:
        monkeypatch.setenv("LANGGRAPH_AES_KEY", key)
    words = ("erase", "--subject", "metadata.user_id = anna", "--no-mentions", "-o", "json")
    done = ckpt("-s", sealed, *words, "--yes")
    assert done.code == 7
    answer = json.loads(done.out)
    assert not answer["complete"]
    assert [(one["kind"], one["items"]) for one in answer["places"]] == [("threads", 1)]


def test_what_does_not_open_says_why(sealed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", OLD)
    shown = ckpt("-s", sealed, "history", THREAD, "-o", "json")
    assert {row["problem"] for row in shown.json} == {WRONG_KEY}
    assert KEY not in shown.out + shown.err
    stored = next(data for _, _, _, _, data in rows(sealed))
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
        (tmp_path / "keys").write_text(f"{OLD}\n{KEY}\n")
        (tmp_path / "keys").chmod(0o600)
        words += ["--aes-key-file", str(tmp_path / "keys")]
    assert ckpt(*words, "show", THREAD, "-o", "json").json["metadata"]["user_id"] == "anna"
    assert ckpt(*words, "rollback", THREAD, "~2", "--yes").code == 0
    made = max(rows(sealed), key=lambda row: row[2] if row[0] == "checkpoints" else 0)
    assert made[4].startswith(header(OLD))
    assert decrypted(b64decode(metadata_of(sealed)[-1]["user_id"][len(FIELD) :]), OLD.encode())[0]


def test_a_key_of_a_wrong_length_is_named(sealed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_FALLBACK_KEYS", f"{KEY},secret")
    shown = ckpt("-s", sealed, "show", THREAD)
    assert shown.code == 2
    assert "LANGGRAPH_AES_FALLBACK_KEYS has 6 bytes" in shown.err
    assert "secret" not in shown.err


def test_a_rollback_stays_in_envelopes(plain: Path, sealed: Path) -> None:
    before = metadata_of(sealed)
    assert ckpt("-s", sealed, "rollback", THREAD, "~2", "--yes").code == 0
    added = metadata_of(sealed)[len(before) :]
    assert added
    for one in added:
        assert one["__encryption_context__"] == CONTEXT
        for name, value in (("user_id", b'"anna"'), ("plan", b'{"seats":[1,null]}')):
            data = b64decode(one[name].removeprefix(FIELD))
            assert decrypted(data, KEY.encode()) == (value, "")
    for _, _, _, tag, data in rows(sealed):
        assert tag.endswith("+aes")
        assert data.startswith(header(KEY))
    known = ckpt("-s", plain, "show", f"{THREAD}@~2", "-o", "json").json["values"]
    assert ckpt("-s", sealed, "show", THREAD, "-o", "json").json["values"] == known


def test_an_edit_and_its_undo_stay_in_envelopes(sealed: Path) -> None:
    edit = ("--set", 'messages=[{"role": "user", "content": "edited"}]')
    for words in (["fork", THREAD, "~2", *edit], ["undo", THREAD]):
        assert ckpt("-s", sealed, *words, "--yes").code == 0
        assert all(data.startswith(header(KEY)) for *_, data in rows(sealed)), words


def test_rekey_puts_all_in_envelopes_of_the_new_key(
    plain: Path, sealed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new").write_text(OLD)
    (tmp_path / "new").chmod(0o600)
    known = ckpt("-s", plain, "show", THREAD, "-o", "json").json["values"]
    done = ckpt("-s", sealed, "rekey", "--all", "--new-key-file", tmp_path / "new", "--yes")
    assert done.code == 0, done.err
    assert all(data.startswith(header(OLD)) for *_, data in rows(sealed))
    monkeypatch.setenv("LANGGRAPH_AES_KEY", OLD)
    shown = ckpt("-s", sealed, "show", THREAD, "-o", "json")
    assert shown.err == ""
    assert shown.json["values"] == known
    assert shown.json["metadata"]["plan"] == {"seats": [1, None]}
    assert ckpt("-s", sealed, "rekey", "--all", "--decrypt", "--yes").code == 0
    assert metadata_of(sealed)[0]["user_id"] == "anna"
    monkeypatch.delenv("LANGGRAPH_AES_KEY")
    assert ckpt("-s", sealed, "show", THREAD, "-o", "json").json["values"] == known


@pytest.mark.eras
def test_the_published_code_reads_what_was_written(sealed: Path, tmp_path: Path) -> None:
    assert ckpt("-s", sealed, "rollback", THREAD, "~2", "--yes").code == 0
    python = era_python("agent-server-0.18", "dev")
    stored = [b64encode(data).decode() for *_, data in rows(sealed)]
    (tmp_path / "stored.json").write_text(json.dumps([stored, metadata_of(sealed)]))
    environment = {**os.environ, "DATABASE_URI": ":memory:", "REDIS_URI": "fake"}
    script = FIXTURES / "make" / "agent_server_keys.py"
    done = subprocess.run(
        [python, script, tmp_path / "stored.json", KEY],
        check=True,
        capture_output=True,
        env=environment,
    )
    values, metadata, theirs = json.loads(done.stdout)
    assert [b64decode(one) for one in values] == [
        decrypted(data, KEY.encode())[0] for *_, data in rows(sealed)
    ]
    assert {(one["user_id"], str(one["plan"])) for one in metadata} == {
        ("anna", "{'seats': [1, None]}")
    }
    # And the other way round: what that code encrypts.
    with closing(sqlite3.connect(sealed)) as db, db:
        db.execute("UPDATE checkpoints SET metadata = ?", (json.dumps(theirs).encode(),))
    shown = ckpt("-s", sealed, "show", THREAD, "-o", "json").json["metadata"]
    assert shown["user_id"] == {"name": "anna"}
