"""Hostile PostgreSQL and MySQL servers: they want the password or a file, never end, or lie."""

import random
import re
import struct
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from ssl import SSLContext

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from ckpt_backends import servers as insecure_connection
from ckpt_backends.mysql import connect as mysql_connect
from ckpt_backends.postgres import connect as postgres_connect
from ckpt_backends.testing.chance import Chance
from tests.kit.cases import cases
from tests.kit.command import ckpt, later
from tests.kit.hostile import mysql, postgres
from tests.kit.hostile.commands import ON_SERVER
from tests.kit.hostile.mysql import INFILE, NATIVE, MysqlWire
from tests.kit.hostile.postgres import BEGUN, CLEAR_TEXT, LETTING_IN, MD5, PostgresWire, message
from tests.kit.hostile.sql import PASSWORD, Parts, Script, Wire, ask, url_at
from tests.kit.hostile.watched import checked_in_child
from tests.kit.tls import Authority

CLEAR, SHA2, SHA256 = "mysql_clear_password", "caching_sha2_password", "sha256_password"
ENGINES = pytest.mark.parametrize("engine", [MysqlWire, PostgresWire])


@pytest.fixture(autouse=True)
def nothing_said_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(insecure_connection, "_WARNED", set())


@pytest.fixture
def far_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """127.0.0.1 counts as another machine."""
    for one in (mysql_connect, postgres_connect):
        monkeypatch.setattr(one, "is_local", lambda _: False)


@cache
def public_key() -> bytes:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key()
    return key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def asks_postgres(way: int, tls: SSLContext | None = None) -> Script:
    """A server that asks for the password, in clear text or as MD5."""

    def script(wire: PostgresWire) -> None:
        wire.begin(tls)
        wire.ask_for(way, b"salt" if way == MD5 else b"")
        wire.serve(lambda _: wire.error(b"no more"))

    return script


def asks_mysql(plugin: str, tls: SSLContext | None = None, first: str = NATIVE) -> Script:
    """A server that asks for the password by a plugin; it greets with the plugin `first`."""
    public_key()  # A client does not wait for it.

    def script(wire: MysqlWire) -> None:
        wire.begin(tls, plugin if plugin == SHA2 else first)
        if plugin == SHA2:
            wire.say(b"\x01\x04")
            answer = wire.receive()
        else:
            answer = wire.switch(plugin)
        if plugin.endswith("_password") and answer in {b"\x01", b"\x02"}:
            wire.say(b"\x01" + public_key())
            wire.receive()

    return script


def answering(answer: Callable[[bytes], Parts]) -> Script:
    """An honest start and catalog; then `answer`."""

    def script(wire: Wire) -> None:
        wire.begin()
        wire.serve(answer)

    return script


@cases(
    "plugin first more",
    *((one, NATIVE, "") for one in (CLEAR, "dialog", "mysql_old_password")),
    (CLEAR, CLEAR, ""),
    *((None, "", one) for one in ("", "&sslmode=allow", "&hostaddr=127.0.0.1")),
)
def test_no_server_gets_the_password_in_clear_text(
    request: pytest.FixtureRequest, plugin: str | None, first: str, more: str
) -> None:
    """MySQL does not get it on this machine either."""
    heard = bytearray()
    if plugin:
        answer = ask(MysqlWire, asks_mysql(plugin, first=first), heard, more)
    else:
        request.getfixturevalue("far_away")
        answer = ask(PostgresWire, asks_postgres(CLEAR_TEXT), heard, more)
    assert PASSWORD not in heard
    assert answer.code == 4
    assert "asks for the password in clear text, and it was not sent" in answer.err
    assert ("ssl_mode=verify_identity" if plugin else "sslmode=verify-full") in answer.err


def test_no_far_server_among_several_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_connect, "is_local", lambda host: host == "localhost")
    heard = bytearray()
    with url_at(PostgresWire, asks_postgres(CLEAR_TEXT), heard) as url:
        port = url.partition("@localhost:")[2].partition("/")[0]
        both = url.replace(f":{port}/", f":{port},127.0.0.1:{port}/")
        ckpt("-s", both, "threads", "list", code=4)
    assert PASSWORD not in heard


