"""Hostile MySQL servers: they want the password or a file, fall silent, or answer nonsense."""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from ckpt_backends import servers as insecure_connection
from ckpt_backends.mysql import connect as guarded
from ckpt_backends.registry import open_store
from tests.kit.command import CommandResult, ckpt, first_now
from tests.kit.hostile.mysql_standin import (
    BLOB,
    DECIMAL,
    END,
    INFILE,
    INTEGER,
    NATIVE,
    OK,
    TEXT,
    Script,
    Wire,
    answering,
    catalog,
    column,
    greeting,
    row,
    table,
)
from tests.kit.hostile.sql_servers import PASSWORD, QUICK, threads_at, url_at
from tests.kit.hostile.standin import standin
from tests.kit.hostile.watched import check, confined, here
from tests.kit.tls import Authority


@pytest.fixture(autouse=True)
def nothing_said_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(insecure_connection, "_WARNED", set())


@pytest.fixture
def far_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """127.0.0.1 counts as another machine."""
    monkeypatch.setattr(guarded, "is_local", lambda _: False)


def url_of(
    script: Script, heard: bytearray | None = None, more: str = ""
) -> AbstractContextManager[str]:
    return url_at("mysql", answering(script, heard), more)


def ask(script: Script, heard: bytearray | None = None, more: str = "") -> CommandResult:
    return threads_at(url_of(script, heard, more))


@cache
def public_key() -> bytes:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key()
    return key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def by_switch(plugin: str) -> Script:
    def script(wire: Wire) -> None:
        wire.greet()
        wire.switch(plugin, b"\x0bPassword: " if plugin == "dialog" else b"\0")

    return script


def at_first(plugin: str) -> Script:
    def script(wire: Wire) -> None:
        wire.greet(plugin)
        wire.switch(plugin)

    return script


def full_sha2(tls: Callable[[], object] = lambda: None) -> Script:
    public_key()  # A client does not wait for it.

    def script(wire: Wire) -> None:
        wire.greet("caching_sha2_password", tls())  # type: ignore[arg-type]
        wire.send(b"\x01\x04")
        if wire.receive() == b"\x02":
            wire.send(b"\x01" + public_key())
            wire.receive()

    return script


def old_sha2(wire: Wire) -> None:
    wire.greet()
    assert wire.switch("sha256_password") == b"\x01"
    wire.send(b"\x01" + public_key())
    wire.receive()


@pytest.mark.parametrize("plugin", ["mysql_clear_password", "dialog", "mysql_old_password"])
@pytest.mark.parametrize("way", [by_switch, at_first])
def test_no_server_gets_the_password_in_clear_text(
    plugin: str, way: Callable[[str], Script]
) -> None:
    heard = bytearray()
    answer = ask(way(plugin), heard)
    assert PASSWORD not in heard
    assert answer.code == 4
    assert "asks for the password in clear text, and it was not sent" in answer.err
    assert "ssl_mode=verify_identity" in answer.err


def test_an_option_file_cannot_ask_for_clear_text() -> None:
    own = f'[client]\ndefault-auth=mysql_clear_password\npassword="{PASSWORD.decode()}"\n'
    Path("~/.my.cnf").expanduser().write_text(own + "enable-cleartext-plugin\n", "utf-8")
    heard = bytearray()
    with standin(answering(by_switch("mysql_clear_password"), heard)) as port:
        answer = ckpt("-s", f"mysql://u@127.0.0.1:{port}/db", "threads", "list")
    assert (answer.code, "clear text" in answer.err) == (4, True)
    assert heard
    assert PASSWORD not in heard


def test_an_option_file_does_not_replace_the_host() -> None:
    own = f'[client]\nsocket=/nowhere\nport=1\npassword="{PASSWORD.decode()}"\n'
    Path("~/.my.cnf").expanduser().write_text(own, "utf-8")
    heard = bytearray()
    with standin(answering(by_switch("mysql_clear_password"), heard)) as port:
        ckpt("-s", f"mysql://u@127.0.0.1:{port}/db", "threads", "list")
    assert heard


