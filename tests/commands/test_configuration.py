"""Which store a command reads: one that is named, a profile, or the only one that is found."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg import pq

from ckpt_backends.mongodb.engine.connect import OWN_PARAMS as MONGODB
from ckpt_backends.mysql.connect import PARAMS as MYSQL
from ckpt_backends.postgres.connect import OWN_PARAMS as POSTGRES
from ckpt_backends.redis.engine.connection import PARAMS as REDIS
from ckpt_cli.config.found import parse_variables, server_named_in
from ckpt_cli.config.profiles import expand_url
from ckpt_cli.config.trust import read
from tests.kit.cases import cases
from tests.kit.command import FIXTURES, SAMPLE, ckpt
from tests.kit.hostile.standin import standin

URL = "postgresql://u:hunter2@127.0.0.1:{port}/agents"
X = "[stores.x]\nurl = 'store.db'\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which the test runs."""
    path = tmp_path / "project"
    path.mkdir()
    monkeypatch.chdir(path)
    return path


@pytest.fixture
def project(folder: Path) -> Path:
    """The same with the sample store."""
    put(folder / "store.db")
    return folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def server() -> Iterator[tuple[str, list[object]]]:
    """The URL of a server that hangs up, and who connected."""
    connections: list[object] = []
    with standin(connections.append) as port:
        yield URL.format(port=port), connections


def put(*paths: Path) -> None:
    """Make copies of the sample store, with their folders."""
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(SAMPLE, path)


def threads(*words: str | Path) -> int:
    found: int = len(ckpt(*words, "threads", "list", "-o", "json").json)
    return found


def listed(*words: str) -> str:
    """What is said on stderr about a list of threads."""
    return ckpt(*words, "threads", "list").err


# Without a name


def test_the_only_store_is_read_and_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "Thumbs.db").write_text("no database at all")
    (project / "empty.sqlite").touch()
    assert threads() == 8
    assert listed() == "note: using './store.db', the only store in this folder\n"
    assert listed("-q") == ""
    # What is printed to be pasted names it.
    assert "ckpt -s ./store.db rollback" in ckpt("show", "invoice-import").out
    monkeypatch.setenv("CKPT_STORE", "store.db")
    assert listed() == ""
    monkeypatch.setenv("CKPT_STORE", "gone.db")
    assert "(named by CKPT_STORE)" in listed()


def test_only_this_folder_is_searched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(folder / "below" / "a.db")
    assert listed().startswith("ckpt: no store given\n")
    monkeypatch.chdir(folder / "below")
    put(folder / "a.db")
    ckpt("threads", "list", code=0)
    os.rename(folder / "below" / "a.db", folder / "elsewhere")
    (folder / "below" / "link.db").symlink_to(folder / "elsewhere")
    assert "no store given" in listed()
    monkeypatch.chdir(folder)
    (folder / "a.db").unlink()
    for number in range(21):
        (folder / f"{number}.db").touch()
    assert "21 files here may be one" in listed()
    for path in folder.glob("*.db"):
        path.unlink()
    put(folder / "a.db", folder / "b c.sqlite")
    answer = ckpt("threads", "list", code=2, says="no store given, and there are 2 here")
    assert answer.err.endswith("name one: `ckpt -s ./a.db`, `ckpt -s './b c.sqlite'`\n")
    # One that cannot be opened is not passed over.
    (folder / "b c.sqlite").write_bytes(SAMPLE.read_bytes()[:6000])
    assert "there are 2 here" in listed()
    (folder / "ckpt.toml").write_text('default = "a.db"\n')
    assert listed() == ""


@cases("inside", "data", "backend/.deer-flow/data")
def test_a_folder_below_in_which_stores_are_kept(inside: str, folder: Path, tmp_path: Path) -> None:
    put(tmp_path / "other" / "a.db")
    (folder / ".deepagents").symlink_to(tmp_path / "other")
    assert "no store given" in listed(), "a link to another folder is not followed"
    put(folder / inside / "checkpoints.sqlite")
    said = f"'./{inside}/checkpoints.sqlite', the only store in '{inside}'"
    assert (threads(), said in listed()) == (8, True)
    assert f"ckpt -s ./{inside}/checkpoints.sqlite rollback" in ckpt("show", "invoice-import").out


