"""What an erasure covers, and the receipt that tells it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ckpt_backends.app_sessions import AppSession
from ckpt_backends.changes.bundle import SUFFIX
from ckpt_backends.errors import ParseError, UsageError
from ckpt_backends.memory.protocol import Item, ItemKey, Namespace, begins
from ckpt_cli.core.filters import Condition, Filter, FilterField, Not, Operand, Operator, parts_of
from ckpt_cli.core.memory import parse_namespace, source_of

# Salted digests of ids, with which a receipt is verified without naming anyone.
#
# Who has the receipt and guesses an id can still check the guess.


_SIZE = 20
"""Bytes of a digest."""
_SALT_SIZE = 16
_NAMES, _NEWER = ("threads", "namespaces", "items", "sessions"), ("archives", "names")
"""The keys of a record; receipts of the first releases lack the newer ones."""
_WORDS = re.compile(r"\w+")
_LONGEST_NAME = 8
"""Words of a name that is found in a text."""


@dataclass(slots=True)
class ErasedIds:
    """The digests of all that an erasure removed."""

    salt: str = field(default_factory=lambda: os.urandom(_SALT_SIZE).hex())
    threads: set[str] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)
    """Namespaces of long-term memory that were erased whole."""
    items: set[str] = field(default_factory=set)
    sessions: set[str] = field(default_factory=set)
    archives: set[str] = field(default_factory=set)
    """Archived threads of other stores."""
    names: set[str] = field(default_factory=set)
    """Texts that name the subject."""

    def digest(self, *parts: str) -> str:
        """Return the digest of an id."""
        from hashlib import blake2b  # late: it loads OpenSSL

        key, text = bytes.fromhex(self.salt), "\0".join((str(len(parts)), *parts))
        data = text.encode("utf-8", "surrogatepass")
        return blake2b(data, digest_size=_SIZE, key=key).hexdigest()

    def add_threads(self, thread_ids: Iterable[str]) -> None:
        """Add threads."""
        self.threads.update(self.digest("thread", one) for one in thread_ids)

    def add_namespaces(self, namespaces: Iterable[Namespace]) -> None:
        """Add namespaces."""
        self.namespaces.update(self.digest("namespace", *one) for one in namespaces)

    def add_items(self, keys: Iterable[ItemKey]) -> None:
        """Add items of long-term memory."""
        self.items.update(self.digest("item", *one.namespace, one.key) for one in keys)

    def add_sessions(self, keys: Iterable[str]) -> None:
        """Add sessions by their keys in the store."""
        self.sessions.update(self.digest("session", one) for one in keys)

    def add_archives(self, threads: Iterable[tuple[str, str]]) -> None:
        """Add archived threads, each with its store as the header of the archive names it."""
        self.archives.update(self.digest("archive", *one) for one in threads)

    def add_names(self, names: Iterable[str]) -> None:
        """Add texts that name the subject; upper and lower case are the same."""
        self.names.update(self.digest("name", one.casefold()) for one in names)

    def has_thread(self, thread_id: str | None) -> bool:
        """Return whether a thread was erased."""
        return thread_id is not None and self.digest("thread", thread_id) in self.threads

    def has_item(self, key: ItemKey) -> bool:
        """Return whether an item, or a namespace that it is in, was erased."""
        if self.digest("item", *key.namespace, key.key) in self.items:
            return True
        labels: Sequence[Namespace] = [key.namespace[:n] for n in range(1, len(key.namespace) + 1)]
        return bool(self.namespaces) and any(
            self.digest("namespace", *one) in self.namespaces for one in labels
        )

    def has_session(self, key: str) -> bool:
        """Return whether a session was erased."""
        return self.digest("session", key) in self.sessions

    def has_archive(self, thread_id: str, store: str) -> bool:
        """Return whether an archive of this thread of another store was erased."""
        return self.digest("archive", thread_id, store) in self.archives

    def has_name(self, text: str) -> bool:
        """Return whether some words in a row of a text name the subject."""
        if not self.names:
            return False
        folded = text.casefold()
        words = [one.span() for one in _WORDS.finditer(folded)]
        return any(
            self.digest("name", folded[first:last]) in self.names
            for number, (first, _) in enumerate(words)
            for _, last in words[number : number + _LONGEST_NAME]
        )

    def is_named_in(self, text: str) -> bool:
        """Return whether a text is the id of an erased thread, or names the subject."""
        return self.has_thread(text) or self.has_name(text)

    def merge(self, other: ErasedIds) -> None:
        """Add the digests of an earlier run with the same salt."""
        for name in (*_NAMES, *_NEWER):
            getattr(self, name).update(getattr(other, name))


def ids_record(ids: ErasedIds) -> dict[str, Any]:
    """Return digests as JSON."""
    return {"salt": ids.salt, **{name: sorted(getattr(ids, name)) for name in (*_NAMES, *_NEWER)}}


def ids_from_record(record: Any) -> ErasedIds:
    """Parse digests. Raises `ValueError`, `KeyError` or `TypeError`."""
    if len(bytes.fromhex(record["salt"])) != _SALT_SIZE:
        raise ValueError(record["salt"])
    found = {name: set(map(_hex, record[name])) for name in _NAMES}
    found |= {name: set(map(_hex, record.get(name, ()))) for name in _NEWER}
    return ErasedIds(str(record["salt"]), **found)


def _hex(text: object) -> str:
    if not isinstance(text, str) or len(bytes.fromhex(text)) != _SIZE:
        raise ValueError(text)
    return text


SHORTEST_WORD = 3
"""Characters of a word that is looked for in texts; shorter ones are found everywhere."""


@dataclass(slots=True)
class ErasureScope:
    """What is asked for. Threads are added while they are found."""

    word: str | None = None
    """What the application calls the person, if that is known."""
    words: Collection[str] = ()
    """Texts that name the person, for mentions and the log of operations."""
    namespaces: Collection[Namespace] = ()
    """Namespaces of long-term memory that are the person's."""
    threads: set[str] = field(default_factory=set)
    """Ids of threads, also of those that do not exist any more."""
    earlier: ErasedIds | None = None
    """What an earlier run of the same erasure, which did not end, had found."""
    memory_patterns: Collection[str] = ()
    """What was given to find the namespaces, such as `users/{user}`."""

    def has_thread(self, thread_id: str | None) -> bool:
        """Return whether a thread belongs to the erasure."""
        if thread_id is None:
            return False
        return thread_id in self.threads or (
            self.earlier is not None and self.earlier.has_thread(thread_id)
        )

    @property
    def has_threads(self) -> bool:
        """Whether any thread is known, now or from an earlier run."""
        return bool(self.threads or (self.earlier and self.earlier.threads))

    def has_namespace(self, namespace: Namespace) -> bool:
        """Return whether a namespace is the person's, or below one."""
        return any(begins(namespace, one) for one in self.namespaces)

    def has_item(self, item: Item) -> bool:
        """Return whether an item, read with its value, is the person's or from a thread."""
        if self.has_namespace(item.key.namespace):
            return True
        if self.earlier is not None and self.earlier.has_item(item.key):
            return True
        source = source_of(item)
        return source is not None and self.has_thread(source.thread_id)

    def has_session(self, one: AppSession) -> bool:
        """Return whether a session is the person's, or of a thread."""
        return self.has_thread(one.thread_id) or (
            self.word is not None and one.user_id == self.word
        )

    @property
    def names(self) -> list[str]:
        """The words that are long enough to be looked for in texts."""
        return sorted(one for one in {*self.words, self.word or ""} if len(one) >= SHORTEST_WORD)

    @property
    def name_pattern(self) -> re.Pattern[str] | None:
        """A pattern for a text that names the person; None if no word is known."""
        return whole_words(self.names) if self.names else None

    def hidden_names(self, text: str) -> re.Pattern[str] | None:
        """Return a pattern for what a receipt may not show of a text; None if it shows nothing."""
        known = {*self.words, self.word or "", *self.threads}
        folded = text.casefold()
        names = [one for one in known if len(one) >= SHORTEST_WORD and one.casefold() in folded]
        # In the name of a folder, `_` parts words.
        found = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
        return re.compile(rf"(?<![^\W_])(?:{found})(?![^\W_])", re.IGNORECASE) if names else None


