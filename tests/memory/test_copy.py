"""What `ckpt memory copy` moves, the official Store of the target lists as that of the source."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from langchain_core.messages import HumanMessage
from langgraph.store.base import PutOp

from ckpt_backends.errors import Refused
from ckpt_backends.open_for_writing import create_memory
from ckpt_backends.testing.killing import calls_of, kill_at
from ckpt_backends.url import parse_url
from tests.kit.command import CommandResult
from tests.kit.memory.benches import (
    BENCHES,
    Bench,
    MongoBench,
    PostgresBench,
    RedisBench,
    SqliteBench,
)
from tests.kit.memory.contents import ITEMS, Items, exported, fill, listed, memory, official, settle
from tests.kit.schemas import postgres_schema
from tests.kit.servers import Server

Pair = tuple[Bench, Bench]
_NUMBERS = {
    "whole": [0, -1, 2**53 + 1, -(2**63), 2**63 - 1],
    "other": [0.1, 1.0, 1e-7, 2.5e15, 1 / 3, 5e-324, 1.7976931348623157e308 / 3e300],
    "rest": [True, None, "", "\u2028é", {"a": {"b": []}}, {}],
}


@contextmanager
def benches(
    request: pytest.FixtureRequest, folder: Path, *kinds: type[Bench]
) -> Iterator[list[Bench]]:
    with ExitStack() as stack:
        made = []
        for kind in kinds:
            server = None if kind.server is None else request.getfixturevalue(kind.server)
            made.append(kind(stack.enter_context(kind.place(folder, server))))
        yield made


class OtherFile(SqliteBench):
    @classmethod
    @contextmanager
    def place(cls, folder: Path, server: Server | None) -> Iterator[str]:
        yield str(folder / "other.db")


@pytest.fixture(
    params=[
        pytest.param(
            pair,
            id=f"{pair[0].name}-{pair[1].name}",
            marks=() if PostgresBench in pair else pytest.mark.engines,
        )
        for one in BENCHES
        if one is not SqliteBench
        for pair in ((SqliteBench, one), (one, SqliteBench))
    ]
)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Bench]]:
    """Each layout as a source and as a target of SQLite, both empty: what is copied does not depend
    on the other side.
    """
    with benches(request, tmp_path, *request.param) as made:
        yield made


def of(*kinds: type[Bench]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("pair", [kinds], indirect=True, ids=[kinds[0].name])


def copied(pair: Pair, *words: str) -> CommandResult:
    source, target = pair
    return memory(source, "copy", "--to", target.url, *words)


def rounded(items: dict[Any, Any], target: Bench) -> dict[Any, Any]:
    """Return items with the times that a target can hold: MongoDB stores milliseconds."""
    digits = 3 if isinstance(target, MongoBench) else 6
    return {
        at: (value, *(f"{text[:-1][: 20 + digits]:0<26}Z" for text in times))
        for at, (value, *times) in items.items()
    }


def spelled(items: dict[Any, Any]) -> str:
    """Return the numbers of a list as JSON, where 1 differs from 1.0."""
    return json.dumps(items[("numbers",), "all"][0], sort_keys=True)


def test_the_official_store_lists_the_same_items(pair: Pair) -> None:
    source, target = pair
    items: Items = {**ITEMS, (("numbers",), "all"): {"text": "n", "numbers": _NUMBERS}}
    fill(source, items)
    before = official(source, len(items))
    answer = copied(pair, "--create", "--yes", "-o", "json")
    report = answer.json
    assert (report["items"], report["added"], report["present"]) == (len(items), len(items), 0)
    assert report["verified"]
    assert (report["skipped"], report["without_vectors"]) == ([], source.vectors())
    assert f"vectors of {source.vectors()} items are not copied" in answer.err
    after = official(target, len(items))
    assert after == rounded(before, target)
    assert spelled(after) == spelled(before)
    assert exported(target) == rounded(exported(source), target)
    if target.gets:
        with target.store(embeds=False) as store:
            assert all(store.get(*at).value == value for at, value in items.items())


def test_a_second_run_adds_what_is_new_and_replaces_what_differs_only_if_asked(pair: Pair) -> None:
    source, target = pair
    fill(source, {(("a", "b"), "1"): {"text": "one"}, (("c",), "3"): {"text": "other"}})
    assert copied(pair, "--create", "--namespace", "a", "--yes").code == 0
    again = copied(pair, "--create", "--namespace", "a", "--yes", "-o", "json").json
    assert (again["added"], again["present"], again["verified"]) == (0, 1, True)
    with source.store() as store:
        store.put(("a", "b"), "2", {"text": "two"})
        settle(store, 3)
    more = copied(pair, "--yes", "-o", "json").json
    assert (more["added"], more["present"], more["verified"]) == (2, 1, True)
    assert official(target, 3) == rounded(official(source, 3), target)
    with target.store(embeds=False) as store:
        store.put(("a", "b"), "1", {"text": "of the target"})
        settle(store, 3)
    reasons = skipped(copied(pair, "--yes", "-o", "json"))
    assert reasons.keys() == {"1"}
    assert "the target has" in reasons["1"]
    shown = copied(pair, "--replace", "--dry-run", "-o", "json").json
    assert shown["replaced"] == [{"namespace": ["a", "b"], "key": "1"}]
    assert copied(pair, "--replace", "--yes", "-o", "json").json["verified"]
    assert official(target, 3) == rounded(official(source, 3), target)


def lifetimes(bench: Bench) -> dict[str, str]:
    return {one["key"]: one["expires_at"] for one in listed(bench)}


def same_moments(one: dict[str, str], other: dict[str, str]) -> bool:
    near = timedelta(seconds=1)
    return one.keys() == other.keys() and all(
        abs(datetime.fromisoformat(one[key]) - datetime.fromisoformat(other[key])) < near
        for key in one
    )


def test_items_expire_when_they_would_have(pair: Pair) -> None:
    source, target = pair
    with source.with_lifetime(minutes=90) as store:
        store.put(("t",), "one", {"text": "x"})
        store.put(("t",), "two", {"text": "y"})
        settle(store, 2)
    if isinstance(target, MongoBench):
        refused = copied(pair, "--create", "--yes")
        assert (refused.code, "no TTL index" in refused.err) == (4, True)
        with target.with_lifetime(minutes=90):
            pass  # the library makes the index
    assert copied(pair, "--create", "--yes", "-o", "json").json["verified"]
    assert same_moments(lifetimes(source), lifetimes(target))
    again = copied(pair, "--yes", "-o", "json").json
    assert (again["added"], again["present"]) == (0, 2)


@of(SqliteBench, OtherFile)
def test_nothing_is_written_unasked(pair: Pair) -> None:
    source, target = pair
    fill(source, {(("n",), "k"): {"text": "x"}})
    assert copied(pair).code == 5
    planned = copied(pair, "--create", "--dry-run", "-o", "json").json
    assert planned["dry_run"]
    assert planned["added"] == 1
    (columns, row) = copied(pair, "--create", "--dry-run", "-o", "tsv").out.splitlines()
    cells = dict(zip(columns.split("\t"), row.split("\t"), strict=True))
    assert (cells["action"], cells["step"]) == ("copy", "copy")
    assert not Path(target.url).exists()
    assert copied(pair, "--create").code == 5
    assert not Path(target.url).exists()
    missing = copied(pair, "--yes")
    assert (missing.code, "add --create" in missing.err) == (4, True)
    assert copied((source, source), "--yes").code == 2
    assert memory(source, "copy").code == 2


@pytest.mark.engines
@of(SqliteBench, RedisBench)
def test_expired_items_are_copied_where_no_server_removes_them(pair: Pair) -> None:
    source, target = pair
    with source.with_lifetime(minutes=60) as store:
        store.put(("t",), "went", {"text": "y"})
        store.put(("t",), "stays", {"text": "y"})
    source.expire(("t",), "went")
    answer = copied(pair, "--create", "--yes", "-o", "json")
    assert (answer.json["expired"], answer.json["added"]) == (1, 1)
    assert "time to live has ended" in answer.err
    assert [one["key"] for one in listed(target)] == ["stays"]
    other = OtherFile(str(Path(source.url).with_name("other.db")))
    assert copied((source, other), "--create", "--yes").code == 0
    assert [one["expired"] for one in listed(other)] == [False, True]


@pytest.mark.engines
@of(SqliteBench, RedisBench)
def test_names_that_redis_takes_for_one_are_refused(pair: Pair) -> None:
    fill(pair[0], {(("users", "Anna"), "x"): {"text": "1"}, (("users", "anna"), "x"): {}})
    (reason,) = skipped(copied(pair, "--create", "--yes", "-o", "json")).values()
    assert "cannot tell it from 'users/Anna/x'" in reason
    assert copied(pair, "--yes").code == 7


@pytest.mark.engines
@of(MongoBench, SqliteBench, PostgresBench)
def test_names_and_values_without_a_form_are_refused_by_name(pair: list[Bench]) -> None:
    mongo, local, postgres = pair
    with mongo.store(embeds=False) as store:
        store.batch([PutOp(("a.b",), "dotted", {"x": 1})])
        store.put(("n",), "date", {"x": [datetime(2026, 1, 1, tzinfo=UTC)]})
        store.put(("n",), "infinite", {"x": float("inf")})
        store.put(("n",), "large", {"x": 1e22})
        store.put(("n",), "fine", {"x": 1})
    reasons = skipped(copied((mongo, local), "--create", "--yes", "-o", "json"))
    assert reasons.keys() == {"dotted", "date", "infinite"}
    assert "label 'a.b' has a '.'" in reasons["dotted"]
    assert "datetime" in reasons["date"]
    assert official(local, 2)[("n",), "large"][0] == {"x": 1e22}
    answer = copied((local, postgres), "--create", "--yes", "-o", "json")
    assert skipped(answer).keys() == {"large"}
    with local.store(embeds=False) as store:
        store.put(("a/b",), "slash", {"x": 1})
    answer = copied((local, mongo), "--match", "slash", "--yes")
    assert (answer.code, "label 'a/b' has a '/'" in answer.err) == (4, True)


@pytest.mark.engines
@of(RedisBench, SqliteBench)
def test_values_that_only_redis_holds_stay_in_redis(pair: Pair) -> None:
    source, _ = pair
    with source.store(embeds=False) as store:
        store.put(("n",), "message", {"said": HumanMessage("hi", id="1")})
        settle(store, 1)
    answer = copied(pair, "--create", "--yes")
    assert (answer.code, "which only RedisStore can hold" in answer.err) == (4, True)
    other = RedisBench(f"{source.url}?store_prefix=other&vector_prefix=other_vectors")
    assert copied((source, other), "--create", "--yes", "-o", "json").json["verified"]
    values = [[value for value, *_ in exported(one).values()] for one in (source, other)]
    assert values[0] == values[1]


def skipped(answer: CommandResult) -> dict[str, str]:
    assert answer.code == 7, answer.err
    return {one["key"]: one["reason"] for one in json.loads(answer.out)["skipped"]}


def schema_of(bench: Bench) -> object:
    """Return what the engine's catalog says about an empty store."""
    match bench:
        case SqliteBench():
            with closing(sqlite3.connect(bench.url)) as db:
                queries = (
                    "PRAGMA journal_mode",
                    "SELECT type, name, tbl_name, sql LIKE '%WHERE%' FROM sqlite_master ORDER BY 2",
                    "SELECT m.name, c.* FROM sqlite_master m, pragma_table_info(m.name) c"
                    " WHERE m.type = 'table' ORDER BY 1, 2",
                    "SELECT v FROM store_migrations ORDER BY v",
                )
                return [db.execute(query).fetchall() for query in queries]
        case PostgresBench():
            return postgres_schema(bench.url, "store_migrations")
        case MongoBench():
            with bench.collection() as found:
                return list(found.list_indexes())
    with redis.Redis.from_url(bench.url) as client:
        described = client.ft("store").info()
        names = ("index_name", "index_options", "index_definition", "attributes")
        return [described[name] for name in names]


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(one, id=one.name, marks=() if one is SqliteBench else pytest.mark.engines)
        for one in BENCHES
    ],
)
def test_a_made_store_is_as_the_official_one_sets_it_up(
    kind: type[Bench], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    (tmp_path / "official").mkdir()
    with benches(request, tmp_path / "official", kind) as (one,):
        with one.store(embeds=False):
            pass
        wanted = schema_of(one)
    with benches(request, tmp_path, kind) as (one,):
        for _ in range(2):
            create_memory(parse_url(one.url))
        assert schema_of(one) == wanted
        with one.store(embeds=False) as store:
            store.put(("a",), "k", {"x": 1})
            settle(store, 1)
            assert len(store.search((), limit=2)) == 1


def test_a_store_is_made_beside_threads_and_nothing_else(tmp_path: Path) -> None:
    bench = SqliteBench(str(tmp_path / "agent.db"))
    with bench.saver() as saver:
        saver.setup()
    create_memory(parse_url(bench.url))
    assert listed(bench) == []
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE accounts (id)")
    with pytest.raises(Refused, match="not empty"):
        create_memory(parse_url(str(path)))


@pytest.mark.nightly
@of(SqliteBench, OtherFile)
def test_a_killed_copy_is_finished_by_the_next(pair: Pair) -> None:
    source, target = pair
    fill(source, {(("n", f"{n % 7}"), f"{n}"): {"text": "x" * 5000, "n": n} for n in range(900)})
    words = ["-s", source.url, "memory", "copy", "--to", target.url, "--create", "--yes"]
    calls, numbers = calls_of(words), []
    Path(target.url).unlink()
    for call in calls[:: len(calls) // 7]:
        kill_at(words, call)
        numbers.append(len(listed(target)) if Path(target.url).exists() else 0)
    assert numbers == sorted(numbers)
    assert copied(pair, "--create", "--yes", "-o", "json").json["verified"]
    assert official(target, 900) == official(source, 900)
