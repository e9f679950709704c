"""Finds credentials in texts."""

from __future__ import annotations

import json
import re
import tomllib
from binascii import a2b_base64
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from hashlib import blake2b
from importlib import import_module
from importlib.resources import files
from sys import maxsize
from typing import Any, Literal

from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_backends.errors import MissingDependency, UsageError
from ckpt_backends.installing import install_command
from ckpt_backends.model import CheckpointKey
from ckpt_cli.core.conversation import as_message
from ckpt_cli.core.doctor.checks import Readability, readability
from ckpt_cli.core.values import All, Path, parse_path, unwrap

SecretPlace = Literal["value", "write", "metadata", "memory"]


@dataclass(frozen=True, slots=True)
class SecretFinding:
    """A credential at one place of a thread, or of an item of long-term memory."""

    place: SecretPlace
    kind: str
    path: Path
    """Where it is in the value; it begins with the channel, if there is one."""
    thread_id: str | None = None
    checkpoint_ns: str | None = None
    checkpoint_id: str | None = None
    """The newest checkpoint that holds it here; None for memory."""
    ref: str | None = None
    """Short form of the checkpoint id."""
    channel: str | None = None
    task_id: str | None = None
    idx: int | None = None
    """Of a write, its number within the task."""
    checkpoints: int | None = None
    """Number of checkpoints that hold it here."""
    namespace: tuple[str, ...] | None = None
    key: str | None = None
    """Of memory, the key of the item."""
    is_masked: bool = False
    """Whether a part of the address is hidden, so that nothing can be found by it."""


_SECONDS = 1.0
"""The search of one piece of a text by one rule is stopped after this time."""
_MOST_STOPS = 3
"""A rule that was stopped this often is not tried again."""
_PIECE, _OVERLAP = 1 << 16, 1 << 14
"""Long texts are searched in pieces. A secret is shorter than the part that two pieces share."""
_SHORT = 64
"""Longer texts are remembered by their hash."""
_MOST_KNOWN, _MOST_SPANS = 100_000, 100
"""Number of texts that are remembered, and of credentials in each."""


@dataclass(frozen=True, slots=True)
class SecretSpan:
    """Where a credential is in a text."""

    kind: str
    start: int
    end: int


class TextRules:
    """Rules, compiled, with what they found in the texts before."""

    def __init__(self, rules: Sequence[SecretRule]) -> None:
        import regex  # takes 20 ms; its searches can be stopped

        self._rules: list[tuple[SecretRule, Any]] = []
        self._anchors: dict[tuple[str, bool], set[int]] = {}
        """The numbers of the rules with an anchor, which is in lower case for any case."""
        for number, rule in enumerate(rules):
            flags = regex.VERSION0 | (regex.IGNORECASE if rule.ignore_case else 0)
            self._rules.append((rule, regex.compile(rule.pattern, flags)))
            for anchor in rule.anchors:
                text = anchor.lower() if rule.ignore_case else anchor
                self._anchors.setdefault((text, rule.ignore_case), set()).add(number)
        self._stops: Counter[int] = Counter()
        self._known: dict[str | bytes, tuple[SecretSpan, ...]] = {}

    @property
    def stopped(self) -> int:
        """How often a rule was stopped because it took too long."""
        return self._stops.total()

    def find(self, text: str) -> tuple[SecretSpan, ...]:
        """Return the credentials in a text, in order; they do not overlap."""
        key = text if len(text) <= _SHORT else _digest(text)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._search(text)
            if len(found) <= _MOST_SPANS:
                self._known[key] = found
        return found

    def _search(self, text: str) -> tuple[SecretSpan, ...]:
        if len(text) <= _PIECE:
            return _apart(self._in_piece(text, 0))
        found: list[SecretSpan] = []
        for start in range(0, len(text) - _OVERLAP, _PIECE - _OVERLAP):
            found += self._in_piece(text[start : start + _PIECE], start)
        # Of a secret that two pieces share, one may see only a part.
        return _apart(sorted(found, key=lambda one: one.start - one.end))

    def _in_piece(self, text: str, offset: int) -> Iterator[SecretSpan]:
        for number in self._to_try(text):
            rule, pattern = self._rules[number]
            if self._stops[number] >= _MOST_STOPS:
                continue
            try:
                for match in pattern.finditer(text, timeout=_SECONDS, concurrent=True):
                    start, end = _place(match, rule.shortest_group)
                    if rule.accepts(text[start:end]):
                        yield SecretSpan(rule.kind, offset + start, offset + end)
            except (TimeoutError, MemoryError):
                self._stops[number] += 1

    def _to_try(self, text: str) -> list[int]:
        """Return the rules with an anchor in a text."""
        texts = text, text.lower()
        found = (
            numbers
            for (anchor, any_case), numbers in self._anchors.items()
            if anchor in texts[any_case]
        )
        return sorted(set().union(*found))


