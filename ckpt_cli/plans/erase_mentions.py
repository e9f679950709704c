"""Find where the person or an erased thread is named elsewhere. Nothing of it is removed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice

from ckpt_backends.memory.protocol import ItemKey, MemoryStore
from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.erasure.places import Mention
from ckpt_cli.core.erasure.scope import ErasureScope
from ckpt_cli.core.erasure.subject import mention_pattern
from ckpt_cli.core.memory.item_filter import format_key
from ckpt_cli.core.search.patterns import compile_pattern
from ckpt_cli.core.values.paths import format_path
from ckpt_cli.queries.grep import GrepQuery, grep_threads
from ckpt_cli.queries.memory import MemoryHit, search_items
from ckpt_cli.threads.executor.executor import Executor
from ckpt_cli.threads.opening import Opening

MOST_MENTIONS = 1000
_MOST_IDS = 1000
"""Maximum number of thread ids that are looked for."""


def mentions_in_threads(
    store: Store,
    opening: Opening,
    threads: Iterable[Thread],
    scope: ErasureScope,
    missed: Callable[[int], None],
) -> Iterator[Mention]:
    """Yield the threads that are not erased and name the person or an erased thread.

    `missed` is told how many values of each thread could not be read.
    """
    pattern = mention_pattern([*scope.words, scope.word or ""], scope.threads, _MOST_IDS)
    if pattern is None:
        return
    url = store.describe().url
    find = compile_pattern(pattern, fixed=False, ignore_case=True)
    left = [one for one in threads if not scope.has_thread(one.thread_id)]
    for one in left:
        if find(one.thread_id) is not None:
            yield Mention(url, "thread", one.thread_id, 1, "thread_id")
    wanted = GrepQuery(pattern, ignore_case=True)
    for searched in grep_threads(store, Executor(opening), left, wanted):
        missed(searched.unread + searched.stopped)
        if searched.hits:
            first = searched.hits[0]
            where = format_path((first.channel, *first.match.path))
            name = first.key.thread_id
            yield Mention(url, "thread", name, len(searched.hits), where)


def mentions_in_memory(
    memory: MemoryStore,
    scope: ErasureScope,
    erased: Collection[ItemKey],
) -> Iterator[Mention]:
    """Yield the items that are not erased and name the person or an erased thread."""
    pattern = mention_pattern([*scope.words, scope.word or ""], scope.threads, _MOST_IDS)
    if pattern is None:
        return
    url = memory.describe().url
    find = compile_pattern(pattern, fixed=False, ignore_case=True)
    hits: list[MemoryHit] = []
    for hit in search_items(memory, (), find, iter, redacted=True):
        if hit is None or hit.item.key in erased:
            continue
        if hits and hits[0].item.key != hit.item.key:
            yield _of(url, hits)
            hits = []
        hits.append(hit)
    if hits:
        yield _of(url, hits)


def _of(url: str, hits: list[MemoryHit]) -> Mention:
    return Mention(url, "memory", format_key(hits[0].item.key), len(hits), hits[0].place)


def bounded(mentions: Iterable[Mention]) -> tuple[list[Mention], bool]:
    """Return the first mentions, and whether there are more."""
    found = list(islice(mentions, MOST_MENTIONS + 1))
    return found[:MOST_MENTIONS], len(found) > MOST_MENTIONS
