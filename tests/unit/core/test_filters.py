"""The filter language: what it reads, what it decides, and the bounds that stores get."""

import re
import tomllib
from datetime import UTC, datetime, timedelta, timezone
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_backends.errors import ParseError, UsageError
from ckpt_backends.model import ALL_THREADS, Status, ThreadBounds
from ckpt_cli.core.filters import (
    FIELDS,
    SECOND,
    And,
    FilterAlias,
    FilterTerms,
    Not,
    Operator,
    Or,
    all_of,
    bounds_of,
    decision,
    fields_in,
    format_filter,
    parse_filter,
    values_at,
)
from ckpt_cli.core.state import ERROR, INTERRUPT
from ckpt_cli.core.users import usual_key
from ckpt_cli.core.values import All
from ckpt_cli.queries.threads import Selection, bounds_of_selection
from tests.kit.cases import cases
from tests.kit.command import ROOT

OPS = ("=", "<", "<=", ">", ">=")
UNREAD = Opaque("msgpack", 3, "", "no key")
_UUID = Tagged("uuid.UUID", "0b955d0f000040008000000000000001")


def holds(text: str, *values: Value, field: str = "metadata.x") -> bool:
    """Whether a filter about one field holds, where the field has these values."""
    answer = decision(parse_filter(f"{field} {text}"))(lambda _: values)
    assert answer is not None
    return answer


@cases(
    "text printed",
    ("idle>2h AND NOT user='a b'", 'idle > 2h and not user = "a b"'),
    ("not step < 3 or step > 5 and age > 1d", "not step < 3 or (step > 5 and age > 1d)"),
    ("(step = 1 or step = 2) and user=a", "(step = 1 or step = 2) and user = a"),
    ("status not in (error,'done')", 'not status in (error, "done")'),
    ("thread not like test-%", "not thread like test-%"),
    ("thread = 'and'", 'thread = "and"'),
    ("thread ~ '^\\d+$'", r'thread ~ "^\\d+$"'),
    (r'thread = "a\"b\\c\d"', r'thread = "a\"b\\c\\d"'),
    ("""values["odd.key"]['a b'][].n = 1""", 'values["odd.key"]["a b"][].n = 1'),
    ('metadata."a.b" = 1', 'metadata["a.b"] = 1'),
    ("metadata.'a.b'.'c d' in (1, 2)", 'metadata["a.b"]["c d"] in (1, 2)'),
    ("""not values.x.'a.b'[0]."c d" = 1""", 'not values.x["a.b"][0]["c d"] = 1'),
    ("user_id=42", "metadata.user_id = 42"),
    ("metadata.url=http://a/b?c=d", "metadata.url = http://a/b?c=d"),
    ("metadata.empty=", 'metadata.empty = ""'),
    ("notable=1", "metadata.notable = 1"),
    ("((((thread = x))))", "thread = x"),
    ("last_at > '2026-11-01 10:00'", "last_at > 2026-11-01T10:00:00+00:00"),
    ("first_at <= 2026-11-01T10:00+02:00", "first_at <= 2026-11-01T08:00:00+00:00"),
)
def test_a_filter_is_read(text: str, printed: str) -> None:
    assert format_filter(parse_filter(text)) == printed


@cases(
    "text problem at",
    ("", "expected a field", ""),
    ("status error", "expected an operator after 'status'", "error"),
    ("status =", "expected a value after '='", ""),
    ("user = anna smith", "expected 'and' or 'or' after 'anna'", "smith"),
    ("user = a)", "expected the end", ")"),
    ("user in a", "expected '(' after 'in'", "a"),
    ("user in (a b)", "expected ',' or ')' after 'a'", "b)"),
    ("user not a", "expected 'in' or 'like' after 'not'", "a"),
    ("user is null", "expected an operator after 'user'", "is null"),
    ("user = 'a", "a quote is not closed", "'a"),
    ("user == a", "no operator '=='", "== a"),
    ("last_at > soon", "'soon' is not a time", "soon"),
    ("last_at < null", "null has no '<'", "null"),
    ("status=error and @", "expected a field after 'and'", "@"),
    ("@stuck", "no filter '@stuck'", "@stuck"),
    ("usr = a", "no field 'usr'", "usr = a"),
    ("user.name = a", "user has no parts", "user.name = a"),
    ("metadata = a", "metadata needs a key", "metadata = a"),
    ("status = eror", "no status 'eror'", "eror"),
    ("question[ = a", "expected an operator after 'question'", "[ = a"),
    ("status < error", "status has no '<'", "< error"),
    ("step = x", "'x' is not a number", "x"),
    ("bytes > 10XB", "'10XB' is not a size", "10XB"),
    ("idle > 5", "'5' is not a duration", "5"),
    ("thread ~ '('", "cannot read the pattern '('", "'('"),
    ('values.a["\\x"] = 1', "cannot read", 'values.a["\\x"] = 1'),
)
def test_what_cannot_be_read_is_named_with_its_place(text: str, problem: str, at: str) -> None:
    with pytest.raises(ParseError) as raised:
        parse_filter(text)
    assert raised.value.message.startswith(f"cannot read the filter: {problem}")
    assert text[raised.value.position :] == at
    assert raised.value.text == text