def test_an_option_file_changes_neither_the_method_nor_the_host() -> None:
    own = Path("~/.my.cnf").expanduser()
    text = f'[client]\npassword="{PASSWORD.decode()}"\nsocket=/nowhere\nport=1\n'
    own.write_text(f"{text}default-auth={CLEAR}\nenable-cleartext-plugin\n", "utf-8")
    heard = bytearray()
    with url_at(MysqlWire, asks_mysql(CLEAR), heard) as url:
        bare = url.replace(f":{PASSWORD.decode()}@localhost", "@127.0.0.1").partition("?")[0]
        ckpt("-s", bare, "threads", "list", code=4, says="clear text")
        assert heard
        assert PASSWORD not in heard
        own.write_text("password=x\n[client]\n", "utf-8")
        damaged = ckpt("-s", bare, "threads", "list")
    assert (damaged.code, "'~/.my.cnf'" in damaged.err) == (2, True)


@pytest.mark.parametrize("plugin", [SHA2, SHA256])
def test_a_key_of_a_server_is_used_here_only(request: pytest.FixtureRequest, plugin: str) -> None:
    heard = bytearray()
    ask(MysqlWire, asks_mysql(plugin), heard)
    assert heard[-257] in {1, 2}
    request.getfixturevalue("far_away")
    heard.clear()
    assert "and it was not sent" in ask(MysqlWire, asks_mysql(plugin), heard).err
    assert heard[-1] in {1, 2}


@pytest.mark.usefixtures("far_away")
@cases(
    "engine script more",
    (MysqlWire, answering(lambda _: [mysql.OK]), ""),
    (PostgresWire, asks_postgres(MD5), ""),
    (PostgresWire, asks_postgres(CLEAR_TEXT), "&require_auth=password"),
    ids=["mysql", "postgresql", "postgresql, where clear text is allowed"],
)
def test_a_plain_password_is_warned_of_once(engine: type[Wire], script: Script, more: str) -> None:
    heard = bytearray()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what PYTHONWARNINGS says makes no difference
        answer = ask(engine, script, heard, more)
    (line,) = [one for one in answer.err.splitlines() if one.startswith("warning:")]
    assert "the password goes to 'localhost' over an unencrypted connection" in line
    assert (PASSWORD in heard) == bool(more)
    with url_at(engine, answering(lambda _: []), None) as url:
        bare = url.replace(f":{PASSWORD.decode()}", "")
        assert "warning:" not in ckpt("-s", bare, "threads", "list").err


@ENGINES
def test_on_this_machine_nothing_is_warned_of(engine: type[Wire]) -> None:
    heard = bytearray()
    script = asks_mysql(NATIVE) if engine is MysqlWire else asks_postgres(CLEAR_TEXT)
    assert "warning:" not in ask(engine, script, heard).err
    assert (PASSWORD in heard) == (engine is PostgresWire)


@pytest.mark.usefixtures("far_away")
def test_completion_prints_no_warning() -> None:
    heard = bytearray()
    with warnings.catch_warnings(), url_at(MysqlWire, asks_mysql(NATIVE), heard) as url:
        answer = ckpt("_complete", "thread", "", url)
    assert heard
    assert (answer.code, answer.out, answer.err) == (0, "", "")


