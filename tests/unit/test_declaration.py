"""Backends are found by their URLs, which show no secret; those of other packages as ours."""

import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends import declaration
from ckpt_backends.declaration import NAME, Backend
from ckpt_backends.errors import UsageError
from ckpt_backends.model import Capability
from ckpt_backends.plugins import TYPES, check_declaration, field_types, missing_functions
from ckpt_backends.url import (
    fingerprint,
    masked,
    parse_url,
    printable,
    printable_written,
    without_values,
)
from tests.kit.cases import cases


def test_each_backend_is_declared_completely() -> None:
    found = declaration.bundled()
    for one in found:
        assert check_declaration(one, [other for other in found if other is not one]) == []
        assert missing_functions(one) == []
        assert one.checkpoints or not one.schemes, one.title


_GOOD = Backend(
    title="Toy",
    layouts={"toy": Capability.HISTORY},
    schemes=("toy",),
    is_local=True,
    claims_path=lambda path: path.endswith(".toy"),
    file_names=("*.toy",),
    params={"box": NAME},
    checkpoints="ckpt_toy.opening:open_store",
)


def test_a_declaration_is_checked_as_a_whole() -> None:
    assert check_declaration(_GOOD, declaration.bundled()) == []
    assert set(field_types().values()) == TYPES.keys()
    assert check_declaration({"title": "Toy"}) == ["it is of type dict, not Backend"]


def _fails(path: str) -> bool:
    raise ValueError("no\nsense")


@cases(
    "field value problem",
    ("title", " ", "title is empty"),
    ("schemes", "toy", "schemes must be a tuple of texts, such as ('toy',), not 'toy'"),
    ("schemes", ("Toy",), "scheme 'Toy' must consist of a-z, 0-9, +, . and -, without ://"),
    ("schemes", (), "schemes is empty, and so is recognise: nothing can be opened"),
    ("layouts", {"toy": "history"}, "layouts must be a dict of names to Capability values"),
    ("layouts", {"My toy": Capability.HISTORY}, "layout 'My toy' must consist of a-z, 0-9"),
    ("params", {"box": "["}, "pattern of parameter 'box' is not a valid regular expression"),
    ("checkpoints", "ckpt_toy.open", "checkpoints 'ckpt_toy.open' must have the form module:"),
    ("memory_changes", "ckpt_toy:write", "memory_changes needs memory"),
    ("params", {"a b": NAME}, "parameter 'a b' must consist of letters, digits and _"),
    ("checkpoints", "", "nothing can be opened"),
    ("engine", "redis", "engine needs recognise"),
    ("extra", "box", "extra needs driver"),
    ("driver", "duck-db", "driver 'duck-db' is not the name of a module"),
    ("is_local", "yes", "is_local must be True or False, not 'yes'"),
    ("claims_path", lambda _: True, "claims_path claims any path"),
    ("claims_path", _fails, "claims_path fails: ValueError: no sense"),
    ("claims_path", ".toy", "claims_path must be a function or None, not '.toy'"),
    ("file_names", ("*",), "file_names has '*', which is any file"),
    ("schemes", ("sqlite",), "SQLite opens sqlite://, not backend 'Toy'"),
    ("layouts", {"redis": Capability.HISTORY}, "of backend 'Toy' is already used by Redis"),
)
def test_a_wrong_field_is_named(field: str, value: object, problem: str) -> None:
    wrong = _GOOD._replace(**{field: value})  # type: ignore[arg-type]
    assert problem in "\n".join(check_declaration(wrong, declaration.bundled()))


@pytest.mark.parametrize("place", ["nosuchmodule:open", "ckpt_backends.url:nothing"])
def test_a_function_that_does_not_exist_is_named(place: str) -> None:
    (problem,) = missing_functions(_GOOD._replace(checkpoints=place))
    assert problem.startswith(f"checkpoints: '{place}' cannot be imported: ")


_WITHOUT_DRIVERS = """
import sys
from ckpt_backends.declaration import bundled, load

every = list(bundled())
for name in {"bson", *(one.driver.partition(".")[0] for one in every if one.driver)}:
    sys.modules[name] = None
for one in every:
    for place in (one.records, one.edits):
        if place:
            load(place)
"""


def test_archives_are_read_without_a_driver() -> None:
    """What rows hold is known where no driver is installed."""
    subprocess.run([sys.executable, "-c", _WITHOUT_DRIVERS], check=True)


