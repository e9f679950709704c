"""Servers that cannot be had, do not answer or go away, and URLs of which no secret is shown."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.registry import open_store
from tests.engines.answers import refuses, succeeds
from tests.kit.agents.steps import fill as fill_postgres
from tests.kit.agents.steps import talk, with_user
from tests.kit.cases import cases
from tests.kit.command import ckpt
from tests.kit.connecting import CANARY, QUOTED, shows_nothing
from tests.kit.harness import mysql
from tests.kit.harness.cosmosdb import CosmosHarness
from tests.kit.plugin import redis_of_its_own
from tests.kit.savers.redis_threads import client, fill_plain
from tests.kit.servers import ASKED_FOR_PASSWORD, COSMOSDB_KEY, Server, free_port, start_cosmosdb

NOBODY: list[tuple[str, str]] = [
    ("postgresql://u:C4nary@{nobody}/x", "connection refused"),
    ("mysql://u:C4nary@{nobody}/x", "connection refused"),
    ("redis://:C4nary@{nobody}/0", "connection refused"),
    ("mongodb://u:C4nary@{nobody}/x?serverSelectionTimeoutMS=200", "connection refused"),
    ("dynamodb://table?region=eu-central-1&endpoint=http://{nobody}", "cannot be reached"),
    ("postgresql://u:C4nary@no-such-host.invalid/x", "unknown host"),
    ("mysql://u:C4nary@no-such-host.invalid/x", "unknown host"),
    ("redis://no-such-host.invalid/0", "unknown host"),
    ("mongodb://u:C4nary@no-such-host.invalid/x?serverSelectionTimeoutMS=200", "unknown host"),
    ("postgresql:///x?host=/nowhere", "no server listens"),
    ("mysql://u:C4nary@h/x?unix_socket=/nowhere", "no server listens"),
    ("cosmosdb://:C4nary8=@{nobody}/a/b", "connection refused"),
    ("cosmosdb://:C4nary8=@no-such-host.invalid/a/b", "unknown host"),
]
"""URLs where no server is, and what is said of them."""
WRONG: list[tuple[str, int, str]] = [
    ("postgresql://127.0.0.1:1/x?shema=C4nary", 2, "shema"),
    ("postgresql://127.0.0.1:1/x?replication=database", 2, "parameter 'replication'"),
    ("mysql://127.0.0.1:1/x?shema=C4nary", 2, "shema"),
    ("mysql://127.0.0.1:1/", 2, "names no database"),
    ("mysql://127.0.0.1:1/x?ssl_mode=C4nary", 2, "unknown ssl_mode"),
    ("mysql://127.0.0.1:1/x?ssl_ca=/C4nary", 2, "cannot read a file"),
    ("mysql://127.0.0.1:1/x?connect_timeout=C4nary", 2, "number of seconds"),
    ("mysql://u:C4nary@127.0.0.1:1,b:2/x", 2, "cannot read the URL"),
    ("redis://127.0.0.1:1/x", 2, "is not a number"),
    ("redis://127.0.0.1:1/0?ssl=C4nary", 2, "unknown URL parameter 'ssl'"),
    ("mysql://127.0.0.1:1/c?tables=a,b,c", 4, "tables with other names are not read from MySQL"),
    ("redis://127.0.0.1:1/0?laiout=C4nary", 2, "laiout"),
    ("redis://127.0.0.1:1/0?connect_timeout=C4nary", 2, "'connect_timeout': not a number of sec"),
    *(
        (f"redis://127.0.0.1:1/0?socket_timeout={text}", 2, "'socket_timeout': not a number of sec")
        for text in ("nan", "inf", "-1", "0", "1e300")
    ),
    ("mongodb://u:C4nary@127.0.0.1:1/d b", 2, "database"),
    ("mongodb://127.0.0.1:1/x?nonsense=C4nary", 2, "nonsense"),
    ("mongodb://127.0.0.1:1/x?tls=C4nary", 2, "tls"),
    ("dynamodb://u:C4nary@table?region=eu-central-1", 2, "must not contain credentials"),
    ("dynamodb://a/b?region=eu-central-1", 2, "not the name of a table"),
    ("dynamodb://table?region=eu-central-1&colour=C4nary", 2, "unknown parameter 'colour'"),
    ("dynamodb://table?region=eu-central-1&endpoint=nowhere", 2, "has no valid form"),
    ("cosmosdb://:C4nary8=@127.0.0.1:1/a", 2, "no account, database and container"),
    ("cosmosdb://127.0.0.1:1/a/b?colour=C4nary", 2, "unknown parameter 'colour'"),
    *((f"firestore://{one}", 2, "not a project and a database") for one in ("", "demo-one/a/b")),
    ("firestore://u:C4nary@demo-one", 2, "not a project and a database"),
    ("firestore://demo-one?collection=C4nary/b/c", 2, "not the id of a collection"),
    ("firestore://demo-one?colour=C4nary", 2, "unknown parameter 'colour'"),
    ("sqlite:////nowhere/store.db?copi=C4nary", 2, "copi"),
    ("langgraph-dev:///nowhere?nosuch=C4nary", 2, "nosuch"),
]
"""URLs that are not understood, whether or not there is a server."""
REFUSED: list[tuple[str, str, int, str]] = [
    ("postgres_url", "{there}_no", 4, "no such database"),
    ("postgres_url", "{stranger}", 4, "no such role"),
    ("postgres_url", "{there}?target_session_attrs=read-only", 4, "target_session_attrs"),
    ("postgres_url", "{there}?sslmode=require", 4, "TLS failed"),
    ("postgres_url", "{there}?options=-cwork_mem%3DC4naryinpart", 4, "a setting in `options`"),
    ("postgres_url", "{there}?options=-cC4nary%3D1", 4, "a setting in `options`"),
    ("postgres_url", "{there}?options=--C4nary", 4, "a setting in `options`"),
    ("postgres_url", "{there}?require_auth=C4nary", 4, "libpq rejects the value"),
    ("postgres_url", "{there}?dbname=user%3Dx%20password%3DC4nary", 4, "no such database"),
    ("mysql_url", "{there}_no", 4, "no such database"),
    ("mysql_url", "{stranger}", 4, "wrong user or password"),
    ("mysql_url", "{there}?ssl_mode=required", 4, "TLS failed"),
    ("redis_url", "{there}99", 4, "no such database"),
    ("redis_url", "{tls}?socket_timeout=1", 4, "does not answer"),
    ("dynamodb_url", "dynamodb://table?endpoint={there}", 4, "no AWS region given"),
    ("dynamodb_url", "dynamodb://table?{there}", 4, "no such table in this region"),
    ("dynamodb_url", "dynamodb://table?{there}&profile=nosuch", 2, "no such AWS profile"),
]
"""URLs of a server that is there."""


def refused(url: str, code: int, says: str) -> None:
    answer = refuses(url, "threads", "list", says=says, code=code)
    assert answer.out == ""
    assert len(answer.err.splitlines()) <= 2
    shows_nothing(answer.err)


@pytest.fixture
def dynamodb_url(dynamodb_server: Server) -> str:
    return f"region=eu-central-1&endpoint={dynamodb_server.url}"


@pytest.mark.parametrize(("url", "says"), NOBODY)
def test_a_server_that_cannot_be_had(url: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    refused(url.format(nobody=f"127.0.0.1:{free_port()}"), 4, says)


@pytest.mark.parametrize(("url", "code", "says"), WRONG)
def test_a_url_that_is_not_understood(url: str, code: int, says: str) -> None:
    refused(url, code, says)


@pytest.mark.parametrize(("server", "url", "code", "says"), REFUSED)
def test_what_a_server_does_not_give(
    request: pytest.FixtureRequest, server: str, url: str, code: int, says: str
) -> None:
    there = request.getfixturevalue(server)
    stranger = with_user(there, "nobody_here") if server != "dynamodb_url" else ""
    tls = there.replace("redis://", "rediss://")
    refused(url.format(there=there, stranger=stranger, tls=tls), code, says)


def _end_postgres(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'ckpt' AND datname = current_database()"
        )


def _end_mysql(url: str) -> None:
    asked = "SELECT id FROM information_schema.processlist WHERE db = DATABASE()"
    for (number,) in mysql.run(url, f"{asked} AND id <> CONNECTION_ID()"):
        mysql.run(url, f"KILL {number}")


@pytest.mark.in_ci("postgres", "mysql", "redis")  # the client of Cosmos DB tries for 15 seconds
@cases("server", "postgres", "mysql", "redis", "cosmosdb")
def test_a_server_that_goes_away_in_the_middle(
    request: pytest.FixtureRequest, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end: Callable[[], object]
    with ExitStack() as stack:
        if server == "redis":
            own = stack.enter_context(redis_of_its_own(modules=False))
            fill_plain(own.url, "trip")
            url, end = own.url, own.stop
        elif server == "cosmosdb":
            monkeypatch.setenv("COSMOSDB_KEY", COSMOSDB_KEY)
            own = start_cosmosdb()
            place = CosmosHarness(tmp_path, own)
            talk(place.seeing, "trip")
            url, end = place.url, own.stop
        else:
            url = request.getfixturevalue(f"{server}_url")
            (fill_postgres if server == "postgres" else mysql.fill)(url, "trip")
            end = partial(_end_postgres if server == "postgres" else _end_mysql, url)
        store = stack.enter_context(open_store(url))
        end()
        with pytest.raises(StoreUnavailable, match="cannot read"):
            list(store.threads())
        store.close()


@pytest.fixture(params=["postgres", "mysql", "redis"])
def guarded(request: pytest.FixtureRequest) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """The URL of a store whose server asks for the password `CANARY`, the URL with each place for
    a password, and the variable of the environment that may hold it.
    """
    url: str = request.getfixturevalue(f"{request.param}_url")
    if request.param == "mysql":
        mysql.fill(url, "trip")
        with mysql.user(url, "SELECT", CANARY) as bare:
            yield bare, (bare.replace("@", ":{}@"),), "MYSQL_PWD"
    elif request.param == "redis":
        fill_plain(url, "trip")
        client(url).config_set("requirepass", CANARY)
        host = url.removeprefix("redis://")
        yield url, (f"redis://:{{}}@{host}", f"redis://default:{{}}@{host}"), "REDISCLI_AUTH"
        client(f"redis://:{QUOTED}@{host}").config_set("requirepass", "")
    else:
        fill_postgres(url, "trip")
        name, secret = sql.Identifier(ASKED_FOR_PASSWORD), sql.Literal(CANARY)
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(name, secret))
            admin.execute(sql.SQL("GRANT pg_read_all_data TO {}").format(name))
            bare, inside = (with_user(url, ASKED_FOR_PASSWORD, one) for one in (None, "{}"))
            yield bare, (inside, f"{bare}?password={{}}"), "PGPASSWORD"
            admin.execute(sql.SQL("DROP ROLE {}").format(name))


def test_an_odd_password_works_anywhere(
    guarded: tuple[str, tuple[str, ...], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bare, places, variable = guarded
    for place in places:
        right = succeeds(place.format(QUOTED), "stores", "-o", "json")
        assert "error" not in right.json[0]
        url, says = place.format(QUOTED + "x"), "wrong user or password"
        wrong = refuses(url, "threads", "list", "--debug", says=says)
        assert "hint: " in wrong.err
        shows_nothing(right.out + right.err + wrong.out + wrong.err)
    refuses(bare, "threads", "list", says=variable)
    monkeypatch.setenv(variable, CANARY)
    ckpt("-s", bare, "threads", "list", code=0)


PLACES = [
    *(f"postgresql://127.0.0.1:1/db?{name}={{}}" for name in ("password", "passfile", "service")),
    *(f"postgresql://127.0.0.1:1/db?{name}={{}}" for name in ("require_auth", "gssencmode")),
    *("postgresql://u:{}@[::1]:1,127.0.0.1:1/db", "mysql://127.0.0.1:1/db?password={}"),
    *("mariadb://u:{}@127.0.0.1:1/db?ssl_mode=disabled", "redis://u:{}@[::1]:1,127.0.0.1:1/0"),
    *(f"{scheme}://u:{{}}@" for scheme in ("postgresql", "mysql", "redis")),
    "rediss://u:{}@127.0.0.1:1/0?ssl_cert_reqs=none",
]
"""Where a URL may have a secret, besides the places above."""
SECRETS = [QUOTED, "C4nary?x#y", "5?C4nary"]


@pytest.mark.parametrize("secret", SECRETS)
def test_no_secret_of_a_url_is_shown(secret: str) -> None:
    for place in PLACES:
        for words in (["threads", "list"], ["stores", "-o", "json", "--debug"]):
            answer = ckpt("-s", place.format(secret), *words)
            assert answer.code in {2, 4}, (place, answer.err)
            assert "internal error" not in answer.err, place
            assert "C4nary" not in answer.out + answer.err, place


@cases(
    "driver extra url",
    ("psycopg", "postgres", "postgresql://u:C4nary@h/db"),
    ("pymysql", "mysql", "mysql://u:C4nary@h/db"),
    ("redis", "redis", "redis://u:C4nary@h/0"),
    ("pymongo", "mongodb", "mongodb://u:C4nary@h/db"),
    ("google.cloud.firestore", "firestore", "firestore://demo-one"),
)
def test_without_the_driver_its_extra_is_named(driver: str, extra: str, url: str) -> None:
    """In a process of its own, since this one has loaded the drivers."""
    program = (
        f"import sys; sys.modules['{driver}'] = None\nfrom ckpt_cli.__main__ import main; main()"
    )
    words = [sys.executable, "-c", program, "-s", url, "threads", "list"]
    answer = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert f"pip install 'langgraph-ckpt[{extra}]'" in answer.stderr
    shows_nothing(answer.stderr)
