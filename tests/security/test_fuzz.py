"""Random hostile input: every command ends as documented and prints clean text.

The same inputs are tried in each run; a nightly run tries others.
"""

import contextlib
import json
import os
import pickletools
import sqlite3
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from ormsgpack import OPT_NON_STR_KEYS, OPT_PASSTHROUGH_BIG_INT, Ext, packb, unpackb

from ckpt_backends.codec import decode, decode_checkpoint, to_json
from ckpt_backends.codec.lossless import decode_lossless
from ckpt_backends.errors import CkptError, UsageError
from ckpt_backends.model import TypedBytes
from ckpt_backends.testing.chance import Chance
from ckpt_backends.url import masked, parse_url, printable
from tests.kit.command import SAMPLE, ckpt, copy_store
from tests.kit.hostile.commands import EVERY_ROW, ON_THREAD, WHOLE, on
from tests.kit.hostile.corpus import Row, light_rows
from tests.kit.hostile.watched import check, checked_in_child

Check: TypeAlias = Callable[[Any], None]
THREAD = "trip-to-kyoto"
Fuzz: TypeAlias = Callable[[st.SearchStrategy[Any], Check, int], None]


@pytest.fixture(params=["some", pytest.param("many", marks=pytest.mark.nightly)])
def fuzz(request: pytest.FixtureRequest, chance: Chance) -> Fuzz:
    """Try a number of inputs, always the same, or in the night over and over other ones."""

    def tried(strategy: st.SearchStrategy[Any], check: Check, examples: int) -> None:
        bounds = settings(
            max_examples=examples,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        if request.param == "some":
            settings(bounds, derandomize=True)(given(strategy)(check))()
            return
        for dice in chance.rounds(10):
            seed(dice.getrandbits(32))(bounds(given(strategy)(check)))()

    return tried


characters = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
"""What a command line may contain."""
JUNK = [
    *("", " ", "-", "--", "~", "@", "…", "|", "/", "..", "*", "[", "]", "{", "}", "(", "'", '"'),
    *("\\", "\n", "\x1b[31m", "\u202e", "\x9b", "%", "%s", "%00", "%ff", "${HOME}", "$(id)", "`"),
    *("9" * 30, "9" * 5000, "-1", "1e9", "nan", "inf", "0x1", "١", "²", "1_0", "é\u0301", "👩‍👧"),
    *("\udc80", "a" * 5000, "[" * 2000, '{"a":' * 2000, "=", ":", ",", ";", "&", "?", "#", "null"),
]
junk = st.text(characters, max_size=12) | st.sampled_from(JUNK)


def one_of(words: str) -> st.SearchStrategy[str]:
    """One of the words of a text."""
    return st.sampled_from(words.split(" "))


def mixed(words: str) -> st.SearchStrategy[str]:
    """Texts of the words of a text, and of junk between them."""
    return st.lists(one_of(words) | junk, min_size=1, max_size=6).map("".join) | one_of(words)


refs = mixed("head ~1 ~ step: tip: 0 1 2h yesterday 2026-04-07 T Z")
targets = mixed(f"{THREAD} @ head ~2 step:1 anna@example.com tip:0")
times = mixed("2h 30d 1y 2026 - 04 07 T10:00 Z +02:00 yesterday now")
json_paths = mixed("messages [0] [-1] [] . content [\"a\"] ['b'] plan ..")
filters = mixed('metadata. user source = 1 null "x" step . [0] true')
edits = mixed('messages = [] {} 1 null "x" {"$type":"a.B"} [1, plan')
numbers = mixed("0 1 -1 3 1e3 0.5")
names = mixed("messages __start__ planner : | root")
paths = mixed("store.db / . x out").filter(lambda text: ".." not in text)
"""Paths that stay in the folder of the test when they are written to."""

INPUTS: dict[str, tuple[st.SearchStrategy[str], str]] = {
    "ref": (refs, "show trip-to-kyoto --at {}"),
    "target": (targets, "show -- {}"),
    "new thread": (targets, "copy trip-to-kyoto --at head --dry-run --as {}"),
    "as of": (times, "show trip-to-kyoto --as-of {}"),
    "older than": (times, "purge --dry-run --older-than {}"),
    "where": (filters, "threads list --where {}"),
    "match": (mixed("* ? [a-z] [! trip **"), "threads list --match {}"),
    "status": (names, "threads list --status {}"),
    "page": (numbers, "threads list --page {}"),
    "since": (times, "threads list --since {}"),
    "until": (times, "threads list -o json --until {}"),
    "reason": (names, "fork trip-to-kyoto --at head --dry-run --reason {}"),
    "grace": (times, "gc --scope all --dry-run --grace {}"),
    "keep within": (times, "purge --dry-run --keep-within {}"),
    "limit": (numbers, "threads list --limit {}"),
    "keep last": (numbers, "purge --dry-run --keep-last {}"),
    "pattern": (mixed(r"( ) a+ * {2} [^ ] | \d (?i) (?P< . $ ^"), "grep -- {}"),
    "channel": (json_paths, "show trip-to-kyoto --channel {}"),
    "blame": (json_paths, "blame -- trip-to-kyoto {}"),
    "namespace": (names, "history trip-to-kyoto --ns {}"),
    "reducer": (edits, "replay trip-to-kyoto --reducer {}"),
    "set": (edits, "fork trip-to-kyoto --at head --dry-run --set {}"),
    "append": (edits, "fork trip-to-kyoto --at head --dry-run --append {}"),
    "as node": (names, "fork trip-to-kyoto --at head --dry-run --as-node {}"),
    "output": (names, "threads list -o {}"),
    "command": (names, "{} trip-to-kyoto"),
    "option": (names, "show trip-to-kyoto --{}"),
    "file of the store": (paths, "-s sqlite:///{} threads list"),
    "key file": (paths, "--aes-key-file {} show trip-to-kyoto"),
    "plan": (paths, "apply {} --dry-run"),
    "archive": (paths, "import --dry-run -- {}"),
    "memory file": (paths, "-s {}/memory.json memory list"),
    "folder of the dev server": (paths, "-s {}/.langgraph_api threads list"),
    "configuration": (paths, "--config {} stores"),
    "file of ids": (paths, "threads delete --dry-run --from {}"),
    "memory archive": (paths, "-s memory.json memory import --dry-run -- {}"),
    "folder of an export": (paths, "export trip-to-kyoto --to out/{}"),
    "sample to write": (paths, "demo -- out/{}"),
    "completion": (targets, "_complete target {} store.db"),
}
"""What an argument is made of, and where it stands in a command line."""


@pytest.mark.parametrize("name", INPUTS)
def test_hostile_arguments(
    sample: Path, monkeypatch: pytest.MonkeyPatch, name: str, fuzz: Fuzz
) -> None:
    strategy, line = INPUTS[name]
    words = line.split(" ")
    monkeypatch.chdir(sample.parent)
    first: list[str | Path] = [] if words[0] == "_complete" else ["-s", sample]

    def try_one(text: str) -> None:
        check(ckpt(*first, *(word.replace("{}", text) for word in words)))

    fuzz(strategy, try_one, 6)


SECRET = "hunter2-correct-horse"


def test_no_part_of_a_hostile_url_is_a_secret_that_is_printed(fuzz: Fuzz) -> None:
    assert printable(f"postgresql:///:{SECRET}?@localhost/?password=x") == "postgresql://***"

    def check(parts: tuple[str, ...]) -> None:
        scheme, user, before, after, host, path, name = parts
        if scheme == "sqlite" and user.startswith("/"):
            return  # the URL of a file, whose whole path may be told
        url = f"{scheme}://{user}:{before}{SECRET}{after}@{host}/{path}?{name}={SECRET}"
        assert SECRET not in printable(url)
        try:
            parsed = parse_url(url)
        except UsageError as error:
            said = f"{error.message}{error.hint}"
        else:
            said = f"{parsed} {parsed!r} {parsed.with_params({'layout': 'x'})}"
            said += masked(f"cannot use {url}: '{before}{SECRET}{after}'", parsed)
        assert SECRET not in said

    host = one_of("localhost [::1]:1 a,b:2 h") | junk.filter("@".__ne__)
    name = one_of("password sslpassword token x a%5Fb")
    user = junk.filter(lambda text: "@" not in text) | st.just("/")
    scheme = one_of("postgresql mysql mongodb redis rediss x sqlite")
    fuzz(st.tuples(scheme, user, junk, junk, host, junk, name), check, 150)


CELLS: list[Any] = [
    *(None, 0, -1, 2**62, 1.5, float("inf"), b"", b"\xff\x00\x1b[2J", "", "\x1b[31m\u202e", "~1"),
    *("x" * 100_000, "[" * 50_000, "1e999", b"\x91" * 5000, b"\xdf\xff\xff\xff\xff", b"\x80\x04."),
    *("pickle", "msgpack+aes", "__start__", "__error__", "__interrupt__", "a|b:c|d", "head"),
]
PARTS: list[Any] = [
    *(None, True, -1, 2**63, float("nan"), b"\xff", "", "\x1b[2J", [], {}, [None], "9" * 5000),
    *({"a": {"b": []}}, {1: 2}, {"id": "x", "value": 1}, Ext(0, b"\xc1"), Ext(5, b"\x90")),
    *(Ext(code, packb(["m", "C", {"a": 1}])) for code in (1, 2)),
]


def flipped(data: bytes, chance: Random) -> bytes:
    """Change some bytes, and now and then cut off the end."""
    kept = data[: chance.randrange(len(data) + 1)] if chance.random() < 0.3 else data
    changed = bytearray(kept or b"\0")
    for _ in range(chance.randint(1, 8)):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def replaced(value: Any, chance: Random) -> Any:
    """Remove or replace a part of a value."""
    if not (isinstance(value, dict | list) and value) or chance.random() < 0.15:
        return chance.choice(PARTS)
    key = chance.choice(list(value) if isinstance(value, dict) else range(len(value)))
    if chance.random() < 0.2:
        del value[key]
    else:
        value[key] = replaced(value[key], chance)
    return value


def damaged(held: Any, chance: Random) -> Any:
    if not isinstance(held, bytes) or chance.random() < 0.2:
        return chance.choice(CELLS)
    if chance.random() < 0.6:
        with contextlib.suppress(ValueError, TypeError):
            value = unpackb(held, ext_hook=Ext, option=OPT_NON_STR_KEYS)
            options = OPT_NON_STR_KEYS | OPT_PASSTHROUGH_BIG_INT
            return packb(replaced(value, chance), option=options, default=lambda _: None)
    return flipped(held, chance)


TAGS = [
    *("msgpack", "json", "pickle", "bson", "bson-plain", "redis-json", "merged", "bytes", "null"),
    *("bytearray", "empty", "msgpack+aes", "markdown", "x\x1b[2J", ""),
]
ARGUMENTS = [b"os\nx\n", b"1\n", b"'a'\n", b"\0", b"\1\0\0\0a", b"\xff" * 8, b"9" * 5000 + b"\n"]
PIECES = [
    one.code.encode("latin-1") + argument
    for one in pickletools.opcodes
    for argument in (ARGUMENTS if one.arg else [b""] * len(ARGUMENTS))
]
pickles = st.lists(st.sampled_from(PIECES), max_size=14).map(b"".join)


def test_hostile_values_are_decoded_or_named(fuzz: Fuzz) -> None:
    rows = [one for one in light_rows(Path("marker")) if len(one.data or "") < 10_000]

    def check(drawn: tuple[str | None, Row, bytes, Random]) -> None:
        tag, row, data, chance = drawn
        changed = damaged(row.data, chance)
        found = [(row.type or "json", changed)] if isinstance(changed, bytes) else []
        for typed in (TypedBytes(*one) for one in (*found, (tag or "pickle", data))):
            for value in (decode(typed), decode_checkpoint(typed)):
                json.dumps(to_json(value))
            with contextlib.suppress(CkptError):
                decode_lossless(typed)

    tags = st.sampled_from(TAGS) | st.none()
    data = st.binary(max_size=40) | pickles.map(lambda code: code + b".")
    fuzz(
        st.tuples(tags, st.sampled_from(rows), data, st.randoms(use_true_random=False)), check, 300
    )


def damaged_store(folder: Path, chance: Random) -> tuple[Path, list[str]]:
    """Change cells and bytes of the sample; returns its path and the ids of its threads."""
    path = copy_store(SAMPLE, folder)
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        for table in ("checkpoints", "writes"):
            # Without declared types and keys, a column holds anything.
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            db.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
            db.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
            db.execute(f"INSERT INTO {table} SELECT * FROM old_{table}")
            db.execute(f"DROP TABLE old_{table}")
            rows = db.execute(f"SELECT rowid, * FROM {table}").fetchall()
            for _ in range(chance.randint(1, 4)):
                row, other, place = chance.choice(rows), chance.choice(rows), chance.choice(columns)
                number = columns.index(place) + 1
                new = chance.choice([damaged(row[number], chance), other[number]])
                db.execute(f"UPDATE {table} SET {place} = ? WHERE rowid = ?", [new, row[0]])
        db.text_factory = os.fsdecode
        found = db.execute("SELECT DISTINCT CAST(thread_id AS TEXT) FROM checkpoints").fetchall()
    if chance.random() < 0.3:
        path.write_bytes(flipped(path.read_bytes(), chance))
    return path, [text for (text,) in found if text and "\0" not in text] or ["none"]


def check_damaged_store(folder: Path, chance: Random, commands: int | None = None) -> None:
    """Run some commands, or all that read, in a child with little memory."""
    store, threads = damaged_store(folder, chance)
    lines = [on(chance.choice(threads), words) for words in (*EVERY_ROW, *ON_THREAD)] + WHOLE
    chosen = chance.sample(lines, commands or len(lines))
    checked_in_child([["-s", str(store), *words] for words in chosen])


@pytest.mark.engines
@pytest.mark.parametrize("number", range(8))
def test_damaged_stores(tmp_path: Path, number: int) -> None:
    check_damaged_store(tmp_path, Random(number), 8)


@pytest.mark.nightly
def test_other_damaged_stores(tmp_path: Path, chance: Chance) -> None:
    for dice in chance.rounds(60):
        check_damaged_store(tmp_path, dice)
