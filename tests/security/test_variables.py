"""What a profile takes from the environment is never printed."""

import json
import shutil
import socket
from pathlib import Path

import pytest

from ckpt_backends.url import masked, parse_url, printable_written
from ckpt_cli.config.profiles import Profiles, store_of
from tests.kit.cases import cases
from tests.kit.command import SAMPLE, CommandResult, ckpt
from tests.kit.hostile.standin import standin

VALUES = {"WHO": "alice-kingsleigh", "WHERE": "127.0.0.1", "BASE": "wonderland-db", "PW": "h4tt3r"}

OPTIONS = {"mongodb": "?serverSelectionTimeoutMS=50"}


def write(folder: Path, lines: str) -> list[str | Path]:
    """Return the options for a profile with these lines."""
    path = folder / "profiles.toml"
    path.write_text(f"[stores.prod]\n{lines}\n")
    return ["--config", path, "-s", "prod"]


def tells(answer: CommandResult, *values: str) -> bool:
    return any(value in answer.out + answer.err for value in values)


@cases(
    "scheme whole",
    *((scheme, "") for scheme in ("postgresql", "mysql", "mongodb", "redis")),
    ("postgresql", "whole"),  # the whole URL is one variable
)
def test_no_error_tells_a_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, whole: str
) -> None:
    for name, value in VALUES.items():
        monkeypatch.setenv(name, value)

    def hang_up(client: socket.socket) -> None:
        client.close()

    with standin(hang_up) as port:
        monkeypatch.setenv("PORT", str(port))
        text = (
            f"{scheme}://${{WHO}}:${{PW}}@${{WHERE}}:${{PORT}}/${{BASE}}{OPTIONS.get(scheme, '')}"
        )
        shown = text.replace("${PW}", "***").replace("=50", "=***")
        if whole:
            values = VALUES | {"PORT": str(port)}
            for name, value in values.items():
                text = text.replace(f"${{{name}}}", value)
            monkeypatch.setenv("DATABASE_URL", text)
            text = shown = "${DATABASE_URL}"
        words = write(tmp_path, f"url = '{text}'")
        answer = ckpt(*words, "threads", "list")
        assert answer.code in {2, 4}
        assert f"'{shown}'" in answer.err
        assert not tells(answer, *VALUES.values(), str(port))
        for command in ("stores", "memory list", "memory sessions", "stores -o json"):
            assert not tells(ckpt(*words, *command.split()), *VALUES.values(), str(port))
        listed = ckpt("--config", tmp_path / "profiles.toml", "stores", "-o", "json").json
        assert [one["url"] for one in listed if one["name"] == "prod"] == [shown]
        assert not tells(ckpt("--config", tmp_path / "profiles.toml", "stores"), *VALUES.values())


def test_a_plan_is_for_the_values_that_it_was_made_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        shutil.copyfile(SAMPLE, tmp_path / name / "agent.db")
    words = write(tmp_path, "url = '${FOLDER}/agent.db'")
    plan = tmp_path / "plan.ndjson"
    monkeypatch.setenv("FOLDER", str(tmp_path / "one"))
    assert ckpt(*words, "purge", "--match", "weekly-*", "--plan-out", plan).code == 0
    assert json.loads(plan.read_text().splitlines()[0])["store"] == "${FOLDER}/agent.db"
    monkeypatch.setenv("FOLDER", str(tmp_path / "two"))
    refused = ckpt(*words, "apply", plan, "--yes")
    assert (refused.code, "other values of the environment variables" in refused.err) == (2, True)
    monkeypatch.setenv("FOLDER", str(tmp_path / "one"))
    assert ckpt(*words, "apply", plan, "--yes").code == 0
    for name, left in (("one", 7), ("two", 8)):
        store = tmp_path / name / "agent.db"
        assert len(ckpt("-s", store, "threads", "list", "-o", "json").json) == left