def _place(match: Any, shortest: int) -> tuple[int, int]:
    """Return where the secret of a match is."""
    spans = [match.span(number) for number in range(1, match.re.groups + 1)]
    start, end = max(spans, key=lambda one: one[1] - one[0], default=(0, 0))
    if end - start < shortest:
        start, end = match.span()
    return int(start), int(end)


def _apart(found: Iterable[SecretSpan]) -> tuple[SecretSpan, ...]:
    """Return the spans in the order of the text; of two that overlap, the first that is given."""
    starts: list[int] = []
    kept: list[SecretSpan] = []
    for one in found:
        place = bisect_left(starts, one.start)
        is_before = place == len(kept) or one.end <= kept[place].start
        is_behind = place == 0 or kept[place - 1].end <= one.start
        if is_before and is_behind:
            starts.insert(place, one.start)
            kept.insert(place, one)
    return tuple(kept)


def _digest(text: str | bytes) -> bytes:
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return blake2b(data, digest_size=16).digest()


EXAMPLE = "jwt, messages[].content:jwt or *@test-*"
_ENTRY = re.compile(r"(?:(?P<path>.+?):)?(?P<kind>[a-z0-9*?-]+)(?:@(?P<thread>.+))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class IgnoredSecrets:
    """One entry; all that it names must fit."""

    kind: str
    """A shell pattern."""
    path: Path | None = None
    """The whole path; `[]` stands for any index or key. None for any path."""
    thread: str | None = None
    """A shell pattern; None for any thread, and for memory."""
    text: str = field(default="", compare=False)
    """The entry as written."""

    def fits(self, found: SecretFinding) -> bool:
        """Return whether a finding is to be left out."""
        if not fnmatchcase(found.kind, self.kind):
            return False
        if self.thread is not None and not fnmatchcase(found.thread_id or "", self.thread):
            return False
        return self.path is None or (
            len(self.path) == len(found.path)
            and all(a is All.ALL or a == b for a, b in zip(self.path, found.path, strict=True))
        )


def parse_ignored(texts: Iterable[str]) -> Sequence[IgnoredSecrets]:
    """Return the entries of a list.

    Raises `UsageError` for one that cannot be read or names no known kind.
    """
    return tuple(map(_parse, texts))


def _parse(text: str) -> IgnoredSecrets:
    match = _ENTRY.fullmatch(text)
    if match is None:
        raise UsageError(f"cannot read '{text}'", hint=f"write [PATH:]KIND[@THREAD]: {EXAMPLE}")
    kinds = list(known_kinds())
    if not any(fnmatchcase(kind, match["kind"]) for kind in kinds):
        close = get_close_matches(match["kind"], kinds, n=1)
        hint = f"did you mean '{close[0]}'?" if close else "`ckpt secrets --kinds` lists them"
        raise UsageError(f"unknown kind '{match['kind']}' in '{text}'", hint=hint)
    path = None if match["path"] is None else parse_path(match["path"])
    return IgnoredSecrets(match["kind"], path, match["thread"], text)


MASK = "***"
"""Printed in place of a secret."""
_MOST_BYTES_KNOWN, _NODE = 16 << 20, 64
"""Characters in the objects whose credentials are remembered; a node counts as this many."""
_NAMING = ("name", "key", "header")
"""Fields whose text names what the field `value` beside them holds."""


@dataclass(frozen=True, slots=True)
class SecretPart:
    """A credential in a value. `text` must never be printed, logged or stored."""

    path: Path
    """Where the text is. If it is in a key, or below such a key, the path ends before that key."""
    kind: str
    text: str


@dataclass(slots=True)
class ScannedValue:
    """What was found in a value."""

    parts: list[SecretPart]
    is_whole: bool = True
    """Whether the whole value could be decoded."""
    size: int = _NODE
    """Characters that were searched, and something for each node."""

    def add(self, other: ScannedValue, step: Path) -> None:
        """Add what was found at a step below."""
        self.is_whole &= other.is_whole
        self.size += other.size
        if other.parts:
            self.parts += (
                one if not step else replace(one, path=(*step, *one.path)) for one in other.parts
            )


class Scanner:
    """Searches values and texts by all rules. Raises `MissingDependency` without detect-secrets.

    Texts and objects that were searched before are remembered, so a growing list costs what is new
    in it. Values must not be changed while the scanner is used.
    """

    def __init__(self) -> None:
        self._rules = TextRules([*own_rules(), *library_rules()])
        self._known: dict[int, tuple[Tagged, ScannedValue]] = {}
        self._known_size = 0

    @property
    def stopped(self) -> int:
        """How often a text was not searched completely because that took too long."""
        return self._rules.stopped

    def parts(self, value: Value, key: str | None = None) -> Iterator[SecretPart]:
        """Yield the credentials in a value; `key` is the name of the field that holds it."""
        yield from self.scan(value, key).parts

    def scan(self, value: Value, key: str | None = None) -> ScannedValue:
        """Return the credentials in a value, and whether all of it could be decoded."""
        match value:
            case str():
                return ScannedValue(self._in_text(value, key), size=_NODE + len(value))
            case bytes():
                text = value.decode("latin-1")
                return ScannedValue(self._in_text(text, None), size=_NODE + len(text))
            case Tagged():
                return self._in_object(value, key)
            case Cut():
                found = self.scan(value.kept, key)
                return replace(found, is_whole=False)
            case Opaque():
                return ScannedValue([], is_whole=False)
            case list():
                return self._in_list(value, key)
            case dict():
                return self._in_dict(value)
        return ScannedValue([])

    def masked(self, text: str) -> str:
        """Return a text, such as the id of a thread, without the credentials in it."""
        found = self._rules.find(text)
        for span in reversed(found):
            text = text[: span.start] + MASK + text[span.end :]
        return text

    def _in_text(self, text: str, key: str | None) -> list[SecretPart]:
        found = self._rules.find(text)
        if not found and key is not None and (kind := kind_by_name(key, text)) is not None:
            return [SecretPart((), kind, text)]
        return [SecretPart((), one.kind, text[one.start : one.end]) for one in found]

    def _in_object(self, value: Tagged, key: str | None) -> ScannedValue:
        if isinstance(value.payload, str):
            return self.scan(value.payload, key)
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        found = self.scan(value.payload)
        self._known_size += found.size
        if self._known_size > _MOST_BYTES_KNOWN:
            self._known.clear()
            self._known_size = found.size
        self._known[id(value)] = value, found
        return found

    def _in_list(self, value: list[Value], key: str | None) -> ScannedValue:
        found = ScannedValue([])
        for index, item in enumerate(value):
            found.add(self.scan(item, key), (index,))
        return found

    def _in_dict(self, value: dict[Value, Value]) -> ScannedValue:
        found = ScannedValue([])
        naming = next((value[one] for one in _NAMING if isinstance(value.get(one), str)), None)
        for key, item in value.items():
            name = key if isinstance(key, str | int) else str(key)
            in_key = self._in_text(name, None) if isinstance(name, str) else []
            found.parts += in_key
            label = name if isinstance(name, str) else None
            if name == "value" and isinstance(naming, str):
                label = naming
            inside = self.scan(item, label)
            if in_key:
                inside.parts = [replace(one, path=()) for one in inside.parts]
            found.add(inside, () if in_key else (name,))
        return found


_ORDER: tuple[SecretPlace, ...] = ("value", "write", "metadata", "memory")
_MOST = 100
"""More credentials of one kind in the same text are counted as one."""


@dataclass(frozen=True, slots=True)
class LocatedSecret:
    """A credential in a value; its text is replaced by a hash."""

    kind: str
    path: Path
    place: Path
    """The path with the id of a message in place of its index, so that it stays the same when
    messages before it are removed."""
    digest: bytes


def located(value: Value, parts: Iterable[SecretPart]) -> tuple[LocatedSecret, ...]:
    """Return the credentials that were found in a value, without their texts."""
    digests: dict[tuple[Path, str], list[bytes]] = {}
    for part in parts:
        digests.setdefault((part.path, part.kind), []).append(_digest(part.text))
    return tuple(
        LocatedSecret(kind, path, _place_of_value(value, path), digest)
        for (path, kind), found in digests.items()
        for digest in (found if len(found) <= _MOST else [_digest(b"".join(found))])
    )


@dataclass(slots=True)
class _Occurrence:
    """Where a credential was seen."""

    rank: int = maxsize
    newest: SecretFinding | None = None
    """In the newest checkpoint that holds it."""
    checkpoints: int = 0
    last: CheckpointKey | None = None
    """The checkpoint that was counted last; those of one namespace come one after the other."""


class SecretOccurrences:
    """The credentials of one thread by their places."""

    def __init__(self) -> None:
        self._found: dict[tuple[object, ...], _Occurrence] = {}

    def add(
        self,
        place: SecretPlace,
        channel: str | None,
        key: CheckpointKey,
        rank: int,
        found: Iterable[LocatedSecret],
        *,
        task_id: str | None = None,
        idx: int | None = None,
    ) -> None:
        """Add what a checkpoint holds at one place; the newest checkpoint has the lowest rank."""
        for one in found:
            same = key.checkpoint_ns, place, channel, one.kind, one.place, one.digest
            seen = self._found.setdefault(same, _Occurrence())
            if rank < seen.rank:
                seen.rank = rank
                path = one.path if channel is None else (channel, *one.path)
                seen.newest = SecretFinding(
                    place, one.kind, path, *key, channel=channel, task_id=task_id, idx=idx
                )
            if seen.last != key:
                seen.last = key
                seen.checkpoints += 1

    def findings(self, mask: Callable[[str], str]) -> list[SecretFinding]:
        """Return the findings in order. `mask` hides credentials in ids and names."""
        found = (
            masked(replace(one.newest, checkpoints=one.checkpoints), mask)
            for one in self._found.values()
            if one.newest is not None
        )
        return sorted(dict.fromkeys(found), key=_sort_key)


def masked(found: SecretFinding, mask: Callable[[str], str]) -> SecretFinding:
    """Return a finding without the credentials in its ids and names."""

    def hidden(text: str | None) -> str | None:
        return None if text is None else mask(text)

    channel, namespace = hidden(found.channel), found.namespace
    shown = replace(
        found,
        path=found.path if channel is None else (channel, *found.path[1:]),
        thread_id=hidden(found.thread_id),
        checkpoint_ns=hidden(found.checkpoint_ns),
        checkpoint_id=hidden(found.checkpoint_id),
        channel=channel,
        task_id=hidden(found.task_id),
        namespace=None if namespace is None else tuple(map(mask, namespace)),
        key=hidden(found.key),
    )
    return replace(shown, is_masked=shown != found)


def _sort_key(one: SecretFinding) -> tuple[object, ...]:
    return (
        one.checkpoint_ns,
        _ORDER.index(one.place),
        one.channel or "",
        tuple((isinstance(step, str), step) for step in one.path),
        one.kind,
        one.checkpoint_id,
        one.task_id or "",
        one.idx or 0,
    )


def _place_of_value(value: Value, path: Path) -> Path:
    place: list[str | int] = []
    for step in path:
        assert isinstance(step, str | int)  # noqa: S101 - the scanner returns no other steps
        held = unwrap(value)
        if isinstance(held, list) and isinstance(step, int):
            value = held[step]
            message = as_message(value)
            place.append(step if message is None or message.id is None else message.id)
        else:
            value = held.get(step) if isinstance(held, dict) else None
            place.append(step)
    return tuple(place)


CANNOT_DECODE = "cannot be decoded; only their bytes were searched"
_WORDS = {
    Readability.CLOSED: "encrypted",
    Readability.REFUSED: "encrypted with another key",
    Readability.UNREAD: "too large, or stored elsewhere",
    Readability.LEFT_OUT: "",
}
"""None of these may quote a value, as the reason of an unreadable value does."""


def why_unread(value: Value) -> str:
    """Return why a value that is not whole could not be read; `''` if it is not stored."""
    return _WORDS.get(readability(value), CANNOT_DECODE)


_LISTED = """
    admin asdf bool boolean changeit changeme classified confidential credentials default
    demo disabled dummy empty enabled encrypted enter example fake false foobar hidden insert
    invalid key masked missing mypassword mysecret mytoken none null number obfuscated optional pass
    passphrase password passwd placeholder private pwd redacted removed replace required sample
    secret str string test testing text todo token true undefined unknown unset unused user username
    value yourapikey yourpassword yoursecret yourtoken
"""
_PLACEHOLDERS = frozenset(_LISTED.split())
_MARKS = ("${", "{{", "}}", "<", ">", "***", "...", "…", "%(", "$(", "[erased]", "••", "xxxx")
_BEGINNINGS = (
    *("your-", "your_", "my-", "my_", "env:", "env.", "os.", "process.", "vault:", "arn:", "$"),
    *("secret://", "file:", "http://", "https://", "sm://", "op://", "ref:", "key:"),
)
_NAME = re.compile(
    r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[a-z]+(?:[_.-][a-z]+){1,2}|[a-z]+(?:[A-Z][a-z]+){1,3}"
)
"""The name of a variable, of a setting or of an attribute."""
_UUID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
_EXAMPLE = re.compile(r"example|placeholder|changeme|your[-_]?(?:api|key|token)", re.IGNORECASE)
_ASKED = re.compile(r"placeholder|changeme|your[-_]?(?:api|key|token)", re.IGNORECASE)
_MASK = frozenset("x*._-")
"""What stands for the characters of a credential in a manual."""
_FEWEST = 5
"""Different characters in a real password; fewer are a filler such as `xxxx`."""
_END = 16
_SHORTEST_WORD = 12


def is_example(text: str) -> bool:
    """Return whether a text in the form of a credential only shows that form: `sk-xxxx...`.

    A text that could be real counts as real, such as the keys in a vendor's documentation: a false
    finding can be ignored, a missing one cannot.
    """
    return set(text[-_END:].lower()) <= _MASK or _ASKED.search(text) is not None


def is_placeholder(text: str) -> bool:
    """Return whether a text stands for a credential: a mask, a variable, a name or a URL."""
    folded = text.lower()
    bare = re.sub(r"[\W_]+", "", folded)
    return (
        not bare
        or bare in _PLACEHOLDERS
        or folded.startswith(_BEGINNINGS)
        or any(mark in folded for mark in _MARKS)
        or any(one.isspace() for one in text)
        or len(set(folded)) < _FEWEST
        or _EXAMPLE.search(text) is not None
        or _NAME.fullmatch(text) is not None
        or _UUID.fullmatch(text) is not None
    )


def is_guessable(text: str) -> bool:
    """Return whether a text is too plain to be told from a word: short and in small letters."""
    return len(text) < _SHORTEST_WORD and text.isalpha() and (text.islower() or text.istitle())


@dataclass(frozen=True, slots=True)
class SecretRule:
    """One form of a credential."""

    kind: str
    pattern: str
    """The secret is the longest group, or the whole match if there is none."""
    anchors: tuple[str, ...]
    """A text without any of these has no match."""
    ignore_case: bool = False
    accepts: Callable[[str], bool] = lambda text: not is_example(text)
    """Whether a match is a secret: not an example from documentation, and well-formed."""
    shortest_group: int = 1
    """A shorter group, such as that of a prefix, is not the secret."""


def is_token(text: str) -> bool:
    """Return whether a text has letters and digits, as random ones do."""
    return (
        not is_example(text)
        and any(one.isdigit() for one in text)
        and any(one.isalpha() for one in text)
    )


def _is_assigned(text: str) -> bool:
    """Leave out calls such as `get_key()`."""
    return not is_placeholder(text) and not is_guessable(text) and "(" not in text


def _is_aws_secret(text: str) -> bool:
    """Tell a secret key from a SHA-1 in hex, and from a path."""
    kinds = (str.islower, str.isupper, str.isdigit)
    return not is_example(text) and all(any(map(kind, text)) for kind in kinds)


def _is_jwt(text: str) -> bool:
    """Return whether the first part is the header of a token."""
    first = text.partition(".")[0]
    try:
        header = json.loads(a2b_base64(first.replace("-", "+").replace("_", "/") + "==="))
    except (ValueError, RecursionError):
        return False
    return isinstance(header, dict) and ("alg" in header or "enc" in header)


def _is_user_and_password(text: str) -> bool:
    """Return whether a text is `USER:PASSWORD` in Base64."""
    try:
        user, colon, password = a2b_base64(text, strict_mode=True).decode().partition(":")
    except ValueError:
        return False
    return bool(colon) and user.isprintable() and not is_placeholder(password)


ACCEPTS: Mapping[str, Callable[[str], bool]] = {
    "varied": lambda text: len(set(text)) > 20,
    "token": is_token,
    "assigned": _is_assigned,
    "aws-secret": _is_aws_secret,
    "jwt": _is_jwt,
    "user-and-password": _is_user_and_password,
    "no-placeholder": lambda text: not is_placeholder(text),
    "no-example": lambda text: not is_example(text),
}
"""What a match has to be, by the names in the table of rules."""


@cache
def rule_table() -> dict[str, Any]:
    """Return the table of our rules, and of the detectors of the library that are used."""
    return tomllib.loads(files("ckpt_cli.data").joinpath("secrets.toml").read_text("utf-8"))


def own_rules() -> Iterator[SecretRule]:
    """Yield our rules; where two matches overlap, the earlier one wins."""
    for one in rule_table()["rules"]:
        yield SecretRule(
            one["kind"],
            one["pattern"],
            tuple(one["anchors"]),
            one.get("any_case", False),
            ACCEPTS[one.get("accepts", "no-example")],
        )


_KINDS: tuple[tuple[str, tuple[str, ...], int], ...] = (
    ("password", ("password", "passwd", "passphrase"), 6),
    ("api-key", ("apikey", "accesskey", "subscriptionkey"), 12),
    ("secret-key", ("clientsecret", "secretkey", "secretaccesskey", "privatekey", "appsecret"), 8),
    (
        "access-token",
        ("accesstoken", "refreshtoken", "authtoken", "bearertoken", "sessiontoken", "idtoken"),
        12,
    ),
)
"""For each kind, how names of fields end, and the shortest text that counts. Names are compared in
lower case, without `_` and `-`."""
_EXACT = {"pwd": ("password", 6), "secret": ("secret-key", 12)}
_TOKENS = ("token", "apitoken", "bottoken", "accountkey", "authorization")
_LONGEST_NAME = 100
KINDS_BY_NAME = tuple(kind for kind, *_ in _KINDS)


def kind_by_name(name: str, text: str) -> str | None:
    """Return the kind of credential that a field of this name holds; None if it holds none.

    Placeholders, UUIDs, numbers, names of variables and texts with blanks are none.
    """
    kind, shortest = _kind(name)
    if kind is None or len(text) < shortest or text.isdigit():
        return None
    if is_placeholder(text) or is_guessable(text):
        return None
    if kind != "password" and not (re.search(r"\d", text) and re.search(r"[A-Za-z]", text)):
        return None
    return kind


def _kind(name: str) -> tuple[str | None, int]:
    if len(name) > _LONGEST_NAME:
        return None, 0
    bare = re.sub(r"[\W_]+", "", name.lower())
    if bare in _EXACT:
        return _EXACT[bare]
    if bare in _TOKENS:
        return "access-token", 20
    for kind, endings, shortest in _KINDS:
        if bare.endswith(endings):
            return kind, shortest
    return None, 0


_GITLEAKS = "https://github.com/gitleaks/gitleaks/blob/master/config/gitleaks.toml"
_LIBRARY = "https://github.com/Yelp/detect-secrets"


def known_kinds() -> Mapping[str, list[str]]:
    """Return the kinds in order, each with its sources. Loads no library."""
    found: dict[str, list[str]] = {kind: ["the name of a field"] for kind in KINDS_BY_NAME}
    for one in rule_table()["rules"]:
        found.setdefault(one["kind"], one.get("sources", [_GITLEAKS]))
    for kind in dict.fromkeys(kind for one in rule_table()["detectors"] for kind in one["kinds"]):
        found[kind] = [*found.get(kind, ()), _LIBRARY]
    return {kind: found[kind] for kind in sorted(found)}


_END_OF_TOKEN = r"[\w-]{0,250}"  # noqa: S105
"""Some patterns match the beginning of longer tokens, which must be erased as a whole."""


def library_rules() -> Iterator[SecretRule]:
    """Yield the rules of the library. Raises `MissingDependency` if it is not installed."""
    for detector in rule_table()["detectors"]:
        kinds = detector["kinds"]
        grouped: dict[tuple[str, bool], list[str]] = {}
        for number, pattern in enumerate(_patterns(detector)):
            kind = kinds[min(number, len(kinds) - 1)]
            flags = "(?x:" if pattern.flags & re.VERBOSE else "(?:"
            ignores_case = bool(pattern.flags & re.IGNORECASE)
            grouped.setdefault((kind, ignores_case), []).append(f"{flags}{pattern.pattern})")
        for (kind, ignores_case), patterns in grouped.items():
            yield SecretRule(
                kind,
                f"(?:{'|'.join(patterns)}){_END_OF_TOKEN}",
                tuple(detector["anchors"]),
                ignore_case=ignores_case,
                shortest_group=16,
            )


def _patterns(detector: Mapping[str, Any]) -> list[re.Pattern[str]]:
    try:
        module = import_module(f"detect_secrets.plugins.{detector['module']}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "detect_secrets":
            raise
        raise MissingDependency(
            "finding secrets requires detect-secrets",
            hint=install_command("langgraph-ckpt[secrets]"),
        ) from None
    return list(getattr(module, detector["name"]).denylist)
