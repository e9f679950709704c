"""What belongs to an erasure: threads, and what was made from them or for the person."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from ckpt_backends.app_sessions import AppSession
from ckpt_backends.memory.protocol import Item, Namespace, begins
from ckpt_cli.core.erasure.digests import ErasedIds
from ckpt_cli.core.memory.fact_problems import source_of

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