def whole_words(words: Collection[str]) -> re.Pattern[str]:
    """Return a pattern that finds texts that stand alone, in any case."""
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, words))})(?!\w)", re.IGNORECASE)


def names_erased(value: Any, scope: ErasureScope, pattern: re.Pattern[str] | None) -> bool:
    """Return whether a text anywhere in a JSON value is an erased thread's id or names the
    person.
    """
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, str):
            if scope.has_thread(one) or (pattern is not None and pattern.search(one)):
                return True
        elif isinstance(one, dict):
            todo += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            if all(isinstance(label, str) for label in one) and scope.has_namespace(tuple(one)):
                return True
            todo += one
    return False


_PLACES = ("{subject}", "{user}")
_OPERATORS = re.compile(r"[=<>~()]")
_PEOPLE = frozenset({"user", "user_id", "userId", "username"})
_NAMING = frozenset({"user", "thread", "metadata", "values"})


@dataclass(frozen=True, slots=True)
class ErasureSubject:
    """The person that is erased."""

    text: str
    """As given."""
    filter: Filter
    """The threads of the person."""
    word: str | None
    """What the application calls the person; None if the filter does not tell."""


def parse_subject(text: str, field: str | None) -> ErasureSubject:
    """Return what `--subject` means: a filter, or a word that `field` of a thread equals.

    Raises `ParseError`, and `UsageError` for a word without a field.
    """
    from ckpt_cli.core.filters import parse_filter

    try:
        found = parse_filter(text)
    except ParseError:
        if _OPERATORS.search(text):
            raise
        if field is None:
            raise UsageError(
                f"cannot tell where threads name '{text}'",
                hint="give a filter such as 'metadata.user = \"anna\"', or set subject in"
                " [stores.NAME.erase] of the configuration",
            ) from None
        return ErasureSubject(text, _condition(field, text), text)
    return ErasureSubject(text, found, _word_of(found, field))


