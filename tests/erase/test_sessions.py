"""Sessions of an application are removed, unless they have changed since they were read."""

import json
from pathlib import Path

import pytest
import redis

from ckpt_backends.app_sessions import AppSession
from ckpt_backends.errors import StoreChanged, Unsupported
from ckpt_backends.open_for_writing import open_writable_sessions
from ckpt_backends.registry import open_sessions
from ckpt_backends.url import parse_url
from tests.erase.person import CANARY, configure
from tests.kit.command import ckpt
from tests.kit.harness.redis import dump
from tests.kit.savers.redis_threads import ContextState, fill_plain, save

pytestmark = pytest.mark.engines


@pytest.fixture
def url(redis_url: str) -> str:
    for user, session in (("ann", "s1"), ("ann", "s2"), ("bob", "s1")):
        save(redis_url, ContextState(session, user, "trip"))
    with redis.Redis.from_url(redis_url) as client:
        client.set("research_context:ann:other", "no session")
    return redis_url


def sessions_of(url: str, user: str) -> list[AppSession]:
    with open_sessions(parse_url(url)) as sessions:
        return [one for one in sessions.sessions() if one.user_id == user]


def test_the_sessions_of_a_user_are_removed(url: str) -> None:
    before = dump(url)
    found = sessions_of(url, "ann")
    with open_writable_sessions(parse_url(url)) as writable:
        # A list has sessions without their fields.
        assert writable.remove([found[0], found[1]._replace(fields={})]) == 2
        places = {one.place for one in writable.erase_remains().places}
    assert "memory of a running application" in places
    gone = {b"research_context:ann:s1", b"research_context:ann:s2"}
    assert dump(url) == {name: one for name, one in before.items() if name not in gone}


def test_a_changed_session_stays_with_all_others(url: str) -> None:
    found, name = sessions_of(url, "ann"), "research_context:ann:s1"
    with redis.Redis.from_url(url) as client:
        for change in (
            lambda: save(url, ContextState("s1", "ann", "trip", current_step=2)),
            lambda: client.delete(name),
            lambda: client.set(name, "no session"),
        ):
            change()
            before = dump(url)
            with open_writable_sessions(parse_url(url)) as writable, pytest.raises(StoreChanged):
                writable.remove(found)
            assert dump(url) == before


def test_a_store_without_sessions(sample: str) -> None:
    with pytest.raises(Unsupported, match="no sessions"):
        open_writable_sessions(parse_url(str(sample)))


def test_sessions_of_a_cluster(cluster_url: str) -> None:
    from redis.cluster import RedisCluster

    with RedisCluster.from_url(cluster_url) as client:
        for number in range(4):
            session = {"session_id": f"s{number}", "user_id": "ann"}
            client.set(f"my_context:ann:s{number}", json.dumps(session))
        client.set("other", "kept")
        with open_writable_sessions(parse_url(cluster_url)) as writable:
            assert writable.remove(sessions_of(cluster_url, "ann")) == 4
            assert writable.erase_remains().places
        assert list(client.scan_iter()) == [b"other"]


def test_sessions_go_with_their_thread_or_their_user(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    fill_plain(redis_url, "trip", "other", "third")
    save(redis_url, ContextState("s1", CANARY, "trip"))
    save(redis_url, ContextState("s2", "someone", "other"))
    before = dump(redis_url)
    save(redis_url, ContextState("s3", CANARY, None))  # type: ignore[arg-type]
    configure(tmp_path, redis_url)
    found = ckpt("-s", "a", "erase", "--subject", CANARY, "--yes", "-o", "json").json
    numbers = {one["kind"]: one["items"] for one in found["places"] if one["state"] == "erased"}
    assert numbers == {"sessions": 2, "threads": 1}
    left = dump(redis_url)
    assert CANARY not in repr(left)
    assert left == {name: one for name, one in before.items() if name in left}
    assert ckpt("-s", "a", "erase", "other", "--yes").code == 0
    assert "someone" not in repr(dump(redis_url))
    assert "third" in repr(dump(redis_url))
