"""Store URLs never show a secret."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.errors import UsageError
from ckpt_backends.url import parse_url
from tests.kit.cases import cases


@cases(
    "text scheme path",
    ("agent.db", "sqlite", "agent.db"),
    ("/data/agent.db", "sqlite", "/data/agent.db"),
    ("odd?name#1.db", "sqlite", "odd?name#1.db"),
    ("sqlite:///agent.db", "sqlite", "agent.db"),
    ("sqlite:////data/agent.db", "sqlite", "/data/agent.db"),
    ("SQLite:///a%20b.db?copy=1", "sqlite", "a b.db"),
)
def test_a_url(text: str, scheme: str, path: str) -> None:
    url = parse_url(text)
    assert (url.scheme, url.path) == (scheme, path)


@cases(
    "text shown",
    ("pg://u:secret@h:5/db?layout=x", "pg://u:***@h:5/db?layout=x"),
    ("pg://u@h/db", "pg://u@h/db"),
    ("pg://h/db?password=secret&x=y", "pg://h/db?password=***&x=***"),
    ("pg://u:se@cret@h/db", "pg://u:***@h/db"),
    ("pg://u:pa/ss@h/db", "pg://u:***@h/db"),
    ("pg://u:p?ss@h/x", "pg://u:***@h/x"),
    ("pg://u:p#ss@h/x?layout=y", "pg://u:***@h/x?layout=y"),
    ("sqlite:///x.db?copy=1#password=secret", "sqlite:///x.db?copy=***"),
    ("sqlite:///x.db#password=secret", "sqlite:///x.db"),
)
def test_what_is_printed(text: str, shown: str) -> None:
    assert str(parse_url(text)) == shown


@given(st.text(alphabet="abc:@%&=?#!/", min_size=1))
def test_a_password_is_never_printed(password: str) -> None:
    canary = f"s3cr3t{password}"
    for text in (f"pg://user:{canary}@host/db", f"pg://host/db?sslpassword={canary}"):
        try:
            url = parse_url(text)
            shown = str(url) + repr(url)
        except UsageError as error:
            shown = str(error)
        assert "s3cr3t" not in shown


@pytest.mark.parametrize("text", ["", "a\0b", "sqlite:///a%00b", "sqlite://[::1", "sqlite:///a\0b"])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_url(text)


@cases(
    "text without shown",
    ("redis://h/0", (), "redis://h/0?prefix=app:x&write_prefix=w"),
    ("redis://h/0?db=1", (), "redis://h/0?db=***&prefix=app:x&write_prefix=w"),
    ("redis://h/0?prefix=no", (), "redis://h/0?prefix=app:x&write_prefix=w"),
    ("redis://h/0?layout=redis", ("layout",), "redis://h/0?prefix=app:x&write_prefix=w"),
    ("redis://u:p?ss@h/0?layout=a", (), "redis://u:***@h/0?layout=a&prefix=app:x&write_prefix=w"),
)
def test_parameters_are_put_into_a_url(text: str, without: tuple[str, ...], shown: str) -> None:
    params = {"prefix": "app:x", "write_prefix": "w"}
    made = parse_url(text).with_params(params, without=without)
    assert str(made) == shown
    assert parse_url(made.raw) == made
    assert made.params.items() >= params.items()


def test_a_parameter_with_any_character_survives_a_url() -> None:
    made = parse_url("redis://h/0").with_params({"prefix": "a b&c=d%{e}/?#"})
    assert parse_url(made.raw).params == {"prefix": "a b&c=d%{e}/?#"}