def check_field(field: str) -> None:
    """Raise `UsageError` if a word cannot be compared with this field."""
    _condition(field, "x")


def memory_namespace(pattern: str, word: str) -> Namespace:
    """Return the namespace of a person: `users/{subject}`, or `{user}`, with the word in place."""
    found = re.compile("|".join(map(re.escape, _PLACES)))
    return tuple(found.sub(lambda _: word, label) for label in parse_namespace(pattern))


def check_memory_pattern(pattern: str) -> None:
    """Raise `UsageError` for a pattern that would mean the memory of everyone."""
    if not any(place in label for place in _PLACES for label in parse_namespace(pattern)):
        raise UsageError(
            f"'{pattern}' is the memory of everyone: no {_PLACES[0]} in it",
            hint="write users/{subject}, with {subject} for the person",
        )


def names_of(subject: ErasureSubject, field: str | None) -> tuple[str, ...]:
    """Return what the application calls the people of a subject, to find their memory.

    These are the texts that the field of people is compared with, but for what follows a `not`.
    Without such a field, any field may name them.
    """
    if subject.word is not None:
        return (subject.word,)
    found = list(_affirmed(subject.filter))
    of_people = [one for one in found if _is_of_people(one, field)]
    return tuple(sorted(_texts(of_people if field is not None else of_people or found)))


def words_of(expression: Filter, field: str | None) -> set[str]:
    """Return the texts by which a filter names the person.

    If it asks for a field that holds the user, these are the texts of this field only.
    """
    found = list(_conditions(expression))
    return _texts([one for one in found if _is_of_people(one, field)]) or _texts(found)


def _is_of_people(one: Condition, field: str | None) -> bool:
    own = None if field is None else _condition(field, "x").field
    return one.field == own or _names_person(one.field)


def _texts(found: Iterable[Condition]) -> set[str]:
    return {
        operand.text
        for one in found
        if one.operator in {Operator.EQUAL, Operator.IN} and one.field.name in _NAMING
        for operand in one.operands
    }


