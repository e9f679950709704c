"""Guess which message a fact came from; no layout stores this."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from unicodedata import normalize

from ckpt_backends.codec.values import Value
from ckpt_backends.memory.protocol import Source

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
