"""Redis over TLS: an authority of one's own is named in the URL, and no other one is believed.

Without TLS, a password is sent in clear text, which is said before.
"""

import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from ckpt_backends import servers as insecure_connection
from tests.kit.command import CommandResult, ckpt
from tests.kit.connecting import CANARY, QUOTED, shows_nothing
from tests.kit.hostile.redis import Command, array, bulk, honest, serving
from tests.kit.hostile.standin import standin
from tests.kit.plugin import redis_of_its_own
from tests.kit.savers.redis_threads import client, fill_plain
from tests.kit.servers import Server
from tests.kit.tls import Authority, tls_in_front

pytestmark = pytest.mark.engines


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    """A server that asks for a password."""
    with redis_of_its_own(modules=False) as server:
        fill_plain(server.url, "trip")
        client(server.url).config_set("requirepass", CANARY)
        yield server


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def port(guarded: Server, authority: Authority) -> Iterator[int]:
    """Where the server speaks TLS."""
    inner = urlsplit(guarded.url).port
    assert inner is not None
    with tls_in_front(inner, authority.context("localhost", "127.0.0.1")) as found:
        yield found


def asked(
    port: int, *words: str, host: str = "127.0.0.1", scheme: str = "rediss", **params: str | Path
) -> CommandResult:
    query = "&".join(f"{name}={quote(str(value))}" for name, value in params.items())
    return ckpt("-s", f"{scheme}://:{QUOTED}@{host}:{port}/0?{query}", *words)


def refused(answer: CommandResult, *says: str) -> None:
    assert (answer.code, answer.out) == (4, ""), answer.err
    message, hint = answer.err.splitlines()
    assert message.startswith("ckpt: cannot read 'rediss://")
    assert hint.startswith("hint: ")
    for part in says:
        assert part in answer.err
    shows_nothing(answer.err)


@pytest.mark.parametrize(
    ("scheme", "host"), [("rediss", "127.0.0.1"), ("rediss", "localhost"), ("valkeys", "localhost")]
)
def test_the_authority_is_named_in_the_url(
    port: int, authority: Authority, scheme: str, host: str
) -> None:
    def known(*words: str) -> CommandResult:
        answer = asked(port, *words, host=host, scheme=scheme, ssl_ca_certs=authority.file)
        assert answer.code == 0, answer.err
        shows_nothing(answer.out + answer.err)
        return answer

    (row,) = known("stores", "-o", "json").json
    assert row["layout"] == "redis-hash"
    assert row["url"].startswith(f"{scheme}://:***@{host}:{port}/0?")
    known("rollback", "trip", "~1", "--yes")
    assert known("show", "trip", "-o", "json").json["values"]["items"] == ["in trip", "from a"]
    known("undo", "trip", "--yes")
    shown = known("show", "trip", "-o", "json").json
    assert shown["values"]["items"] == ["in trip", "from a", "from b"]


