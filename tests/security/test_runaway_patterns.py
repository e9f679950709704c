"""Patterns that backtrack for ever are stopped; our own take linear time on hostile text.

A test that fails here runs into its time limit.
"""

import contextlib
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ormsgpack import packb

from ckpt_backends.apps.deerflow.memory import front_matter
from ckpt_backends.apps.plainredis.layout import _CALLS
from ckpt_backends.errors import UsageError
from ckpt_backends.testing.screen import Seat, sit
from ckpt_backends.url import parse_url
from ckpt_cli.core import search as patterns
from ckpt_cli.core.forking import next_name
from ckpt_cli.core.memory import _SENTENCE
from ckpt_cli.core.refs import is_shortened, short_refs
from ckpt_cli.core.search import compile_pattern
from ckpt_cli.core.tasks import _CALL
from ckpt_cli.core.times import looks_like_time
from ckpt_cli.core.values import parse_path
from ckpt_cli.render.values import _SCALAR
from tests.kit.cases import cases
from tests.kit.command import ckpt, first_now
from tests.kit.hostile.corpus import HOSTILE_ID, Row, build_store

RUNAWAY = "(a+)+$"
LONG = "a" * 5000 + "!"
SIZE = 100_000
pytestmark = pytest.mark.timeout(60)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_SECONDS", 0.05)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A thread that the pattern runs away on, and one with a line that it finds."""
    rows = [
        Row("bad", "checkpoint", "msgpack", body({"text": LONG})),
        Row("good", "checkpoint", "msgpack", body({"text": "an aaa"})),
    ]
    build_store(tmp_path / "store.db", rows)
    return tmp_path / "store.db"


def body(values: dict[str, object]) -> bytes:
    versions = dict.fromkeys(values, 1)
    return packb(
        {
            **{"v": 4, "ts": "2026-01-01T00:00:00+00:00", "id": HOSTILE_ID},
            **{"channel_values": values, "channel_versions": versions, "versions_seen": {}},
        }
    )


@pytest.mark.parametrize("jobs", first_now(["2", "1"]))
def test_grep_stops_a_pattern_and_searches_the_rest(store: Path, jobs: str) -> None:
    answer = ckpt("-s", store, "grep", RUNAWAY, "-o", "json", "--jobs", jobs, code=0)
    assert [one["line"] for one in answer.json] == ["an aaa"]
    assert "the pattern takes too long on 1 line" in answer.err


def test_grep_that_found_nothing_else_ends_as_if_it_could_not_read(store: Path) -> None:
    answer = ckpt("-s", store, "grep", RUNAWAY, "hostile bad", code=7)
    assert "nothing found, but the pattern takes too long on 1 line" in answer.err
    assert "hint: a repetition inside a repetition" in answer.err


def test_grep_gives_up_after_some_lines(tmp_path: Path) -> None:
    rows = [
        Row(f"bad {n:02}", "checkpoint", "msgpack", body({"text": f"{LONG}{n}"})) for n in range(30)
    ]
    build_store(tmp_path / "store.db", rows)
    answer = ckpt("-s", tmp_path / "store.db", "grep", RUNAWAY, code=7)
    assert "search stopped: the pattern takes too long on 10 lines" in answer.err


def test_memory_search_is_bounded_as_grep_is(tmp_path: Path) -> None:
    memory = tmp_path / "memory.json"
    lines = ", ".join(f'{{"id": "f{n}", "content": "{LONG}{n}"}}' for n in range(12))
    memory.write_text(f'{{"version": "1.0", "facts": [{{"id": "a", "content": "aaa"}}, {lines}]}}')
    answer = ckpt("-s", memory, "memory", "search", "-E", RUNAWAY, code=7)
    assert "aaa" in answer.out
    assert "search stopped: the pattern takes too long on 10 lines" in answer.err


def test_the_screen_says_that_a_search_was_stopped(store: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("S")
        await seat.type(RUNAWAY)
        await seat.press("enter", "t")
        assert seat.sees("1 match", "the pattern takes too long on 1 line")

    sit(store, look)


@cases(
    "pattern",
    *("(((a{100}){100}){100}){100}", "a{1000000}", "(?R)", "(?<=a+)b", "(" * 5000 + ")" * 5000),
    "a{" + "9" * 5000 + "}",
)
def test_a_pattern_that_is_wrong_or_too_large_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError, match="cannot read the pattern"):
        compile_pattern(pattern, fixed=False, ignore_case=False)


def test_a_wrong_pattern_is_refused_with_its_place(store: Path) -> None:
    ckpt("-s", store, "grep", "ab(c", code=2, says="unterminated subpattern at position 2")