def test_a_damaged_option_file_is_named() -> None:
    Path("~/.my.cnf").expanduser().write_text("password=x\n[client]\n", "utf-8")
    answer = ckpt("-s", "mysql://u@127.0.0.1:1/db", "threads", "list")
    assert (answer.code, "'~/.my.cnf'" in answer.err) == (2, True)


@pytest.mark.usefixtures("far_away")
@pytest.mark.parametrize("plugin", ["caching_sha2_password", "sha256_password"])
def test_a_key_of_the_server_is_not_used_far_away(plugin: str) -> None:
    public_key()
    heard = bytearray()
    answer = ask(full_sha2() if plugin.startswith("caching") else old_sha2, heard)
    assert "and it was not sent" in answer.err
    assert heard[-1] in {1, 2}


def test_a_key_of_the_server_is_used_on_this_machine() -> None:
    heard = bytearray()
    ask(full_sha2(), heard)
    assert heard[-257] == 2


@pytest.mark.usefixtures("far_away")
def test_an_unencrypted_password_is_warned_of_once() -> None:
    def script(wire: Wire) -> None:
        wire.greet()
        wire.serve(lambda _: None)

    answer = ask(script)
    lines = [one for one in answer.err.splitlines() if one.startswith("warning:")]
    assert len(lines) == 1
    assert "the password goes to 'localhost' over an unencrypted connection" in lines[0]
    with standin(answering(script)) as port:
        bare = ckpt("-s", f"mysql://u@localhost:{port}/db?{QUICK}", "threads", "list")
    assert "warning:" not in bare.err


@pytest.mark.usefixtures("far_away")
@pytest.mark.parametrize("action", ["error", "ignore"])
def test_the_settings_of_python_do_not_change_the_warning(action: str) -> None:
    def script(wire: Wire) -> None:
        wire.greet()
        wire.serve(lambda _: None)

    with warnings.catch_warnings():
        warnings.simplefilter(action)  # type: ignore[arg-type]
        assert ask(script).err.count("warning:") == 1


@pytest.mark.usefixtures("far_away")
def test_completion_prints_no_warning() -> None:
    heard = bytearray()
    with warnings.catch_warnings(), url_of(by_switch(NATIVE), heard) as url:
        answer = ckpt("_complete", "thread", "", url)
    assert heard
    assert (answer.code, answer.out, answer.err) == (0, "", "")


def test_on_this_machine_nothing_is_warned_of() -> None:
    assert "warning:" not in ask(by_switch(NATIVE)).err


@pytest.mark.usefixtures("far_away")
@pytest.mark.parametrize(
    ("mode", "plugin", "gets_it", "warns"),
    [
        ("&ssl_mode=preferred", "mysql_clear_password", False, False),
        ("&ssl_mode=required", "mysql_clear_password", False, False),
        ("&ssl_mode=verify_ca&ssl_ca={ca}", "mysql_clear_password", False, False),
        ("&ssl_ca={ca}", "mysql_clear_password", True, False),
        ("&ssl_ca={ca}", "dialog", True, False),
        ("&ssl_mode=required", "sha2", True, True),
        ("&ssl_mode=required", "sha256_password", True, True),
        ("&ssl_ca={ca}", "sha256_password", True, False),
        ("", "sha2", True, True),
        ("&ssl_ca={ca}", "sha2", True, False),
        ("&ssl_ca={other}", "sha2", False, False),
    ],
)
def test_inside_tls_it_goes_to_the_right_server_only(
    tmp_path: Path, mode: str, plugin: str, gets_it: bool, warns: bool
) -> None:
    (tmp_path / "other").mkdir()
    authority, other = Authority(tmp_path), Authority(tmp_path / "other")
    context = authority.context("localhost")

    def script(wire: Wire) -> None:
        wire.greet("sha256_password" if plugin == "sha256_password" else NATIVE, context)
        wire.switch(plugin, b"\x0bPassword: " if plugin == "dialog" else b"\0")

    heard = bytearray()
    chosen = full_sha2(lambda: context) if plugin == "sha2" else script
    answer = ask(chosen, heard, mode.format(ca=authority.file, other=other.file))
    assert (PASSWORD in heard) == gets_it
    assert ("its certificate or host name was not checked" in answer.err) == warns