def test_the_folder_of_langgraph_dev_and_memory_are_found(folder: Path) -> None:
    (folder / ".langgraph_api").mkdir()
    assert "no store given" in listed()
    source = FIXTURES / "dev" / "runtime-0.36.7"
    shutil.copytree(source, folder / ".langgraph_api", dirs_exist_ok=True)
    assert threads() > 0
    assert listed() == "note: using './.langgraph_api', the only store in this folder\n"
    shutil.rmtree(folder / ".langgraph_api")
    (folder / "memory.json").write_text(json.dumps({"version": "1.0", "facts": []}))
    assert "using './memory.json'" in ckpt("memory", "list").err
    put(folder / "store.db")
    assert "using './store.db'" in listed()


@cases(
    "place whose",
    (".deepagents/.state/sessions.db", "where dcode of Deep Agents keeps its sessions"),
    (".deepagents/sessions.db", "where Deep Agents kept its sessions until 2026"),
    (".evoscientist/sessions.db", "where EvoScientist keeps its sessions"),
)
def test_where_applications_keep_stores(place: str, whose: str, folder: Path, home: Path) -> None:
    put(home / place)
    assert (threads(), listed()) == (8, f"note: using '{home / place}', {whose}\n")
    assert str(home / place) in {one["url"] for one in ckpt("stores", "-o", "json").json}
    ckpt("threads", "delete", "invoice-import", "--yes", says="what changes a store needs its name")
    put(home / ".evoscientist" / "sessions.db", home / ".deepagents" / "sessions.db")
    assert "in the usual places" in listed()


@cases(
    "words",
    *("rollback trip-to-kyoto --steps 1 --yes", "replay trip-to-kyoto --repair --yes"),
    *("rollback trip-to-kyoto --steps 1 --plan-out plan.json", "undo --yes"),
    *("threads delete trip-to-kyoto --yes", "gc --scope all --yes", "rekey --all --decrypt --yes"),
)
def test_what_changes_a_store_needs_its_name(project: Path, words: str) -> None:
    ckpt(*words.split(), code=2, says="no store given")
    assert (project / "store.db").read_bytes() == SAMPLE.read_bytes()
    assert not (project / "plan.json").exists()
    ckpt("rollback", "trip-to-kyoto", "~1", "--dry-run", code=0)


# A server that a file of an application names


def test_only_a_trusted_file_names_a_server(folder: Path, server: tuple[str, list[object]]) -> None:
    url, connections = server
    file = folder / ".env"
    file.write_text(f"OPENAI_API_KEY=sk-1\nDATABASE_URI='{url}'\n")
    answer = ckpt("threads", "list")
    assert (answer.code, connections) == (2, [])
    assert answer.err == (
        "ckpt: no store given; '.env' is not trusted and names a server\n"
        "hint: read the file, then run `ckpt trust .env`; or use -s URL\n"
    )
    trusted = ckpt("trust", "--yes", ".env", "-o", "json")
    assert trusted.json["default"] == url.replace("hunter2", "***")
    assert (trusted.json["profiles"][0]["variables"], connections) == (["DATABASE_URI"], [])
    answer = ckpt("threads", "list")
    assert (answer.code, connections != []) == (4, True)
    assert "using the server of DATABASE_URI in '.env' (postgresql://u:***@" in answer.err
    assert "hunter2" not in trusted.out + trusted.err + answer.err


@cases(
    "files variables key",
    ({}, "POSTGRES_URI=postgres://h/db", "POSTGRES_URI"),
    ({"env": "prod.env"}, "DATABASE_URI=redis://h/1", None),
    ({"env": {"POSTGRES_URI_CUSTOM": "postgres://h/db"}}, "", "POSTGRES_URI_CUSTOM"),
    ({"checkpointer": {"backend": "mongo"}}, "MONGODB_URI=mongodb://h/db", "MONGODB_URI"),
    ({"checkpointer": {"backend": "mongo"}}, "DATABASE_URI=postgres://h/db", None),
    ({"checkpointer": {"backend": "mongo", "uri": "mongodb://h/db"}}, "", "checkpointer.uri"),
    ({}, "LS_DEFAULT_CHECKPOINTER_BACKEND=mongo\nLS_MONGODB_URI=mongodb://h/db", "LS_MONGODB_URI"),
    # It names code, which is not run, so where the checkpoints are is not known.
    ({"checkpointer": {"path": "./own.py:saver"}}, "DATABASE_URI=postgres://h/db", None),
    # A broker that holds no checkpoints; a file; an URL in pieces.
    ({}, "REDIS_URI=redis://h/0", None),
    ({}, "DATABASE_URI=sqlite:///agent.db", None),
    ({}, "DATABASE_URI=postgres://${HOST}/db", None),
    ({"env": "../.env"}, "", None),
    ([], "", None),
)
def test_which_server_the_files_of_an_application_name(
    folder: Path, files: object, variables: str, key: str | None
) -> None:
    (folder.parent / ".env").write_text("DATABASE_URI=postgres://h/db")
    if files != {}:
        (folder / "langgraph.json").write_text(json.dumps(files))
    if variables:
        (folder / ".env").write_text(variables)
    found = server_named_in(folder)
    assert (None if found is None else found.key) == key


