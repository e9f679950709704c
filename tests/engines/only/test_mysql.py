"""What only MySQL and MariaDB have: collations that merge ids, users, releases of the saver."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trustme

from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.model import Capability, CheckpointKey
from ckpt_backends.mysql.database import lock_name, statements
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.registry import open_store
from ckpt_backends.rows import Row
from ckpt_backends.sql.database import RowRefused
from ckpt_backends.url import parse_url
from tests.engines.answers import COMMANDS, items_of, refuses, succeeds
from tests.kit import servers
from tests.kit.agents.steps import config_of, graph_of
from tests.kit.cases import cases
from tests.kit.command import ckpt
from tests.kit.harness.mysql import TABLES, fill, migrated, run, saver_of
from tests.kit.plugin import started
from tests.kit.servers import Server, mysql_connection, mysql_database


@pytest.fixture(scope="module")
def filled_url(mysql_server: Server) -> Iterator[str]:
    """A database that these tests only read."""
    with mysql_database(mysql_server) as url:
        fill(url, "trip", "other")
        yield url


def test_the_servers_time_limit_is_kept(filled_url: str) -> None:
    with open_store(filled_url) as store:
        rows: Callable[[str], Any] = store._database.rows  # type: ignore[attr-defined]
        rows("SET SESSION max_statement_time = 0.05")
        with pytest.raises(StoreUnavailable, match="exceeded the time limit"):
            rows("SELECT SLEEP(5), COUNT(*) FROM checkpoints")


@pytest.mark.engines
def test_another_change_is_waited_for(mysql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(mysql_url, "ours", "other")
    monkeypatch.setattr("ckpt_backends.mysql.database._LOCK_SECONDS", 1)
    words = ["step:0", "--yes", "--force"]
    with mysql_connection(mysql_url) as writer, writer.cursor() as cursor:
        cursor.execute("SELECT GET_LOCK(%s, 0)", [lock_name("ours")])
        refuses(mysql_url, "rollback", "ours", *words, says="another session holds a lock")
        ckpt("-s", mysql_url, "rollback", "other", *words, code=0)
    ckpt("-s", mysql_url, "rollback", "ours", *words, code=0)


def test_rows_are_sent_in_statements_that_the_server_takes() -> None:
    head, are_bytes = b"INSERT INTO t VALUES ", [False, True, False, False]
    rows = [("a'\\", b"\0'", None, n) for n in range(9)]
    found = list(statements(head, are_bytes, rows, 100))
    assert found[0][0].startswith(head + b"('a''\\\\', _binary'\0''', NULL, 0), (")
    assert [row for _, some in found for row in some] == rows
    assert [text.count(b"_binary") for text, _ in found] == [len(some) for _, some in found]
    assert max(len(text) for text, _ in found) <= 100
    for cell, says in (("\ud800", "no lone surrogates"), ("x" * 90, "longer than the server's")):
        with pytest.raises(RowRefused, match=says):
            list(statements(head, [False], [("a",), (cell,)], 100))


VARIANTS = ["Abc", "abc", "àbc", "abc ", "ABC"]
"""One thread for a server with its default collation."""


@pytest.fixture
def merging_url(mysql_url: str) -> str:
    """A store that holds threads which its saver takes for one."""
    fill(mysql_url, *VARIANTS, "other", exact=True)
    return mysql_url


def test_threads_that_the_server_takes_for_one_are_never_mixed(merging_url: str) -> None:
    asked = [*VARIANTS, "other", "aBC", "caf\u00e9"]
    run(merging_url, "UPDATE checkpoint_writes SET task_path = 9 - idx")  # not as the index has it
    with open_store(merging_url) as store:
        assert {one.thread_id for one in store.threads()} == {*VARIANTS, "other"}
        for name, size in zip(VARIANTS, store.sizes(VARIANTS), strict=True):
            thread = store.thread(name)
            assert thread is not None
            assert thread.checkpoints == size.checkpoints == 4
            assert {one.key.thread_id for one in store.checkpoints(name)} == {name}
            assert {one.key.thread_id for one in store.writes(name)} == {name}
            assert {row.cells["thread_id"] for row in store.rows(name)} == {name}
            assert len(list(store.blobs(name))) == size.blobs > 0
        assert store.thread("aBC") is None
        assert [*store.checkpoints("aBC"), *store.rows("aBC")] == []
        alone = [one for name in asked for one in store.checkpoints(name, body=True, values=True)]
        writes = [one for name in asked for one in store.writes(name, values=True)]
        ids = {one.key.checkpoint_id for one in alone}
        # All spellings of each id: most have no row, but one that is equal in the collation.
        keys = [
            CheckpointKey(name, "", one) for name in asked for one in (*ids, *map(str.upper, ids))
        ]
        assert by_key(store.checkpoints_at([*keys, *keys], body=True, values=True)) == by_key(alone)
        of_tasks = sorted(store.writes_at([*keys, *keys], values=True), key=lambda one: one.key)
        assert of_tasks == sorted(writes, key=lambda one: one.key)
    for name in VARIANTS:
        assert items_of(merging_url, name) == [f"in {name}", "from a", "from b"]


def by_key(found: Iterable[Any]) -> list[Any]:
    return sorted(found, key=lambda one: (one.key, repr(one)))


def test_one_of_them_goes_alone_and_none_gets_more(merging_url: str, tmp_path: Path) -> None:
    def rows(name: str) -> list[Any]:
        with open_store(merging_url) as store:
            return list(store.rows(name))

    before = {name: rows(name) for name in VARIANTS}
    ckpt("-s", merging_url, "export", "abc", "--to", tmp_path, code=0)
    ckpt("-s", merging_url, "threads", "delete", "abc", "--yes", code=0)
    before["abc"] = []
    assert {name: rows(name) for name in VARIANTS} == before
    for words in (
        ["import", tmp_path],
        ["rollback", "Abc", "step:0", "--force"],
        ["copy", "other@head", "--as", "OTHER"],
    ):
        refuses(merging_url, *words, "--yes", says="the saver cannot tell thread")
    assert {name: rows(name) for name in VARIANTS} == before
    ckpt("-s", merging_url, "rollback", "other", "step:0", "--force", "--yes", code=0)
    other_scheme = merging_url.replace("mysql://", "mariadb://")  # It means the same.
    warning = ckpt("-s", other_scheme, "threads", "list").err
    assert "the saver mixes the threads" in warning
    assert "general_ci" in warning
    run(merging_url, f"DELETE FROM checkpoints WHERE BINARY thread_id IN {tuple(VARIANTS[1:])}")
    assert "the saver mixes" not in ckpt("-s", other_scheme, "threads", "list").err


def test_a_text_that_the_tables_cannot_hold_is_not_there(mysql_server: Server) -> None:
    with mysql_database(mysql_server) as url:
        run(url, f"ALTER DATABASE {urlsplit(url).path[1:]} CHARACTER SET latin1")
        fill(url, "trip", "café")
        with open_store(url) as store:
            assert {one.thread_id for one in store.threads()} == {"trip", "café"}
            written = [one.key for name in ("trip", "café") for one in store.checkpoints(name)]
            spelt = ("trip", "café", "会话", "caf?", "\U0001f600")
            keys = [one._replace(thread_id=name) for one in written for name in spelt]
            together = [one.key for one in store.checkpoints_at(keys, body=True)]
            assert sorted(together) == sorted(written)
            for name in ("会话", "caf?", "\U0001f600"):
                assert store.thread(name) is None
                assert list(store.checkpoints(name, body=True)) == []
                assert store.sizes([name])[0].bytes == 0
        assert items_of(url, "café") == ["in café", "from a", "from b"]


@pytest.mark.engines
def test_values_beyond_what_the_server_joins_are_read(mysql_url: str) -> None:
    """The official saver lets the server join them, which cuts them at `group_concat_max_len`."""
    long = "x" * 3_000_000
    with saver_of(mysql_url) as saver:
        graph_of(saver).invoke({"items": [long, "y"]}, config_of("trip"))
    run(mysql_url, "SET GLOBAL group_concat_max_len = 1048576")
    try:
        for ref in ("trip", "trip@~1"):
            assert items_of(mysql_url, ref)[0] == long
        with open_store(mysql_url) as store:
            writes = [one for one in store.writes("trip", values=True) if one.value]
            assert max(one.size for one in writes) > len(long)
            assert all(one.value and one.size == len(one.value.data) for one in writes)
    finally:
        run(mysql_url, "SET GLOBAL group_concat_max_len = 4294967295")


@pytest.mark.in_ci("4")
@pytest.mark.parametrize(
    ("last", "says"),
    [
        pytest.param(4, "before 2.0.6", marks=pytest.mark.engines),
        pytest.param(8, "2.0.7 or 2.0.8", marks=pytest.mark.nightly),
        pytest.param(14, "2.0.9", marks=pytest.mark.nightly),
        pytest.param(17, "2.0.10 or 2.0.11", marks=pytest.mark.engines),
        pytest.param(21, "2.0.17 or later", marks=pytest.mark.engines),
    ],
)
def test_stores_of_each_release(mysql_url: str, filled_url: str, last: int, says: str) -> None:
    migrated(mysql_url, last, filled_url)
    if last < 21:
        set_body = "JSON_REMOVE(checkpoint, '$.channel_values')"
        run(mysql_url, f"UPDATE checkpoints SET checkpoint = {set_body}")
    with open_store(mysql_url) as store, open_store(filled_url) as newest:
        info = store.describe()
        assert info.layout == "mysql"
        assert says in info.saver
        assert (Capability.ADDING in info.capabilities) == (last >= 17)
        assert (Capability.TASK_PATH in info.capabilities) == (last >= 18)
        known, found = (
            (
                list(one.threads()),
                [size.blobs for size in one.sizes(["trip", "other"])],
                {row.key: row.blobs for row in one.checkpoints("trip", body=True, values=True)},
                len(list(one.writes("trip", values=True))),
                len(list(one.rows("trip"))),
            )
            for one in (newest, store)
        )
        assert found == known
    for words in COMMANDS:
        # Without the small values in the bodies, values are missing.
        missed = 1 if words[0] == "doctor" and last < 21 else 0
        assert ckpt("-s", mysql_url, *words).code == missed, words
    if last == 21:
        run(mysql_url, "INSERT INTO checkpoint_migrations VALUES (22)")
        later = ckpt("-s", mysql_url, "show", "trip")
        assert "ckpt only reads this store: unknown migration 22" in later.err
    refused = {21: "': unknown migration 22", 17: ""}.get(last, "saver older than 2.0.10")
    for words in (["rollback", "trip", "step:0", "--force"], ["threads", "delete", "trip"]):
        ckpt("-s", mysql_url, *words, "--yes", code=4 if refused else 0, says=refused)


@pytest.mark.engines
def test_a_hash_that_the_server_computes_is_not_written(mysql_url: str, tmp_path: Path) -> None:
    """As MySQL keeps it for the savers 2.0.10 and 2.0.11; MariaDB takes it in no primary key."""
    fill(mysql_url, "trip")
    computed = "BINARY(16) AS (UNHEX(MD5(checkpoint_ns))) STORED"
    for table, key in zip(
        TABLES, ("checkpoint_id", "channel, version", "checkpoint_id, task_id, idx"), strict=True
    ):
        run(
            mysql_url,
            f"ALTER TABLE {table} DROP PRIMARY KEY, DROP COLUMN checkpoint_ns_hash,"
            f" ADD COLUMN checkpoint_ns_hash {computed}, ADD PRIMARY KEY (thread_id, {key})",
        )
    # The newest saver, whose migrations are recorded, cannot write to such a column.
    ckpt("-s", mysql_url, "doctor", code=1)
    for words in (
        ["rollback", "trip", "step:0", "--force"],
        *(["undo", "trip"], ["copy", "trip@head", "--as", "new"]),
    ):
        succeeds(mysql_url, *words, "--yes")
    before = rows_of(mysql_url)
    succeeds(mysql_url, "threads", "delete", "trip", "--archive", tmp_path, "--yes")
    succeeds(mysql_url, "import", tmp_path, "--yes")
    assert rows_of(mysql_url) == before


def rows_of(url: str) -> list[str]:
    with open_store(url) as store:
        return sorted(map(repr, store.rows("trip")))


def test_an_archive_goes_into_tables_with_computed_hashes(mysql_url: str, filled_url: str) -> None:
    fill(mysql_url, "first")
    with open_store(filled_url) as store:
        rows = list(store.rows("trip"))
    bare = [
        Row(row.table, {k: v for k, v in row.cells.items() if k != "checkpoint_ns_hash"})
        for row in rows
    ]
    with open_writable(parse_url(mysql_url)) as writable:
        assert writable.restore(bare).added == len(rows)
        assert writable.restore(rows).there == len(rows)
        writable.vacuum()
    assert rows_of(mysql_url) == rows_of(filled_url)


# TLS is used where it is there, had where it is asked for, and checked


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that the server's user can read."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def tls_url(folder: Path) -> Iterator[str]:
    """A database of a server for `localhost` that has TLS, and one user who must use it."""
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    for name, blob in {
        "ca.pem": authority.cert_pem,
        "other.pem": trustme.CA().cert_pem,
        "key.pem": issued.private_key_pem,
        "cert.pem": issued.cert_chain_pems[0],
    }.items():
        blob.write_to_path(str(folder / name))
        (folder / name).chmod(0o644)
    options = [f"--ssl-cert={folder / 'cert.pem'}", f"--ssl-key={folder / 'key.pem'}"]
    with (
        started("mysql", lambda: servers.start_mysql(*options)) as server,
        mysql_database(server) as made,
    ):
        run(made, "CREATE TABLE songs (name TEXT)")
        run(made, "CREATE USER careful@'%' REQUIRE SSL")
        run(made, "GRANT ALL ON *.* TO careful@'%'")
        yield made.replace("root@127.0.0.1", "careful@localhost")


OPENED = "found songs"
"""What is said once the connection stands."""


@pytest.mark.engines
@cases(
    "host query says",
    ("localhost", "", OPENED),
    ("localhost", "?ssl_mode=disabled", "wrong user or password"),
    ("localhost", "?ssl_mode=required", OPENED),
    ("localhost", "?ssl_ca={}/ca.pem", OPENED),
    ("localhost", "?ssl_ca={}/other.pem", "TLS failed"),
    ("localhost", "?ssl_ca={}/other.pem&ssl_mode=required", OPENED),
    ("localhost", "?ssl_mode=verify_identity", "TLS failed"),
    ("127.0.0.1", "?ssl_ca={}/ca.pem", "TLS failed"),
    ("127.0.0.1", "?ssl_ca={}/ca.pem&ssl_mode=verify_ca", OPENED),
    ("localhost", "?ssl_ca={}/other.pem&ssl_mode=verify_ca", "TLS failed"),
)
def test_tls_is_as_asked_for(tls_url: str, folder: Path, host: str, query: str, says: str) -> None:
    refuses(tls_url.replace("localhost", host) + query.format(folder), "threads", "list", says=says)