def _conditions(expression: Filter) -> Iterator[Condition]:
    if isinstance(expression, Condition):
        yield expression
    for part in parts_of(expression):
        yield from _conditions(part)


def _affirmed(expression: Filter) -> Iterator[Condition]:
    if isinstance(expression, Condition):
        yield expression
    elif not isinstance(expression, Not):
        for part in parts_of(expression):
            yield from _affirmed(part)


def mention_pattern(words: Iterable[str], thread_ids: Collection[str], most: int) -> str | None:
    """Return a regular expression that finds words and ids as whole words; None if there are none.

    Short words would be found everywhere, so they are left out; of the ids, at most `most`.
    """
    usable = [one for one in sorted({*words}) if len(one) >= SHORTEST_WORD]
    ids = [one for one in sorted(thread_ids)[:most] if len(one) >= SHORTEST_WORD]
    found = "|".join(re.escape(one) for one in dict.fromkeys((*usable, *ids)))
    return rf"(?<!\w)(?:{found})(?!\w)" if found else None


def _condition(field: str, word: str) -> Condition:
    from ckpt_cli.core.filters import parse_filter

    try:
        found = parse_filter(f"{field} = 'x'")
    except ParseError as error:
        raise UsageError(f"'{field}' is not a field of a thread: {error.message}") from None
    if not isinstance(found, Condition):
        raise UsageError(f"'{field}' is not a field of a thread")
    return Condition(found.field, Operator.EQUAL, (Operand(word, quoted=word == "null"),))


def _names_person(field: FilterField) -> bool:
    """Return whether a field, by its name, holds the user of a thread."""
    last = field.path[-1] if field.path else field.name
    # A key may have dots of its own, such as "app.user_id".
    return field.name in {"user", "metadata"} and str(last).rpartition(".")[2] in _PEOPLE


def _word_of(expression: Filter, field: str | None) -> str | None:
    """Return the word of a filter that only compares the field of the profile with it."""
    if not isinstance(expression, Condition) or expression.operator is not Operator.EQUAL:
        return None
    if field is not None and expression.field != _condition(field, "x").field:
        return None
    if field is None and not _names_person(expression.field):
        return None
    return expression.operands[0].text


PlaceState = Literal["erased", "kept", "unreachable"]
PlaceKind = Literal[
    "threads", "memory", "sessions", "archives", "plans", "operations", "queries", "engine", "other"
]
"""What a place holds; `engine` is the engine of a store with its logs and free space."""


@dataclass(frozen=True, slots=True)
class ErasurePlace:
    """One place that held something of the subject, or may still hold it."""

    store: str
    """URL without secrets, or a folder or file."""
    kind: PlaceKind
    items: int | None
    """Number of threads, items, sessions or files; None if it cannot be known."""
    bytes: int | None
    state: PlaceState
    reason: str = ""
    """Why it was not erased, or how it was."""
    is_left: bool = False
    """Whether something is left here that a later run can erase."""
    is_unknown: bool = False
    """Whether it was not looked at, so that nobody can say later what is back."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A text elsewhere that names the subject or an erased thread. It is never removed."""

    store: str
    kind: Literal["thread", "memory", "archive"]
    name: str
    """The thread, the item as NAMESPACE/KEY, or the file."""
    hits: int
    where: str = ""
    """The first place: a channel with its path, `thread_id`, `key`, `value` or `store`."""


@dataclass(slots=True)
class ErasureReport:
    """What an erasure did, or would do."""

    subject: str | None
    """As given; None if threads were given by id or by conditions."""
    is_dry_run: bool
    places: list[ErasurePlace] = field(default_factory=list)
    mentions: list[Mention] = field(default_factory=list)
    has_more_mentions: bool = False
    """Whether there are more mentions than are listed."""
    is_searched: bool = True
    """Whether mentions were looked for."""
    statements: list[str] = field(default_factory=list)
    """What engines and files did to the old bytes, in order."""
    stopped: str = ""
    """Why it stopped early; `''` if it did not."""

    @property
    def is_complete(self) -> bool:
        """Whether all that was found is erased, so that nothing of it can be read in any place.

        Free space that an engine reuses later, and what can never be reached, do not count.
        """
        return not (self.is_dry_run or self.stopped or any(one.is_left for one in self.places))

    def add(self, places: Iterable[ErasurePlace]) -> None:
        """Add places; what two stores of one server report is kept once."""
        for one in places:
            if one not in self.places:
                self.places.append(one)

    def did(self, statements: Iterable[str]) -> None:
        """Add statements, each once."""
        self.statements += [one for one in statements if one not in self.statements]


