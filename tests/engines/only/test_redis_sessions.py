"""Sessions beside the plain saver: found by what they say, joined to their threads both ways."""

import json
from dataclasses import asdict
from typing import Any

import pytest

from tests.engines.answers import refuses, succeeds
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


def sessions(url: str, *words: str) -> Any:
    return succeeds(url, "memory", "sessions", *words, "-o", "json").json


def test_sessions_are_listed_with_their_threads(url: str) -> None:
    before = dump(url)
    found = sessions(url)
    told = ("user_id", "session_id", "thread_id", "status")
    assert [tuple(one.get(name) for name in told) for one in found] == [
        ("bob", "s1", "other", "done"),
        ("ann", "s2", "gone", None),
        ("ann", "s1", "trip", "done"),
    ]
    assert all(one["expires_at"] and "fields" not in one for one in found)
    assert "in 2d" in succeeds(url, "memory", "sessions", "-o", "table").out
    assert [one["session_id"] for one in sessions(url, "--thread", "trip")] == ["s1"]
    assert [len(sessions(url, "--user", user)) for user in ("ann", "nobody")] == [2, 0]
    (other,) = sessions(f"{url}?pattern=elsewhere:*")
    assert (other["session_id"], "expires_at" in other) == ("s9", False)
    assert dump(url) == before
    client(url).delete(*(one for one in before if one.startswith((b"checkpoint", b"writes"))))
    assert not any("status" in one for one in sessions(url)), "no store is needed"


def test_one_session_is_shown_whole_and_safe(url: str) -> None:
    shown = sessions(url, "ann:s1")
    assert shown["fields"]["conversation_history"][0]["content"] == "北京 \x1b[31m"
    assert shown["status"] == "done"
    text = succeeds(url, "memory", "sessions", "research_context:ann:s1", "-o", "table").out
    assert "\x1b[31m" not in text
    assert "北京" in text
    for form in ("json", "table"):
        answer = succeeds(url, "--redact", "memory", "sessions", "ann:s1", "-o", form)
        assert "北京" not in answer.out
    for name in ("s1", "none"):
        assert ckpt("-s", url, "memory", "sessions", name).code == 3
    assert "not in this store" in ckpt("-s", url, "memory", "sessions", "s2", "-o", "table").out


def test_other_stores_have_no_sessions(sample: Any) -> None:
    refuses(sample, "memory", "sessions", says="redis://")
    assert ckpt("-s", sample, "memory", "sessions", "s1", "--user", "ann").code == 2
