"""`ckpt erase` leaves nothing of a person in any engine, and what stays is as it was."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from tests.erase.canary import documents, relation_files
from tests.erase.person import CANARY, OTHER, THREADS, configure, fill, neighbours, talk, unpacked
from tests.kit.agents.steps import graph_of
from tests.kit.command import ckpt
from tests.kit.memory.benches import BENCHES, Bench
from tests.kit.savers.redis import dump
from tests.kit.savers.redis_threads import fill_plain
from tests.kit.savers.sessions import ContextState, save


@pytest.fixture(
    params=[
        pytest.param(one, id=one.name, marks=() if one.name == "sqlite" else pytest.mark.engines)
        for one in BENCHES
    ]
)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """Each engine with a Store in turn."""
    kind: type[Bench] = request.param
    server = None if kind.server is None else request.getfixturevalue(kind.server)
    (tmp_path / "data").mkdir()
    with kind.place(tmp_path / "data", server) as url:
        yield kind(url)


def stored(bench: Bench) -> bytes:
    """Return all rows, documents, keys and index terms of an engine; of SQLite, all files."""
    match bench.name:
        case "sqlite":
            return unpacked(Path(bench.url).parent)
        case "postgres":
            return relation_files(bench.url) + _rows(bench.url)
        case "mongodb":
            return documents(bench.url)
    with redis.Redis.from_url(bench.url) as client:
        keys = sorted(client.scan_iter("*", count=1000))
        indexes = [
            client.execute_command("FT.SEARCH", name, "*", "LIMIT", 0, 1000)
            for name in client.execute_command("FT._LIST")
        ]
        return repr([(one, client.dump(one)) for one in keys]).encode() + repr(indexes).encode()


def _rows(url: str) -> bytes:
    tables = ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "store")
    with psycopg.connect(url) as connection:
        found = [connection.execute(f"SELECT * FROM {one}").fetchall() for one in tables]
    return repr(found).encode()


@pytest.mark.in_ci("postgres", "redis")
def test_nothing_of_the_person_is_left(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    before = fill(bench)
    with bench.saver() as saver:
        # The head does not name the person any more.
        config: Any = {"configurable": {"thread_id": THREADS[1]}}
        graph_of(saver).invoke({"items": ["one more"]}, config)
    configure(tmp_path, bench.url)
    assert ckpt("-s", "a", "export", *THREADS, OTHER, "--to", "backups").code == 0
    assert ckpt("-s", "a", "rollback", THREADS[0], "--steps", "1", "--yes").code == 0
    assert CANARY.encode() in stored(bench)
    # The saver of Redis stores no metadata of the config, so its threads are named.
    ids = THREADS if bench.name == "redis" else ()
    words = ("--subject", CANARY, "--rewrite", "--yes", "--receipt", "receipt.json")
    found = ckpt("-s", "a", "erase", *ids, *words, "-o", "json")
    assert found.code == 0 or "compact" in found.err, found.err
    left = stored(bench) + unpacked(tmp_path / "backups") + unpacked(tmp_path / "state")
    left += (tmp_path / "receipt.json").read_bytes()
    for name in (CANARY, *THREADS, "a secret"):
        assert name.encode() not in left, name
    assert neighbours(bench.url) == before
    with bench.saver() as saver:
        assert talk(saver, OTHER, "bert")["items"][-1] == "from b"
    verified = ckpt("-s", "a", "erase", "--verify", "receipt.json", "-o", "json")
    assert {one["state"] for one in verified.json["places"]} == {"erased"}


@pytest.mark.engines
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
