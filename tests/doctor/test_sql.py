"""Tables of PostgreSQL and MySQL, and views of documents: what is no fault, what keeps a saver from
loading them, and how rows that are hidden from a role stay."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from langgraph.graph import START, StateGraph
from langgraph.store.postgres import PostgresStore
from typing_extensions import TypedDict

from ckpt_backends.sql import health
from ckpt_backends.sql.database import base_of, shows_all
from tests.doctor.asking import faults, only
from tests.doctor.engine_faults import run
from tests.kit.agents import steps as agent
from tests.kit.agents.asking import ask, config, on_mongodb, resumes, waits
from tests.kit.agents.steps import config_of, role, saver_of
from tests.kit.cases import cases
from tests.kit.command import ckpt
from tests.kit.harness import mysql
from tests.kit.harness.kaflow import MongoDBCheckpointer
from tests.kit.harness.three_table import ThreeTableSaver
from tests.kit.servers import Server, postgres_database


def test_little_unused_space_and_a_small_part_are_no_fault() -> None:
    mib = 1 << 20
    assert list(health.unused_space("it", 60 * mib, 61 * mib, "")) == []
    assert list(health.unused_space("it", 100 * mib, 400 * mib, "")) == []
    (found,) = health.unused_space("it", 101 * mib, 400 * mib, "")
    assert found.detail == "101 of 400 MiB of it are unused"


@pytest.fixture(scope="module")
def shared_url(postgres_server: Server) -> Iterator[str]:
    """A database whose faults are mended again."""
    with postgres_database(postgres_server) as url:
        agent.fill(url, "trip")
        yield url


@pytest.mark.engines
def test_an_index_that_is_being_built_is_no_fault(shared_url: str) -> None:
    """`CREATE INDEX CONCURRENTLY` waits for the writer here, and its index is not valid yet."""
    from threading import Thread

    run(shared_url, "DROP INDEX checkpoint_writes_thread_id_idx")
    fix = only(shared_url).fix
    with psycopg.connect(shared_url) as writer:
        writer.execute("UPDATE checkpoint_writes SET idx = idx")
        builder = Thread(target=run, args=(shared_url, fix))
        builder.start()
        with psycopg.connect(shared_url, autocommit=True) as looking:
            while not looking.execute("SELECT 1 FROM pg_stat_progress_create_index").fetchall():
                pass
        with agent.role(shared_url) as url:
            assert faults(url) == []
    builder.join()
    assert faults(shared_url) == []


def test_nothing_is_expected_of_an_unknown_saver(postgres_url: str) -> None:
    agent.fill(postgres_url, "trip")
    run(
        postgres_url,
        "DROP INDEX checkpoints_thread_id_idx",
        "ALTER TABLE checkpoints ADD COLUMN created_at timestamptz",
    )
    assert faults(postgres_url) == []


def test_a_role_that_may_only_read_the_three_tables_sees_faults(shared_url: str) -> None:
    with agent.role(shared_url) as url:
        assert faults(url) == []
        run(shared_url, "DROP INDEX checkpoints_thread_id_idx")
        # An index of another name serves as well.
        run(shared_url, only(url).fix.replace("checkpoints_thread_id_idx", "another_name"))
        assert faults(url) == []


SIZE = 60_000
_WHOLE = SIZE // 3 * 4 + 2 * ((SIZE // 3 * 4 - 1) // 76) + len("document") + len("bytes") + 12
NEEDED = _WHOLE + len('["notes", "msgpack", "kad3cml0dGVu"]') + 1
"""Bytes of the JSON text that the saver parses."""


class Documents(TypedDict, total=False):
    document: bytes
    notes: list[str]


def written(saver: Any, size: int) -> Any:
    graph = StateGraph(Documents)
    graph.add_node("write", lambda _: {"document": b"x" * size, "notes": ["written"]})
    graph.add_edge(START, "write")
    return graph.compile(checkpointer=saver)


def fill_documents(url: str) -> None:
    with mysql.saver_of(url) as saver:
        written(saver, SIZE).invoke({"notes": []}, config_of("trip"))


def loaded(url: str) -> dict[str, Any]:
    """What the official saver loads. Raises its errors."""
    with mysql.saver_of(url) as saver:
        return {**written(saver, 0).get_state(config_of("trip")).values}


@contextmanager
def settings(url: str, **values: int) -> Iterator[None]:
    """The server with other settings for new connections."""
    asked = ", ".join(f"@@GLOBAL.{name}" for name in values)
    (before,) = mysql.run(url, f"SELECT {asked}")
    mysql.run(url, *(f"SET GLOBAL {name} = {value}" for name, value in values.items()))
    try:
        yield
    finally:
        kept = zip(values, before, strict=True)
        mysql.run(url, *(f"SET GLOBAL {name} = {value}" for name, value in kept))


@pytest.mark.engines
@pytest.mark.parametrize("large", [{}, {"max_allowed_packet": 1 << 24}])
def test_a_limit_that_cuts_what_the_saver_loads_is_named_and_mended(
    mysql_url: str, large: dict[str, int]
) -> None:
    fill_documents(mysql_url)
    whole = loaded(mysql_url)
    assert [*whole] == ["document", "notes"]
    with settings(mysql_url, group_concat_max_len=NEEDED, **large):
        assert faults(mysql_url) == []
        assert loaded(mysql_url) == whole
        mysql.run(mysql_url, f"SET GLOBAL group_concat_max_len = {NEEDED - 1}")
        with pytest.raises(ValueError, match="line 1 column"):
            loaded(mysql_url)
        found = only(mysql_url)
        assert (found.code, found.thread_id) == ("saver-limit", None)
        needs = f"is {NEEDED - 1}, and the saver needs {NEEDED} bytes to load thread 'trip'"
        assert found.detail == f"group_concat_max_len {needs}"
        mysql.run(mysql_url, found.fix)
        assert faults(mysql_url) == []
        assert loaded(mysql_url) == whole


@pytest.mark.engines
def test_a_packet_that_is_too_short_for_a_value_is_named_and_mended(mysql_url: str) -> None:
    fill_documents(mysql_url)
    whole = loaded(mysql_url)
    with settings(mysql_url, max_allowed_packet=1 << 16):
        # The saver does not notice that the value is missing.
        assert loaded(mysql_url) == {"notes": whole["notes"]}
        found = only(mysql_url)
        assert found.code == "saver-limit"
        assert found.detail.startswith(f"max_allowed_packet is {1 << 16}, and the saver needs")
        mysql.run(mysql_url, found.fix)
        assert faults(mysql_url) == []
        assert loaded(mysql_url) == whole


RIGHTS = """
    CREATE ROLE {role} LOGIN;
    GRANT USAGE ON SCHEMA public TO {role};
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role};
"""
POLICY = """
    ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
    CREATE POLICY tenant ON {table} USING (thread_id = current_setting('app.tenant', true));
