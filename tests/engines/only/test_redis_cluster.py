"""Redis Cluster: three servers that share the keys, for all layouts that need no index."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from redis.cluster import RedisCluster

from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.redis.engine import connection as cluster
from ckpt_backends.registry import open_store
from ckpt_backends.url import parse_url
from tests.engines.answers import refuses, succeeds, threads_of
from tests.kit import servers
from tests.kit.command import ckpt
from tests.kit.savers.redis_threads import FILLS, client, removal_of

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
    assert ckpt("-s", url, "export", "trip", "--to", tmp_path).code == 0
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
    assert ckpt("-s", url, "undo", "--yes", "--", "{tag}").code == 0
    assert dumped(redis_cluster) == before


def test_an_empty_cluster_and_one_of_which_a_part_is_down_say_so() -> None:
    broken = servers.start_redis_cluster()
    try:
        refuses(broken.url, "threads", "list", says="the database is empty")
        broken.servers[0].stop()
        refuses(broken.url, "threads", "list", says="hint: ")
    finally:
        broken.stop()
