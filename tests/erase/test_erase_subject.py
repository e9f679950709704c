"""What `--subject` means, and what belongs to an erasure."""

import json
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.app_sessions import AppSession
from ckpt_backends.errors import ParseError, UsageError
from ckpt_backends.memory import ItemKey
from ckpt_backends.url import parse_url
from ckpt_cli.core.erasure import (
    CANNOT_UNDO,
    ErasedIds,
    ErasureReport,
    ErasureScope,
    check_memory_pattern,
    ids_from_record,
    ids_record,
    is_named_in,
    left_place,
    memory_namespace,
    named_queries,
    names_of,
    parse_subject,
    scrubbed,
    words_of,
)
from ckpt_cli.core.filters import format_filter
from ckpt_cli.plans.erase import LogNaming, _is_from_store
from tests.kit.cases import cases

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
        ("metadata.user_id = x", FIELD, "metadata.user_id = x", None),
        ("metadata.user in (a, b)", FIELD, None, None),
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
    assert words_of(parse_subject("thread = t1", None).filter, None) == {"t1"}


def test_memory_is_found_by_names_of_the_field_of_people_that_are_affirmed() -> None:
    for text, field, names in (
        ("metadata.user in (a, c) and metadata.env = b and not metadata.user = x", FIELD, "ac"),
        ("metadata.env = b", FIELD, ""),
        ("metadata.env = b", None, "b"),
    ):
        assert names_of(parse_subject(text, field), field) == tuple(names)


def test_a_namespace_of_memory_and_short_words_that_are_not_looked_for() -> None:
    assert memory_namespace("users/{subject}/facts", r"a/\1") == ("users", r"a/\1", "facts")
    assert memory_namespace("u-{subject}", "anna") == ("u-anna",)
    with pytest.raises(UsageError):
        check_memory_pattern("users")
    assert ErasureScope("", ["ab"], threads={"1"}).mention_pattern(10) is None
    scope = ErasureScope(None, ["a.b"], threads={"t-42", "t-43"})
    assert scope.mention_pattern(1) == r"(?<!\w)(?:a\.b|t\-42)(?!\w)"
    hidden = ErasureScope("anna", {"Smith"}, threads={"anna-1"}).hidden_names("/ANNA-1_smith/anna")
    assert hidden is not None
    assert hidden.sub("#", "/ANNA-1_smith/anna/annabel") == "/#_#/#/annabel"


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
    assert found.has_item(ItemKey(("users", "anna"), "any"))
    assert found.has_item(ItemKey(("notes",), "k"))
    assert not found.has_item(ItemKey(("users",), "anna"))
    session = AppSession("s", "1", "anna", None, None, None, 0, None)
    assert found.has_session(session)
    assert found.has_session(session._replace(key="other", thread_id="t"))
    assert not found.has_session(session._replace(key="other", thread_id="s"))
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
    line |= {"reason": None, "added": ["1"], "cannot_undo": "", "ended": "t1 is in use"}
    found = scrubbed(line, {"t1"}.__contains__)
    assert found["threads"] == ["[erased]", "t2"]
    assert "t1" not in repr(found)
    assert (found["op"], found["reason"], found["added"]) == ("x", None, [])
    assert found["cannot_undo"] == CANNOT_UNDO


def test_which_operations_name_an_erased_thread_or_the_person() -> None:
    naming = LogNaming("here", ErasureScope("anna", {"anna"}, [("users", "anna")], {"t1"}), ["x"])
    records: list[tuple[dict[str, Any], bool]] = [
        ({"place": "here", "threads": ["t2", "t1"]}, True),
        ({"place": "there", "threads": ["t1"]}, False),
        ({"place": "there", "threads": ["for-anna"]}, True),
        *(({one: "see Anna"}, True) for one in ("command", "reason", "cannot_undo", "ended")),
        ({"op": "x"}, True),
        ({"op": "x", "cannot_undo": CANNOT_UNDO}, False),
    ]
    for record, is_named in records:
        assert naming.is_in(json.dumps(record).encode()) is is_named
        assert naming.is_in_step({"ckpt_operation": 1, **record}, "there") is is_named
    step = {"thread_id": "t1"}
    assert naming.is_in_step(step, "here")
    assert not naming.is_in_step(step, "there")
    assert naming.is_in_step({"namespace": ["users", "anna"]}, "there")


@cases(
    "written is_ours",
    *(("{url}", True), ("sqlite:///{url}", True), ("agent.db", True), ("./data/agent.db", True)),
    *(("gent.db", False), ("old/agent.db", False), ("/agent.db", False), ("x://y", False)),
)
def test_whose_archive_it_is(tmp_path: Path, written: str, is_ours: bool) -> None:
    url = parse_url(str(tmp_path / "data" / "agent.db"))
    assert _is_from_store(written.format(url=url), url) is is_ours


def test_a_query_names_a_thread_whose_id_has_quotes() -> None:
    entry = b"\n# 2026-04-07 10:00:00\n+WHERE thread_id = 'it''s t1'\n"
    assert named_queries(entry, ErasureScope(threads={"it's t1"})) == [entry]


def test_an_erasure_is_complete_if_it_reached_the_end_and_left_nothing() -> None:
    left = left_place("a.db", "threads", 1, None, "it is locked")
    assert ErasureReport(None, is_dry_run=False).is_complete
    assert not ErasureReport(None, is_dry_run=True).is_complete
    assert not ErasureReport(None, is_dry_run=False, places=[left]).is_complete
    assert not ErasureReport(None, is_dry_run=False, stopped="received SIGTERM").is_complete
