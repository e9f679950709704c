"""Whose a thread is: found in its metadata, told, inherited, and asked for everywhere."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import interrupt

import ckpt_cli
from tests.kit.agents.small import Log, chain, running
from tests.kit.command import ckpt

ASKING = chain(Log, {"ask": lambda _: {"log": [interrupt("sure?")]}})
FAILING = chain(Log, {"charge": lambda _: {"log": [str(1 / 0)]}})
DONE = chain(Log, {"act": lambda _: {"log": ["acted"]}})


OTHERS = {"moved", "alone"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Threads of anna, ben and 42; anna's second one was resumed without its metadata."""
    path = tmp_path_factory.mktemp("users") / "store.db"
    for graph, thread, metadata in (
        (DONE, "a1", {"user_id": "anna", "tenant": "acme"}),
        (DONE, "a2", {"user_id": "anna", "tenant": "acme"}),
        (DONE, "a2", {}),
        (ASKING, "a3", {"user_id": "anna"}),
        (FAILING, "b1", {"user_id": "ben", "tenant": "acme"}),
        (FAILING, "n1", {"user_id": 42, "tenant": "other"}),
        (DONE, "moved", {"user_id": "anna"}),
        (DONE, "moved", {"user_id": "ben"}),
        (DONE, "alone", {}),
    ):
        config: Any = {"configurable": {"thread_id": thread}, "metadata": metadata}
        with running(path, graph) as agent, suppress(ZeroDivisionError):
            agent.invoke({"log": ["go"]}, config)
    return path


def found(store: Path, *words: str) -> Any:
    return ckpt("-s", store, *words, "-o", "json").json


def ids(store: Path, *words: str) -> set[str]:
    return {one["thread_id"] for one in found(store, *words)}


def test_lists_name_the_user_and_its_place_is_told_in_a_profile(
    store: Path, tmp_path: Path
) -> None:
    listed = {one["thread_id"]: one.get("user") for one in found(store, "threads", "list")}
    anna = dict.fromkeys(("a1", "a2", "a3"), "anna")
    assert listed == {**anna, "b1": "ben", "n1": "42", "moved": "ben", "alone": None}
    assert "USER" in ckpt("-s", store, "threads", "list", "-o", "table").out
    assert [one["user"] for one in found(store, "interrupts")] == ["anna"]
    assert {one["user"] for one in found(store, "errors")} == {"ben", "42"}
    assert found(store, "show", "a1")["user"] == "anna"
    assert "user anna · " in ckpt("-s", store, "report", "a1").out
    for words in (["threads", "list"], ["errors"], ["interrupts"], ["show", "a1"]):
        said = ckpt("-s", store, "--redact", *words, "-o", "json").out
        assert ("anna" in said, '"ben"' in said) == (False, False)
    # A list of threads without users does not hide those of others.
    with ckpt_cli.open(str(store)) as opened:
        assert len(list(opened.listed(match="alone"))) == 1
        assert [one["user"] for one in opened.interrupts()] == ["anna"]

    # The place of users is told in a profile and shown.
    def stores(*words: str) -> tuple[str | None, str | None]:
        (one,) = ckpt(*words, "stores", "-o", "json").json
        return one.get("user_key"), one.get("user_key_why")

    assert stores("-s", str(store)) == ("metadata.user_id", "5 of 7 heads have it")
    config = tmp_path / "ckpt.toml"
    config.write_text(f'[stores.prod]\nurl = "{store}"\nuser = "metadata.tenant"\n')
    prod = ("--config", str(config), "-s", "prod")
    assert stores(*prod) == ("metadata.tenant", "told in the configuration")
    listed = ckpt(*prod, "threads", "list", "--user", "other", "-o", "json").json
    assert [one["thread_id"] for one in listed] == ["n1"]
    refused = ckpt("-s", store, "threads", "list", "--user-key", "tenant")
    assert (refused.code, "write metadata.KEY or values.CHANNEL" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "threads"),
    [
        (["list", "--user", "anna"], {"a1", "a2", "a3"}),
        (["list", "--where", "user != anna"], {"b1", "n1", "moved", "alone"}),
        (["list", "--where", "user = null"], {"alone"}),
        (["list", "--where", "metadata.tenant = acme"], {"a1", "a2", "b1"}),
        (["list", "--where", "any.metadata.user_id = anna"], {"a1", "a2", "a3", "moved"}),
        (["list", "--user", "acme", "--user-key", "metadata.tenant"], {"a1", "a2", "b1"}),
        (["list", "--user", "acted", "--user-key", "values.log[-1]"], {"a1", "a2"} | OTHERS),
        (["interrupts", "--user", "anna"], {"a3"}),
        (["errors", "--user", "ben"], {"b1"}),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)  # fmt: skip
def test_threads_are_chosen_by_their_user(store: Path, words: list[str], threads: set[str]) -> None:
    begin = ["threads"] if words[0] == "list" else []
    assert ids(store, *begin, *words) == threads


def test_what_happened_is_counted_by_user_and_by_any_key(store: Path) -> None:
    def counted(by: str) -> list[tuple[str, int]]:
        key = by.partition(".")[0]
        return [(one[key], one["failures"]) for one in found(store, "errors", "--by", by)]

    assert counted("user") == [("42", 1), ("ben", 1)]
    assert counted("metadata.tenant") == [("acme", 1), ("other", 1)]
    assert counted("metadata.nothing") == [("(none)", 2)]
    refused = ckpt("-s", store, "errors", "--by", "tenant")
    assert (refused.code, "error, node, user, metadata.KEY" in refused.err) == (2, True)
    by_user = found(store, "stats", "--by", "user")["by"]
    assert {one["user"] for one in by_user} == {"anna", "ben", "42", None}
    text = ckpt("-s", store, "metrics", "--by-user").out
    assert 'ckpt_open_questions_by_user{store="' in text
    assert ',user="anna"} 1' in text
    assert found(store, "metrics", "--by-user")["failed_by_user"] == {"ben": 1, "42": 1}
    assert "failed_by_user" not in found(store, "metrics")
    assert "by_user" not in ckpt("-s", store, "metrics").out
