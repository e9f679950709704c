"""Redis Cluster: three servers that share the keys, for all layouts that need no index. And TLS,
where an authority of one's own is named in the URL, and no other one is believed.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from redis.cluster import RedisCluster

from ckpt_backends import servers as insecure_connection
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.redis.engine import connection as cluster
from ckpt_backends.registry import open_store
from ckpt_backends.url import parse_url
from tests.engines.answers import refuses, succeeds, threads_of
from tests.kit import servers
from tests.kit.cases import cases
from tests.kit.command import CommandResult, ckpt
from tests.kit.connecting import CANARY, QUOTED, shows_nothing
from tests.kit.hostile.redis import Command, array, bulk, honest, serving
from tests.kit.hostile.standin import standin
from tests.kit.plugin import redis_of_its_own
from tests.kit.savers.redis_threads import FILLS, client, fill_plain, removal_of
from tests.kit.servers import Server
from tests.kit.tls import Authority, tls_in_front

pytestmark = pytest.mark.engines

THREADS = ["a", "a:b", "b", "trip", "A", "c*", "{tag}", 'o"x']
COMMANDS = [
    *(["threads", "list", "--all"], ["threads", "list", "--long"], ["interrupts"], ["doctor"]),
    *(["show", "trip", "--writes", "--metadata"], ["history", "trip", "--all-ns"]),
    *(["grep", "from"], ["du", "--by", "thread"], ["replay", "trip", "--verify"]),
    *(["gc", "--scope", "all", "--dry-run"], ["purge", "--match", "a*", "--dry-run"]),
]


def driver(url: str) -> Any:
    return RedisCluster.from_url(url.removesuffix("/0"), protocol=2)


def move(source: str, target: str) -> None:
    """Let a cluster hold what a server holds."""
    admin = client(source)
    with closing(driver(target)) as connected:
        for name in admin.scan_iter(count=1000):
            connected.restore(name, max(admin.pttl(name), 0), admin.dump(name))


def dumped(redis_cluster: servers.Cluster) -> dict[bytes, bytes]:
    """All keys of all servers, with what they hold."""
    found = {}
    for server in redis_cluster.servers:
        admin = client(server.url)
        found.update({name: admin.dump(name) for name in admin.scan_iter(count=1000)})
    return found


@pytest.fixture(params=["redis", "redis-hash", "redis-plain", "valkey"])
def filled(cluster_url: str, redis_stack_url: str, request: pytest.FixtureRequest) -> str:
    """Threads of a layout on a cluster, and the same on one server. Its name."""
    layout: str = request.param
    FILLS[layout](redis_stack_url, *THREADS)
    move(redis_stack_url, cluster_url)
    return layout


@pytest.mark.in_ci("redis]")
def test_every_server_leads_to_the_whole_cluster(
    redis_cluster: servers.Cluster, redis_stack_url: str, filled: str
) -> None:
    """It answers as one server with the same keys does."""
    url, before = redis_cluster.url, dumped(redis_cluster)
    (about,) = ckpt("-s", url, "stores", "-o", "json").json
    assert about["layout"] == filled
    assert about["size"] > 0
    for server in redis_cluster.servers:
        assert len(list(client(server.url).scan_iter())) < len(before)
        assert set(threads_of(server.url)) == set(THREADS)
    for words in COMMANDS:
        found = [succeeds(one, *words, "-o", "json").json for one in (url, redis_stack_url)]
        # The doctor also names the store, and counts what it read: keys of young threads twice.
        if words == ["doctor"]:
            found = [one["findings"] for one in found]
        assert found[0] == found[1], words
    assert dumped(redis_cluster) == before


@pytest.mark.in_ci("redis]")
def test_a_thread_goes_wholly_and_no_other(redis_cluster: servers.Cluster, filled: str) -> None:
    url = redis_cluster.url
    for number, thread_id in enumerate(THREADS):
        before = dumped(redis_cluster)
        with open_store(url) as store:
            rows = {one: list(store.rows(one)) for one in THREADS[number:]}
        mine = {str(one.cells["key"]).encode() for one in rows.pop(thread_id)} - {b"lg:threads"}
        assert mine
        succeeds(url, "threads", "delete", "--yes", "-o", "json", "--", thread_id)
        after = dumped(redis_cluster)
        assert not mine & after.keys()
        assert before.keys() - after.keys() - {b"lg:threads"} == mine
        if rows:
            with open_store(url) as store:
                assert {one: list(store.rows(one)) for one in rows} == rows
    assert dumped(redis_cluster).keys() <= {b"lg:seq"}


class Broken(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("filled", ["redis", "redis-plain"], indirect=True)
def test_what_a_break_leaves_goes_with_the_next_run(
    redis_cluster: servers.Cluster, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a transaction each key goes by itself; it breaks after ever more messages."""
    url, before = redis_cluster.url, dumped(redis_cluster)
    sent, most = cluster.ClusterConnection.send, 10_000

    def broken(connection: Any, command: Any) -> Any:
        nonlocal most
        most -= 1
        if most < 0:
            raise Broken
        return sent(connection, command)

    monkeypatch.setattr(cluster.ClusterConnection, "send", broken)
    for steps in range(2, 60, 6):
        removal = removal_of(url, "trip")
        most = steps
        try:
            with open_writable(parse_url(url)) as writable:
                writable.remove([removal])
            return
        except Broken:
            most = 10_000
        with open_store(url) as store:
            is_there = bool(list(store.checkpoints("trip")))
        assert set(threads_of(url)) == set(THREADS) - (set() if is_there else {"trip"})
        done = ckpt("-s", url, "threads", "delete", "trip", "--yes")
        assert done.code == 0 or not is_there, done.err
        left = dumped(redis_cluster)
        assert not [one for one in left if b"trip" in one]
        with closing(driver(url)) as connected:
            for name in (before.keys() - left.keys()) | (before.keys() & {b"lg:threads"}):
                connected.restore(name, 0, before[name], replace=True)
    raise AssertionError("it never came to its end")


