"""Sessions beside the plain saver: found by what they say, joined to their threads both ways."""

import json
from dataclasses import asdict
from typing import Any

import pytest

from tests.engines.answers import refuses
from tests.kit.command import ckpt
from tests.kit.savers.redis import dump
from tests.kit.savers.redis_threads import client, fill_plain
from tests.kit.savers.sessions import ContextState, save


@pytest.fixture
def url(redis_url: str) -> str:
    """Two threads, three sessions, and keys that are none."""
    fill_plain(redis_url, "trip", "other")
    said = {"role": "user", "content": "北京 \x1b[31m", "timestamp": "now", "step": 1}
    save(redis_url, ContextState("s1", "ann", "trip", conversation_history=[said]))
    save(redis_url, ContextState("s2", "ann", "gone"))
    save(redis_url, ContextState("s1", "bob", "other"), prefix="loomi:context")
    admin = client(redis_url)
    admin.set("my_context:a:b", "not json")
    admin.set("my_context:a:c", '{"session_id": "x"}')
    admin.hset("my_context:a:d", "session_id", "x")
    admin.set("elsewhere:ann:s9", json.dumps(asdict(ContextState("s9", "ann", "trip"))))
    return redis_url


def sessions(url: str, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ckpt("-s", url, "memory", "sessions", *words, "-o", "json").json
    return found


def test_sessions_are_listed_with_their_threads(url: str) -> None:
    before = dump(url)
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
    assert [one["session_id"] for one in sessions(url, "--thread", "trip")] == ["s1"]
    assert [len(sessions(url, "--user", user)) for user in ("ann", "nobody")] == [2, 0]
    (other,) = sessions(f"{url}?pattern=elsewhere:*")
    assert (other["session_id"], "expires_at" in other) == ("s9", False)
    for form in ("json", "table"):
        answer = ckpt("-s", url, "--redact", "memory", "sessions", "ann:s1", "-o", form)
        assert (answer.code, "北京" in answer.out) == (0, False)
    assert dump(url) == before
    client(url).delete(*(one for one in before if one.startswith((b"checkpoint", b"writes"))))
    assert not any("status" in one for one in sessions(url)), "no store is needed"


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


def test_other_stores_have_no_sessions(sample: Any) -> None:
    refuses(sample, "memory", "sessions", says="redis://")
    assert ckpt("-s", sample, "memory", "sessions", "s1", "--user", "ann").code == 2
