"""The new names of nodes, keys, channels and paths."""

import pytest

from ckpt_backends.errors import UsageError
from ckpt_cli.core.migration import Migration, names_in, parse_defaults, parse_pairs, with_ids
from tests.kit.cases import cases

NAMES = names_in(Migration({"a": "b", "ask": "the+review"}, {"k": "key"}), None, ())


@cases(
    "old new",
    ("k", "key"),
    ("a", "a"),
    ("branch:to:a", "branch:to:b"),
    ("join:a+c:ask", "join:b+c:the+review"),
)
def test_channels(old: str, new: str) -> None:
    assert NAMES.channel(old) == new


@cases(
    "old new",
    ("~__pregel_pull, a", "~__pregel_pull, b"),
    ("~__pregel_push, 0000000001, 0000000000", "~__pregel_push, 0000000001, 0000000000"),
    (
        "~__pregel_push, ~__pregel_pull, a, 0000000000, 0000000001",
        "~__pregel_push, ~__pregel_pull, b, 0000000000, 0000000001",
    ),
    (
        "~__pregel_pull, a, node_error_handler, 0000000000",
        "~__pregel_pull, b, node_error_handler, 0000000000",
    ),
    ("~~0000000001, ~__pregel_pull, a", "~~0000000001, ~__pregel_pull, a"),
)
def test_paths_of_tasks(old: str, new: str) -> None:
    assert NAMES.path(old) == new
    assert NAMES.node("__error_handler__a") == "__error_handler__b"


def test_ids_of_questions_in_any_form() -> None:
    old, new = "0" * 32, "f" * 32
    for form in (b"\xd9\x20%b", b'{"id":"%b"}'):
        assert with_ids(form % old.encode(), {old: new}) == form % new.encode()


def test_what_options_say() -> None:
    assert parse_pairs("--rename-node", ["a=b", "c=d=e"]) == {"a": "b", "c": "d=e"}
    assert parse_defaults(['k={"a": [1]}', "n=null"]) == {"k": {"a": [1]}, "n": None}
    for wrong in ("a", "=b", "a="):
        with pytest.raises(UsageError):
            parse_pairs("--rename-node", [wrong])
