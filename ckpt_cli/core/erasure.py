"""What an erasure covers, what it leaves no trace of, and the receipt that tells it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any, Literal, Protocol

from ckpt_backends.app_sessions import AppSession
from ckpt_backends.errors import ParseError, UsageError
from ckpt_backends.memory import Item, ItemKey, Namespace, begins
from ckpt_cli.core.filters import (
    Condition,
    Filter,
    FilterField,
    Not,
    Operand,
    Operator,
    parse_filter,
    records_of,
)
from ckpt_cli.core.memory import parse_namespace, source_of

SHORTEST_WORD = 3
"""Characters of a word that is looked for in texts; shorter ones are found everywhere."""


class Erased(Protocol):
    """Tells what belongs to an erasure: by names while it runs, later by their digests."""

    def has_thread(self, thread_id: str | None) -> bool:
        """Return whether a thread belongs to it."""
        ...

    def has_namespace(self, namespace: Namespace) -> bool:
        """Return whether a namespace of long-term memory, or one that it is in, belongs to it."""
        ...

    def has_item(self, key: ItemKey) -> bool:
        """Return whether an item, or a namespace that it is in, belongs to it."""
        ...

    def has_session(self, one: AppSession) -> bool:
        """Return whether a session belongs to it."""
        ...

    def has_name(self, text: str) -> bool:
        """Return whether a text names the person."""
        ...


def has_item(erased: Erased, item: Item) -> bool:
    """Return whether an item, read with its value, belongs to an erasure or came from a thread."""
    source = source_of(item)
    return erased.has_item(item.key) or (source is not None and erased.has_thread(source.thread_id))


def is_named_in(erased: Erased, value: Any) -> bool:
    """Return whether a text anywhere in a JSON value is an erased thread's id or names the
    person.
    """
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, str):
            if erased.has_thread(one) or erased.has_name(one):
                return True
        elif isinstance(one, dict):
            todo += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            if all(isinstance(label, str) for label in one) and erased.has_namespace(tuple(one)):
                return True
            todo += one
    return False


# Salted digests of ids, with which a receipt is verified without naming anyone.
#
# Who has the receipt and guesses an id can still check the guess.

IdKind = Literal["thread", "namespace", "item", "session", "archive", "name"]
"""Of threads by id, namespaces by labels, items by labels and key, sessions by key in the store,
archived threads of other stores by id and the store that the archive names, and texts that name
the subject, casefolded.
"""
_KINDS: tuple[IdKind, ...] = ("thread", "namespace", "item", "session", "archive", "name")
_NEWER = frozenset({"archive", "name"})
"""Receipts of the first releases lack these."""
_SIZE = 20
"""Bytes of a digest."""
_SALT_SIZE = 16
_WORDS = re.compile(r"\w+")
_LONGEST_NAME = 8
"""Words of a name that is found in a text."""


@dataclass(slots=True)
class ErasedIds:
    """The digests of all that an erasure removed."""

    salt: str = field(default_factory=lambda: os.urandom(_SALT_SIZE).hex())
    digests: dict[IdKind, set[str]] = field(default_factory=lambda: {one: set() for one in _KINDS})

    def digest(self, kind: str, *parts: str) -> str:
        """Return the digest of an id."""
        text = "\0".join((str(len(parts) + 1), kind, *parts))
        data = text.encode("utf-8", "surrogatepass")
        return blake2b(data, digest_size=_SIZE, key=bytes.fromhex(self.salt)).hexdigest()

    def add(self, kind: IdKind, ids: Iterable[Sequence[str]]) -> None:
        """Add ids, each as its parts."""
        self.digests[kind].update(self.digest(kind, *one) for one in ids)

    def has(self, kind: IdKind, *parts: str) -> bool:
        """Return whether an id was erased."""
        known = self.digests[kind]
        return bool(known) and self.digest(kind, *parts) in known

    def has_thread(self, thread_id: str | None) -> bool:
        """Return whether a thread was erased."""
        return thread_id is not None and self.has("thread", thread_id)

    def has_namespace(self, namespace: Namespace) -> bool:
        """Return whether a namespace, or one that it is in, was erased."""
        return any(self.has("namespace", *namespace[: n + 1]) for n in range(len(namespace)))

    def has_item(self, key: ItemKey) -> bool:
        """Return whether an item, or a namespace that it is in, was erased."""
        return self.has("item", *key.namespace, key.key) or self.has_namespace(key.namespace)

    def has_session(self, one: AppSession) -> bool:
        """Return whether a session, or its thread, was erased."""
        return self.has("session", one.key) or self.has_thread(one.thread_id)

    def has_name(self, text: str) -> bool:
        """Return whether some words in a row of a text name the subject."""
        if not self.digests["name"]:
            return False
        folded = text.casefold()
        words = [one.span() for one in _WORDS.finditer(folded)]
        return any(
            self.has("name", folded[first:last])
            for number, (first, _) in enumerate(words)
            for _, last in words[number : number + _LONGEST_NAME]
        )


def ids_record(ids: ErasedIds) -> dict[str, Any]:
    """Return digests as JSON."""
    return {"salt": ids.salt, **{f"{one}s": sorted(ids.digests[one]) for one in _KINDS}}


def ids_from_record(record: Any) -> ErasedIds:
    """Parse digests. Raises `ValueError`, `KeyError` or `TypeError`."""
    if len(bytes.fromhex(record["salt"])) != _SALT_SIZE:
        raise ValueError(record["salt"])
    lists = {
        one: record.get(f"{one}s", []) if one in _NEWER else record[f"{one}s"] for one in _KINDS
    }
    return ErasedIds(str(record["salt"]), {one: set(map(_hex, it)) for one, it in lists.items()})


def _hex(text: object) -> str:
    if not isinstance(text, str) or len(bytes.fromhex(text)) != _SIZE:
        raise ValueError(text)
    return text


@dataclass
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

    @cached_property
    def elsewhere(self) -> ErasureScope:
        """What belongs to it in other stores, where a thread with the same id is another one."""
        return ErasureScope(self.word, self.words, self.namespaces)

    @property
    def has_threads(self) -> bool:
        """Whether any thread is known, now or from an earlier run."""
        return bool(self.threads or (self.earlier and self.earlier.digests["thread"]))

    def has_thread(self, thread_id: str | None) -> bool:
        """Return whether a thread belongs to the erasure."""
        return thread_id in self.threads or (
            self.earlier is not None and self.earlier.has_thread(thread_id)
        )

    def has_namespace(self, namespace: Namespace) -> bool:
        """Return whether a namespace is the person's, or below one."""
        return any(begins(namespace, one) for one in self.namespaces)

    def has_item(self, key: ItemKey) -> bool:
        """Return whether an item is the person's, or an earlier run had found it."""
        return self.has_namespace(key.namespace) or (
            self.earlier is not None and self.earlier.has_item(key)
        )

    def has_session(self, one: AppSession) -> bool:
        """Return whether a session is the person's, or of a thread."""
        return self.has_thread(one.thread_id) or (
            self.word is not None and one.user_id == self.word
        )

    def has_name(self, text: str) -> bool:
        """Return whether a text names the person."""
        return self._pattern is not None and self._pattern.search(text) is not None

    @cached_property
    def names(self) -> list[str]:
        """The words that are long enough to be looked for in texts."""
        return sorted(one for one in {*self.words, self.word or ""} if len(one) >= SHORTEST_WORD)

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        return re.compile(_whole_words(self.names), re.IGNORECASE) if self.names else None

    def mention_pattern(self, most: int) -> str | None:
        """Return a regular expression that finds names and ids of threads as whole words; None if
        there are none.

        Short words would be found everywhere, so they are left out; of the ids, at most `most`.
        """
        ids = [one for one in sorted(self.threads)[:most] if len(one) >= SHORTEST_WORD]
        found = dict.fromkeys((*self.names, *ids))
        return _whole_words(found) if found else None

    def hidden_names(self, text: str) -> re.Pattern[str] | None:
        """Return a pattern for what a receipt may not show of a text; None if it shows nothing."""
        known = {*self.words, self.word or "", *self.threads}
        folded = text.casefold()
        names = [one for one in known if len(one) >= SHORTEST_WORD and one.casefold() in folded]
        # In the name of a folder, `_` parts words.
        found = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
        return re.compile(rf"(?<![^\W_])(?:{found})(?![^\W_])", re.IGNORECASE) if names else None


