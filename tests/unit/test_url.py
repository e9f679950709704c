"""Store URLs never show a secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.errors import UsageError
from ckpt_backends.url import parse_url


@pytest.mark.parametrize(
    ("text", "scheme", "path"),
    [
        ("agent.db", "sqlite", "agent.db"),
        ("/data/agent.db", "sqlite", "/data/agent.db"),
        ("odd?name#1.db", "sqlite", "odd?name#1.db"),
        ("sqlite:///agent.db", "sqlite", "agent.db"),
        ("sqlite:////data/agent.db", "sqlite", "/data/agent.db"),
        ("SQLite:///a%20b.db?copy=1", "sqlite", "a b.db"),
    ],
)
def test_a_url(text: str, scheme: str, path: str) -> None:
    url = parse_url(text)
    assert (url.scheme, url.path) == (scheme, path)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("pg://u:secret@h:5/db?layout=x", "pg://u:***@h:5/db?layout=x"),
        ("pg://u@h/db", "pg://u@h/db"),
        ("pg://h/db?password=secret&x=y", "pg://h/db?password=***&x=***"),
        ("pg://u:se@cret@h/db", "pg://u:***@h/db"),
    ],
)
def test_what_is_printed(text: str, shown: str) -> None:
    assert str(parse_url(text)) == shown


@given(st.text(alphabet="abc:@%&=?#!", min_size=1))
def test_a_password_is_never_printed(password: str) -> None:
    canary = f"s3cr3t{password}"
    quoted = canary.replace("?", "%3F").replace("/", "%2F")
    for text in (f"pg://user:{quoted}@host/db", f"pg://host/db?sslpassword={quoted}"):
        url = parse_url(text)
        assert "s3cr3t" not in str(url)
        assert "s3cr3t" not in repr(url)


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(UsageError):
        parse_url("")
