"""Items of long-term memory: filters, facts, and what is wrong with them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cache
from typing import Any
from unicodedata import normalize

from ckpt_backends import shell
from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Value
from ckpt_backends.errors import Refused, UsageError
from ckpt_backends.memory import Item, ItemKey, Namespace, Source

_ESCAPE, _SEPARATOR, _EMPTY = "\\", "/", "\\e"


@dataclass(frozen=True, slots=True)
class ItemFilter:
    """A filter for items. All conditions that are given must hold."""

    match: str | None = None
    """Shell pattern that the whole key must match."""
    since: datetime | None = None
    until: datetime | None = None
    """Bounds of the last update, both inclusive; an item without a time never matches."""
    expired: bool | None = None
    """True: only expired items. False: only items that are not expired."""
    category: str | None = None
    min_confidence: float | None = None
    """Items without a confidence never match."""
    source: str | None = None
    """The thread that an item names as its source."""
    user: str | None = None
    """A label of the namespace, such as `anna` of `users/anna`."""

    def fits(self, item: Item, now: datetime) -> bool:
        """Return whether an item matches."""
        confidence, source, at = item.confidence, item.source, item.updated_at
        return (
            (self.match is None or fnmatchcase(item.key.key, self.match))
            and (self.user is None or self.user in item.key.namespace)
            and (self.expired is None or is_expired(item, now) is self.expired)
            and (self.category is None or item.category == self.category)
            and (
                self.min_confidence is None
                or (confidence is not None and confidence >= self.min_confidence)
            )
            and (self.source is None or (source is not None and source.thread_id == self.source))
            and (self.since is None or (at is not None and at >= self.since))
            and (self.until is None or (at is not None and at <= self.until))
        )


def is_expired(item: Item, now: datetime) -> bool:
    """Return whether the application's next sweep will remove the item."""
    return item.expires_at is not None and item.expires_at < now


def format_namespace(namespace: Namespace) -> str:
    r"""Join labels with `/`. In a label, `/` becomes `\/` and a backslash `\\`; an empty label is
    `\e`.
    """
    return _SEPARATOR.join(map(_escaped, namespace))


def format_key(key: ItemKey) -> str:
    """Return an item's namespace and key as one text; `item_keys` reverses it."""
    return _SEPARATOR.join(map(_escaped, (*key.namespace, key.key)))


def parse_namespace(text: str) -> Namespace:
    """Reverse `format_namespace`; slashes at the ends are ignored."""
    return tuple(_unescaped(part) for part in _parts(text) if part)


def item_keys(text: str) -> Iterator[ItemKey]:
    """Yield all readings of `NAMESPACE/KEY`: a key may itself contain slashes, escaped or not."""
    parts = list(_parts(text))
    for end in range(len(parts) - 1, 0, -1):
        namespace = tuple(map(_unescaped, filter(None, parts[:end])))
        rest = _SEPARATOR.join(parts[end:])
        for key in dict.fromkeys((_unescaped(rest), rest)):
            yield ItemKey(namespace, key)


def _escaped(label: str) -> str:
    if not label:
        return _EMPTY
    for character in (_ESCAPE, _SEPARATOR):
        label = label.replace(character, _ESCAPE + character)
    return label


def _unescaped(part: str) -> str:
    if part == _EMPTY:
        return ""
    letters = iter(part)
    return "".join(next(letters, _ESCAPE) if one == _ESCAPE else one for one in letters)


def _parts(text: str) -> Iterator[str]:
    """Yield the parts between unescaped slashes; escapes in them are kept."""
    start = place = 0
    while place < len(text):
        if text[place] == _ESCAPE:
            place += 1
        elif text[place] == _SEPARATOR:
            yield text[start:place]
            start = place + 1
        place += 1
    yield text[start:]


_RUN = re.compile(r"[^\W_]+")
_IDEOGRAPHS = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_PART = re.compile(f"[{_IDEOGRAPHS}]+|[^{_IDEOGRAPHS}]+")
_IDEOGRAPH = re.compile(f"[{_IDEOGRAPHS}]")
_SENTENCE = re.compile(r"(?<=[。！？])|(?<=[.!?])\s+|\n+")
_THREAD_KEYS = ("thread_id", "threadId")


@dataclass(frozen=True, slots=True)
class Likeness:
    """The text that shares most words with a fact."""

    index: int
    """Index of the text in the list of texts."""
    sentence: str
    """The sentence of the text that shares most words."""
    shared: float
    """Part of the fact's words, or pairs of ideographs, that the text contains: 0 to 1."""


def likeliest(fact: str, texts: Sequence[str]) -> Likeness | None:
    """Return the text that a fact most likely came from, the last of equal ones; None if none
    matches.

    A word that occurs in many of the texts counts less.
    """
    wanted = _words(fact)
    held = [_words(text) & wanted for text in texts]
    common = Counter(word for words in held for word in words)
    index = _best(held, common)
    if index is None:
        return None
    sentences = [one.strip() for one in _SENTENCE.split(texts[index]) if one.strip()]
    best = _best([_words(one) & wanted for one in sentences], common)
    sentence = texts[index] if best is None else sentences[best]
    return Likeness(index, sentence, len(held[index]) / len(wanted))