def _whole_words(words: Iterable[str]) -> str:
    """Return a regular expression that finds texts that stand alone."""
    return rf"(?<!\w)(?:{'|'.join(map(re.escape, words))})(?!\w)"


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
        equal = (Operand(text, quoted=text == "null"),)
        return ErasureSubject(text, Condition(people_field(field), Operator.EQUAL, equal), text)
    return ErasureSubject(text, found, _word_of(found, field))


def people_field(field: str) -> FilterField:
    """Return the field with which a word is compared. Raises `UsageError` if it is none."""
    try:
        found = parse_filter(f"{field} = 'x'")
    except ParseError as error:
        raise UsageError(f"'{field}' is not a field of a thread: {error.message}") from None
    if not isinstance(found, Condition):
        raise UsageError(f"'{field}' is not a field of a thread")
    return found.field


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
    found = list(_conditions(subject.filter, affirmed=True))
    of_people = [one for one in found if _is_of_people(one, field)]
    return tuple(sorted(_texts(of_people if field is not None else of_people or found)))


def words_of(expression: Filter, field: str | None) -> set[str]:
    """Return the texts by which a filter names the person.

    If it asks for a field that holds the user, these are the texts of this field only.
    """
    found = list(_conditions(expression))
    return _texts([one for one in found if _is_of_people(one, field)]) or _texts(found)