@pytest.mark.in_ci("redis]", "redis-hash")
def test_a_change_over_several_slots_is_refused_and_one_in_a_single_slot_is_not(
    redis_cluster: servers.Cluster, filled: str, tmp_path: Path
) -> None:
    url, before = redis_cluster.url, dumped(redis_cluster)
    says = "no transaction over keys of several slots"
    refused = refuses(url, "copy", "trip@head", "--as", "n", "--yes", says=says)
    assert "hint: keys with the same text in braces" in refused.err
    ckpt("-s", url, "export", "trip", "--to", tmp_path, code=0)
    refused = refuses(url, "import", tmp_path, "--yes", says="is a cluster")
    assert "hint: " in refused.err
    refuses(url.removesuffix("/0") + "/3", "threads", "list", says="database")
    assert dumped(redis_cluster) == before
    if filled == "redis-plain":
        return  # Its keys do not begin with the thread.
    if filled == "redis-hash":  # It adds a single key.
        succeeds(url, "rollback", "trip", "~1", "--yes")
        succeeds(url, "undo", "trip", "--yes")
    succeeds(url, "rollback", "--yes", "--at", "~2", "--", "{tag}")
    shown = ckpt("-s", url, "show", "-o", "json", "--", "{tag}").json
    assert shown["values"]["items"] == ["in {tag}"]
    ckpt("-s", url, "undo", "--yes", "--", "{tag}", code=0)
    assert dumped(redis_cluster) == before


def test_an_empty_cluster_and_one_of_which_a_part_is_down_say_so() -> None:
    broken = servers.start_redis_cluster()
    try:
        refuses(broken.url, "threads", "list", says="the database is empty")
        broken.servers[0].stop()
        refuses(broken.url, "threads", "list", says="hint: ")
    finally:
        broken.stop()


# TLS


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


@contextmanager
def over_tls(guarded: Server, authority: Authority, *names: str) -> Iterator[int]:
    """The port where the server speaks TLS, with a certificate for some names."""
    with tls_in_front(urlsplit(guarded.url).port or 0, authority.context(*names)) as port:
        yield port


@pytest.fixture
def port(guarded: Server, authority: Authority) -> Iterator[int]:
    with over_tls(guarded, authority, "localhost", "127.0.0.1") as found:
        yield found


def asked(
    port: int, *words: str, host: str = "127.0.0.1", scheme: str = "rediss", **params: str | Path
) -> CommandResult:
    query = "&".join(f"{name}={quote(str(value))}" for name, value in params.items())
    words = words or ("threads", "list")
    return ckpt("-s", f"{scheme}://:{QUOTED}@{host}:{port}/0?{query}", *words)


def refused(answer: CommandResult, *says: str) -> None:
    assert (answer.code, answer.out) == (4, ""), answer.err
    message, hint = answer.err.splitlines()
    assert message.startswith("ckpt: cannot read 'rediss://")
    assert hint.startswith("hint: ")
    for part in says:
        assert part in answer.err
    shows_nothing(answer.err)


@cases("url", "rediss://127.0.0.1", "rediss://localhost", "valkeys://localhost")
def test_the_authority_is_named_in_the_url(port: int, authority: Authority, url: str) -> None:
    scheme, _, host = url.partition("://")

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


