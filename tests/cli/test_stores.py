"""Naming stores: by path, by profile, by environment; and `stores`, `demo`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckpt_cli.config.profiles import expand_url
from tests.kit.command import SAMPLE, ckpt

X = "[stores.x]\nurl = 'store.db'\n"
MONGODB_OPTIONS = (
    *("appName", "authMechanism", "authSource", "directConnection", "maxPoolSize", "replicaSet"),
    *("readConcernLevel", "readPreference", "retryReads", "retryWrites", "tls", "tlsCAFile"),
    *("serverSelectionTimeoutMS", "socketTimeoutMS", "connectTimeoutMS", "loadBalanced"),
)


@pytest.fixture
def project(sample: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the sample store, in which the test runs."""
    monkeypatch.chdir(sample.parent)
    return sample.parent


def threads(*words: str | Path) -> int:
    found: int = len(ckpt(*words, "threads", "list", "-o", "json").json)
    return found


@pytest.mark.parametrize("name", ["ckpt.toml", "pyproject.toml"])
def test_a_profile(project: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    prefix = "" if name == "ckpt.toml" else "tool.ckpt."
    head = "" if name == "ckpt.toml" else "[tool.ckpt]\n"
    (project / name).write_text(
        f'{head}default = "here"\n[{prefix}stores.here]\nurl = "store.db"\n'
        f'[{prefix}stores.there]\nurl = "${{AGENTS}}/store.db"\n'
    )
    assert threads() == 8
    assert threads("-s", "here") == 8
    assert ckpt("trust", "--yes").code == 0
    assert ckpt("-s", "there", "threads", "list").code == 2
    monkeypatch.setenv("AGENTS", str(project))
    assert threads("-s", "there") == 8
    below = project / "deep" / "er"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert threads() == 8


def test_a_profile_of_another_file(project: Path) -> None:
    (project / "other.toml").write_text('[stores.x]\nurl = "store.db"\n')
    assert threads("--config", "other.toml", "-s", "x") == 8


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[stores.x]\n", "profile 'x' in 'ckpt.toml' has no url"),
        ("stores = 1\n", "a table [stores.NAME]"),
        (
            "[store.x]\nurl = 'a'\n",
            "unknown key 'store' in 'ckpt.toml'\nhint: did you mean 'stores'?",
        ),
        ("retentoin = '90d'\n", "did you mean 'retention'? it belongs in a table [stores.NAME]"),
        ("colour = 1\n", "unknown key 'colour' in 'ckpt.toml'\nhint: known: default, filters, "),
        (X + "retentoin = '90d'\n", "unknown key 'retentoin' in profile 'x' in 'ckpt.toml'"),
        (X + "retentoin = '90d'\n", "hint: did you mean 'retention'?"),
        (X + "retention = 90\n", "retention is not text in profile 'x'"),
        (X + "[stores.x.reducer]\nnotes = 'append'\n", "did you mean 'reducers'?"),
        (X + "[stores.x.reducers]\nnotes = 1\n", "reducers are not a table of names"),
        (X + "[stores.x.reducers]\nnotes = 'apend'\n", "unknown reducer 'apend'"),
        (X + "[stores.x.reducers]\nnotes = 'apend'\n", "did you mean 'append'?"),
        (X + "[stores.x.tables]\n", "unknown key 'tables' in profile 'x'"),
        ("default = 'x'\n" + X + "colour = 1\n", "unknown parameter 'colour' of a SQLite store"),
        ("default = 'x'\n" + X + "colour = 1\n", "(profile 'x' in ckpt.toml)"),
        ("filters = 1\n", "filters are not a table of texts in 'ckpt.toml'"),
        (X + "filters.a = 1\n", "write [stores.x.filters] and stuck ="),
        ("[filters]\n'a b' = 'idle > 1h'\n", "cannot name a filter 'a b' in 'ckpt.toml'"),
        ("filter = 1\n", "hint: did you mean 'filters'?"),
        ("= broken", "cannot read"),
    ],
)
def test_a_broken_profile_says_what_is_wrong(project: Path, text: str, says: str) -> None:
    (project / "ckpt.toml").write_text(text)
    ckpt("trust", "--yes")
    answer = ckpt("threads", "list")
    assert answer.code == 2
    assert says in answer.err.replace(f"{project}/", "")


def test_a_profile_takes_every_parameter_of_its_url(project: Path) -> None:
    from psycopg import pq

    from ckpt_backends.mongodb.engine.connect import OWN_PARAMS as MONGODB
    from ckpt_backends.mysql.connect import PARAMS as MYSQL
    from ckpt_backends.postgres.connect import OWN_PARAMS as POSTGRES
    from ckpt_backends.redis.engine.connection import PARAMS as REDIS

    libpq = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    names = libpq.union(MONGODB, MYSQL, POSTGRES, REDIS, MONGODB_OPTIONS)
    lines = [f"{name} = 'value'\n" for name in sorted(names)]
    (project / "ckpt.toml").write_text(X + "".join(lines))
    ckpt("trust", "--yes")
    assert threads("-s", "store.db") == 8
    assert ckpt("stores").code == 0