@cases(
    "text",
    "not " * 900 + "user=a",
    "user = " + "a" * 5000,
    "(" * 3990,
    ids=["not", "length", "open"],
)
def test_a_filter_that_is_too_long_or_too_deep_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_filter(text)


@cases(
    "text values answer",
    ("= 42", [42], True),
    ("= 42", ["42"], True),
    ("= '42'", [42], False),
    ("= 007", [7], False),
    ("= true", [True], True),
    *((f"{op} {n}", [one], False) for op, n, one in product(OPS, "012", [True, False])),
    ("= null", [None], True),
    ("= null", [], True),
    ("= 'null'", [None], False),
    ("!= anna", [], True),
    ("= Anna", ["anna"], False),
    ("= a", ["b", "a"], True),
    ("in (1, null)", [], True),
    ("< 10", [9.5], True),
    ("< 10", ["1"], False),
    ("< 10", [None], False),
    ("< b", [1], False),
    ("<= 42", ["42"], True),
    (">= 2", [float("nan")], False),
    ("> 2026-01-01", [Tagged("datetime.datetime", "2026-04-07T10:00:00")], True),
    ("< 2026-05-01", [Tagged("datetime.date", [2026, 4, 7])], True),
    ("= 0b955d0f-0000-4000-8000-000000000001", [_UUID], True),
    ("> 600", [Tagged("decimal.Decimal", "610.00")], True),
    ("= x", [Tagged("decimal.Decimal", "x")], True),
    ("= []", [[1]], False),
    ("like %", [None], False),
    ("like a_c", ["abc"], True),
    (r"like 'a\_c'", ["abc"], False),
    (r"like 'a\_c'", ["a_c"], True),
    ("like %b%b%", ["abc"], False),
    ("like %b", ["a\nb"], True),
    ("~ '(?i)B'", ["abc"], True),
    ("= null", [UNREAD], False),
)
def test_a_value_is_compared(text: str, values: list[Value], answer: bool) -> None:
    assert holds(text, *values) is answer


@cases(
    "field text value answer",
    ("idle", "> 2h", 7201.0, True),
    ("idle", ">= 1h60m", 7200.0, True),
    ("age", "= null", None, True),
    ("bytes", "> 1KiB", 1024, False),
    ("bytes", "= '1 MiB'", 1048576, True),
    ("step", "= -1", -1, True),
    ("thread", "= 42", "42", True),
    ("thread", "< 5", "42", True),
)
def test_fields_have_kinds_of_operands(field: str, text: str, value: Value, answer: bool) -> None:
    assert holds(text, value, field=field) is answer


def test_a_path_finds_values() -> None:
    root: dict[str, Value] = {
        "a.b": 1,
        "a": {"b": 2, "c": 3},
        "all": [{"n": 1}, {"n": 2}, {}],
        "secret": UNREAD,
        "long": Cut([1], 9000, "too long"),
    }
    assert values_at(root, ("a", "b")) == (1,)
    assert values_at(root, ("all", All.ALL, "n")) == (1, 2)
    assert values_at(root, ("all", 9)) == ()
    assert values_at(root, ("secret", "x", "y")) == (UNREAD,)
    assert values_at(root, ("long", 5)) == (root["long"],)


def test_no_pattern_and_no_like_backtracks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not holds(f"like '{'%a' * 50}%b'", "a" * 100_000)
    monkeypatch.setattr("ckpt_cli.core.search._SECONDS", 0.05)
    with pytest.raises(UsageError, match="takes too long"):
        holds("~ '(a+)+$'", "a" * 5000 + "!")