@pytest.mark.parametrize("asked_in", [1, 2, 5])
def test_no_file_is_sent(asked_in: int) -> None:
    heard: list[bytes] = []

    def script(wire: Wire) -> None:
        wire.greet()
        wire.send(OK)
        for number in range(1, 100):
            said = wire.receive()
            heard.append(said)
            wire.send(*([INFILE] if number >= asked_in else [OK]))

    answer = ask(script)
    assert answer.code == 4
    assert "LOCAL INFILE" in answer.err or "malformed" in answer.err
    assert not any(b"root:" in one for one in heard)


def test_a_file_that_is_asked_for_in_place_of_rows_is_named_so() -> None:
    def script(wire: Wire) -> None:
        wire.greet()
        wire.serve(lambda said: [INFILE] if b"SELECT" in said else None)

    answer = ask(script)
    assert "asks for a file of this machine (LOCAL INFILE); none was sent" in answer.err


def queries(answer: Callable[[bytes], list[bytes] | None]) -> Script:
    """An honest handshake and catalog; then `answer`."""

    def script(wire: Wire) -> None:
        wire.greet()
        wire.serve(lambda said: catalog(said) or (answer(said) if b"SELECT" in said else None))

    return script


def flood(piece: Callable[[Wire], bytes], start: Callable[[bytes], bool]) -> Script:
    """Answers like a server until `start`, and sends the piece for ever then."""

    def script(wire: Wire) -> None:
        wire.greet()
        wire.send(OK)
        while True:
            said = wire.receive()
            if start(said):
                while True:
                    wire.client.sendall(b"".join(piece(wire) for _ in range(1000)))
            wire.send(*(catalog(said) or [OK]))

    return script


def first_select(said: bytes) -> bool:
    return b"SELECT" in said


def test_the_rest_of_an_endless_answer_is_not_read_at_the_end() -> None:
    kinds = [column(BLOB, charset=63), *[column()] * 3, *[column(INTEGER)] * 2]
    sent: list[bytes] = [b"\x06", *kinds, END]
    thread = row(b"t", b"1", b"1", b"1", b"1", b"1")

    def piece(wire: Wire) -> bytes:
        return wire.packet(sent.pop(0) if sent else thread)

    with url_of(flood(piece, lambda said: b"newest DESC" in said)) as url, open_store(url) as store:
        assert next(store.threads()).thread_id == "t"


@pytest.mark.parametrize("stage", ["greeting", "let in", "answer"])
def test_a_server_that_falls_silent(stage: str) -> None:
    def script(wire: Wire) -> None:
        if stage != "greeting":
            wire.greet()
        if stage == "answer":
            wire.send(OK)
            wire.receive()
        wire.client.recv(1)
        wire.client.recv(1)

    answer = ask(script)
    assert (answer.code, "the server does not answer" in answer.err) == (4, True), answer.err


@pytest.mark.parametrize("stage", range(6))
def test_a_server_that_leaves_early(stage: int) -> None:
    def script(wire: Wire) -> None:
        wire.greet() if stage else wire.client.sendall(greeting()[:20])
        if stage > 1:
            wire.send(OK)
        for _ in range(stage - 2):
            wire.receive()
            wire.send(OK)
        if stage == 5:
            wire.receive()
            wire.client.sendall(b"\x50\0\0\1half")

    assert ask(script).code == 4


def test_an_error_with_escape_sequences_is_plain_text() -> None:
    hostile = b"\xff\xe8\x03#HY000\x1b]0;owned\x07\x1b[2J\r\nckpt: fine\n\xc2\x9b31m"

    def script(wire: Wire) -> None:
        wire.greet()
        wire.send(hostile)

    answer = ask(script)
    assert answer.code == 4
    assert len(answer.err.splitlines()) <= 2
    assert ask(queries(lambda _: [hostile])).code == 4