"""
REMOVALS = (
    ("gc", "--scope", "all", "--grace", "0s"),
    ("purge", "--older-than", "0s", "--include-interrupted"),
    ("threads", "delete", "acme"),
    ("erase", "acme"),
    ("erase", "--value", "acme:said"),
)


def numbers(url: str, schema: str = "public") -> list[int]:
    """The numbers of rows in the saver's tables."""
    tables = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
    with psycopg.connect(url) as connection:
        counts = [f"SELECT count(*) FROM {schema}.{one}".encode() for one in tables]
        return [connection.execute(one).fetchall()[0][0] for one in counts]


@pytest.fixture
def asked_url(postgres_url: str) -> str:
    """A store in which two threads wait for an answer."""
    with saver_of(postgres_url) as saver:
        saver.setup()
        ask(saver, "acme", "globex")
    return postgres_url


def check_refused(url: str, why: str, *, removals: tuple[tuple[str, ...], ...] = REMOVALS) -> None:
    """That each answer says that rows may be hidden, and nothing is removed."""
    assert why in ckpt("-s", url, "threads", "list", code=0, says="rows may be hidden").err
    checked = ckpt("-s", url, "doctor", "--grace", "0s", "-o", "json")
    codes = [one["code"] for one in checked.json["findings"] if one["severity"] != "info"]
    assert (checked.code, codes) == (1, ["rows-hidden"])
    assert why in checked.json["findings"][0]["detail"]
    for words in removals:
        for how in ("--dry-run", "--yes"):
            assert "hint: " in ckpt("-s", url, *words, how, code=5, says=why).err