@cases(
    "text shown",
    ("pg://u:secret@h:5/db?layout=x", "pg://u:***@h:5/db?layout=x"),
    ("pg://h/db?password=secret&x=y", "pg://h/db?password=***&x=***"),
    ("pg://u:se@cret@h/db", "pg://u:***@h/db"),
    ("pg://u:pa/ss@h/db", "pg://u:***@h/db"),
    ("pg://u:p?ss@h/x", "pg://u:***@h/x"),
    ("pg://u:p#ss@h/x?layout=y", "pg://u:***@h/x?layout=y"),
    ("pg://u:p?a=b@h/x", "pg://u:***@h/x"),
    ("pg://u:1,v:p?a=b@h/x", "pg://u:***@h/x"),
    ("pg://u:1?a-b=c@h/x", "pg://u:***@h/x"),
    ("pg://u:1?a@h/x", "pg://u:***@h/x"),
    ("pg://u:p@a:1,[::1]:2/x", "pg://u:***@a:1,[::1]:2/x"),
    # The `@` belongs to the value of a parameter.
    ("pg://a:1,b:2?x=y@z", "pg://a:1,b:2?x=***"),
    ("pg://h?x=y:@z", "pg://h?x=***"),
    # Each kind of store has parameters of its own that may be printed, if their values are names.
    ("postgresql://h/d?prefix=p&schema=s", "postgresql://h/d?prefix=***&schema=s"),
    ("redis://h/0?prefix=p&schema=s", "redis://h/0?prefix=p&schema=***"),
    ("redis://h/0?prefix=a%20b", "redis://h/0?prefix=***"),
    ("sqlite:///x.db?copy=1#password=secret", "sqlite:///x.db?copy=***"),
)
def test_what_is_printed(text: str, shown: str) -> None:
    assert str(parse_url(text)) == shown


@cases(
    "text raw shown",
    ("${HOME}/x.db", "/root/x.db", "${HOME}/x.db"),
    ("${A}/secret", "pg://u:p@h/secret", "${A}***"),
    ("${A}:secret@h${B}", "", "${A}***${B}"),
    ("${A}?password=secret", "", "${A}***"),
    ("pg://u:${A}@h/db", "", "pg://u:***@h/db"),
)
def test_what_is_printed_of_a_profile(text: str, raw: str, shown: str) -> None:
    assert printable_written(text, raw) == shown


def test_messages_show_no_secret_and_no_value_of_a_variable() -> None:
    raw = "pg://u:s3cret%21@Db1/db?token=t0ken&layout=x&a=t0ken1&b=t0ken12&c=t0ken123"
    url = replace(parse_url(raw), written=raw.replace("Db1", "${HOST}"), variables={"HOST": "Db1"})
    said = "cannot log in to DB1 with s3cret! or S3CRET%21 or t0ken: x, haha, t0ken123"
    shown = "cannot log in to ${HOST} with *** or *** or ***: x, haha, ***"
    assert masked(said, url) == without_values(said, url) == shown
    assert without_values(said, parse_url(raw)) == said
    for text in ("host=h password=secret", "redis:secret@h", "port = 5 user=u"):
        assert printable(text) == "***"
        with pytest.raises(UsageError, match="not a store URL"):
            parse_url(text)


def test_a_digest_of_a_place_depends_on_no_secret() -> None:
    one, other, far = (
        fingerprint(parse_url(f"pg://u:{secret}@{host}/db?token={secret}"), "salt")
        for secret, host in (("a", "h"), ("b", "h"), ("a", "g"))
    )
    assert one == other != far
    assert fingerprint(parse_url("pg://u:a@h/db?token=a"), "pepper") != one


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


@pytest.mark.parametrize(
    "text",
    [
        *("", "a\0b", "sqlite:///a%00b", "sqlite://[::1", "sqlite:///a\0b"),
        *("pg://h?pass-word=secret@d", "pg://h/se@cret", "pg:///se@cret", "pg://h?se-cret=x"),
    ],
)
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_url(text)


@cases(
    "text without shown",
    ("redis://h/0?db=1", (), "redis://h/0?db=***&prefix=app:x&write_prefix=w"),
    ("redis://h/0?layout=redis", ("layout",), "redis://h/0?prefix=app:x&write_prefix=w"),
    ("redis://u:p?ss@h/0?layout=a", (), "redis://u:***@h/0?layout=a&prefix=app:x&write_prefix=w"),
)
def test_parameters_are_put_into_a_url(text: str, without: tuple[str, ...], shown: str) -> None:
    params = {"prefix": "app:x", "write_prefix": "w"}
    made = parse_url(text).with_params(params, without=without)
    assert str(made) == shown
    params = {"prefix": "a b&c=d%{e}/?#"}
    assert parse_url(made.with_params(params).raw).params.items() >= params.items()