def _is_of_people(one: Condition, field: str | None) -> bool:
    return _names_person(one.field) or (field is not None and one.field == people_field(field))


def _texts(found: Iterable[Condition]) -> set[str]:
    return {
        operand.text
        for one in found
        if one.operator in {Operator.EQUAL, Operator.IN} and one.field.name in _NAMING
        for operand in one.operands
    }


def _conditions(expression: Filter, *, affirmed: bool = False) -> Iterator[Condition]:
    """Yield the conditions of a filter; if they must be `affirmed`, none behind a `not`."""
    if isinstance(expression, Condition):
        yield expression
    elif not (affirmed and isinstance(expression, Not)):
        for part in records_of(expression):
            yield from _conditions(part, affirmed=affirmed)


def _names_person(field: FilterField) -> bool:
    """Return whether a field, by its name, holds the user of a thread."""
    last = field.path[-1] if field.path else field.name
    # A key may have dots of its own, such as "app.user_id".
    return field.name in {"user", "metadata"} and str(last).rpartition(".")[2] in _PEOPLE


def _word_of(expression: Filter, field: str | None) -> str | None:
    """Return the word of a filter that only compares the field of the profile with it."""
    if not isinstance(expression, Condition) or expression.operator is not Operator.EQUAL:
        return None
    asked = expression.field
    is_person = _names_person(asked) if field is None else asked == people_field(field)
    return expression.operands[0].text if is_person else None


# Lines of the log of operations without the ids of erased threads, and the history of `ckpt sql`.

ERASED = "[erased]"
CANNOT_UNDO = "what it changed was erased"
_ENTRY = rb"(?:(?!\+).*\n)*(?:\+.*(?:\n|$))+|(?s:.+)"
_WORD, _LITERAL = r"[^\s'\"(),;=<>]+", r"'((?:[^']|'')*)'"


