"""Passwords, URLs and networks of PostgreSQL: what an error says, and what none may show."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Callable, Iterator
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

from ckpt_backends.errors import StoreUnavailable, UsageError
from ckpt_backends.registry import open_store
from tests.kit.agents.steps import fill, with_user
from tests.kit.command import ckpt
from tests.kit.servers import ASKED_FOR_PASSWORD, Server, free_port

CANARY = "C4nary/@:?#&=%+ é"
QUOTED = quote(CANARY, safe="")


def _shows_nothing(text: str) -> None:
    for form in (CANARY, QUOTED, "C4nary", CANARY[6:], QUOTED[6:]):
        assert form not in text


@pytest.fixture
def guarded(postgres_server: Server, filled_url: str) -> Iterator[str]:
    """A URL without its password, for a role that the server asks for one."""
    secret = sql.Literal(CANARY)
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        made = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
        admin.execute(made.format(sql.Identifier(ASKED_FOR_PASSWORD), secret))
        admin.execute(f"GRANT pg_read_all_data TO {ASKED_FOR_PASSWORD}".encode())
    yield with_user(filled_url, ASKED_FOR_PASSWORD)
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        admin.execute(f"DROP ROLE {ASKED_FOR_PASSWORD}".encode())


def test_a_password_of_odd_characters_works_in_each_place(
    guarded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = [with_user(guarded, ASKED_FOR_PASSWORD, QUOTED), f"{guarded}?password={QUOTED}"]
    for url in urls:
        answer = ckpt("-s", url, "stores", "-o", "json")
        assert answer.code == 0, answer.err
        _shows_nothing(answer.out + answer.err)
    monkeypatch.setenv("PGPASSWORD", CANARY)
    assert ckpt("-s", guarded, "threads", "list").code == 0


def test_a_wrong_password(guarded: str) -> None:
    answer = ckpt(
        "-s", with_user(guarded, ASKED_FOR_PASSWORD, QUOTED + "x"), "threads", "list", "--debug"
    )
    assert answer.code == 4
    assert "wrong user or password" in answer.err
    assert "hint: " in answer.err
    _shows_nothing(answer.out + answer.err)


def test_no_password(guarded: str) -> None:
    answer = ckpt("-s", guarded, "threads", "list")
    assert answer.code == 4
    assert "PGPASSWORD" in answer.err


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda url: f"postgresql://u@127.0.0.1:{free_port()}/x", "connection refused"),
        (lambda url: "postgresql://u@no-such-host.invalid/x", "unknown host"),
        (lambda url: url + "_no", "no such database"),
        (lambda url: with_user(url, "nobody_here"), "no such role"),
        (lambda url: f"{url}?target_session_attrs=read-only", "target_session_attrs"),
        (lambda url: f"{url}?sslmode=require", "TLS failed"),
        (lambda url: "postgresql:///x?host=/nowhere", "no server listens"),
    ],
)
def test_a_server_that_cannot_be_had(
    filled_url: str, change: Callable[[str], str], says: str
) -> None:
    answer = ckpt("-s", change(filled_url), "threads", "list")
    assert answer.code == 4, answer.err
    assert says in answer.err
    assert len(answer.err.splitlines()) <= 2


def test_a_server_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://u@127.0.0.1:{silent.getsockname()[1]}/x?connect_timeout=2"
        answer = ckpt("-s", url, "threads", "list")
    assert answer.code == 4
    assert "does not answer" in answer.err


def test_a_server_that_goes_away_in_the_middle(postgres_url: str) -> None:
    fill(postgres_url, "trip")
    with open_store(postgres_url) as store:
        with psycopg.connect(postgres_url, autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'ckpt' AND datname = current_database()"
            )
        with pytest.raises(StoreUnavailable) as caught:
            list(store.threads())
        assert "connection" in caught.value.message
        store.close()


PLACES = [
    "postgresql://u:{}@127.0.0.1:1/db",
    "postgresql://u:{}@127.0.0.1:1/db?sslmode=disable",
    "postgresql://127.0.0.1:1/db?password={}",
    "postgresql://127.0.0.1:1/db?sslpassword={}",
    "postgresql://127.0.0.1:1/db?passfile={}",
    "postgresql://127.0.0.1:1/db?options=-csearch_path%3D{}",
    "postgresql://127.0.0.1:1/db?application_name={}",
    "postgresql://127.0.0.1:1/db?sslcert={}",
    "postgresql://127.0.0.1:1/db?keepalives={}",
    "postgresql://127.0.0.1:1/db?require_auth={}",
    "postgresql://127.0.0.1:1/db?load_balance_hosts={}",
    "postgresql://127.0.0.1:1/db?service={}",
    "postgresql://127.0.0.1:1/db?gssencmode={}",
    "postgresql://127.0.0.1:1/db?unknown={}",
    "postgresql://u:{}@[::1]:1,127.0.0.1:1/db",
    "postgresql://u:{}@",
    "postgres://u:{}@127.0.0.1:1",
]


@pytest.mark.parametrize(
    "canary",
    [
        QUOTED,
        "C4naryplain",
        "C4nary@x",
        "C4nary?x#y",
        "C4nary:5",
        "C4nary%zz",
        "C4nary/x",
        "5?C4nary",
    ],
)
def test_no_secret_of_a_url_is_shown(canary: str) -> None:
    for place in PLACES:
        for words in (["threads", "list"], ["stores", "-o", "json"], ["stores", "--debug"]):
            answer = ckpt("-s", place.format(canary), *words)
            assert answer.code in {2, 4}, answer.err
            assert "internal error" not in answer.err
            assert "C4nary" not in answer.out + answer.err


def test_an_unknown_parameter_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        open_store("postgresql://127.0.0.1:1/x?shema=a")
    assert "shema" in caught.value.message


def test_without_the_driver_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.startswith(("psycopg", "ckpt_backends.postgres")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    answer = ckpt("-s", "postgresql://u:C4nary@h/db", "threads", "list")
    assert answer.code == 2
    assert "pip install 'langgraph-ckpt[postgres]'" in answer.err
    assert not re.search("C4nary", answer.err)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("options=-cstatement_timeout%3D60sek", "a setting in `options`"),
        ("options=-cwork_mem%3DCANARYinpart", "a setting in `options`"),
        ("options=-cCANARY%3D1", "a setting in `options`"),
        ("options=--CANARY", "a setting in `options`"),
        ("sslmode=CANARY", "libpq rejects the value"),
        ("require_auth=CAN", "libpq rejects the value"),
        ("dbname=user%3Dx%20password%3DCANARY", "does not exist"),
        ("replication=database", "unknown URL parameter 'replication'"),
    ],
)
def test_a_parameter_that_is_not_taken_is_told_apart(
    filled_url: str, query: str, says: str
) -> None:
    answer = ckpt("-s", f"{filled_url}?{query}", "threads", "list")
    assert answer.code in {2, 4}
    assert says in answer.err or "no such database" in answer.err
    assert "CAN" not in answer.err


def test_the_encoding_of_a_url_does_not_matter(filled_url: str) -> None:
    answer = ckpt("-s", f"{filled_url}?client_encoding=latin1", "threads", "list")
    assert answer.code == 0, answer.err