def test_the_folder_of_a_file_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = write(tmp_path, "url = '${FOLDER}/agent.db'")
    secret, written = tmp_path / "acme-merger", tmp_path / "written"
    monkeypatch.setenv("FOLDER", str(secret))
    for prepare in (
        lambda: None,
        secret.mkdir,
        lambda: (secret / "agent.db").write_text("no database, but long enough for a header"),
        lambda: shutil.copyfile(SAMPLE, secret / "agent.db"),
    ):
        prepare()
        for command in ("threads list", "stores", "memory list", "--copy threads list"):
            answer = ckpt(*words, *command.split())
            assert not tells(answer, "acme-merger"), command
            assert answer.code == 0 or "${FOLDER}/agent.db" in answer.err
    assert ckpt(*words, "-v", "threads", "list").err.startswith("note: ${FOLDER}/agent.db: sqlite")
    written.mkdir()
    for command in (
        f"purge --match weekly-* --plan-out {written}/plan",
        f"export trip-to-kyoto --to {written}",
        f"threads delete trip-to-kyoto --archive {written}/deleted --yes -o json",
        "stores -o json",
        "gc --scope all --dry-run",
    ):
        answer = ckpt(*words, *command.split())
        answer.ends_cleanly(0, 4)
        assert not tells(answer, "acme-merger"), command
    files = [path for path in written.rglob("*") if path.is_file()]
    assert len(files) == 3
    assert not any(b"acme-merger" in path.read_bytes() for path in files)
    monkeypatch.setenv("CKPT_STORE", "prod")
    assert not tells(ckpt(*words[:2], "fork", "weekly-digest", "--dry-run"), "acme-merger")


@cases(
    "text raw shown",
    ("postgresql://u:${PW}@${H}/db?schema=${S}", "", "postgresql://u:***@${H}/db?schema=${S}"),
    ("pg://u:${PW}@h/db?schema=${S}", "", "pg://u:***@h/db?schema=***"),
    ("pg://u:hunter2${X}@h/db", "", "pg://u:***@h/db"),
    ("${D}/agent.db", "/d/agent.db", "${D}/agent.db"),
    ("${URL}", "pg://u:p@h/db", "${URL}"),
    ("${S}://u:hunter2@h/db", "", "${S}***"),
    ("${A}hunter2${B}", "pg://u:hunter2@h/db", "${A}***${B}"),
)
def test_a_url_as_written(text: str, raw: str, shown: str) -> None:
    assert printable_written(text, raw) == shown


def test_a_scheme_from_the_environment_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "ghp16C7e42F292c")
    for url in ("${TOKEN}://u@h/db", "${TOKEN}://u@h:x:y/db"):
        words = write(tmp_path, f"url = '{url}'")
        for command in ("threads list", "memory list", "stores"):
            answer = ckpt(*words, *command.split())
            assert answer.code == 2
            assert not tells(answer, "ghp16C7e42F292c", "ghp16C7e42F292c".lower())


def test_messages_of_drivers_tell_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST", "DB.Internal.Example")
    monkeypatch.setenv("NAME", "a b")
    monkeypatch.setenv("PW", "p@ss word")
    url = store_of(Profiles(None, None, {}), "x", "postgresql://u:${PW}@${HOST}/${NAME}")
    said = 'no "db.internal.example": database "a b", password p@ss word or p%40ss%20word'
    assert masked(said, url) == 'no "${HOST}": database "${NAME}", password *** or ***'
    monkeypatch.setenv("DSN", "postgresql://u:pw1234@db.internal:5433/agents")
    url = store_of(Profiles(None, None, {}), "x", "${DSN}")
    assert masked("db.internal:5433 says: no database agents", url) == "*** says: no database ***"
    assert masked('"db.internal", port 5433', url) == '"***", port ***'
    plain = parse_url("postgresql://u:secret@db.internal/agents")
    assert masked("db.internal: secret", plain) == "db.internal: ***"
    url = store_of(Profiles(None, None, {}), "x", "mysql://u@h/db", {"ssl_key_password": "hunter2"})
    assert masked("no key: hunter2", url) == "no key: ***"


URL = "postgresql://ann:S3cret@db.example/agents"


@cases(
    "words",
    *("URL threads list", "threads list URL", "threads list --limit=URL", "threads list -nURL"),
    *("--URL", "-qoURL threads list", "-SURL threads list", "--stor=URL threads list", "trust URL"),
    *("show URL head more", "-s none.db show URL", "--config URL stores"),
    *("threads list postgresql://a:S3cret's@db/x", "threads list --where id=URL'"),
)
def test_no_error_prints_the_password_of_a_url(words: str) -> None:
    for form in ("table", "json"):
        found = ckpt("-o", form, *(word.replace("URL", URL) for word in words.split()))
        found.ends_cleanly(2, 3, 4)
        assert "S3cret" not in found.out + found.err
