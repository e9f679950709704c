"""Hostile PostgreSQL servers: they want the password, never end, or answer nonsense."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from ckpt_backends import servers as insecure_connection
from ckpt_backends.postgres import connect as guarded
from tests.kit.command import CommandResult, ckpt, first_now
from tests.kit.hostile.postgres_standin import (
    BEGUN,
    BYTES,
    CLEAR_TEXT,
    INTEGER,
    JSONB,
    LETTING_IN,
    MD5,
    NAMES,
    NUMERIC,
    RECORD,
    TEXT,
    Script,
    Wire,
    answering,
    catalog,
    done,
    error,
    message,
    table,
)
from tests.kit.hostile.sql_servers import PASSWORD, threads_at, url_at
from tests.kit.hostile.watched import checked_in_child
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
    return url_at("postgresql", answering(script, heard), more)


def ask(script: Script, heard: bytearray | None = None, more: str = "") -> CommandResult:
    return threads_at(url_of(script, heard, more))


def clear_text(wire: Wire) -> None:
    wire.start()
    wire.ask_for(CLEAR_TEXT)
    wire.serve(lambda _: error(b"no more"))


def md5(wire: Wire) -> None:
    wire.start()
    wire.ask_for(MD5, b"salt")
    wire.serve(lambda _: error(b"no more"))


@pytest.mark.usefixtures("far_away")
@pytest.mark.parametrize("more", ["", "&sslmode=allow", "&sslmode=disable", "&hostaddr=127.0.0.1"])
def test_no_far_server_gets_the_password_in_clear_text(more: str) -> None:
    heard = bytearray()
    answer = ask(clear_text, heard, more)
    assert answer.code == 4
    assert "asks for the password in clear text, and it was not sent" in answer.err
    assert "sslmode=verify-full" in answer.err
    assert PASSWORD not in heard


def test_no_far_server_among_several_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded, "is_local", lambda host: host == "localhost")
    heard = bytearray()
    with url_of(clear_text, heard) as url:
        port = url.partition("@localhost:")[2].partition("/")[0]
        both = url.replace(f":{port}/", f":{port},127.0.0.1:{port}/")
        assert ckpt("-s", both, "threads", "list").code == 4
    assert PASSWORD not in heard


@pytest.mark.usefixtures("far_away")
def test_who_allows_it_is_warned() -> None:
    heard = bytearray()
    answer = ask(clear_text, heard, "&require_auth=password")
    assert PASSWORD in heard
    lines = [one for one in answer.err.splitlines() if one.startswith("warning:")]
    assert len(lines) == 1
    assert "the password goes to 'localhost' over an unencrypted connection" in lines[0]


def test_this_machine_gets_it_without_a_warning() -> None:
    heard = bytearray()
    answer = ask(clear_text, heard)
    assert PASSWORD in heard
    assert "warning:" not in answer.err


@pytest.mark.usefixtures("far_away")
def test_a_password_is_warned_of_once_and_none_is_not() -> None:
    assert ask(md5).err.count("warning:") == 1
    with url_of(queries(lambda _: error(b"no"))) as url:
        assert "warning:" not in ckpt("-s", url, "threads", "list").err


@pytest.mark.usefixtures("far_away")
@pytest.mark.parametrize(
    ("variable", "value"),
    [("PGREQUIREAUTH", "scram-sha-256"), ("PGSERVICE", "mine"), (None, "&service=mine")],
)
def test_require_auth_of_the_user_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str | None, value: str
) -> None:
    services = tmp_path / "services"
    services.write_text("[mine]\nrequire_auth=scram-sha-256\n")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    if variable is not None:
        monkeypatch.setenv(variable, value)
    heard = bytearray()
    # With ckpt's own setting, md5 would be accepted.
    answer = ask(md5, heard, value if variable is None else "")
    assert answer.code == 4
    assert b"md5" not in heard


@pytest.mark.usefixtures("far_away")
@pytest.mark.parametrize(
    ("more", "gets_it"),
    [
        ("", False),
        ("&sslmode=require", False),
        ("&sslmode=verify-ca&sslrootcert={ca}", False),
        ("&sslmode=verify-full&sslrootcert={ca}", True),
        ("&sslmode=verify-full&sslrootcert={other}", False),
    ],
)
def test_inside_tls_it_goes_to_the_right_server_only(
    tmp_path: Path, more: str, gets_it: bool
) -> None:
    (tmp_path / "other").mkdir()
    authority, other = Authority(tmp_path), Authority(tmp_path / "other")
    context = authority.context("localhost")

    def script(wire: Wire) -> None:
        wire.start(context)
        wire.ask_for(CLEAR_TEXT)
        wire.serve(lambda _: error(b"no more"))

    heard = bytearray()
    answer = ask(script, heard, more.format(ca=authority.file, other=other.file))
    assert (PASSWORD in heard) == gets_it
    assert "warning:" not in answer.err


def queries(answer: Callable[[bytes], bytes]) -> Script:
    """An honest start and catalog; then `answer`."""

    def script(wire: Wire) -> None:
        wire.start()
        wire.serve(lambda said: catalog(said) or answer(said))

    return script


@pytest.mark.parametrize("stage", ["start", "answer"])
def test_a_server_that_falls_silent(stage: str) -> None:
    def script(wire: Wire) -> None:
        wire.start()
        if stage == "answer":
            wire.let_in()
            wire.query()
        wire.client.recv(1)
        wire.client.recv(1)

    answer = ask(script)
    assert (answer.code, "the server does not answer" in answer.err) == (4, True), answer.err


def test_an_answer_without_end_is_given_up() -> None:
    def script(wire: Wire) -> None:
        wire.start()
        wire.let_in()
        wire.query()
        while True:
            wire.client.sendall(message(b"N", b"SNOTICE\0C00000\0Mwait\0\0") * 1000)

    assert "the server does not answer" in ask(script).err


@pytest.mark.parametrize("stage", range(6))
def test_a_server_that_leaves_early(stage: int) -> None:
    def script(wire: Wire) -> None:
        if stage:
            wire.start()
        if stage > 1:
            wire.client.sendall(LETTING_IN if stage > 2 else LETTING_IN[:30])
        for _ in range(stage - 3):
            wire.query()
            wire.client.sendall(done() if stage == 4 else BEGUN + b"T\0\0")

    assert ask(script).code == 4


def test_an_error_with_escape_sequences_is_plain_text() -> None:
    text = b"\x1b]0;owned\x07\x1b[2J\r\nckpt: fine\n\xc2\x9b31m \xff"

    def script(wire: Wire) -> None:
        wire.start()
        wire.client.sendall(error(text))

    for one in (script, queries(lambda _: error(text))):
        answer = ask(one)
        assert answer.code == 4
        assert len(answer.err.splitlines()) <= 2


def _nested() -> bytes:
    found = b""
    for _ in range(20000):
        found = struct.pack("!iIi", 1, RECORD, len(found)) + found
    return found


CELLS: list[bytes | None] = [
    *(None, b"", b"0", b"-1", b"1e999999999", b"9" * 5000, b"nan", b"\xff\xfe", b"\0", bytes(8)),
    *(b"\x7f" + b"\xff" * 7, b"\x80" + bytes(7), b"\x1b[31m", b"{}", b"\x01{}", b"[" * 3000),
    *(b"\x01" + b"[" * 100000, b"x" * 70000, "\u202e".encode(), b"trip", b"__interrupt__"),
    *(struct.pack("!iiI", 1, 0, TEXT), struct.pack("!iiIii", 1, 0, TEXT, 1 << 30, 1)),
    *(struct.pack("!iiI", 1 << 28, 0, TEXT), struct.pack("!iiI", 3000, 0, TEXT) + bytes(24000)),
    *(struct.pack("!hhhh", 1, 32767, 0, 0) + b"\0\1", struct.pack("!hhhh", 9, 0, 0xC0, 0)),
    *(_nested(), b"1f0a0000-0000-6000-8000-000000000001", b"\0\0\0\1"),
]
KINDS = [TEXT, INTEGER, NUMERIC, BYTES, NAMES, RECORD, JSONB, 16, 21, 23, 114, 700, 701, 1082]
KINDS += [1114, 1184, 1186, 2950, 2277, 3904, 0, 99999, 1001, 1016, 1231, 869, 2287]
COMMANDS = [
    *(["threads", "list"], ["threads", "list", "-n", "3"], ["show", "--long", "trip"]),
    *(["show", "trip"], ["history", "trip"], ["du"], ["grep", "x"], ["stores"], ["stats"]),
    *(["show", "trip", "--writes", "--metadata"], ["rollback", "trip", "--steps", "1", "--yes"]),
    *(["threads", "delete", "trip", "--yes"], ["interrupts"], ["du", "--by", "channel"]),
    *(["memory", "list"], ["memory", "show", "a", "b"]),
]


def odd_tables(seed: int) -> Script:
    """Answers each query with columns and cells of any type."""
    chance = random.Random(seed)

    def answer(said: bytes) -> bytes:
        asked = re.search(rb"SELECT(.*?)FROM", said, re.DOTALL)
        width = asked[1].count(b",") + 1 if asked else 6
        width = max(0, width + chance.choice([0, 0, 0, 0, -1, 1]))
        kinds = chance.choices(KINDS[:4] if chance.random() < 0.7 else KINDS, k=width)
        rows = [chance.choices(CELLS, k=width) for _ in range(chance.randrange(4))]
        return table(rows, kinds, form=chance.choice([1, 1, 1, 0]))

    return queries(answer)


def torn(seed: int) -> Script:
    """Answers like a server, with some bytes of each answer changed."""
    chance = random.Random(seed)

    def script(wire: Wire) -> None:
        wire.start()
        wire.let_in()
        while True:
            said = wire.query()
            data = bytearray(catalog(said) or table([chance.choices(CELLS, k=6)] * 2, [TEXT] * 6))
            for _ in range(chance.randrange(4)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            wire.client.sendall(data)

    return script


@pytest.mark.parametrize("seed", first_now(range(8)))
def test_odd_answers_are_errors(seed: int) -> None:
    with url_of(odd_tables(seed)) as url:
        checked_in_child([["-s", url, *words] for words in COMMANDS])


@pytest.mark.parametrize("seed", first_now(range(4)))
def test_torn_answers_are_errors(seed: int) -> None:
    with url_of(torn(seed)) as url:
        checked_in_child([["-s", url, *words] for words in COMMANDS[:6]])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
@pytest.mark.parametrize("kind", [odd_tables, torn])
def test_odd_and_torn_answers_in_bulk(kind: Callable[[int], Script], seed: int) -> None:
    with url_of(kind(seed)) as url:
        checked_in_child([["-s", url, *words] for words in COMMANDS])
