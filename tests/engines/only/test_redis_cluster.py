"""Redis Cluster: three servers that share the keys, for all layouts that need no index."""

from pathlib import Path
from typing import Any

import langgraph_checkpoint_plainredis
import pytest
from redis.cluster import RedisCluster

from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.redis.engine import connection as cluster
from ckpt_backends.registry import open_store
from ckpt_backends.url import parse_url
from tests.kit import servers
from tests.kit.agents.steps import config_of, graph_of, talk
from tests.kit.command import ckpt
from tests.kit.savers.redis_threads import FILLS, client, removal_of

pytestmark = pytest.mark.engines

THREADS = ["a", "a:b", "b", "trip", "A", "c*", "{tag}", 'o"x']
COMMANDS = [
    ["threads", "list", "--all"],
    ["threads", "list", "--long"],
    ["show", "--long", "trip"],
    ["show", "trip", "--writes", "--metadata"],
    ["show", "trip", "--tree", "--all-ns", "--unfold"],
    ["history", "trip", "--all-ns"],
    ["grep", "from"],
    ["blame", "trip", "items"],
    ["du", "--by", "thread"],
    ["replay", "trip", "--verify"],
    ["interrupts"],
    ["gc", "--scope", "all", "--dry-run"],
    ["purge", "--match", "a*", "--dry-run"],
    ["doctor"],
]
LAYOUTS = ("redis", "redis-hash", "redis-plain", "valkey")


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def driver(url: str) -> Any:
    return RedisCluster.from_url(url.removesuffix("/0"), protocol=2)


def move(source: str, target: str) -> None:
    """Let a cluster hold what a server holds."""
    admin, connected = client(source), driver(target)
    for name in admin.scan_iter(count=1000):
        left = admin.pttl(name)
        connected.restore(name, max(left, 0), admin.dump(name))
    connected.close()


def dumped(redis_cluster: servers.Cluster) -> dict[bytes, bytes]:
    """All keys of all servers, with what they hold."""
    found = {}
    for server in redis_cluster.servers:
        admin = client(server.url)
        found.update({name: admin.dump(name) for name in admin.scan_iter(count=1000)})
    return found


@pytest.fixture
def filled(cluster_url: str, redis_stack_url: str, layout: str) -> str:
    """Threads of a layout on a cluster, and the same on one server."""
    FILLS[layout](redis_stack_url, *THREADS)
    move(redis_stack_url, cluster_url)
    return layout


@pytest.mark.in_ci("redis]")
def test_every_server_leads_to_the_whole_cluster(
    redis_cluster: servers.Cluster, redis_stack_url: str, filled: str
) -> None:
    """It answers as one server with the same keys does."""
    (about,) = ckpt("-s", redis_cluster.url, "stores", "-o", "json").json
    assert about["layout"] == filled
    assert about["size"] > 0
    for server in redis_cluster.servers:
        assert len(list(client(server.url).scan_iter())) < len(dumped(redis_cluster))
        listed = ckpt("-s", server.url, "threads", "list", "-o", "json").json
        assert {one["thread_id"] for one in listed} == set(THREADS)
    before = dumped(redis_cluster)
    for words in COMMANDS:
        answers = [
            ckpt("-s", url, *words, "-o", "json") for url in (redis_cluster.url, redis_stack_url)
        ]
        assert [one.code for one in answers] == [0, 0], (words, answers)
        # The doctor also names the store, and counts what it read: keys of young threads twice.
        found = [one.json["findings"] if words == ["doctor"] else one.json for one in answers]
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
        done = ckpt("-s", url, "threads", "delete", "--yes", "-o", "json", "--", thread_id)
        assert done.code == 0, done.err
        after = dumped(redis_cluster)
        assert not mine & after.keys()
        assert before.keys() - after.keys() - {b"lg:threads"} == mine
        if rows:
            with open_store(url) as store:
                assert {one: list(store.rows(one)) for one in rows} == rows
    assert dumped(redis_cluster).keys() <= {b"lg:seq"}


