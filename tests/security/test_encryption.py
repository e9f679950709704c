"""Encrypted stores: keys that fit, keys that do not, and rows that should have been encrypted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ckpt_backends.encryption import DecryptingStore, keys_of_environment, keys_of_file
from ckpt_backends.errors import UsageError
from ckpt_backends.registry import open_store
from tests.kit.command import FIXTURES, SAMPLE, ckpt, copy_store

KEY = "0123456789abcdef"
OTHER = "fedcba9876543210"
NO_KEY = "encrypted; set LANGGRAPH_AES_KEY or add --aes-key-file FILE"
WRONG = "encrypted, and the key does not fit"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return copy_store(FIXTURES / "lg-1.2.22-serde" / "store.db", tmp_path)


def test_the_key_of_the_environment(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    answer = ckpt("-s", store, "show", "aes-chat")
    assert "Und auf Deutsch? 你好" in answer.out
    assert answer.err == ""


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_the_key_of_a_file(store: Path, tmp_path: Path, end: str) -> None:
    file = tmp_path / "key"
    file.write_bytes((KEY + end).encode())
    file.chmod(0o600)
    answer = ckpt("-s", store, "--aes-key-file", file, "show", "aes-pickle", "-o", "json")
    assert answer.json["values"]["value"]["$type"] == "zoo_types.Unserializable"
    assert answer.json["values"]["value"]["label"] == "made by hand"
    assert {write.get("encrypted") for write in answer.json["writes"]} <= {True}


def test_without_a_key_values_are_named_and_one_note_is_printed(store: Path) -> None:
    answer = ckpt("-s", store, "history", "aes-chat", "-o", "json")
    assert answer.code == 0
    assert {row["problem"] for row in answer.json} == {NO_KEY}
    assert answer.err == f"note: values are {NO_KEY}\n"


def test_a_key_that_does_not_fit(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", OTHER)
    answer = ckpt("-s", store, "history", "aes-chat", "-o", "json")
    assert {row["problem"] for row in answer.json} == {WRONG}
    assert answer.err == f"note: values are {WRONG}\n"
    assert OTHER not in answer.out + answer.err


def test_a_key_of_a_wrong_length(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", "secret-key")
    answer = ckpt("-s", store, "show", "aes-chat", "--debug")
    assert answer.code == 2
    assert "LANGGRAPH_AES_KEY has 10 bytes" in answer.err
    assert "secret-key" not in answer.out + answer.err
    assert ckpt("-s", store, "show", "pickle-unused").code == 0
    file = tmp_path / "key"
    file.write_text("secret-key")
    file.chmod(0o600)
    answer = ckpt("-s", store, "--aes-key-file", file, "show", "pickle-unused")
    assert answer.code == 2
    assert "has 10 bytes" in answer.err
    assert "secret-key" not in answer.err


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_a_key_file_that_others_can_read_is_refused(store: Path, tmp_path: Path, mode: int) -> None:
    file = tmp_path / "key"
    file.write_text(KEY)
    file.chmod(mode)
    rekey = ("rekey", "aes-chat", "--new-key-file", file, "--dry-run")
    for words in (("--aes-key-file", file, "show", "aes-chat"), rekey):
        answer = ckpt("-s", store, *words)
        assert (answer.code, answer.out) == (5, "")
        assert f"other users can read it (mode {mode:04o})" in answer.err
        assert f"hint: chmod 600 {file}" in answer.err
    link = tmp_path / "link"
    link.symlink_to(file)
    assert ckpt("-s", store, "--aes-key-file", link, "show", "aes-chat").code == 5


def test_a_key_file_that_is_not_there(store: Path, tmp_path: Path) -> None:
    answer = ckpt("-s", store, "--aes-key-file", tmp_path / "none", "show", "aes-chat")
    assert answer.code == 2
    assert "no such file" in answer.err


@pytest.mark.parametrize("size", [16, 24, 32])
def test_keys_of_each_size(size: int, tmp_path: Path) -> None:
    key = ("schlüssel" + "x" * 32).encode()[: size - 1] + b"\n"
    (tmp_path / "key").write_bytes(key)
    (tmp_path / "key").chmod(0o600)
    assert keys_of_file(str(tmp_path / "key")) == (key,)
    text = "ü" + "x" * (size - 2)
    assert keys_of_environment({"LANGGRAPH_AES_KEY": text}) == (text.encode(),)
    with pytest.raises(UsageError):
        keys_of_environment({"LANGGRAPH_AES_KEY": text + "x"})


def test_without_the_library_the_extra_is_named(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    monkeypatch.setitem(sys.modules, "Crypto.Cipher", None)
    answer = ckpt("-s", store, "show", "aes-chat")
    assert answer.code == 0
    assert "pip install 'langgraph-ckpt[aes]'" in answer.err
    assert KEY not in answer.out + answer.err


def test_a_store_without_encrypted_values_does_not_load_the_library() -> None:
    words = ["-s", str(SAMPLE), "threads", "list"]
    script = f"import sys; from ckpt_cli.run import run; run({words!r}); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "ckpt_cli" in done.stdout
    assert "Crypto" not in done.stdout
    assert "pickletools" not in done.stdout


def test_plain_rows_among_encrypted_ones_are_flagged(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    history = ckpt("-s", store, "history", "aes-after-plain", "-o", "json")
    assert {row["step"] for row in history.json if row.get("plaintext")} == {-1, 0, 1, 2, 3}
    assert history.err.startswith("warning: 5 checkpoints stored unencrypted")
    shown = ckpt("-s", store, "show", "aes-after-plain@step:1", "-o", "json")
    assert shown.json["plaintext"] is True
    assert "warning  stored unencrypted" in ckpt("-s", store, "show", "aes-after-plain@step:1").out
    assert "plaintext" not in ckpt("-s", store, "show", "aes-after-plain", "-o", "json").json
    for thread in ("pickle-unused", "aes-chat"):
        answer = ckpt("-s", store, "history", thread, "-o", "json")
        assert not any("plaintext" in row for row in answer.json)
        assert answer.err == ""


def test_a_plain_head_of_an_encrypted_thread_is_flagged(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sqlite3

    with sqlite3.connect(store) as db:
        db.execute(
            "INSERT INTO checkpoints SELECT 'aes-chat', '', '1ffe5fb3-2ac5-64af-8009-5d0b6978bc63',"
            " NULL, type, checkpoint, metadata FROM checkpoints WHERE thread_id = 'pickle-unused'"
            " ORDER BY checkpoint_id DESC LIMIT 1"
        )
    db.close()
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    assert ckpt("-s", store, "show", "aes-chat", "-o", "json").json["plaintext"] is True
    assert "unencrypted" in ckpt("-s", store, "show", "aes-chat").out
    assert "unencrypted" in ckpt("-s", store, "show", "aes-chat").out


@pytest.mark.parametrize(
    "words",
    [
        ["messages", "aes-chat"],
        ["show", "aes-chat", "--path", "messages[0]"],
        ["show", "aes-chat", "--channel", "messages"],
        ["blame", "aes-chat", "messages"],
        ["diff", "aes-chat"],
    ],
    ids=" ".join,
)
def test_what_needs_a_value_says_that_the_key_is_missing(store: Path, words: list[str]) -> None:
    answer = ckpt("-s", store, *words, "-o", "json")
    assert answer.code == 4
    assert answer.out == ""
    error = json.loads(answer.err.splitlines()[-1])
    assert error["error"] == "unreadable"
    assert error["hint"] == "set LANGGRAPH_AES_KEY or add --aes-key-file FILE"


def test_a_search_that_could_not_read_all_does_not_say_that_nothing_is_there(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["grep", "Deutsch", "--match", "aes-chat"]
    for more in ([], ["--head-only"], ["--jobs", "2"]):
        answer = ckpt("-s", store, *words, *more)
        assert answer.code == 7
        assert "could not be read" in answer.err
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    for more in ([], ["--head-only"], ["--jobs", "2"]):
        answer = ckpt("-s", store, *words, *more)
        assert answer.code == 0
        assert "Und auf Deutsch?" in answer.out
    assert ckpt("-s", store, *words[:1], "no such text", *words[2:]).code == 1


def test_the_key_is_no_part_of_any_text(store: Path) -> None:
    notes: list[str] = []
    with DecryptingStore(open_store(str(store)), lambda: [KEY.encode()], notes.append) as opened:
        values = [repr(one) for one in opened.checkpoints("aes-chat", body=True, metadata=True)]
        assert KEY not in json.dumps([*values, repr(opened), str(opened.describe())])
    assert notes == []
