"""Random hostile input: every command ends as documented and prints clean text.

The same inputs are tried in each run; a nightly run tries others.
"""

import contextlib
import json
import pickletools
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from ckpt_backends.codec import decode, decode_checkpoint, from_json, to_json
from ckpt_backends.codec.lossless import decode_lossless
from ckpt_backends.errors import CkptError, UsageError
from ckpt_backends.model import TypedBytes
from ckpt_backends.testing.chance import Chance
from ckpt_backends.url import _has_scheme, masked, parse_url, printable
from ckpt_cli.config.profiles import load_profiles
from tests.kit.command import ROOT, ckpt
from tests.kit.hostile.watched import check

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
    parts = st.lists(one_of(words) | junk, min_size=1, max_size=6)
    return parts.map("".join) | one_of(words)


refs = mixed("head ~1 ~ step: tip: 0 1 2h yesterday 2026-04-07 T Z")
targets = mixed(f"{THREAD} @ head ~2 step:1 anna@example.com tip:0")
times = mixed("2h 30d 1y 2026 - 04 07 T10:00 Z +02:00 yesterday now")
json_paths = mixed("messages [0] [-1] [] . content [\"a\"] ['b'] plan ..")
filters = mixed('metadata. user source = 1 null "x" step . [0] true')
edits = mixed('messages = [] {} 1 null "x" {"$type":"a.B"} [1, plan')
numbers = mixed("0 1 -1 3 1e3 0.5")
globs = mixed("* ? [a-z] [! trip **")
names = mixed("messages __start__ planner : | root")
patterns = mixed(r"( ) a+ * {2} [^ ] | \d (?i) (?P< . $ ^")
paths = mixed("store.db / . x out").filter(lambda text: ".." not in text)
"""Paths that stay in the folder of the test when they are written to."""