@pytest.mark.usefixtures("far_away")
@cases(
    "variable value",
    ("PGREQUIREAUTH", "scram-sha-256"),
    ("PGSERVICE", "mine"),
    (None, "&service=mine"),
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
    answer = ask(PostgresWire, asks_postgres(MD5), heard, value if variable is None else "")
    assert answer.code == 4
    assert b"md5" not in heard


@pytest.mark.usefixtures("far_away")
@cases(
    "more way gets_it warns",
    ("", CLEAR_TEXT, False, False),
    ("&sslmode=verify-ca&sslrootcert={ca}", CLEAR_TEXT, False, False),
    ("&sslmode=verify-full&sslrootcert={ca}", CLEAR_TEXT, True, False),
    ("&sslmode=verify-full&sslrootcert={other}", CLEAR_TEXT, False, False),
    ("&ssl_mode=verify_ca&ssl_ca={ca}", CLEAR, False, False),
    ("&ssl_ca={ca}", CLEAR, True, False),
    ("&ssl_ca={ca}", "dialog", True, False),
    ("&ssl_mode=required", SHA2, True, True),
    ("&ssl_ca={ca}", SHA256, True, False),
    ("&ssl_ca={ca}", SHA2, True, False),
    ("&ssl_ca={other}", SHA2, False, False),
)
def test_inside_tls_it_goes_to_the_right_server_only(
    tmp_path: Path, more: str, way: int | str, gets_it: bool, warns: bool
) -> None:
    (tmp_path / "other").mkdir()
    authority, other = Authority(tmp_path), Authority(tmp_path / "other")
    tls = authority.context("localhost")
    heard = bytearray()
    engine, script = (
        (PostgresWire, asks_postgres(way, tls))
        if isinstance(way, int)
        else (MysqlWire, asks_mysql(way, tls, SHA256 if way == SHA256 else NATIVE))
    )
    answer = ask(engine, script, heard, more.format(ca=authority.file, other=other.file))
    assert (PASSWORD in heard) == gets_it
    assert ("its certificate or host name was not checked" in answer.err) == warns
    assert ("warning:" in answer.err) == warns


@pytest.mark.parametrize("asked_in", [1, 2, 5])
def test_no_file_is_sent(asked_in: int) -> None:
    heard: list[bytes] = []

    def script(wire: MysqlWire) -> None:
        wire.begin()
        wire.let_in()
        for number in range(1, 100):
            heard.append(wire.receive())
            wire.say(INFILE if number >= asked_in else mysql.OK)

    answer = ask(MysqlWire, script)
    assert answer.code == 4
    assert "LOCAL INFILE" in answer.err or "malformed" in answer.err
    assert not any(b"root:" in one for one in heard)
    answer = ask(MysqlWire, answering(lambda _: [INFILE]))
    assert "asks for a file of this machine (LOCAL INFILE); none was sent" in answer.err


def test_an_answer_without_end_is_given_up() -> None:
    def script(wire: PostgresWire) -> None:
        wire.begin()
        wire.let_in()
        wire.query()
        while True:
            wire.say(message(b"N", b"SNOTICE\0C00000\0Mwait\0\0") * 1000)

    assert "the server does not answer" in ask(PostgresWire, script).err


@ENGINES
@pytest.mark.parametrize("stage", ["greeting", "let in", "answer"])
def test_a_server_that_falls_silent(engine: type[Wire], stage: str) -> None:
    def script(wire: Wire) -> None:
        if stage != "greeting":
            wire.begin()
        if stage == "answer":
            wire.let_in()
            wire.query()
        while wire.client.recv(1):
            pass

    answer = ask(engine, script)
    assert (answer.code, "the server does not answer" in answer.err) == (4, True), answer.err


@ENGINES
@pytest.mark.parametrize("stage", range(6))
def test_a_server_that_leaves_early(engine: type[Wire], stage: int) -> None:
    half = {
        MysqlWire: (mysql.greeting()[:20], b"\x50\0\0\1half"),
        PostgresWire: (LETTING_IN[:30], BEGUN + b"T\0\0"),
    }

    def script(wire: Wire) -> None:
        if stage:
            wire.begin()
        if stage < 2:
            wire.client.sendall(half[engine][0])
            return
        wire.let_in()
        for _ in range(stage - 2):
            wire.query()
            wire.say(*wire.done)
        if stage == 5:
            wire.query()
            wire.client.sendall(half[engine][1])

    assert ask(engine, script).code == 4


@ENGINES
@pytest.mark.parametrize("is_first", [False, True])
def test_an_error_with_escape_sequences_is_plain_text(engine: type[Wire], is_first: bool) -> None:
    text = b"\x1b]0;owned\x07\x1b[2J\r\nckpt: fine\n\xc2\x9b31m \xff"

    def script(wire: Wire) -> None:
        wire.begin()
        if is_first:
            wire.say(*wire.error(text))
        else:
            wire.serve(lambda _: wire.error(text))

    answer = ask(engine, script)
    assert answer.code == 4
    assert len(answer.err.splitlines()) <= 2


def nested_records() -> bytes:
    parts = (struct.pack("!iIi", 1, postgres.RECORD, 12 * inner) for inner in range(20000))
    return b"".join(reversed([*parts]))


def array(*parts: int) -> bytes:
    return struct.pack("!" + "i" * len(parts), *parts)


CELLS: list[bytes | None] = [
    *(None, b"", b"0", b"-1", b"1e999999999", b"9" * 5000, b"nan", b"inf", b"\xff\xfe", b"\0"),
    *(b"\x1b[31m", b"{}", b"[" * 3000, b'{"id": 1}', b"x" * 70000, "\u202e".encode(), b"true"),
    *(b"2026-99-99 99:99:99", b"1f0a0000-0000-6000-8000-000000000001", b"trip", b"__interrupt__"),
]
BINARY: list[bytes | None] = [
    *(bytes(8), b"\x7f" + b"\xff" * 7, b"\x80" + bytes(7), b"\x01{}", b"\x01" + b"[" * 100_000),
    *(array(1, 0, postgres.TEXT), array(1, 0, postgres.TEXT, 1 << 30, 1), b"\0\0\0\1"),
    *(array(1 << 28, 0, postgres.TEXT), array(3000, 0, postgres.TEXT) + bytes(24000)),
    *(struct.pack("!hhhh", 1, 32767, 0, 0) + b"\0\1", struct.pack("!hhhh", 9, 0, 0xC0, 0)),
    nested_records(),
]
"""What PostgreSQL sends in its binary form."""
MYSQL_KINDS = [mysql.INTEGER, mysql.TEXT, mysql.DECIMAL, mysql.BLOB]
MYSQL_KINDS += [0, 1, 2, 3, 4, 5, 7, 10, 11, 12, 13, 16, 245, 247, 255, 99]
POSTGRES_KINDS = [postgres.TEXT, postgres.INTEGER, postgres.NUMERIC, postgres.BYTES, postgres.NAMES]
POSTGRES_KINDS += [postgres.RECORD, postgres.JSONB, 16, 21, 23, 114, 700, 701, 1082, 1114, 1184]
POSTGRES_KINDS += [1186, 2950, 2277, 3904, 0, 99999, 1001, 1016, 1231, 869, 2287]


def lying(engine: type[Wire], seed: int) -> Script:
    """Answers each query with columns and cells of any type; now and then, bytes are changed."""
    chance = random.Random(seed)
    cells = CELLS if engine is MysqlWire else CELLS + BINARY
    kinds = MYSQL_KINDS if engine is MysqlWire else POSTGRES_KINDS

    def table(wire: Wire, said: bytes) -> Parts:
        asked = re.search(rb"SELECT(.*?)FROM", said, re.DOTALL)
        width = asked[1].count(b",") + 1 if asked else 6
        width = max(0, width + chance.choice([0, 0, 0, 0, -1, 1]))
        ordinary = kinds[:4] if chance.random() < 0.7 else kinds
        rows = [chance.choices(cells, k=width) for _ in range(chance.randrange(4))]
        return wire.table(rows, chance.choices(ordinary, k=width), as_text=chance.random() < 0.25)

    def script(wire: Wire) -> None:
        wire.begin()
        wire.let_in()
        while True:
            said = wire.query()
            data = bytearray(wire.framed(*(wire.honest(said) or table(wire, said))))
            if seed % 2 and not wire.is_control(said):
                for _ in range(chance.randrange(4)):
                    data[chance.randrange(len(data))] = chance.randrange(256)
            wire.client.sendall(data)

    return script


@ENGINES
@pytest.mark.parametrize("seed", [0, 1, *later(*range(2, 10))])
def test_odd_and_torn_answers_are_errors(engine: type[Wire], seed: int) -> None:
    """In a child, because the driver's C code may end the process."""
    with url_at(engine, lying(engine, seed)) as url:
        checked_in_child([["-s", url, *words] for words in ON_SERVER])


@ENGINES
@pytest.mark.nightly
def test_other_odd_and_torn_answers_are_errors(engine: type[Wire], chance: Chance) -> None:
    for dice in chance.rounds(20):
        with url_at(engine, lying(engine, dice.getrandbits(32))) as url:
            checked_in_child([["-s", url, *words] for words in ON_SERVER])