def test_a_policy_on_one_table(asked_url: str) -> None:
    before = numbers(asked_url)
    for table, removals in (
        ("checkpoint_writes", REMOVALS[:1]),
        ("checkpoint_blobs", REMOVALS[:1]),
        ("checkpoints", REMOVALS),
    ):
        run(asked_url, POLICY.format(table=table))
        with role(asked_url, RIGHTS) as url:
            why = f"row-level security is active on table '{table}' for role 'reader_"
            check_refused(url, why, removals=removals)
            assert "BYPASSRLS" in ckpt("-s", url, *REMOVALS[0], "--yes").err
        if removals != REMOVALS:
            run(asked_url, f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")
    assert numbers(asked_url) == before
    # The owner sees all.
    assert "hidden" not in ckpt("-s", asked_url, "threads", "list").err
    assert ckpt("-s", asked_url, *REMOVALS[0], "--yes", "-o", "json").json["threads"] == []
    ckpt("-s", asked_url, "doctor", code=0)
    with saver_of(asked_url) as saver:
        assert waits(saver, "acme")
        assert resumes(saver, "acme")


@pytest.mark.engines
def test_a_policy_on_the_tables_of_an_application(postgres_url: str) -> None:
    ask(ThreeTableSaver(postgres_url, latest=False), "acme", "globex")
    with psycopg.connect(postgres_url) as admin:
        found = admin.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        tables = sorted(name for (name,) in found.fetchall())
    assert "checkpoints" in tables
    run(
        postgres_url,
        "ALTER TABLE checkpoints ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY nobody ON checkpoints USING (false)",
    )
    with role(postgres_url, RIGHTS) as url:
        check_refused(
            url,
            "row-level security is active on table 'checkpoints' for role 'reader_",
            removals=REMOVALS[:4],
        )


@pytest.mark.engines
def test_memory_with_a_policy_is_not_erased_completely(asked_url: str) -> None:
    with PostgresStore.from_conn_string(asked_url) as memory:
        memory.setup()
        memory.put(("users", "anna"), "said", {"x": 1})
    run(
        asked_url,
        "ALTER TABLE store ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY nobody ON store USING (false)",
    )
    with role(asked_url, RIGHTS) as url:
        done = ckpt("-s", url, "erase", "acme", "--yes", "-o", "json")
        told = json.loads(done.out)
        places = {one["kind"]: one for one in told["places"]}
        assert (done.code, told["complete"]) == (7, False)
        assert places["threads"]["state"] == "erased"
        assert "row-level security is active on table 'store'" in places["memory"]["reason"]


@pytest.mark.engines
def test_a_plan_that_was_made_while_all_rows_were_seen(asked_url: str, tmp_path: Path) -> None:
    run(asked_url, POLICY.format(table="checkpoints"))
    plan = str(tmp_path / "plan.ndjson")
    planned = ("purge", "--older-than", "0s", "--include-interrupted", "--plan-out", plan)
    with role(asked_url, RIGHTS, "ALTER ROLE {role} BYPASSRLS;") as url:
        ckpt("-s", url, *planned, code=0)
        name = urlsplit(url).username
        run(asked_url, f"ALTER ROLE {name} NOBYPASSRLS")
        before = numbers(asked_url)
        for words in ([], ["--skip-changed"]):
            ckpt("-s", url, "apply", plan, *words, "--yes", code=5, says="row-level security")
            assert numbers(asked_url) == before
        run(asked_url, f"ALTER ROLE {name} BYPASSRLS")
        ckpt("-s", url, "apply", plan, "--yes", code=0)
    assert numbers(asked_url) == [0, 0, 0]


@pytest.mark.engines
def test_a_view_in_the_place_of_a_table(asked_url: str) -> None:
    run(asked_url, "CREATE SCHEMA shown")
    for name in ("checkpoint_blobs", "checkpoint_writes", "checkpoints"):
        run(asked_url, f"CREATE VIEW shown.{name} AS SELECT * FROM public.{name}")
    url = f"{asked_url}?schema=shown"
    assert "hidden" not in ckpt("-s", url, "threads", "list").err
    ckpt("-s", url, "doctor", code=0)
    before = numbers(asked_url)
    changed = "CREATE OR REPLACE VIEW shown.checkpoints AS SELECT * FROM public.checkpoints"
    for statement in (f"{changed} LIMIT 3", changed, POLICY.format(table="checkpoints")):
        run(asked_url, statement)
        if statement != changed:
            why = "'checkpoints' is a view that may leave out rows"
            check_refused(url, why, removals=REMOVALS[:1])
            assert numbers(asked_url) == before
            continue
        ckpt("-s", url, "threads", "delete", "acme", "--yes", code=0)
        before = numbers(asked_url)


@pytest.mark.engines
def test_a_view_on_mysql(mysql_url: str) -> None:
    from langgraph.checkpoint.mysql.pymysql import PyMySQLSaver

    with PyMySQLSaver.from_conn_string(mysql_url) as saver:
        saver.setup()
        ask(saver, "acme", "globex")
    whole = "VIEW checkpoints AS SELECT * FROM every"
    run(mysql_url, "RENAME TABLE checkpoints TO every", f"CREATE {whole}")
    assert "hidden" not in ckpt("-s", mysql_url, "threads", "list").err
    run(mysql_url, f"CREATE OR REPLACE {whole} WHERE thread_id = 'globex'")
    check_refused(mysql_url, "'checkpoints' is a view that may leave out rows")


@pytest.mark.engines
@pytest.mark.parametrize("is_kaflow", [False, True])
def test_a_view_of_documents(mongodb_url: str, *, is_kaflow: bool) -> None:
    server, _, name = mongodb_url.rpartition("/")
    saver = (
        MongoDBCheckpointer(server, name, "real") if is_kaflow else on_mongodb(mongodb_url, "real")
    )
    ask(saver, "acme", "globex")
    saver.client[name].command(
        "create", "checkpoints", viewOn="real", pipeline=[{"$match": {"thread_id": "globex"}}]
    )
    url = f"{mongodb_url}?collection=checkpoints"
    url += "" if is_kaflow else "&writes_collection=checkpoint_writes"
    check_refused(url, "'checkpoints' is a view", removals=REMOVALS[:4])
    assert saver.get_tuple(config("acme"))
    if not is_kaflow:
        assert waits(saver, "acme")
    saver.client.close()


@cases(
    "definition base",
    (" SELECT thread_id,\n    checkpoint_ns\n   FROM checkpoints;", "checkpoints"),
    (" SELECT thread_id AS t\n   FROM public.checkpoints c;", "checkpoints"),
    ("select `d`.`t`.`a` AS `a` from `d`.`t`", "t"),
    (' SELECT "from here" AS x FROM t;', None),
    (" SELECT a FROM t LIMIT 5;", None),
    (" SELECT DISTINCT a FROM t;", None),
    (" SELECT a FROM t UNION SELECT a FROM u;", None),
    (" SELECT a FROM t JOIN u USING (a);", None),
    (" SELECT a FROM t TABLESAMPLE system (5);", None),
    ("select a from t where (a = 1)", None),
    ("WITH x AS (SELECT 1) SELECT a FROM t;", None),
    ("", None),
)
def test_what_a_view_shows_whole(definition: str, base: str | None) -> None:
    assert base_of(definition) == base


def test_views_of_views() -> None:
    found = {"a": "select x from b", "b": "select x from c", "d": "select x from e", "e": ""}
    assert [name for name in ("a", "b", "c", "d", "e") if shows_all(name, found)] == ["a", "b", "c"]
    assert not shows_all("p", {"p": "select x from q", "q": "select x from p"})