def named_source(value: Value) -> Source | None:
    """Return the thread that an item's value names, for layouts without a field for it."""
    if not isinstance(value, dict):
        return None
    for holder in (value, value.get("source"), value.get("metadata")):
        for key in _THREAD_KEYS:
            named = holder.get(key) if isinstance(holder, dict) else None
            if isinstance(named, str) and named:
                return Source("thread", named)
    return None


def _best(held: Sequence[set[str]], common: Mapping[str, int]) -> int | None:
    weights = [sum(1 / common[word] for word in words) for words in held]
    best = max(weights, default=0)
    return len(weights) - 1 - weights[::-1].index(best) if best else None


def _words(text: str) -> set[str]:
    """Return the words of a text in lower case; for a run of ideographs, all adjacent pairs."""
    return set(_each_word(normalize("NFKC", text).casefold()))


def _each_word(text: str) -> Iterator[str]:
    for run in _RUN.findall(text):
        for part in _PART.findall(run):
            if _IDEOGRAPH.match(part):
                yield from (part[n : n + 2] for n in range(max(len(part) - 1, 1)))
            else:
                yield part


def content_of(value: Value) -> str | None:
    """Return the text of a fact; None if the value is not a fact."""
    content = value.get("content") if isinstance(value, dict) else None
    return content if isinstance(content, str) else None


def text_of(item: Item) -> str:
    """Return the text of an item: the text of a fact, or else all texts in its value."""
    value = None if item.value is None else decode(item.value)
    content = content_of(value)
    if content is not None:
        return content
    return "\n".join(_texts(value))


def source_of(item: Item) -> Source | None:
    """Return the source of an item: from its layout, or else from a thread named in its value."""
    if item.source is not None or item.value is None:
        return item.source
    return named_source(decode(item.value))


def same_as(content: str | None) -> str | None:
    """Return the text that DeerFlow compares facts by: without case and surrounding whitespace."""
    return (content or "").strip().casefold() or None


def duplicates(items: Iterable[Item]) -> dict[ItemKey, ItemKey]:
    """Return the facts that repeat an older fact of their namespace, each with that older fact.

    `items` must include their values and be sorted by key.
    """
    groups: dict[tuple[tuple[str, ...], str], list[Item]] = {}
    for item in items:
        said = None if item.value is None else same_as(content_of(decode(item.value)))
        if said is not None:
            groups.setdefault((item.key.namespace, said), []).append(item)
    found: dict[ItemKey, ItemKey] = {}
    for group in groups.values():
        first = min(group, key=_age)
        found |= {one.key: first.key for one in group if one is not first}
    return found


def orphans(items: Iterable[Item], is_there: Callable[[str], bool]) -> set[ItemKey]:
    """Return the facts from threads that no longer exist."""
    is_known = cache(is_there)
    sources = ((item.key, source_of(item)) for item in items)
    return {
        key
        for key, source in sources
        if source is not None and source.thread_id is not None and not is_known(source.thread_id)
    }


def _texts(value: Value) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)


def _age(item: Item) -> tuple[bool, float, str]:
    at = item.created_at
    return at is None, 0.0 if at is None else at.timestamp(), item.key.key


def parse_fields(words: Sequence[str], kind: str) -> dict[str, Any]:
    """Parse `FIELD=VALUE` words for a fact or section. Raises `UsageError` if unknown."""
    known = _FIELDS["facts" if kind == "facts" else "section"]
    found: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or name not in known:
            raise UsageError(
                f"cannot set '{name}': " + ("unknown field" if equals else "no value"),
                hint="use " + " or ".join(f"--set {one}=VALUE" for one in known),
            )
        found[name] = known[name](text)
    if not found:
        raise UsageError("nothing to set", hint=f"add --set {next(iter(known))}=VALUE")
    return found


def changes(value: Value, fields: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the fields that change, as name to (before, after)."""
    before = value if isinstance(value, dict) else {}
    return {
        name: (before.get(name), new) for name, new in fields.items() if before.get(name) != new
    }


def refuse_duplicate(item: Item, fields: Mapping[str, Any], others: Sequence[Item]) -> None:
    """Raise `Refused` if another fact has the same text, since DeerFlow keeps no duplicates."""
    said = same_as(fields.get("content"))
    for other in others:
        if said is not None and other.key != item.key and same_as(text_of(other)) == said:
            raise Refused(
                f"cannot set content: fact '{other.key.key}' has the same text",
                hint="delete one of them: "
                + shell.command("ckpt", "memory", "delete", ids=[item.key.key]),
            )


def _content(text: str) -> str:
    if not text.strip():
        raise UsageError(
            "fact text must not be empty", hint="to delete the fact: ckpt memory delete KEY"
        )
    return _storable(text.strip())


def _category(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise UsageError(
            f"cannot set category to '{text}'",
            hint="use a word such as preference, context or goal",
        )
    return _storable(text.strip())


def _confidence(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found <= 1:
        raise UsageError(f"cannot set confidence to '{text}'", hint="use a number from 0 to 1")
    return found


def _storable(text: str) -> str:
    """Return the text. Raises `UsageError` if UTF-8 cannot encode it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError("cannot set a text that is not UTF-8") from None
    return text


_FIELDS: Mapping[str, Mapping[str, Callable[[str], Any]]] = {
    "facts": {"content": _content, "category": _category, "confidence": _confidence},
    "section": {"summary": _storable},
}