INPUTS: dict[str, tuple[st.SearchStrategy[str], str]] = {
    "ref": (refs, "show trip-to-kyoto --at {}"),
    "ref as an argument": (refs, "diff --stat -- trip-to-kyoto {}"),
    "ref of a rollback": (refs, "rollback --dry-run -- trip-to-kyoto {}"),
    "target": (targets, "show -- {}"),
    "target of messages": (targets, "messages -o json -- {}"),
    "new thread": (targets, "copy trip-to-kyoto --at head --dry-run --as {}"),
    "as of": (times, "show trip-to-kyoto --as-of {}"),
    "since": (times, "threads list --since {}"),
    "until": (times, "threads list -o json --until {}"),
    "older than": (times, "purge --dry-run --older-than {}"),
    "keep within": (times, "purge --dry-run --keep-within {}"),
    "grace": (times, "gc --scope all --dry-run --grace {}"),
    "where": (filters, "threads list --where {}"),
    "where of purge": (filters, "purge --dry-run --where {}"),
    "match": (globs, "threads list --match {}"),
    "protect": (globs, "purge --keep-last 1 --dry-run --protect {}"),
    "status": (names, "threads list --status {}"),
    "limit": (numbers, "threads list --limit {}"),
    "page": (numbers, "threads list --page {}"),
    "keep last": (numbers, "purge --dry-run --keep-last {}"),
    "steps": (numbers, "rollback trip-to-kyoto --dry-run --steps {}"),
    "pattern": (patterns, "grep -- {}"),
    "plain text": (patterns, "grep -F -i -- {}"),
    "channel": (json_paths, "show trip-to-kyoto --channel {}"),
    "blame": (json_paths, "blame -- trip-to-kyoto {}"),
    "namespace": (names, "history trip-to-kyoto --ns {}"),
    "reducer": (edits, "replay trip-to-kyoto --reducer {}"),
    "set": (edits, "fork trip-to-kyoto --at head --dry-run --set {}"),
    "append": (edits, "fork trip-to-kyoto --at head --dry-run --append {}"),
    "replace": (edits, "fork trip-to-kyoto --at head --dry-run --replace {}"),
    "as node": (names, "fork trip-to-kyoto --at head --dry-run --as-node {}"),
    "reason": (names, "fork trip-to-kyoto --at head --dry-run --reason {}"),
    "output": (names, "threads list -o {}"),
    "command": (names, "{} trip-to-kyoto"),
    "option": (names, "show trip-to-kyoto --{}"),
    "file of the store": (paths, "-s sqlite:///{} threads list"),
    "key file": (paths, "--aes-key-file {} show trip-to-kyoto"),
    "plan": (paths, "apply {} --dry-run"),
    "archive": (paths, "import --dry-run -- {}"),
    "memory file": (paths, "-s {}/memory.json memory list"),
    "folder of the dev server": (paths, "-s {}/.langgraph_api threads list"),
    "file of the dev server": (paths, "-s {}.pckl threads list"),
    "configuration": (paths, "--config {} stores"),
    "file of ids": (paths, "threads delete --dry-run --from {}"),
    "memory archive": (paths, "-s memory.json memory import --dry-run -- {}"),
    "folder of an export": (paths, "export trip-to-kyoto --to out/{}"),
    "plan to write": (paths, "purge --older-than 0s --plan-out out/{}"),
    "sample to write": (paths, "demo -- out/{}"),
    "completion": (targets, "_complete target {} store.db"),
    "completion of a ref": (refs, "_complete ref {} store.db  trip-to-kyoto"),
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


def test_hostile_urls_are_parsed_or_refused(fuzz: Fuzz) -> None:
    def check(url: str) -> None:
        printable(url)
        try:
            parsed = parse_url(url)
        except UsageError:
            return
        if _has_scheme(url):
            again = parsed.with_params({"layout": "a b&c=d"})
            assert parse_url(again.raw).params["layout"] == "a b&c=d"

    fuzz(mixed("postgresql:// redis:// :// @ : / ? & = %40 [::1] # u"), check, 200)


numbers_of_any_kind = st.integers(-(2**63), 2**63 - 1) | st.floats()
leaves = st.none() | st.booleans() | numbers_of_any_kind | junk
KEYS = one_of(
    " default stores url reducers retention threads memory layout copy prefix ttl key messages a b"
)
tables = st.recursive(
    leaves.filter(lambda one: one is not None),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)
urls = one_of("store.db sqlite:///store.db none.db ${NOT_SET} a\x1b[2J.db ")
profiles = st.fixed_dictionaries(
    {"url": urls | tables}, optional=dict.fromkeys(("reducers", "retention", "copy", "x"), tables)
)
configurations = st.fixed_dictionaries(
    {},
    optional={
        "default": tables | st.just("a"),
        "stores": tables | st.dictionaries(KEYS, profiles | tables, max_size=3),
        "other": tables,
    },
)


def toml(value: Any) -> str:
    """Return a value as TOML, with inline tables."""
    match value:
        case dict():
            pairs = (f"{toml(str(key))} = {toml(one)}" for key, one in value.items())
            return "{" + ", ".join(pairs) + "}"
        case list():
            return "[" + ", ".join(map(toml, value)) + "]"
        case float():
            return repr(value) if "e" not in repr(value) else f"{value:e}"
        case str():
            return json.dumps(value).replace("\x7f", "?")
        case _:
            return json.dumps(value)


def test_hostile_profiles_are_read_or_refused(
    sample: Path, monkeypatch: pytest.MonkeyPatch, fuzz: Fuzz
) -> None:
    folder = sample.parent
    monkeypatch.chdir(folder)
    path = folder / "ckpt.toml"

    def load(table: dict[str, Any]) -> None:
        path.write_text("".join(f"{toml(key)} = {toml(one)}\n" for key, one in table.items()))
        try:
            found = load_profiles(str(path), folder)
        except UsageError:
            return
        for name in (*found.stores, ""):
            named = ["-s", name] if name else []
            for words in ("threads list --limit 1", "purge --expired --dry-run"):
                check(ckpt("--config", path, *named, *words.split()))

    fuzz(configurations, load, 30)


TAGS = [
    *("msgpack", "json", "pickle", "bson", "bson-plain", "redis-json", "merged", "bytes", "null"),
    *("bytearray", "empty", "msgpack+aes", "markdown", "x\x1b[2J", ""),
]


def ext(parts: tuple[int, bytes]) -> bytes:
    return b"".join([b"\xc9", struct.pack(">IB", len(parts[1]), parts[0] % 256), parts[1]])


def array(parts: list[bytes]) -> bytes:
    return b"".join([struct.pack(">BH", 0xDC, len(parts)), *parts])


def pairs(parts: list[bytes]) -> bytes:
    half = len(parts) // 2
    return b"".join([struct.pack(">BH", 0xDE, half), *parts[: half * 2]])


def text(value: str) -> bytes:
    raw = value.encode("utf-8", "surrogatepass")
    return b"".join([struct.pack(">BI", 0xDB, len(raw)), raw])


NAMES = one_of("os system datetime builtins set uuid UUID x")
ODD = [
    *(b"\xc0", b"\xc1", b"\xc2", b"\xcb" + b"\x7f\xf8" + b"\0" * 6, b"\xcf" + b"\xff" * 8),
    *(b"\xdd\xff\xff\xff\xff", b"\xdf\x7f\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xd9\xff"),
]
msgpack = st.recursive(
    st.binary(max_size=8) | st.sampled_from(ODD) | (NAMES | junk).map(text),
    lambda inner: (
        st.lists(inner, max_size=4).map(array)
        | st.lists(inner, max_size=6).map(pairs)
        | st.tuples(st.integers(0, 9) | st.integers(0, 255), inner).map(ext)
        | st.tuples(st.integers(0, 7), st.lists(inner, max_size=4).map(array)).map(ext)
    ),
    max_leaves=12,
)


def opcode(drawn: tuple[Any, bytes, int]) -> bytes:
    """Return an opcode of a pickle with an argument of its form, or nearly."""
    code, data, number = drawn
    start: bytes = code.code.encode("latin-1")
    if code.arg is None:
        return start
    form = code.arg.n
    if form >= 0:
        return start + struct.pack("<Q", number)[:form]
    if form == pickletools.UP_TO_NEWLINE:
        lines = 2 if code.name in {"GLOBAL", "INST"} else 1
        return start + (data.replace(b"\n", b"") + b"\n") * lines
    width = {-2: 1, -3: 4, -4: 4, -5: 8}.get(form, 4)
    length = len(data) if number % 5 else number
    return start + length.to_bytes(9, "little")[:width] + data


pickles = st.lists(
    st.tuples(
        st.sampled_from(pickletools.opcodes),
        st.sampled_from(
            [b"", b"0", b"1", b"os", b"-1", b"1.5", b"\xff", b"9" * 5000, b"'a'", b"x" * 99]
        ),
        st.integers(0, 3) | st.integers(0, 2**63),
    ).map(opcode),
    max_size=14,
).map(lambda codes: b"".join(codes) + b".")

FIELDS = one_of(
    "lc type id kwargs args method __type__ $binary $date $oid value v ts channel_values content"
    " channel_versions versions_seen $type $bytes tool_calls usage_metadata __bytes__"
)
FIELD_VALUES = st.sampled_from(
    [1, 2, "constructor", "not_implemented", "undefined", "secret", ["a", "B"]]
)
documents = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(FIELDS, inner | FIELD_VALUES, max_size=5)
    ),
    max_leaves=15,
)
stored = (
    msgpack.map(lambda data: ("msgpack", data))
    | pickles.map(lambda data: ("pickle", data))
    | st.tuples(
        st.sampled_from(["json", "redis-json"]),
        documents.map(lambda value: json.dumps(value).encode("utf-8", "surrogatepass")),
    )
    | st.tuples(st.sampled_from(TAGS), st.binary(max_size=40) | msgpack | pickles)
)