@pytest.mark.parametrize("number", range(3))
def test_switches_do_not_go_round(number: int) -> None:
    def script(wire: Wire) -> None:
        wire.greet()
        for plugin in (NATIVE, "caching_sha2_password", NATIVE)[number:] * 400:
            wire.switch(plugin)

    assert ask(script).code == 4


CELLS: list[bytes | None] = [
    *(None, b"", b"0", b"-1", b"1e999999999", b"9" * 5000, b"nan", b"inf", b"\xff\xfe", b"\0"),
    *(b"\x1b[31m", b"{}", b"[" * 3000, b'{"id": 1}', b"x" * 70000, "\u202e".encode(), b"true"),
    *(b"2026-99-99 99:99:99", b"1f0a0000-0000-6000-8000-000000000001", b"trip", b"__interrupt__"),
]
KINDS = [INTEGER, TEXT, DECIMAL, BLOB, 0, 1, 2, 3, 4, 5, 7, 10, 11, 12, 13, 16, 245, 247, 255, 99]
COMMANDS = [
    *(["threads", "list"], ["threads", "list", "-n", "3"], ["show", "--long", "trip"]),
    *(["show", "trip"], ["history", "trip"], ["du"], ["grep", "x"], ["stores"], ["stats"]),
    *(["show", "trip", "--writes", "--metadata"], ["rollback", "trip", "--steps", "1", "--yes"]),
    *(["threads", "delete", "trip", "--yes"], ["interrupts"], ["du", "--by", "channel"]),
]


def odd_tables(seed: int) -> Script:
    """Answers each query with columns and cells of any type."""
    chance = random.Random(seed)

    def answer(said: bytes) -> list[bytes] | None:
        asked = re.search(rb"SELECT(.*?)FROM", said, re.DOTALL)
        width = asked[1].count(b",") + 1 if asked else 1
        width = max(0, width + chance.choice([0, 0, 0, 0, -1, 1]))
        kinds = chance.choices(KINDS[:4] if chance.random() < 0.7 else KINDS, k=max(1, width))
        rows = [chance.choices(CELLS, k=width) for _ in range(chance.randrange(4))]
        return table(rows, kinds)

    return queries(answer)


def torn(seed: int) -> Script:
    """Answers like `odd_tables`, with some bytes of each answer changed."""
    chance = random.Random(seed)

    def script(wire: Wire) -> None:
        wire.greet()
        wire.send(OK)
        while True:
            said = wire.receive()
            honest = catalog(said) if b"SELECT" in said else [OK]
            packets = honest or table([chance.choices(CELLS[:9], k=6)] * 2)
            data = bytearray(b"".join(map(wire.packet, packets)))
            if b"SELECT" in said:
                for _ in range(chance.randrange(4)):
                    data[chance.randrange(len(data))] = chance.randrange(256)
            wire.client.sendall(data)

    return script


@pytest.mark.parametrize("seed", first_now(range(8)))
def test_odd_answers_are_errors(seed: int) -> None:
    with url_of(odd_tables(seed)) as url:
        for words in COMMANDS:
            check(here("-s", url, *words))


@pytest.mark.parametrize("seed", first_now(range(4)))
def test_torn_answers_are_errors(seed: int) -> None:
    with url_of(torn(seed)) as url:
        for words in COMMANDS[:6]:
            check(here("-s", url, *words))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
@pytest.mark.parametrize("kind", [odd_tables, torn])
def test_odd_and_torn_answers_in_bulk(kind: Callable[[int], Script], seed: int) -> None:
    with url_of(kind(seed)) as url:
        for words in COMMANDS:
            check(here("-s", url, *words))
        # In a process, a hang or memory without limit fails.
        confined("-s", url, *random.Random(seed).choice(COMMANDS))