@pytest.mark.parametrize(
    "url",
    [
        *("sqlite:///store.db", "postgresql://u@127.0.0.1:1/db", "mysql://u@127.0.0.1:1/db"),
        *("redis://127.0.0.1:1/0", "mongodb://127.0.0.1:1/db"),
    ],
)
def test_an_unknown_parameter_of_a_url_is_refused(project: Path, url: str) -> None:
    answer = ckpt("-s", f"{url}?colour=1", "threads", "list")
    assert answer.code == 2
    assert "colour" in answer.err
    assert "\nhint: known: " in answer.err


def test_a_default_that_is_no_profile_is_guessed(project: Path) -> None:
    (project / "ckpt.toml").write_text("default = 'prdo'\n[stores.prod]\nurl = 'store.db'\n")
    assert "did you mean the profile 'prod'?" in ckpt("threads", "list").err


def test_a_server_cannot_be_copied(project: Path) -> None:
    answer = ckpt("-s", "postgresql://u@127.0.0.1:1/db", "--copy", "threads", "list")
    assert answer.code == 2
    assert answer.err.startswith("ckpt: --copy reads SQLite files only, not postgresql://")


def test_a_project_file_of_others_is_passed_over(project: Path) -> None:
    (project / "pyproject.toml").write_text("= broken")
    assert threads() == threads("-s", "store.db") == 8


def test_a_mistyped_profile_is_guessed(project: Path) -> None:
    (project / "ckpt.toml").write_text('[stores.production]\nurl = "store.db"\n')
    assert (
        "did you mean the profile 'production'?" in ckpt("-s", "prodction", "threads", "list").err
    )


def test_the_hint_of_a_profile_is_about_its_server(project: Path) -> None:
    (project / "ckpt.toml").write_text('[stores.key]\nurl = "postgresql://u@127.0.0.1:1/db"\n')
    ckpt("trust", "--yes")
    answer = ckpt("-s", "key", "threads", "list")
    assert answer.code == 4
    assert "check that the server is running" in answer.err


def test_what_a_variable_puts_into_a_url_is_quoted() -> None:
    environment = {"PW": "a@b/c?d:%41", "HOST": "db"}
    found = expand_url("postgresql://me:${PW}@${HOST}/agents", environment)
    assert found == "postgresql://me:a%40b%2Fc%3Fd%3A%2541@db/agents"
    assert expand_url("${HOST}/store.db", environment) == "db/store.db"


@pytest.mark.parametrize(
    "name",
    [
        "host=127.0.0.1 password=hunter2 dbname=x",
        "dbname = x password = 'hunter2'",
        "postgres:/u:hunter2@h/db",
        "postgresql:u:hunter2@h/db",
        " postgresql://u:hunter2@h/db",
        "redis:hunter2@h",
    ],
)
def test_what_is_almost_a_url_is_refused_without_its_secrets(project: Path, name: str) -> None:
    (project / "ckpt.toml").write_text(f'[stores.x]\nurl = "{name}"\n')
    for words in (["-s", name, "threads", "list"], ["-s", "x", "threads", "list"], ["stores"]):
        answer = ckpt(*words)
        assert "hunter2" not in answer.out + answer.err
        assert words == ["stores"] or answer.code == 2
        assert words == ["stores"] or "://USER@HOST" in answer.err


def test_an_error_says_who_named_the_store(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CKPT_STORE", "gone.db")
    assert "(named by CKPT_STORE)" in ckpt("threads", "list").err


def test_stores_lists_profiles_and_this_folders_files(project: Path) -> None:
    (project / "ckpt.toml").write_text(
        '[stores.gone]\nurl = "gone.db"\n[stores.secret]\nurl = "pg://u:hunter2@h/db"\n'
        '[stores.unset]\nurl = "${UNSET_VARIABLE}"\n'
    )
    (project / "notes.db").write_bytes(b"")
    ckpt("trust", "--yes")
    answer = ckpt("stores", "-o", "json")
    found = {one["name"]: one for one in answer.json}
    assert set(found) == {"gone", "secret", "unset", "store.db"}
    assert found["store.db"]["layout"] == "sqlite"
    assert "no such file" in found["gone"]["error"]
    assert "UNSET_VARIABLE" in found["unset"]["error"]
    assert "hunter2" not in answer.out + answer.err


def test_demo_writes_the_sample_store(tmp_path: Path) -> None:
    target = tmp_path / "sample.db"
    answer = ckpt("demo", target)
    assert answer.code == 0
    assert answer.out == ""
    assert f"ckpt -s {target} threads list" in answer.err
    assert target.read_bytes() == SAMPLE.read_bytes()
    assert threads("-s", target) == 8


def test_what_holds_memory_alone_is_a_store_too(project: Path) -> None:
    from langgraph.store.sqlite import SqliteStore

    with SqliteStore.from_conn_string("memory.db") as store:
        store.setup()
        store.put(("users",), "k", {"a": 1})
    (project / "memory.json").write_text('{"version": "1.0", "facts": []}')
    found = {one["name"]: one.get("layout") for one in ckpt("stores", "-o", "json").json}
    kinds = {"memory.db": "sqlite-store", "memory.json": "deerflow", "store.db": "sqlite"}
    assert {name: found.get(name) for name in kinds} == kinds
    (named,) = ckpt("-s", "memory.db", "stores", "-o", "json").json
    assert (named["layout"], "capabilities" in named) == ("sqlite-store", False)
