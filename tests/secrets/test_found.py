"""`ckpt secrets` finds what official savers stored, says where, and never prints it."""

import json
from pathlib import Path
from typing import Any

import pytest

import ckpt_cli
from tests.kit.cases import cases
from tests.kit.command import ckpt
from tests.secrets.credentials import credentials, inside
from tests.secrets.filling import THREAD, fill

KNOWN = credentials()
BY_NAME = {
    "password": "Tr0ub4dor&3",
    "api-key": "q8Zk31mPq0LxW9aTt5",
    "secret-key": "V1StGXR8_Z5jdHi6B-myT",
    "access-token": "ya29zX81mPq0LxW9aTt5",
}
URL = "postgresql://reader:" + BY_NAME["password"].replace("&", "-") + "@db.internal:5432/agents"


def planted() -> dict[str, Any]:
    """Each kind once, in some place of the state."""
    kinds = dict(KNOWN)
    one = kinds.pop
    config: dict[str, Any] = {
        "db": {"password": BY_NAME["password"], "url": URL},
        "clientSecret": BY_NAME["secret-key"],
        "headers": [{"name": "x-api-key", "value": BY_NAME["api-key"]}],
        "keys": {one("github-token"): "in a key"},
    }
    places = {
        "config": config,
        "input": f"my key is {one('openai-key')}, keep it",
        "answer": f"Use `{one('anthropic-key')}`.",
        "args": {"auth": {"access_token": BY_NAME["access-token"]}, "jwt": one("jwt")},
        "result": json.dumps({"pem": one("private-key"), "hook": one("slack-webhook")}),
        "line": f"AWS: {one('aws-access-key')} (us-east-1)",
        "blob": b"\x00\xff" + one("stripe-key").encode() + b"\x00",
        "question": [one("telegram-token")],
        "metadata": one("langsmith-key"),
        "item": {"facts": [one("sendgrid-key"), {"deep": one("azure-storage-key")}]},
    }
    config["others"] = kinds
    return places


def secret_texts() -> list[str]:
    """Texts of which none may be printed."""
    return [*(inside(kind, text) for kind, text in KNOWN.items()), *BY_NAME.values(), URL[20:31]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("secrets") / "leaky.db"
    fill(path, planted())
    return path


@pytest.fixture(scope="module")
def found(store: Path) -> list[dict[str, Any]]:
    answer = ckpt("-s", store, "secrets", "-o", "json")
    assert answer.code == 1, answer.err
    records: list[dict[str, Any]] = json.loads(answer.out)
    return records


def test_every_kind_is_found(found: list[dict[str, Any]]) -> None:
    kinds = {one["kind"] for one in found}
    assert len(kinds) > 30
    assert kinds == {*KNOWN, *BY_NAME, "url-password"}


@cases(
    "place path kind",
    ("value", "config.db.password", "password"),
    ("value", "config.db.url", "url-password"),
    ("value", "config.clientSecret", "secret-key"),
    ("value", "config.headers[0].value", "api-key"),
    ("value", "config.keys", "github-token"),
    ("value", "messages[0].content", "openai-key"),
    ("value", "messages[1].content", "anthropic-key"),
    ("value", "messages[1].tool_calls[0].args.auth.access_token", "access-token"),
    ("value", "messages[1].tool_calls[0].args.jwt", "jwt"),
    ("value", "messages[2].content", "private-key"),
    ("value", "messages[2].content", "slack-webhook"),
    ("value", "log[0]", "aws-access-key"),
    ("value", "blob", "stripe-key"),
    ("write", "__interrupt__[0].value.draft[0]", "telegram-token"),
    ("write", "log[0]", "aws-access-key"),
    ("metadata", "session", "langsmith-key"),
    ("memory", "facts[0]", "sendgrid-key"),
    ("memory", "facts[1].deep", "azure-storage-key"),
)
def test_its_place_is_told(found: list[dict[str, Any]], place: str, path: str, kind: str) -> None:
    assert [one["path"] for one in found if one["place"] == place and one["kind"] == kind].count(
        path
    ) == 1


def test_a_value_that_stays_is_one_finding(found: list[dict[str, Any]], store: Path) -> None:
    history = json.loads(ckpt("-s", store, "history", THREAD, "-o", "json").out)
    (one,) = (
        one for one in found if (one["place"], one["path"]) == ("value", "messages[0].content")
    )
    assert one["checkpoint_id"] == history[0]["checkpoint_id"]
    # The first checkpoint has only the input.
    assert one["checkpoints"] == len(history) - 1


def test_a_path_can_be_pasted(found: list[dict[str, Any]], store: Path) -> None:
    for one in found:
        if one["place"] == "value":
            target = f"{THREAD}@{one['checkpoint_id']}"
            shown = ckpt("-s", store, "show", target, "--path", one["path"], "-o", "json")
            assert shown.code == 0, (one, shown.err)
            assert one["value"] == f"{target}:{one['path']}"
        elif one["place"] == "write":
            assert one["value"].split(":", 1)[1].startswith(f"write:{one['task_id']}:{one['idx']}:")


def test_memory_names_the_item(found: list[dict[str, Any]]) -> None:
    (one,) = (one for one in found if one["kind"] == "sendgrid-key")
    assert (one["namespace"], one["key"]) == (["users", "anna"], "profile")
    assert one["thread_id"] is one["value"] is one["checkpoint_id"] is None


@cases(
    "words",
    *(["-o", name] for name in ("table", "json", "ndjson", "tsv")),
    ["-v", "--debug"],
    ["--redact", "-o", "json"],
    ["--jobs", "2"],
    [THREAD, "--debug"],
    ["no-such-thread", "--debug"],
    ["--where", "values.config.db.password = x", "--debug"],
    ["--kinds"],
)
def test_no_secret_is_printed(store: Path, words: list[str]) -> None:
    answer = ckpt("-s", store, "secrets", *words)
    for text in secret_texts():
        assert text not in answer.out + answer.err


def test_several_processes_give_the_same_answer(store: Path, found: list[dict[str, Any]]) -> None:
    answer = ckpt("-s", store, "secrets", "--jobs", "2", "-o", "ndjson")
    assert [json.loads(line) for line in answer.out.splitlines()] == found


def test_python_code_gets_the_same(store: Path, found: list[dict[str, Any]]) -> None:
    with ckpt_cli.open(store) as opened:
        search = opened.secrets()
        assert [one.to_dict() for one in search] == found
        assert search.complete
        kinds = opened.secrets(THREAD, ignore=["*-key", "*-token", "*:password"])
        assert {one["kind"] for one in kinds} <= {*KNOWN, *BY_NAME, "url-password"}


def test_redacted_paths_keep_no_keys(store: Path) -> None:
    answer = ckpt("-s", store, "secrets", THREAD, "--redact", "-o", "json")
    assert "clientSecret" not in answer.out
    assert all(
        one["path"].startswith(("*", one["channel"] or "*")) for one in json.loads(answer.out)
    )