def test_the_document_has_all_fields_and_operators_and_its_filters_are_read() -> None:
    text = (ROOT / "docs" / "filters.md").read_text("utf-8")
    _, fields, operators, _ = re.split(r"^## (?:Fields|Operators|Values)$", text, flags=re.M)
    named = re.findall(r"^\| `(\w+)(?:\.[\w.]+)?` \|", fields, re.M)
    assert named == list(FIELDS)
    rows = "".join(re.findall(r"^\|(.*?)\|", operators, re.M))
    assert {one for one in Operator if re.search(rf"`{one}[ `]", rows)} == set(Operator)
    examples = re.findall(r"ckpt -s .*? --where '(.+?)'", text)
    named = tomllib.loads(re.findall(r"```toml\n(.*?)```", text, re.S)[0])["filters"]
    terms = FilterTerms(lambda name: FilterAlias(named[name]))
    assert len(examples) == 13
    for one in (*examples, *(f"@{name}" for name in named)):
        parse_filter(one, terms)


# Aliases and times ---------------------------------------------------------------------------

ALIASES = {
    "stuck": "status in (error, pending) and idle > 1h",
    "anna": "user_id=anna",
    "bad": "idle > 1h and usr = anna",
    "worse": "user = x and not @bad",
    "a": "not @b",
    "b": "user = x or @c",
    "c": "@a",
    **{f"x{n}": f"@x{n - 1} and @x{n - 1}" for n in range(1, 12)},
    "x0": "user = a",
    **{f"deep{n}": f"not @deep{n - 1}" for n in range(1, 60)},
    "deep0": "user = a",
}


def alias(name: str) -> FilterAlias:
    if name not in ALIASES:
        raise UsageError(f"no filter '@{name}'", hint="use others")
    return FilterAlias(ALIASES[name], "ckpt.toml")


TERMS = FilterTerms(alias, datetime(2026, 4, 7, 10, tzinfo=UTC), timezone(timedelta(hours=2)))


@cases(
    "text problem place",
    ("user = a and @bad", "@bad in 'ckpt.toml': no field 'usr'", ("bad", "usr = anna")),
    ("@worse", "@bad in 'ckpt.toml': no field 'usr'", ("bad", "usr = anna")),
    ("idle > 1h or @gone", "the filter: no filter '@gone'", (None, "@gone")),
    ("@a", "@c in 'ckpt.toml': aliases form a cycle: @a -> @b -> @c -> @a", ("c", "@a")),
    ("user = z or @b", "@a in 'ckpt.toml': aliases form a cycle: @b -> @c -> @a", ("a", "@b")),
    ("@x11", "@x0 in 'ckpt.toml': it has more than 1,000 comparisons", ("x0", "user = a")),
    ("@deep59", "@deep35 in 'ckpt.toml': it is nested too deep", None),
)
def test_wrong_aliases(text: str, problem: str, place: tuple[str | None, str] | None) -> None:
    with pytest.raises(ParseError) as raised:
        parse_filter(text, TERMS)
    error = raised.value
    assert error.message.startswith(f"cannot read {problem}")
    if place is not None:
        name, at = place
        assert error.text == (text if name is None else ALIASES[name])
        assert error.text[error.position :] == at


@cases(
    "text hint",
    ("'error' in status", "write the field first, such as status = error"),
    ("idle > 1h and (status:error)", "write status = error"),
    ("status == error", "write = for equal; use = != in"),
    ("status = failed", "use one of error, interrupted, pending, done, unknown, empty"),
    ("user_id=null", "write metadata.user_id = null, or = 'null' for this text"),
    ("idle > 2 h", "write a number and its unit without a blank, such as 2h or 10MiB"),
    ("idle > 1h && status = error", "write and"),
    ("next = two words", "put text with blanks, commas or brackets in quotes"),
    ("Status = a", "did you mean status? fields: "),
    ("thread_id = a", "did you mean thread? fields: "),
    ("user_id = a", "did you mean metadata.KEY? fields: "),
    ("qqq = a", "fields: "),
)
def test_a_hint_says_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(ParseError) as raised:
        parse_filter(text)
    assert (raised.value.hint or "").startswith(hint)


ONE, OTHER = parse_filter("user = a"), parse_filter("step = 1")