def test_another_authority_is_not_believed(port: int, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    for answer in (asked(port), asked(port, ssl_ca_certs=Authority(tmp_path / "other").file)):
        refused(answer, "the server's certificate is not trusted", "?ssl_ca_certs=FILE")
    refused(asked(port, ssl_ca_certs=tmp_path / "none.pem"), "ssl_ca_certs")
    refuses(f"redis://127.0.0.1:{port}/0?socket_timeout=5", "threads", "list", says="rediss://")


def test_a_certificate_for_another_name_is_refused(guarded: Server, authority: Authority) -> None:
    with over_tls(guarded, authority, "redis.example") as port:
        refused(asked(port, ssl_ca_certs=authority.file), "the server's certificate is not trusted")
        unchecked = asked(port, ssl_ca_certs=authority.file, ssl_check_hostname="false")
        assert unchecked.code == 0, unchecked.err


# Without TLS

ELSEWHERE = "0.0.0.0"
"""An address that leads to this machine and does not look like it."""


@pytest.fixture
def nobody_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(insecure_connection, "_WARNED", set())


def warned(answer: CommandResult) -> list[str]:
    return [line for line in answer.err.splitlines() if line.startswith("warning: ")]


@pytest.mark.usefixtures("nobody_warned")
def test_a_password_without_tls_is_warned_of_once_unless_it_stays_here(guarded: Server) -> None:
    port = urlsplit(guarded.url).port or 0
    for host in ("127.0.0.1", "localhost"):
        answer = asked(port, host=host, scheme="redis")
        assert (answer.code, answer.err) == (0, "")
    with standin(serving(honest)) as open_to_all:
        answer = ckpt("-s", f"redis://{ELSEWHERE}:{open_to_all}/0", "threads", "list")
    assert warned(answer) == []
    answer = asked(port, host=ELSEWHERE, scheme="redis")
    assert answer.code == 0, answer.err
    assert warned(answer) == [
        f"warning: the password goes to '{ELSEWHERE}' over an unencrypted connection;"
        " use rediss:// if the server has TLS"
    ]
    shows_nothing(answer.out + answer.err)


@pytest.mark.usefixtures("nobody_warned")
def test_the_warning_comes_before_the_password() -> None:
    """A server that refuses the login has the password; so the user has the warning."""
    with standin(serving(lambda _: b"-WRONGPASS no\r\n")) as port:
        answer = asked(port, host=ELSEWHERE, scheme="redis")
    assert (answer.code, answer.err.splitlines()[0]) == (4, warned(answer)[0])


# A cluster: the server that is asked names others


class Naming:
    """A server of a cluster that names others, and what it was told."""

    def __init__(self, *hosts: str) -> None:
        self.hosts = hosts
        self.port = 0
        self.told: list[Command] = []

    def __call__(self, command: Command) -> bytes:
        self.told.append(command)
        if command[0] == b"CLUSTER":
            return array(*self.slots())
        return bulk(b"cluster_enabled:1\r\n") if command[0] == b"INFO" else honest(command)

    def slots(self) -> Iterator[bytes]:
        """The answer to CLUSTER SLOTS: each host has a part of the slots."""
        step = 16384 // len(self.hosts)
        for first, host in zip(range(0, 16384, step), self.hosts, strict=False):
            last = 16383 if host == self.hosts[-1] else first + step - 1
            place = array(bulk(host.encode()), b":%d\r\n" % self.port, bulk(b"id"))
            yield array(b":%d\r\n" % first, b":%d\r\n" % last, place)


@pytest.mark.usefixtures("nobody_warned")
def test_each_server_of_a_cluster_is_warned_of() -> None:
    first = Naming("0.0.0.0", "0.0.0.00", "127.0.0.1")
    with standin(serving(first)) as first.port:
        answer = asked(first.port, scheme="redis")
    assert [line.split("'")[1] for line in warned(answer)] == ["0.0.0.0", "0.0.0.00"]
    shows_nothing(answer.err)
    assert sum(command[0] == b"AUTH" for command in first.told) > 3


def test_a_cluster_over_tls_names_servers_that_must_prove_their_names(authority: Authority) -> None:
    """The password does not go to a server without a certificate for the host that was named, nor
    to one without TLS.
    """
    first, plain = Naming("localhost"), list[bytes]()
    with (
        standin(lambda stream: plain.append(stream.recv(4096))) as elsewhere,
        standin(serving(first)) as inner,
        tls_in_front(inner, authority.context("127.0.0.1")) as front,
    ):
        first.port = front
        answer = asked(front, ssl_ca_certs=authority.file)
        refused(answer, "the server's certificate is not trusted")
        assert first.told[-1] == [b"CLUSTER", b"SLOTS"]
        first.hosts, first.port = ("127.0.0.1",), elsewhere
        assert asked(front, ssl_ca_certs=authority.file).code == 4
    assert plain, "nobody called"
    assert not any(b"AUTH" in one or CANARY.encode() in one for one in plain)


def test_a_redirection_is_not_followed() -> None:
    heard: list[bytes] = []
    with standin(lambda stream: heard.append(stream.recv(4096))) as other:
        for error in (b"MOVED", b"ASK"):

            def reply(command: Command, error: bytes = error) -> bytes:
                moved = b"-%s 1 127.0.0.1:%d\r\n" % (error, other)
                return moved if command[0] == b"SCAN" else honest(command)

            with standin(serving(reply)) as port:
                assert asked(port, scheme="redis").code == 4
    assert heard == []