FORMAT = 1
_HIDDEN = "[erased]"
_ARCHIVE = re.compile(rf"[^/]*{re.escape(SUFFIX)}")
"""The name of an archive, which holds the id of a thread."""


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """What a receipt holds for its verification."""

    store: str
    place: str
    """A digest of where the store is."""
    ids: ErasedIds
    folders: tuple[str, ...]
    """The folders whose archives and plans were looked through."""
    memories: tuple[str, ...]
    """Digests of where the memories are."""
    unknown: tuple[ErasurePlace, ...] = ()
    """The places that were left and that a verification cannot look at."""

    @property
    def named_folders(self) -> list[str]:
        """The folders whose names are in the receipt as they are."""
        return [one for one in self.folders if _HIDDEN not in one]

    def unnamed_folders(self, named: Iterable[str]) -> Iterator[str]:
        """Yield the folders whose names hide an id, unless one that is named now fits."""
        for one in self.folders:
            if _HIDDEN in one:
                fits = re.compile(".+".join(map(re.escape, one.split(_HIDDEN))), re.DOTALL)
                if not any(fits.fullmatch(text) for text in named):
                    yield one


def receipt_record(
    report: ErasureReport,
    receipt: ErasureReceipt,
    facts: Mapping[str, Any],
    hidden: re.Pattern[str] | None,
) -> dict[str, Any]:
    """Return a receipt as JSON. `facts` are who, when and which version; `hidden` finds names."""

    def shown(text: str) -> str:
        text = _ARCHIVE.sub(f"{_HIDDEN}{SUFFIX}", text)
        return text if hidden is None else hidden.sub(_HIDDEN, text)

    return {
        "ckpt_erasure_receipt": FORMAT,
        **facts,
        "store": shown(receipt.store),
        "place": receipt.place,
        "complete": report.is_complete,
        "stopped": shown(report.stopped),
        "places": [place_record(one, shown) for one in report.places],
        "statements": [shown(one) for one in report.statements],
        "mentions": len(report.mentions) if report.is_searched else None,
        "folders": [shown(one) for one in receipt.folders],
        "memories": list(receipt.memories),
        **ids_record(receipt.ids),
    }


def place_record(
    one: ErasurePlace, shown: Callable[[str], str] = lambda text: text
) -> dict[str, Any]:
    """Return a place as JSON."""
    return {
        "store": shown(one.store),
        "kind": one.kind,
        "items": one.items,
        "bytes": one.bytes,
        "state": one.state,
        "reason": shown(one.reason),
        # A verification sees neither what was not looked at, nor old bytes in an engine.
        **({"unknown": True} if one.is_unknown or (one.is_left and one.kind == "engine") else {}),
    }


def receipt_from_record(record: Any) -> ErasureReceipt:
    """Parse a receipt. Raises `ValueError`, `KeyError` or `TypeError`."""
    if record["ckpt_erasure_receipt"] != FORMAT:
        raise ValueError(record["ckpt_erasure_receipt"])
    return ErasureReceipt(
        str(record["store"]),
        str(record["place"]),
        ids_from_record(record),
        tuple(map(str, record["folders"])),
        tuple(map(str, record["memories"])),
        tuple(_unknown(one) for one in record["places"] if one.get("unknown")),
    )


def _unknown(record: Any) -> ErasurePlace:
    reason = f"the erasure left it: {record['reason']}"
    return ErasurePlace(str(record["store"]), record["kind"], None, None, "unreachable", reason)
