"""Sessions beside the plain saver: found by what they say, joined to their threads both ways."""

import json
from dataclasses import asdict
from typing import Any

import pytest
import redis

from tests.kit.command import ckpt
from tests.kit.savers.redis import dump
from tests.kit.savers.redis_threads import fill_plain
from tests.kit.savers.sessions import ContextState, save


@pytest.fixture
def url(redis_url: str) -> str:
    """Two threads, three sessions, and keys that are none."""
    fill_plain(redis_url, "trip", "other")
    said = {"role": "user", "content": "北京 \x1b[31m", "timestamp": "now", "step": 1}
    save(redis_url, ContextState("s1", "ann", "trip", conversation_history=[said]))
    save(redis_url, ContextState("s2", "ann", "gone"))
    save(redis_url, ContextState("s1", "bob", "other"), prefix="loomi:context")
    with redis.Redis.from_url(redis_url) as client:
        client.set("my_context:a:b", "not json")
        client.set("my_context:a:c", '{"session_id": "x"}')
        client.hset("my_context:a:d", "session_id", "x")
        client.set("elsewhere:ann:s9", json.dumps(asdict(ContextState("s9", "ann", "trip"))))
    return redis_url


def sessions(url: str, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ckpt("-s", url, "memory", "sessions", *words, "-o", "json").json
    return found


def test_sessions_are_listed_with_their_threads(url: str) -> None:
    found = sessions(url)
    assert [(one["user_id"], one["session_id"], one["thread_id"]) for one in found] == [
        ("bob", "s1", "other"),
        ("ann", "s2", "gone"),
        ("ann", "s1", "trip"),
    ]
    assert [one.get("status") for one in found] == ["done", None, "done"]
    assert all(one["expires_at"] for one in found)
    assert all("fields" not in one for one in found)
    assert "in 2d" in ckpt("-s", url, "memory", "sessions", "-o", "table").out


def test_the_sessions_of_a_thread_or_a_user(url: str) -> None:
    assert [one["session_id"] for one in sessions(url, "--thread", "trip")] == ["s1"]
    assert len(sessions(url, "--user", "ann")) == 2
    assert sessions(url, "--user", "nobody") == []


def test_keys_of_another_form_are_named_in_the_url(url: str) -> None:
    found = sessions(f"{url}?pattern=elsewhere:*")
    assert [one["session_id"] for one in found] == ["s9"]
    assert "expires_at" not in found[0]


def test_one_session_is_shown_whole_and_safe(url: str) -> None:
    shown = ckpt("-s", url, "memory", "sessions", "ann:s1", "-o", "json").json
    assert shown["fields"]["conversation_history"][0]["content"] == "北京 \x1b[31m"
    assert shown["status"] == "done"
    text = ckpt("-s", url, "memory", "sessions", "research_context:ann:s1", "-o", "table").out
    assert "\x1b[31m" not in text
    assert "北京" in text
    assert ckpt("-s", url, "memory", "sessions", "s1").code == 3
    assert ckpt("-s", url, "memory", "sessions", "none").code == 3
    assert "not in this store" in ckpt("-s", url, "memory", "sessions", "s2", "-o", "table").out


def test_redacted_sessions_show_no_value(url: str) -> None:
    for form in ("json", "table"):
        answer = ckpt("-s", url, "--redact", "memory", "sessions", "ann:s1", "-o", form)
        assert answer.code == 0
        assert "C4nary" not in answer.out
        assert "北京" not in answer.out


def test_sessions_without_checkpoints_are_listed(redis_url: str) -> None:
    save(redis_url, ContextState("s1", "ann", "trip"))
    (found,) = sessions(redis_url)
    assert found["session_id"] == "s1"
    assert "status" not in found


def test_reading_sessions_changes_nothing(url: str) -> None:
    before = dump(url)
    sessions(url)
    ckpt("-s", url, "memory", "sessions", "ann:s1")
    assert dump(url) == before


def test_other_stores_have_no_sessions(sample: Any) -> None:
    answer = ckpt("-s", sample, "memory", "sessions")
    assert answer.code == 4
    assert "redis://" in answer.err
    assert ckpt("-s", sample, "memory", "sessions", "s1", "--user", "ann").code == 2


@pytest.mark.parametrize(
    ("words", "now"),
    [
        (["sessions"], "memory sessions"),
        (["sessions", "list", "--user", "ann"], "memory sessions"),
        (["sessions", "show", "s1"], "memory sessions SESSION"),
    ],
)
def test_their_old_name_leads_to_the_new_one(words: list[str], now: str) -> None:
    answer = ckpt(*words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.endswith(f"hint: use `ckpt {now}`\n")