PIECES = st.sampled_from(
    [
        *("a", "b", "B", ".", "^", "$", r"\b", r"\w+", r"\d*", "[ab]+", "[^a]*", "[[:a]+", "[a-]+"),
        *("(?=b)", "(?!a)", "(a|b)", "(ab)?", "a{2}", "b{1,2}", "a{,2}", "{e}", "{e<=1}", "a{b"),
        *("(?i:b)+", r"\{", r"\(", "[{(]+", "|", "(.)", r"\1", "(?P<n>a+)?", "a+?", "(?>a+)"),
        *(".*?", r"\N{DIGIT ONE}", "ß+", r"\s*", "[&&]+", "a*+"),
    ]
)


@pytest.mark.filterwarnings("ignore:Possible nested set")
@given(
    st.lists(PIECES, max_size=6).map("".join),
    st.text("aabbB1 {e}<=:[](ßsS&-\n", max_size=12),
    st.booleans(),
)
def test_what_is_found_is_what_re_finds(pattern: str, text: str, ignore_case: bool) -> None:
    try:
        expected = re.compile(pattern, re.IGNORECASE if ignore_case else 0).search(text)
    except re.error:
        with pytest.raises(UsageError):
            compile_pattern(pattern, fixed=False, ignore_case=ignore_case)
        return
    found = compile_pattern(pattern, fixed=False, ignore_case=ignore_case)(text)
    assert found == (None if expected is None else expected.span())


GLOBS = ["*a" * 50 + "*b", "*[a-b]?*" * 20 + "c", "?*" * 1000 + "b", "*" * SIZE + "b"]


@pytest.mark.parametrize("glob", GLOBS, ids=lambda glob: glob[:9])
def test_a_glob_takes_linear_time(tmp_path: Path, glob: str) -> None:
    """Python's `fnmatch` uses atomic groups; `--match`, `--protect` and the screen use it."""
    name = "a" * SIZE
    assert not fnmatchcase(name, glob)
    build_store(tmp_path / "store.db", [Row("long", "thread_id", None, name)])
    answer = ckpt("-s", tmp_path / "store.db", "threads", "list", "--match", glob, code=0)
    assert name not in answer.out
    words = ["--keep-last", "1", "--protect", glob, "--dry-run"]
    ckpt("-s", tmp_path / "store.db", "purge", *words, code=0)


UUID = "12345678-1234-1234-1234-123456789012"
HOSTILE = [
    *("~" * SIZE + "x", "~1" * SIZE + "x", "0" * SIZE + "x", "a" * SIZE, "-" * SIZE),
    *("[" + " " * SIZE + "x", '"' * SIZE, "\\" * SIZE, '["' + "\\'" * SIZE, "." * SIZE),
    *("1" * SIZE + "!", "1:" * SIZE, "1h" * SIZE + "!", "2026-01-01T" + "0" * SIZE),
    *("|" * SIZE, f"a:{UUID}|" * 2000, ("a:" + UUID + ":") * 2000, " " * SIZE + "x", "! " * SIZE),
    *("~__pregel_push, (~" + ", (1234567890)" * 8000, "e" * SIZE, "1." * SIZE, "1e" * SIZE),
    *("postgres" * SIZE, "password " * SIZE, "host = " * SIZE, "a@" * SIZE, "[" * SIZE, ":" * SIZE),
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:9])
def test_our_own_patterns_take_linear_time(text: str) -> None:
    for pattern in (_CALLS, _CALL, _SCALAR):
        pattern.fullmatch(text)
    _SENTENCE.split(text)
    next_name([text, text + "1"])
    short_refs([text, text + "1"])
    looks_like_time(text)
    is_shortened(text, "a…a…a…a…a…b")
    is_shortened("a" * 100 + "|" + text, text[:50] + "…a…" * 9 + "b")
    for parse in (parse_path, lambda one: parse_url(f"redis://{one}")):
        with contextlib.suppress(UsageError):
            parse(text)


def test_a_hostile_ref_is_not_found(sample: Path) -> None:
    for ref in HOSTILE:
        answer = ckpt("-s", sample, "show", "trip-to-kyoto", "--at", ref)
        assert answer.code in {2, 3}, answer.err[:300]


@cases(
    "front says",
    ("a: 1" + ":1" * 400_000, "too long"),
    ("a: 1" + ":1" * 1000 + ".5", "wrong value"),
    ("a: !!python/object/apply:os.system [x]", "not allowed"),
)
def test_front_matter_takes_no_time_and_no_types(front: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        front_matter(front)