def test_another_authority_is_not_believed(port: int, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")
    for answer in (
        asked(port, "threads", "list", ssl_ca_certs=other.file),
        asked(port, "threads", "list"),
    ):
        refused(answer, "the server's certificate is not trusted", "?ssl_ca_certs=FILE")


def test_a_certificate_for_another_name_is_not_believed(
    guarded: Server, authority: Authority
) -> None:
    inner = urlsplit(guarded.url).port
    assert inner is not None
    with tls_in_front(inner, authority.context("redis.example")) as port:
        answer = asked(port, "threads", "list", ssl_ca_certs=authority.file)
        refused(answer, "the server's certificate is not trusted")
        unchecked = asked(
            port, "threads", "list", ssl_ca_certs=authority.file, ssl_check_hostname="false"
        )
        assert unchecked.code == 0, unchecked.err


def test_a_file_of_the_authority_that_is_not_there(port: int, tmp_path: Path) -> None:
    refused(asked(port, "threads", "list", ssl_ca_certs=tmp_path / "none.pem"), "ssl_ca_certs")


def test_plain_words_to_a_port_that_speaks_tls(port: int) -> None:
    answer = ckpt("-s", f"redis://127.0.0.1:{port}/0?socket_timeout=5", "threads", "list")
    assert answer.code == 4
    assert "rediss://" in answer.err


# Without TLS

ELSEWHERE = "0.0.0.0"
"""An address that leads to this machine and does not look like it."""


@pytest.fixture
def nobody_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(insecure_connection, "_WARNED", set())


def warned(answer: CommandResult) -> list[str]:
    return [line for line in answer.err.splitlines() if line.startswith("warning: ")]


@pytest.mark.usefixtures("nobody_warned")
def test_a_password_without_tls_is_warned_of_once(guarded: Server) -> None:
    port = urlsplit(guarded.url).port
    url = f"redis://:{QUOTED}@{ELSEWHERE}:{port}/0"
    answer = ckpt("-s", url, "threads", "list")
    assert answer.code == 0, answer.err
    assert warned(answer) == [
        f"warning: the password goes to '{ELSEWHERE}' over an unencrypted connection;"
        " use rediss:// if the server has TLS"
    ]
    shows_nothing(answer.out + answer.err)


@pytest.mark.usefixtures("nobody_warned")
def test_nothing_is_warned_of_on_this_machine(guarded: Server) -> None:
    port = urlsplit(guarded.url).port
    for host in ("127.0.0.1", "localhost"):
        answer = ckpt("-s", f"redis://:{QUOTED}@{host}:{port}/0", "threads", "list")
        assert (answer.code, answer.err) == (0, "")


@pytest.mark.usefixtures("nobody_warned")
def test_without_a_password_nothing_is_warned_of() -> None:
    with standin(serving(honest)) as port:
        answer = ckpt("-s", f"redis://{ELSEWHERE}:{port}/0", "threads", "list")
    assert warned(answer) == []


@pytest.mark.usefixtures("nobody_warned")
def test_the_warning_comes_before_the_password() -> None:
    """A server that refuses the login has the password; so the user has the warning."""
    with standin(serving(lambda _: b"-WRONGPASS no\r\n")) as port:
        answer = ckpt("-s", f"redis://:{QUOTED}@{ELSEWHERE}:{port}/0", "threads", "list")
    assert answer.code == 4
    assert answer.err.splitlines()[0] == warned(answer)[0]


# A cluster: the server that is asked names others


def member(*hosts: str, port: int) -> list[bytes]:
    """The answer to CLUSTER SLOTS: each host has a part of the slots."""
    step = 16384 // len(hosts)
    ends = [*range(step, step * len(hosts), step), 16384]
    return [
        array(
            *(b":%d\r\n" % one for one in (number * step, end - 1)),
            array(bulk(host.encode()), b":%d\r\n" % port, bulk(b"id")),
        )
        for number, (host, end) in enumerate(zip(hosts, ends, strict=True))
    ]


@pytest.mark.usefixtures("nobody_warned")
def test_each_server_of_a_cluster_is_warned_of() -> None:
    asked: list[Command] = []

    def reply(command: Command) -> bytes:
        asked.append(command)
        if command[0] == b"CLUSTER":
            return array(*member("0.0.0.0", "0.0.0.00", "127.0.0.1", port=front))
        if command[0] == b"INFO":
            return bulk(b"cluster_enabled:1\r\n")
        return honest(command)

    with standin(serving(reply)) as front:
        answer = ckpt("-s", f"redis://:{QUOTED}@127.0.0.1:{front}/0", "threads", "list")
    assert [line.split("'")[1] for line in warned(answer)] == ["0.0.0.0", "0.0.0.00"]
    shows_nothing(answer.err)
    assert sum(command[0] == b"AUTH" for command in asked) > 3


def test_a_cluster_over_tls_names_servers_that_must_prove_their_names(authority: Authority) -> None:
    """The password does not go to a server without a certificate for the host that was named."""
    seen: list[Command] = []

    def reply(command: Command) -> bytes:
        seen.append(command)
        if command[0] == b"CLUSTER":
            return array(*member("localhost", port=front))
        if command[0] == b"INFO":
            return bulk(b"cluster_enabled:1\r\n")
        return honest(command)

    with (
        standin(serving(reply)) as inner,
        tls_in_front(inner, authority.context("127.0.0.1")) as front,
    ):
        answer = asked(front, "threads", "list", ssl_ca_certs=authority.file)
    refused(answer, "the server's certificate is not trusted")
    assert seen[-1] == [b"CLUSTER", b"SLOTS"]


def test_a_cluster_over_tls_cannot_name_a_server_without_it(authority: Authority) -> None:
    plain: list[bytes] = []

    def eavesdrop(stream: socket.socket) -> None:
        plain.append(stream.recv(4096))

    def reply(command: Command) -> bytes:
        if command[0] == b"CLUSTER":
            return array(*member("127.0.0.1", port=other))
        if command[0] == b"INFO":
            return bulk(b"cluster_enabled:1\r\n")
        return honest(command)

    with (
        standin(eavesdrop) as other,
        standin(serving(reply)) as inner,
        tls_in_front(inner, authority.context("127.0.0.1")) as front,
    ):
        answer = asked(front, "threads", "list", ssl_ca_certs=authority.file)
    assert answer.code == 4
    assert plain, "nobody called"
    assert not any(b"AUTH" in one or CANARY.encode() in one for one in plain)


def test_a_redirection_is_not_followed(guarded: Server) -> None:
    heard: list[bytes] = []
    with standin(lambda stream: heard.append(stream.recv(4096))) as other:
        for error in (b"MOVED", b"ASK"):

            def reply(command: Command, error: bytes = error) -> bytes:
                if command[0] == b"SCAN":
                    return b"-%s 1 127.0.0.1:%d\r\n" % (error, other)
                return honest(command)

            with standin(serving(reply)) as port:
                answer = ckpt("-s", f"redis://:{QUOTED}@127.0.0.1:{port}/0", "threads", "list")
            assert answer.code == 4
    assert heard == []
