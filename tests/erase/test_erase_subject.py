"""What `--subject` means, and what belongs to an erasure."""

from typing import Any

import pytest

from ckpt_backends.errors import ParseError, UsageError
from ckpt_backends.memory import ItemKey
from ckpt_cli.core.erasure import (
    ErasedIds,
    ErasureReport,
    ErasureScope,
    check_memory_pattern,
    ids_from_record,
    ids_record,
    is_named_in,
    left_place,
    memory_namespace,
    parse_subject,
    scrubbed,
    words_of,
)
from ckpt_cli.core.filters import format_filter

FIELD = "metadata.user"


@pytest.mark.parametrize(
    ("text", "field", "meant", "word"),
    [
        ("anna", FIELD, "metadata.user = anna", "anna"),
        ("Anna Smith", FIELD, 'metadata.user = "Anna Smith"', "Anna Smith"),
        ("anna@example.com", "user", "user = anna@example.com", "anna@example.com"),
        ("null", FIELD, 'metadata.user = "null"', "null"),
        ('metadata.user = "a=b"', FIELD, 'metadata.user = "a=b"', "a=b"),
        ("user_id=42", None, "metadata.user_id = 42", "42"),
        ("metadata.team = x", FIELD, "metadata.team = x", None),
        ("metadata.source = input", None, "metadata.source = input", None),
        ("metadata.user = a or metadata.user = b", FIELD, None, None),
    ],
)
def test_a_subject(text: str, field: str | None, meant: str | None, word: str | None) -> None:
    found = parse_subject(text, field)
    assert (format_filter(found.filter), found.word) == (text if meant is None else meant, word)


def test_what_is_no_subject() -> None:
    with pytest.raises(UsageError, match="cannot tell where threads name 'anna'"):
        parse_subject("anna", None)
    with pytest.raises(ParseError):
        parse_subject("metadata.user =", FIELD)
    with pytest.raises(UsageError, match="not a field"):
        parse_subject("anna", "no such field")


def test_words_are_those_of_the_field_of_people() -> None:
    quoted = parse_subject('metadata["app.user"] = anna', 'metadata."app.user"')
    assert (quoted.word, words_of(quoted.filter, 'metadata."app.user"')) == ("anna", {"anna"})
    assert parse_subject('metadata."app.user_id" = anna', None).word == "anna"
    found = parse_subject("metadata.user = anna and metadata.env = prod", FIELD)
    assert words_of(found.filter, FIELD) == {"anna"}
    assert words_of(parse_subject("metadata.env in (a, b)", None).filter, None) == {"a", "b"}
    assert words_of(parse_subject("not metadata.user = x", None).filter, None) == {"x"}


def test_a_namespace_of_memory_and_short_words_that_are_not_looked_for() -> None:
    assert memory_namespace("users/{subject}/facts", "a/b") == ("users", "a/b", "facts")
    assert memory_namespace("u-{subject}", "anna") == ("u-anna",)
    with pytest.raises(UsageError):
        check_memory_pattern("users")
    assert ErasureScope("", ["ab"], threads={"1"}).mention_pattern(10) is None
    scope = ErasureScope(None, ["a.b"], threads={"t-42", "t-43"})
    assert scope.mention_pattern(1) == r"(?<!\w)(?:a\.b|t\-42)(?!\w)"


def test_ids_are_found_again_by_their_digests() -> None:
    ids = ErasedIds()
    ids.add("thread", [("t",), ("lone \ud800",)])
    ids.add("namespace", [("users", "anna")])
    ids.add("item", [("notes", "k")])
    ids.add("session", [("s",)])
    found = ids_from_record(ids_record(ids))
    assert found.has_thread("t")
    assert found.has_thread("lone \ud800")
    assert not found.has_thread("T")
    assert found.has_item(ItemKey(("users", "anna", "x"), "any"))
    assert found.has_item(ItemKey(("notes",), "k"))
    assert not found.has_item(ItemKey(("users",), "anna"))
    assert found.has("session", "s")
    assert ErasedIds().digest("thread", "t") not in ids.digests["thread"]


def test_a_record_that_names_someone() -> None:
    scope = ErasureScope("anna", {"anna"}, [("users", "anna")], {"t1"})
    assert is_named_in(scope, {"a": [{"b": "t1"}]})
    of_memory = ErasureScope(None, (), scope.namespaces)
    assert is_named_in(of_memory, {"namespace": ["users", "anna", "x"]})
    assert is_named_in(scope, {"reason": "see Anna."})
    assert not is_named_in(scope, {"reason": "see annabel", "threads": ["t2"], "n": 1})


def test_a_line_of_the_log_without_ids() -> None:
    line: dict[str, Any] = {
        "op": "x",
        "action": "fork",
        "threads": ["t1", "t2"],
        "command": "ckpt fork t1",
    }
    line |= {"reason": None, "added": ["1"], "cannot_undo": "", "ended": ""}
    found = scrubbed(line, {"t1"}.__contains__)
    assert found["threads"] == ["[erased]", "t2"]
    assert "t1" not in repr(found)
    assert (found["op"], found["reason"], found["added"]) == ("x", None, [])


def test_an_erasure_is_complete_if_it_reached_the_end_and_left_nothing() -> None:
    left = left_place("a.db", "threads", 1, None, "it is locked")
    assert ErasureReport(None, is_dry_run=False).is_complete
    assert not ErasureReport(None, is_dry_run=True).is_complete
    assert not ErasureReport(None, is_dry_run=False, places=[left]).is_complete
    assert not ErasureReport(None, is_dry_run=False, stopped="received SIGTERM").is_complete