def test_hostile_files_name_nothing(folder: Path) -> None:
    variables = b"A=" + b'"\\' * 200_000 + b"\nDATABASE_URI=" + b"=" * 200_000
    for name, text in (
        ("langgraph.json", b"[" * 200_000),
        ("langgraph.json", b"\xff\xfe"),
        ("langgraph.json", b'{"env": "\\u0000"}'),
        ("langgraph.json", b'{"env": {"DATABASE_URI": []}}'),
        (".env", variables),
    ):
        (folder / name).write_bytes(text)
        assert server_named_in(folder) is None
        (folder / name).unlink()
    os.mkfifo(folder / ".env")
    assert server_named_in(folder) is None


def test_lines_of_variables(folder: Path) -> None:
    path = folder / ".env"
    path.write_text("# A=0\nexport A = 1 # one\nB='two # 2'\nC=\"three\"\nD=four#4\n E=\nF\nA=5\n")
    assert parse_variables(read(path)) == {
        "A": "5", "B": "two # 2", "C": "three", "D": "four#4", "E": "",
    }  # fmt: skip


# Profiles


@pytest.mark.parametrize("name", ["ckpt.toml", "pyproject.toml"])
def test_a_profile(project: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    prefix, head = ("", "") if name == "ckpt.toml" else ("tool.ckpt.", "[tool.ckpt]\n")
    (project / name).write_text(
        f'{head}default = "here"\n[{prefix}stores.here]\nurl = "store.db"\n'
        f'[{prefix}stores.there]\nurl = "${{AGENTS}}/store.db"\n'
    )
    assert threads() == threads("-s", "here") == 8
    assert threads("--config", name, "-s", "here") == 8
    assert (ckpt("trust", "--yes").code, ckpt("-s", "there", "threads", "list").code) == (0, 2)
    monkeypatch.setenv("AGENTS", str(project))
    assert threads("-s", "there") == 8
    if name == "ckpt.toml":
        (project / "pyproject.toml").write_text("= broken")  # that of others is passed over
    below = project / "deep" / "er"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert threads() == 8


UNKNOWN = "unknown key 'retentoin' in profile 'x' in 'ckpt.toml'\nhint: did you mean 'retention'?"


@cases(
    "text says",
    ("[stores.x]\n", "profile 'x' in 'ckpt.toml' has no url"),
    ("stores = 1\n", "a table [stores.NAME]"),
    ("retentoin = '90d'\n", "did you mean 'retention'? it belongs in a table [stores.NAME]"),
    ("colour = 1\n", "unknown key 'colour' in 'ckpt.toml'\nhint: known: default, filters, "),
    (X + "retentoin = '90d'\n", UNKNOWN),
    (X + "retention = 90\n", "retention is not text in profile 'x'"),
    (X + "[stores.x.reducers]\nnotes = 1\n", "reducers are not a table of names"),
    (X + "[stores.x.reducers]\nnotes = 'apend'\n", "did you mean 'append'?"),
    ("default = 'x'\n" + X + "colour = 1\n", "unknown parameter 'colour' of a SQLite store"),
    ("filters = 1\n", "filters are not a table of texts in 'ckpt.toml'"),
    (X + "filters.a = 1\n", "write [stores.x.filters] and stuck ="),
    ("[filters]\n'a b' = 'idle > 1h'\n", "cannot name a filter 'a b' in 'ckpt.toml'"),
    (X + "[stores.x.erase]\nwho = 'a'\n", "erase is not a table with the keys"),
    (X + "[stores.x.erase]\nsubject = 1\n", "erase.subject is not text"),
    (X + "[stores.x.erase]\narchives = 'a'\n", "erase.archives is not a list of folders"),
    (X + "doctor.ignore = ['log-lagre']\n", "did you mean 'log-large'?"),
    (X + "doctor.ignore = 'log-large'\n", "doctor.ignore is not a list of codes"),
    (X + "secrets.ignored = ['jwt']\n", "secrets is not a table with the key 'ignore'"),
    ("= broken", "cannot read"),
)
def test_a_broken_profile_says_what_is_wrong(project: Path, text: str, says: str) -> None:
    (project / "ckpt.toml").write_text(text)
    ckpt("trust", "--yes")
    answer = ckpt("threads", "list")
    assert (answer.code, says in answer.err.replace(f"{project}/", "")) == (2, True), answer.err


def test_the_hints_of_a_profile_and_all_parameters_of_its_url(project: Path) -> None:
    libpq = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    names = libpq.union(MONGODB, MYSQL, POSTGRES, REDIS, ["replicaSet", "tlsCAFile"])
    lines = [f"{name} = 'value'\n" for name in sorted(names)]
    (project / "ckpt.toml").write_text(X + "".join(lines))
    ckpt("trust", "--yes")
    assert threads("-s", "store.db") == 8
    ckpt("stores", code=0)
    # The hints of a profile are about its name and its server.
    (project / "ckpt.toml").write_text('[stores.key]\nurl = "postgresql://u@127.0.0.1:1/db"\n')
    assert "did you mean the profile 'key'?" in listed("-s", "kye")
    (project / "other.toml").write_text("default = 'prdo'\n[stores.prod]\nurl = 'store.db'\n")
    assert "did you mean the profile 'prod'?" in listed("--config", "other.toml")


def test_what_a_variable_puts_into_a_url_is_quoted() -> None:
    environment = {"PW": "a@b/c?d:%41", "HOST": "db"}
    found = expand_url("postgresql://me:${PW}@${HOST}/agents", environment)
    assert found == "postgresql://me:a%40b%2Fc%3Fd%3A%2541@db/agents"
    assert expand_url("${HOST}/store.db", environment) == "db/store.db"


@cases(
    "name",
    "host=127.0.0.1 password=hunter2 dbname=x",
    "postgres:/u:hunter2@h/db",
    " postgresql://u:hunter2@h/db",
    "redis:hunter2@h",
)
def test_what_is_almost_a_url_is_refused_without_its_secrets(project: Path, name: str) -> None:
    (project / "ckpt.toml").write_text(f'[stores.x]\nurl = "{name}"\n')
    for store in (name, "x"):
        answer = ckpt("-s", store, "threads", "list", code=2, says="://USER@HOST")
        assert "hunter2" not in answer.err
    answer = ckpt("stores")
    assert "hunter2" not in answer.out + answer.err


# A name that is both a profile and a file


@pytest.fixture
def prod(folder: Path) -> Path:
    """A folder with a trusted profile `prod`, which is a store of eight threads."""
    put(folder / "real.db")
    (folder / "ckpt.toml").write_text(
        'default = "prod"\n[stores.prod]\nurl = "real.db"\nretention = "1m"\n'
        '[stores.other]\nurl = "real.db"\nmemory = "prod"\n'
    )
    ckpt("trust", "--yes", code=0)
    return folder


def test_a_file_named_as_a_profile_is_refused(prod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(prod / "prod")
    both = "cannot tell which store 'prod' is"
    for words in (
        ["-s", "prod", "threads", "list"],
        ["-s", "prod", "purge", "--expired", "--yes"],
        ["-s", "prod", "stores"],
        ["-s", "real.db", "show", "trip-to-kyoto", "--memory", "prod"],
    ):
        answer = ckpt(*words, code=2, says=both)
        assert "hint: `-s ./prod` is the file" in answer.err
    # The file has no retention of the profile.
    ckpt("-s", "./prod", "purge", "--expired", "--yes", code=2, says="--expired needs to know")
    assert (prod / "prod").read_bytes() == SAMPLE.read_bytes()
    assert threads("-s", "./prod") == 8
    # In another folder, there is no such file.
    (prod / "deep").mkdir()
    with monkeypatch.context() as patched:
        patched.chdir(prod / "deep")
        assert threads("-s", "prod") == 8
    # A name in the configuration is its profile.
    (prod / "prod").write_text("not a database, and not meant")
    assert threads() == 8
    answer = ckpt("-s", "other", "show", "trip-to-kyoto")
    assert f"no long-term memory in '{prod}/real.db'" in answer.err
    found = {one["name"]: one for one in ckpt("stores", "-o", "json").json}
    assert found["prod"]["layout"] == "sqlite"
    assert ckpt("purge", "--expired", "--yes", "-o", "json").json["threads"] != []
    # A folder is meant if it is a store, and a link to nothing is a file.
    (prod / "prod").unlink()
    (prod / "prod").mkdir()
    ckpt("-s", "prod", "threads", "list", code=0)
    (prod / "prod" / ".langgraph_api").mkdir()
    assert both in listed("-s", "prod")
    shutil.rmtree(prod / "prod")
    os.symlink("gone.db", prod / "prod")
    assert both in listed("-s", "prod")
