"""The filter language: what it reads, what it refuses and where, and what it decides."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_backends.errors import ParseError, UsageError
from ckpt_backends.model import Status
from ckpt_cli.core.filters import (
    FIELDS,
    WORD,
    And,
    Condition,
    FieldKind,
    Filter,
    FilterAlias,
    FilterField,
    FilterTerms,
    Not,
    Operand,
    Operator,
    Or,
    all_of,
    decision,
    fields_in,
    format_filter,
    parse_filter,
    values_at,
)
from ckpt_cli.core.values import All, Step
from tests.kit.command import ROOT

UNREAD = Opaque("msgpack", 3, "", "no key")
_UUID = Tagged("uuid.UUID", "0b955d0f000040008000000000000001")


def holds(text: str, *values: Value, field: str = "metadata.x") -> bool:
    """Whether a filter about one field holds, where the field has these values."""
    answer = decision(parse_filter(f"{field} {text}"))(lambda _: values)
    assert answer is not None
    return answer


def test_true_and_false_are_no_numbers() -> None:
    for text in ("> 0", ">= 0", "< 2", "<= 2", "= 1", "= 0"):
        assert not holds(text, True)
        assert not holds(text, False)
    assert holds("= true", True)
    assert holds("> 0", 1)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("status=error", "status = error"),
        ("STATUS = error", None),
        ("idle>2h AND NOT user='a b'", 'idle > 2h and not user = "a b"'),
        ("not step < 3 or step > 5 and age > 1d", "not step < 3 or (step > 5 and age > 1d)"),
        ("(step = 1 or step = 2) and user=a", "(step = 1 or step = 2) and user = a"),
        ("status not in (error,'done')", 'not status in (error, "done")'),
        ("thread not like test-%", "not thread like test-%"),
        ("thread = and-more", "thread = and-more"),
        ("thread = 'and'", 'thread = "and"'),
        ("thread = a=b", "thread = a=b"),
        ("thread ~ '^\\d+$'", r'thread ~ "^\\d+$"'),
        (r'thread = "a\"b\\c\d"', r'thread = "a\"b\\c\\d"'),
        ("values.messages[-1].content like '%x'", 'values.messages[-1].content like "%x"'),
        ("""values["odd.key"]['a b'][].n = 1""", 'values["odd.key"]["a b"][].n = 1'),
        ('metadata."a.b" = 1', 'metadata["a.b"] = 1'),
        ('metadata."a.b"=1', 'metadata["a.b"] = 1'),
        ("metadata.'a.b'.'c d' in (1, 2)", 'metadata["a.b"]["c d"] in (1, 2)'),
        ("""not values.x.'a.b'[0]."c d" = 1""", 'not values.x["a.b"][0]["c d"] = 1'),
        ("user_id=42", "metadata.user_id = 42"),
        ("a.b=x", "metadata.a.b = x"),
        ("metadata.url=http://a/b?c=d", "metadata.url = http://a/b?c=d"),
        ("metadata.empty=", 'metadata.empty = ""'),
        ("notable=1", "metadata.notable = 1"),
        ("((((thread = x))))", "thread = x"),
        ("user = @anna", "user = @anna"),
        ("last_at > '2026-11-01 10:00'", "last_at > 2026-11-01T10:00:00+00:00"),
        ("first_at <= 2026-11-01T10:00+02:00", "first_at <= 2026-11-01T08:00:00+00:00"),
        ("last_at = null", "last_at = null"),
    ],
)
def test_a_filter_is_read(text: str, printed: str | None) -> None:
    if printed is None:
        with pytest.raises(ParseError):
            parse_filter(text)
    else:
        assert format_filter(parse_filter(text)) == printed


@pytest.mark.parametrize(
    ("text", "problem", "at"),
    [
        ("", "expected a field", ""),
        ("status error", "expected an operator after 'status'", "error"),
        ("status =", "expected a value after '='", ""),
        ("user = and", "expected a value after '='", "and"),
        ("user = anna smith", "expected 'and' or 'or' after 'anna'", "smith"),
        ("user = a and", "expected a field after 'and'", ""),
        ("(user = a", "expected ')' after 'a'", ""),
        ("user = a)", "expected the end", ")"),
        ("user in a", "expected '(' after 'in'", "a"),
        ("user in (a b)", "expected ',' or ')' after 'a'", "b)"),
        ("user not a", "expected 'in' or 'like' after 'not'", "a"),
        ("user is null", "expected an operator after 'user'", "is null"),
        ("user = 'a", "a quote is not closed", "'a"),
        ("user == a", "no operator '=='", "== a"),
        ("last_at > soon", "'soon' is not a time", "soon"),
        ("last_at ~ 2026", "last_at has no '~'", "~ 2026"),
        ("last_at < null", "null has no '<'", "null"),
        ("user_id=null", "null is ambiguous in KEY=VALUE", "null"),
        ("metadata.a.b=null", "null is ambiguous in KEY=VALUE", "null"),
        ("status=error and @", "expected a field after 'and'", "@"),
        ("@stuck", "no filter '@stuck'", "@stuck"),
        ("@stuck=1", "expected 'and' or 'or' after '@stuck'", "=1"),
        ("usr = a", "no field 'usr'", "usr = a"),
        ("user.name = a", "user has no parts", "user.name = a"),
        ("metadata = a", "metadata needs a key", "metadata = a"),
        ("status = eror", "no status 'eror'", "eror"),
        ("status in (error, eror)", "no status 'eror'", "eror)"),
        ("question[ = a", "expected an operator after 'question'", "[ = a"),
        ("status < error", "status has no '<'", "< error"),
        ("step like 1%", "step has no 'like'", "like 1%"),
        ("step = x", "'x' is not a number", "x"),
        ("step < null", "null has no '<'", "null"),
        ("bytes > 10XB", "'10XB' is not a size", "10XB"),
        ("idle > 5", "'5' is not a duration", "5"),
        ("thread ~ '('", "cannot read the pattern '('", "'('"),
        ('values.a["\\x"] = 1', "cannot read", 'values.a["\\x"] = 1'),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(text: str, problem: str, at: str) -> None:
    with pytest.raises(ParseError) as raised:
        parse_filter(text)
    assert raised.value.message.startswith(f"cannot read the filter: {problem}")
    assert text[raised.value.position :] == at
    assert raised.value.text == text


@pytest.mark.parametrize(
    "text",
    [
        "not " * 900 + "user=a",
        "user = " + "a" * 5000,
        "not (user = a and " * 60 + "user = a" + ")" * 60,
        "(" * 3990,
    ],
    ids=["not", "length", "both", "open"],
)
def test_a_filter_that_is_too_long_or_too_deep_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_filter(text)


def test_a_long_flat_filter_is_read() -> None:
    found = parse_filter(" or ".join(["user = a"] * 300))
    assert len(list(fields_in(found))) == 300
    assert decision(found)(lambda _: ("a",)) is True


@pytest.mark.parametrize(
    ("text", "values", "answer"),
    [
        ("= 42", [42], True),
        ("= 42", ["42"], True),
        ("= '42'", [42], False),
        ("= 42.0", [42], True),
        ("= 007", [7], False),
        ("= true", [True], True),
        ("= 1", [True], False),
        ("= true", ["true"], True),
        ("= null", [None], True),
        ("= null", [], True),
        ("= null", ["null"], False),
        ("= 'null'", [None], False),
        ("!= anna", [], True),
        ("!= anna", ["anna"], False),
        ("= Anna", ["anna"], False),
        ("= a", ["b", "a"], True),
        ("!= a", ["b", "a"], False),
        ("in (1, b)", ["b"], True),
        ("in (1, b)", ["a"], False),
        ("in (1, null)", [], True),
        ("< 10", [9.5], True),
        ("< 10", ["1"], False),
        ("< 10", [None], False),
        ("< b", ["a"], True),
        ("< b", [1], False),
        ("<= 42", ["42"], True),
        (">= 2", [True], False),
        (">= 2", [float("nan")], False),
        ("> 2026-01-01", [Tagged("datetime.datetime", "2026-04-07T10:00:00")], True),
        ("= 2026-04-07", [Tagged("datetime.date", [2026, 4, 7])], True),
        ("< 2026-05-01", [Tagged("datetime.date", [2026, 4, 7])], True),
        ("= 0b955d0f-0000-4000-8000-000000000001", [_UUID], True),
        ("> 600", [Tagged("decimal.Decimal", "610.00")], True),
        ("= 610", [Tagged("decimal.Decimal", "610.00")], True),
        ("= x", [Tagged("decimal.Decimal", "x")], True),
        ("= {}", [{}], True),
        ("= []", [[1]], False),
        ("like a%", ["abc"], True),
        ("like a%", [1], False),
        ("like %", [None], False),
        ("like A%", ["abc"], False),
        ("like a_c", ["abc"], True),
        (r"like 'a\_c'", ["abc"], False),
        (r"like 'a\_c'", ["a_c"], True),
        ("like %b%b%", ["abc"], False),
        ("like ab%bc", ["abc"], False),
        ("like %b", ["a\nb"], True),
        ("~ b", ["abc"], True),
        ("~ '^b'", ["abc"], False),
        ("~ '(?i)B'", ["abc"], True),
        ("~ 4", [42], False),
        ("= x", [UNREAD], False),
        ("= null", [UNREAD], False),
        ("!= x", [UNREAD], True),
    ],
)
def test_a_value_is_compared(text: str, values: list[Value], answer: bool) -> None:
    assert holds(text, *values) is answer


@pytest.mark.parametrize(
    ("field", "text", "value", "answer"),
    [
        ("idle", "> 2h", 7201.0, True),
        ("idle", "> 2h", 7200.0, False),
        ("idle", ">= 1h60m", 7200.0, True),
        ("age", "< 1w", None, False),
        ("age", "= null", None, True),
        ("bytes", "> 1KiB", 1024, False),
        ("bytes", ">= 1.5kb", 1500, True),
        ("bytes", "= '1 MiB'", 1048576, True),
        ("step", "= -1", -1, True),
        ("status", "= error", Status.ERROR, True),
        ("thread", "= 42", "42", True),
        ("thread", "< 5", "42", True),
    ],
)
def test_each_field_has_its_kind_of_operand(
    field: str, text: str, value: Value, answer: bool
) -> None:
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
    assert values_at(root, ("a", "c")) == (3,)
    assert values_at(root, ("all", All.ALL, "n")) == (1, 2)
    assert values_at(root, ("all", 9)) == ()
    assert values_at(root, ("gone", "x")) == ()
    assert values_at(root, ("secret", "x", "y")) == (UNREAD,)
    assert values_at(root, ("long", 5)) == (root["long"],)


def test_a_pattern_that_backtracks_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckpt_cli.core.search._SECONDS", 0.05)
    with pytest.raises(UsageError, match="takes too long"):
        holds("~ '(a+)+$'", "a" * 5000 + "!")


def test_like_does_not_backtrack() -> None:
    assert not holds(f"like '{'%a' * 50}%b'", "a" * 100_000)


def test_the_document_has_all_fields_and_operators_and_its_filters_are_read() -> None:
    text = (ROOT / "docs" / "filters.md").read_text("utf-8")
    _, fields, operators, _ = re.split(r"^## (?:Fields|Operators|Values)$", text, flags=re.M)
    named = re.findall(r"^\| `(\w+)(?:\.\w+)?` \|", fields, re.M)
    assert named == list(FIELDS)
    rows = "".join(re.findall(r"^\|(.*?)\|", operators, re.M))
    assert {one for one in Operator if re.search(rf"`{one}[ `]", rows)} == set(Operator)
    examples = re.findall(r"ckpt -s .*? --where '(.+?)'", text)
    named = tomllib.loads(re.findall(r"```toml\n(.*?)```", text, re.S)[0])["filters"]
    terms = FilterTerms(lambda name: FilterAlias(named[name]))
    assert len(examples) == 13
    for example in (*examples, *(f"@{name}" for name in named)):
        parse_filter(example, terms)


# Aliases and times ---------------------------------------------------------------------------

ALIASES = {
    "stuck": "status in (error, pending) and idle > 1h",
    "anna": "user_id=anna",
    "old-or-anna": "idle > 1h or @anna",
    "bad": "idle > 1h and usr = anna",
    "worse": "user = x and not @bad",
    "a": "not @b",
    "b": "user = x or @c",
    "c": "@a",
    "doubled": "@anna or @anna",
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


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("@stuck", "status in (error, pending) and idle > 1h"),
        ("@stuck and user=x", "(status in (error, pending) and idle > 1h) and user = x"),
        ("not @old-or-anna", "not (idle > 1h or metadata.user_id = anna)"),
        ("(@anna)or @anna", "metadata.user_id = anna or metadata.user_id = anna"),
        ("@doubled", "metadata.user_id = anna or metadata.user_id = anna"),
    ],
)
def test_an_alias_stands_for_its_filter(text: str, printed: str) -> None:
    found = parse_filter(text, TERMS)
    assert format_filter(found) == printed
    assert parse_filter(printed) == found


@pytest.mark.parametrize(
    ("text", "problem", "place"),
    [
        ("user = a and @bad", "@bad in 'ckpt.toml': no field 'usr'", ("bad", "usr = anna")),
        ("@worse", "@bad in 'ckpt.toml': no field 'usr'", ("bad", "usr = anna")),
        ("idle > 1h or @gone", "the filter: no filter '@gone'", (None, "@gone")),
        ("@a", "@c in 'ckpt.toml': aliases form a cycle: @a -> @b -> @c -> @a", ("c", "@a")),
        ("user = z or @b", "@a in 'ckpt.toml': aliases form a cycle: @b -> @c -> @a", ("a", "@b")),
        ("@x11", "@x0 in 'ckpt.toml': it has more than 1,000 comparisons", ("x0", "user = a")),
        ("@deep59", "@deep35 in 'ckpt.toml': it is nested too deep", None),
    ],
)
def test_a_wrong_alias_is_named_with_its_place(
    text: str, problem: str, place: tuple[str | None, str] | None
) -> None:
    with pytest.raises(ParseError) as raised:
        parse_filter(text, TERMS)
    error = raised.value
    assert error.message.startswith(f"cannot read {problem}")
    if place is not None:
        name, at = place
        assert error.text == (text if name is None else ALIASES[name])
        assert error.text[error.position :] == at


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("last_at > 2h", "last_at > 2026-04-07T08:00:00+00:00"),
        ("first_at >= yesterday", "first_at >= 2026-04-05T22:00:00+00:00"),
        ("last_at < 2026-04-07", "last_at < 2026-04-06T22:00:00+00:00"),
        ("last_at < 2026-04-07T10:00Z", "last_at < 2026-04-07T10:00:00+00:00"),
    ],
)
def test_times_are_read_with_the_clock_and_the_zone(text: str, printed: str) -> None:
    found = parse_filter(text, TERMS)
    assert format_filter(found) == printed
    assert parse_filter(printed) == found


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Status", "status"),
        ("statuses", "status"),
        ("thread_id", "thread"),
        ("created_at", "first_at"),
        ("messages", "values.CHANNEL"),
        ("user_id", "metadata.KEY"),
        ("qqq", None),
    ],
)
def test_an_unknown_field_is_answered_with_the_nearest(name: str, meant: str | None) -> None:
    with pytest.raises(ParseError) as raised:
        parse_filter(f"{name} = a")
    hint = raised.value.hint or ""
    assert hint.startswith("fields: " if meant is None else f"did you mean {meant}? fields: ")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("'error' in status", "write the field first, such as status = error"),
        ("idle > 1h and (status:error)", "write status = error"),
        ("status == error", "write = for equal; use = != in"),
        ("status = failed", "use one of error, interrupted, pending, done, unknown, empty"),
        ("user_id=null", "write metadata.user_id = null, or = 'null' for this text"),
        ("idle > 1h && status = error", "write and"),
        ("status = done || idle > 1h", "write or"),
        ("idle > 2 h", "write a number and its unit without a blank, such as 2h or 10MiB"),
        ("next = two words", "put text with blanks, commas or brackets in quotes"),
    ],
)
def test_a_hint_says_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(ParseError) as raised:
        parse_filter(text)
    assert (raised.value.hint or "").startswith(hint)


# Generated filters ---------------------------------------------------------------------------

NAMES = st.sampled_from(["x", "user id", "a.b", "größe", "0", "and", '"', "\\", "=", "\n"])
STEPS: st.SearchStrategy[Step] = NAMES | st.integers(-2, 9) | st.just(All.ALL)
TEXTS = st.sampled_from(["", "a", "ab", "b", "42", "error", "loop", "null", "a%", "ünï"])
WORDS = st.sampled_from(["a", "ab", "42", "-1.5", "true", "null", "a=b", "%", "größe", "[1]"])
TIMES = {"1970-01-01T00:00:00+00:00": 0, "1970-01-01T00:00:02.500000+00:00": 2.5}
VALUES: st.SearchStrategy[Value] = (
    st.none() | st.booleans() | st.integers(-2, 43) | st.floats() | TEXTS | st.just(UNREAD)
)
QUOTED = (TEXTS | st.text(max_size=6)).map(lambda text: Operand(text, quoted=True))
BARE = (WORDS | st.text(max_size=6)).filter(lambda text: re.fullmatch(WORD, text) is not None)
OPERANDS: Mapping[FieldKind, st.SearchStrategy[Operand]] = {
    FieldKind.TEXT: QUOTED | BARE.map(Operand),
    FieldKind.VALUE: QUOTED | BARE.map(Operand),
    FieldKind.STATUS: st.sampled_from([*Status, "null"]).map(Operand),
    FieldKind.NUMBER: st.sampled_from(["0", "3", "-1", "1.5", "1e1"]).map(Operand),
    FieldKind.SIZE: st.sampled_from(["0", "1KiB", "1.5kB", "2MB"]).map(Operand),
    FieldKind.DURATION: st.sampled_from(["0s", "90m", "1d12h"]).map(Operand),
    FieldKind.TIME: st.sampled_from(sorted(TIMES)).map(Operand),
}
REGEXES = st.sampled_from(["a", "^a", "b$", "[a-c]+", ".", ""]).map(lambda p: Operand(p, True))


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    name = draw(st.sampled_from(list(FIELDS)))
    spec = FIELDS[name]
    least = int(spec.needs_path)
    path = tuple(draw(st.lists(STEPS, min_size=least, max_size=3))) if spec.has_path else ()
    operator = draw(st.sampled_from(spec.operators))
    most = 3 if operator is Operator.IN else 1
    kind = REGEXES if operator is Operator.REGEX else OPERANDS[spec.kind]
    operands = tuple(draw(st.lists(kind, min_size=1, max_size=most)))
    if operator in {Operator.LESS, Operator.AT_MOST, Operator.GREATER, Operator.AT_LEAST}:
        assume(operands != (Operand("null"),))
    return Condition(FilterField(name, path), operator, operands)


def _joined(inner: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    parts = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return inner.map(Not) | parts.map(And) | parts.map(Or)


FILTERS: st.SearchStrategy[Filter] = st.recursive(conditions(), _joined, max_leaves=8)


@given(FILTERS)
def test_a_printed_filter_is_read_back(expression: Filter) -> None:
    assert parse_filter(format_filter(expression)) == expression


@given(FILTERS, FILTERS)
def test_a_printed_filter_is_read_back_as_an_alias(one: Filter, other: Filter) -> None:
    texts = {"one": format_filter(one), "other": format_filter(other), "both": "@one or not @other"}
    terms = FilterTerms(lambda name: FilterAlias(texts[name]))
    found = parse_filter("@both and (@one)", terms)
    assert found == And((Or((one, Not(other))), one))
    assert parse_filter(format_filter(found)) == found


@given(FILTERS, st.lists(st.lists(VALUES, max_size=2), min_size=1, max_size=4), st.data())
def test_filters_decide_as_written_out_by_hand(
    expression: Filter, pool: list[list[Value]], data: st.DataObject
) -> None:
    read = {field: data.draw(st.sampled_from(pool)) for field in fields_in(expression)}
    decide = decision(expression)
    answer = decide(read.__getitem__)
    assert answer is expected(expression, read)

    known = {field: data.draw(st.booleans()) for field in read}
    early = decide(lambda field: read[field] if known[field] else None)
    assert early in {None, answer}


def expected(expression: Filter, read: Mapping[FilterField, Sequence[Value]]) -> bool:
    """What a filter says about fields that were all read."""
    match expression:
        case And(parts):
            return all(expected(part, read) for part in parts)
        case Or(parts):
            return any(expected(part, read) for part in parts)
        case Not(part):
            return not expected(part, read)
    values = read[expression.field] or [None]
    kind = FIELDS[expression.field.name].kind
    found = [
        compared(value, expression.operator, one, kind)
        for value in values
        for one in expression.operands
    ]
    return not any(found) if expression.operator is Operator.UNEQUAL else any(found)


def compared(value: Value, operator: Operator, operand: Operand, kind: FieldKind) -> bool:
    text = operand.text
    if operator in {Operator.LIKE, Operator.REGEX}:
        if not isinstance(value, str):
            return False
        if operator is Operator.REGEX:
            return re.search(text, value) is not None
        return re.fullmatch(sql_pattern(text), value, re.DOTALL) is not None
    equal = any(type_of(value) == type_of(one) and value == one for one in readings(operand, kind))
    if operator in {Operator.EQUAL, Operator.UNEQUAL, Operator.IN}:
        return equal
    if "=" in operator and equal:
        return True
    strict = readings(operand, kind)
    if any(type_of(one) == "number" for one in strict):
        strict = [one for one in strict if type_of(one) == "number"]
    for one in strict:
        if type_of(value) == type_of(one) in {"number", "str"}:
            less = value < one  # type: ignore[operator]
            more = value > one  # type: ignore[operator]
            return less if "<" in operator else more
    return False


def type_of(value: Value) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number"
    return "str" if isinstance(value, str) else type(value).__name__


def readings(operand: Operand, kind: FieldKind) -> list[Value]:
    text = operand.text
    if text == "null" and not operand.quoted:
        return [None]
    if kind is FieldKind.SIZE:
        return [{"0": 0, "1KiB": 1024, "1.5kB": 1500, "2MB": 2_000_000}[text]]
    if kind is FieldKind.DURATION:
        return [{"0s": 0, "90m": 5400, "1d12h": 129600}[text]]
    if kind is FieldKind.TIME:
        return [TIMES[text]]
    if kind is FieldKind.NUMBER:
        return [float(text)]
    if kind is FieldKind.VALUE and not operand.quoted:
        found: list[Value] = [text]
        if text in {"true", "false"}:
            found.append(text == "true")
        if re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", text):
            found.append(float(text))
        return found
    return [text]


def sql_pattern(text: str) -> str:
    parts = re.split(r"(\\[%_\\]|%|_)", text)
    special = {"%": ".*", "_": "."}
    return "".join(
        special.get(part, re.escape(part[-1] if re.fullmatch(r"\\[%_\\]", part) else part))
        for part in parts
        if part
    )


@given(FILTERS, FILTERS)
def test_several_filters_must_all_hold(one: Filter, other: Filter) -> None:
    assert all_of([]) is None
    assert all_of([one]) == one
    assert all_of([one, other]) == And((one, other))


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