@cases(
    "text user step answer",
    ("user = a and step = 1", False, None, False),
    ("user = a and step = 1", True, None, None),
    ("user = a and step = 1", True, True, True),
    ("user = a or step = 1", None, True, True),
    ("user = a or step = 1", False, None, None),
    ("user = a or step = 1", False, False, False),
    ("not ( user = a and step = 1)", False, None, True),
    ("not user = a", None, True, None),
)
def test_a_filter_is_decided_as_soon_as_what_is_read_tells(
    text: str, user: bool | None, step: bool | None, answer: bool | None
) -> None:
    read: dict[str, tuple[Value, ...]] = {}
    read |= {} if user is None else {"user": ("a" if user else "b",)}
    read |= {} if step is None else {"step": (1 if step else 2,)}
    expression = parse_filter(text)
    assert decision(expression)(lambda field: read.get(field.name)) is answer
    assert {field.name for field in fields_in(expression)} == {"user", "step"} & {*text.split()}


def test_filters_and_aliases_are_joined() -> None:
    assert (all_of([]), all_of([ONE]), all_of([ONE, OTHER])) == (None, ONE, And((ONE, OTHER)))
    texts = {"one": "user = a", "other": "step = 1", "both": "@one or not @other"}
    found = parse_filter("@both and (@one)", FilterTerms(lambda name: FilterAlias(texts[name])))
    assert found == And((Or((ONE, Not(OTHER))), ONE))
    assert parse_filter(format_filter(found)) == found


@given(st.text(alphabet="()'\"=<>!~ ,.[]\\%aornotdil123", max_size=40))
def test_any_text_is_a_filter_or_a_parse_error(text: str) -> None:
    try:
        found = parse_filter(text)
    except ParseError as raised:
        error = raised
    else:
        assert parse_filter(format_filter(found)) == found
        return
    assert 0 <= error.position <= len(text)


NOW = datetime(2026, 4, 7, 12, tzinfo=UTC)


def ago(**length: float) -> datetime:
    return NOW - timedelta(**length)


def heads(*channels: str) -> ThreadBounds:
    return ThreadBounds(head_channels=frozenset(channels))


@cases(
    "text bounds",
    ("thread = a", ThreadBounds(ids=frozenset("a"))),
    ("thread in (a, b) and not thread != a", ThreadBounds(ids=frozenset("a"))),
    ("thread like 'ab%' and thread like 'abc_'", ThreadBounds(prefix="abc")),
    ("thread like 'ab%' or thread in (abc, ad)", ThreadBounds(prefix="a")),
    (r"thread like 'a\%b'", ThreadBounds(ids=frozenset({"a%b"}))),
    ("user = anna", ThreadBounds(users=frozenset({"anna"}))),
    ("user in (anna, null)", ALL_THREADS),
    (
        "idle <= 2h and idle > 1h",
        ThreadBounds(since=ago(hours=2) - SECOND, until=ago(hours=1) + SECOND),
    ),
    ("idle < 1h or idle < 2h", ThreadBounds(since=ago(hours=2) - SECOND)),
    ("idle < 200000w", ALL_THREADS),
    ("last_at >= 2026-04-07T12:00:00Z", ThreadBounds(since=NOW - SECOND)),
    ("error != null", heads(ERROR)),
    ("error not like '%timeout%'", ALL_THREADS),
    ("status = error or status = interrupted", heads(ERROR, INTERRUPT)),
    # A thread may have both; the store looks for one of them.
    ("error != null and question != null", heads(ERROR)),
    ("status in (error, pending)", ALL_THREADS),
    ("not (status != error or step = 1)", heads(ERROR)),
    ("(status = error or user = a) and values.x = 1", ALL_THREADS),
)
def test_what_the_index_can_answer_is_found(text: str, bounds: ThreadBounds) -> None:
    assert bounds_of(parse_filter(text), NOW) == bounds


def test_the_parts_of_a_selection_bound_it_together() -> None:
    for match, bounds in (
        ("a", ThreadBounds(ids=frozenset("a"))),
        ("a*[b]", ThreadBounds(prefix="a")),
    ):
        assert bounds_of_selection(Selection(match=match), NOW) == bounds
    wanted = Selection(
        match="ab*",
        since=ago(days=2),
        user="anna",
        status=frozenset({Status.ERROR}),
        where=parse_filter("thread like 'abc%' and idle < 1d"),
    )
    assert bounds_of_selection(wanted, NOW) == ThreadBounds(
        prefix="abc",
        since=ago(days=1) - SECOND,
        users=frozenset({"anna"}),
        head_channels=frozenset({ERROR}),
    )


@cases("having others is_usual", (2, 1, True), (1, 1, False), (1, 2, False))
def test_a_usual_key_is_one_that_most_heads_have(having: int, others: int, is_usual: bool) -> None:
    named: dict[str, Value] = {"user_id": "anna"}
    assert (usual_key([named] * having + [{}] * others) is not None) is is_usual