def named_queries(history: bytes, erased: Erased) -> list[bytes]:
    """Return the entries of a history of queries that name an erased thread or the person.

    An entry is a time as a comment, then the lines of the query, each behind a `+`, as
    prompt-toolkit's `FileHistory` writes them.
    """
    return [one for one in re.findall(_ENTRY, history) if _is_named(one, erased)]


def without_queries(history: bytes, erased: Erased) -> bytes:
    """Return a history without the queries that name an erased thread or the person."""
    return b"".join(one for one in re.findall(_ENTRY, history) if not _is_named(one, erased))


def _is_named(entry: bytes, erased: Erased) -> bool:
    lines = entry.decode(errors="replace").split("\n")
    text = "\n".join(one[1:] for one in lines if one.startswith("+"))
    literals = (one.replace("''", "'") for one in re.findall(_LITERAL, text))
    words = {one.strip("%") for one in (*re.findall(_WORD, text), *literals)}
    return any(map(erased.has_thread, words)) or erased.has_name(text)


def scrubbed(record: Mapping[str, Any], is_erased: Callable[[str], bool]) -> dict[str, Any]:
    """Return a line without erased ids and without texts that may quote one.

    The operation cannot be taken back any more.
    """
    threads = record.get("threads")
    kept = [
        ERASED if not isinstance(one, str) or is_erased(one) else one
        for one in (threads if isinstance(threads, list) else ())
    ]
    return {
        **record,
        "threads": kept,
        "reason": None if record.get("reason") is None else ERASED,
        "command": f"ckpt {record.get('action', '')} {ERASED}",
        "added": [],
        "cannot_undo": CANNOT_UNDO,
        "ended": ERASED if record.get("ended") else "",
    }


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


def left_place(
    store: str, kind: PlaceKind, items: int | None, size: int | None, reason: str
) -> ErasurePlace:
    """Return a place where something is left that a later run can erase."""
    return ErasurePlace(store, kind, items, size, "kept", reason, is_left=True)


def unknown_place(
    store: str, kind: PlaceKind, items: int | None, size: int | None, reason: str
) -> ErasurePlace:
    """Return the place for something that may be of the subject and was not looked at."""
    return ErasurePlace(store, kind, items, size, "kept", reason, is_left=True, is_unknown=True)


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

    def add(self, *places: ErasurePlace) -> None:
        """Add places; what two stores of one server report is kept once."""
        self.places += [one for one in dict.fromkeys(places) if one not in self.places]

    def did(self, *statements: str) -> None:
        """Add statements, each once."""
        self.statements += [one for one in statements if one not in self.statements]


FORMAT = 1


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
        return [one for one in self.folders if ERASED not in one]

    def unnamed_folders(self, named: Iterable[str]) -> Iterator[str]:
        """Yield the folders whose names hide an id, unless one that is named now fits."""
        for one in self.folders:
            if ERASED in one:
                fits = re.compile(".+".join(map(re.escape, one.split(ERASED))), re.DOTALL)
                if not any(fits.fullmatch(text) for text in named):
                    yield one


def receipt_from_record(record: Any) -> ErasureReceipt:
    """Parse a receipt. Raises `ValueError`, `KeyError` or `TypeError`."""
    if record["ckpt_erasure_receipt"] != FORMAT:
        raise ValueError(record["ckpt_erasure_receipt"])
    unknown = (
        ErasurePlace(
            *(str(one["store"]), one["kind"], None, None, "unreachable"),
            reason=f"the erasure left it: {one['reason']}",
        )
        for one in record["places"]
        if one.get("unknown")
    )
    return ErasureReceipt(
        str(record["store"]),
        str(record["place"]),
        ids_from_record(record),
        tuple(map(str, record["folders"])),
        tuple(map(str, record["memories"])),
        tuple(unknown),
    )