class Broken(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("layout", ["redis", "redis-plain"], indirect=True)
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.nightly)])
def test_what_a_break_leaves_goes_with_the_next_run(
    redis_cluster: servers.Cluster, filled: str, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a transaction each key goes by itself: after so many messages, or after each."""
    url = redis_cluster.url
    before = dumped(redis_cluster)
    sent, most = cluster.ClusterConnection.send, 0

    def broken(connection: Any, command: Any) -> Any:
        nonlocal most
        most -= 1
        if most < 0:
            raise Broken
        return sent(connection, command)

    monkeypatch.setattr(cluster.ClusterConnection, "send", broken)
    for steps in range(2, 40, every):
        removal = removal_of(url, "trip")
        most = steps
        try:
            with open_writable(parse_url(url)) as writable:
                writable.remove([removal])
        except Broken:
            most = 10_000
        else:
            break
        listed = ckpt("-s", url, "threads", "list", "-o", "json").json
        with open_store(url) as store:
            is_there = bool(list(store.checkpoints("trip")))
        assert {one["thread_id"] for one in listed} == set(THREADS) - (
            set() if is_there else {"trip"}
        )
        done = ckpt("-s", url, "threads", "delete", "trip", "--yes")
        assert done.code == 0 or not is_there, done.err
        left = dumped(redis_cluster)
        assert {one for one in left if b"trip" in one} == set()
        connected = driver(url)
        for name in before.keys() - left.keys():
            connected.restore(name, 0, before[name])
        if b"lg:threads" in before:
            connected.restore("lg:threads", 0, before[b"lg:threads"], replace=True)
        connected.close()
    else:
        raise AssertionError("it never came to its end")


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        *((name, ["rollback", "trip", "~1"]) for name in ("redis", "redis-hash")),
        *((name, ["copy", "trip@head", "--as", "n"]) for name in LAYOUTS),
    ],
    indirect=["layout"],
)
def test_a_change_over_several_slots_is_refused(
    redis_cluster: servers.Cluster, filled: str, words: list[str]
) -> None:
    before = dumped(redis_cluster)
    refused = ckpt("-s", redis_cluster.url, *words, "--yes")
    if filled in {"redis-hash", "valkey"} and words[0] == "rollback":
        # It adds a single key, or changes keys of one slot only.
        assert refused.code == 0, refused.err
        now = dumped(redis_cluster)
        changed = {name for name, held in now.items() if before.get(name) not in {held, None}}
        assert changed <= {b"thread:{trip}:"}
        assert now.keys() > before.keys()
        return
    assert refused.code == 4, refused.err
    assert "no transaction over keys of several slots" in refused.err
    assert "hint: keys with the same text in braces" in refused.err
    assert dumped(redis_cluster) == before


@pytest.mark.parametrize("layout", ["redis", "redis-hash", "valkey"], indirect=True)
def test_a_thread_in_one_slot_is_changed_as_on_one_server(
    redis_cluster: servers.Cluster, filled: str
) -> None:
    before = dumped(redis_cluster)
    back = ckpt("-s", redis_cluster.url, "rollback", "--yes", "--at", "~2", "--", "{tag}")
    assert back.code == 0, back.err
    shown = ckpt("-s", redis_cluster.url, "show", "-o", "json", "--", "{tag}").json
    assert shown["values"]["items"] == ["in {tag}"]
    assert ckpt("-s", redis_cluster.url, "undo", "--yes", "--", "{tag}").code == 0
    assert dumped(redis_cluster) == before
    assert ckpt("-s", redis_cluster.url, "threads", "delete", "--yes", "--", "{tag}").code == 0
    assert not [one for one in dumped(redis_cluster) if b"{tag}" in one]


def test_the_official_graph_resumes_a_fork_of_plainredis(
    redis_cluster: servers.Cluster, cluster_url: str
) -> None:
    """Its saver needs all keys in one slot, which a prefix in braces gives."""
    connected = driver(cluster_url)
    saver = langgraph_checkpoint_plainredis.RedisSaver(connected, prefix="{lg}")
    talk(saver, "trip", "other")
    url = f"{cluster_url}?prefix=%7Blg%7D"
    history = ckpt("-s", url, "history", "trip", "-o", "json").json
    old = {name: held for name, held in dumped(redis_cluster).items() if b":blob:" in name}
    done = ckpt("-s", url, "rollback", "trip", "~2", "--yes", "-o", "json")
    assert done.code == 0, done.err
    went_on = graph_of(saver).invoke(None, {"configurable": done.json["configurable"]})
    assert went_on["items"] == ["in trip", "from a", "from b"]
    assert dumped(redis_cluster).items() >= old.items()
    config = config_of("trip")
    config["configurable"]["checkpoint_id"] = history[0]["checkpoint_id"]
    values = graph_of(saver).get_state(config).values
    assert values["items"] == ["in trip", "from a", "from b"]
    assert ckpt("-s", url, "threads", "delete", "trip", "--yes").code == 0
    assert saver.get_tuple(config_of("trip")) is None
    assert saver.get_tuple(config_of("other")) is not None
    connected.close()


@pytest.mark.parametrize("layout", ["redis"], indirect=True)
def test_nothing_is_put_back_into_a_cluster(
    redis_cluster: servers.Cluster, filled: str, tmp_path: Path
) -> None:
    assert ckpt("-s", redis_cluster.url, "export", "trip", "--to", tmp_path).code == 0
    assert ckpt("-s", redis_cluster.url, "threads", "delete", "trip", "--yes").code == 0
    before = dumped(redis_cluster)
    refused = ckpt("-s", redis_cluster.url, "import", next(tmp_path.iterdir()), "--yes")
    assert refused.code == 4, refused.err
    assert "is a cluster" in refused.err
    assert "hint: " in refused.err
    assert dumped(redis_cluster) == before


def test_a_cluster_has_one_database(cluster_url: str) -> None:
    refused = ckpt("-s", cluster_url.removesuffix("/0") + "/3", "threads", "list")
    assert refused.code == 4
    assert "database" in refused.err


def test_an_empty_cluster_and_one_of_which_a_part_is_down_say_so() -> None:
    broken = servers.start_redis_cluster()
    try:
        empty = ckpt("-s", broken.url, "threads", "list")
        assert (empty.code, "the database is empty" in empty.err) == (4, True), empty.err
        broken.servers[0].stop()
        answer = ckpt("-s", broken.url, "threads", "list")
        assert answer.code == 4
        assert "Traceback" not in answer.err
        assert "hint: " in answer.err
    finally:
        broken.stop()