def test_hostile_values_are_decoded_or_named(fuzz: Fuzz) -> None:
    def check(drawn: tuple[str, bytes]) -> None:
        for typed in (TypedBytes(*drawn), TypedBytes(drawn[0], drawn[1][: len(drawn[1]) // 2])):
            for value in (decode(typed), decode_checkpoint(typed)):
                json.dumps(to_json(value))
            with contextlib.suppress(CkptError):
                decode_lossless(typed)

    fuzz(stored, check, 300)


def test_hostile_json_of_ours_is_read_or_refused(fuzz: Fuzz) -> None:
    """Values that `ckpt` printed come back with `--set` and in archives."""

    def check(value: Any) -> None:
        with contextlib.suppress(ValueError, UsageError):
            json.dumps(to_json(from_json(value)))

    fuzz(documents, check, 200)


def test_hostile_plan_files_are_read_or_refused(
    sample: Path, monkeypatch: pytest.MonkeyPatch, fuzz: Fuzz
) -> None:
    monkeypatch.chdir(sample.parent)
    made = sample.parent / "plan"
    assert ckpt("-s", sample, "purge", "--older-than", "0s", "--plan-out", made).code == 0
    lines = [json.loads(line) for line in made.read_text().splitlines()]
    assert len(lines) > 1

    def change(drawn: tuple[int, int, Any]) -> None:
        number, place, value = drawn
        changed = [dict(line) for line in lines]
        line = changed[number % len(changed)]
        key = sorted(line)[place % len(line)]
        line[key] = value
        made.write_text("".join(json.dumps(one) + "\n" for one in changed))
        check(ckpt("-s", sample, "apply", made, "--dry-run"))

    places = st.integers(0, 99)
    fuzz(st.tuples(places, places, documents | leaves), change, 30)


@pytest.mark.engines
def test_damaged_stores(tmp_path: Path) -> None:
    check_damaged_stores(tmp_path, 1, 12, 5)


@pytest.mark.nightly
def test_other_damaged_stores(tmp_path: Path, chance: Chance) -> None:
    for dice in chance.rounds(60):
        check_damaged_stores(tmp_path, dice.getrandbits(32), 3, 0)


def check_damaged_stores(tmp_path: Path, seed: int, stores: int, commands: int) -> None:
    """Rows and bytes of a file are changed; the process may use 3 GiB of memory."""
    words = [str(tmp_path), str(seed), str(stores), str(commands)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.kit.hostile.mutations", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
