"""Recognises the stores of langgraph-checkpoint-redis, and finds their prefixes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from ckpt_backends.redis.engine.document_fields import USUAL, Prefixes
from ckpt_backends.redis.engine.layout import RedisLayout
from ckpt_backends.redis.engine.recognition import RecognisedStore, Recogniser, Sample
from ckpt_backends.redis.engine.search_index import is_of_javascript, prefixes_of
from ckpt_backends.redis.official.documents import Documents
from ckpt_backends.redis.official.old_documents import OldDocuments
from ckpt_backends.redis.official.prefixes import (
    OF_CHECKPOINT,
    OF_WRITE,
    KnownPrefixes,
    known_prefixes,
    listed_prefixes,
    pair,
)
from ckpt_backends.redis.official.shallow import ShallowDocuments

_OLD = "old"
_Samples = dict[tuple[str, str], Sequence[bytes]]
"""By layout and prefix of checkpoints, the keys of some checkpoints."""


class DocumentRecogniser(Recogniser):
    """Finds the stores of RedisSaver and ShallowRedisSaver.

    A checkpoint of RedisSaver has its metadata as a text, one of ShallowRedisSaver as an object.
    Release 0.0 stores no `has_writes`. Checkpoints and writes have prefixes of their own, so one
    database may have several stores.
    """

    rank = 0
    layouts = (Documents.name, ShallowDocuments.name)

    @cached_property
    def _known(self) -> KnownPrefixes:
        return known_prefixes(self.connection)

    def recognise(self, sample: Sample) -> Iterator[tuple[bytes, str]]:
        for one in sample.documents:
            if not isinstance(one.has_writes, str):
                full = Documents.name if isinstance(one.has_writes, bool) else _OLD
                yield one.name, full if one.has_text else ShallowDocuments.name

    def is_certain(self, layout: str) -> bool:  # noqa: ARG002
        return False

    def named(self, layout: str, prefix: str | None, write_prefix: str | None) -> RecognisedStore:
        prefixes = Prefixes(prefix or USUAL.checkpoint, write_prefix or USUAL.write)
        kind = ShallowDocuments if layout == ShallowDocuments.name else Documents
        return RecognisedStore(
            layout,
            lambda: kind(self.connection, prefixes),
            prefixes.checkpoint,
            prefixes.write,
            prefixes == USUAL,
        )

    def stores(self) -> list[RecognisedStore]:
        asked = self.database.prefix
        found = self._paired(self._sampled(self._known.checkpoints if asked is None else {asked}))
        return [self.named(*store, one) for store, writes in found.items() for one in writes]

    def stores_if_alone(self) -> list[RecognisedStore]:
        """A store without threads has the saver's search indexes."""
        indexed = prefixes_of(self.connection) or []
        if is_of_javascript(indexed) or self.connection.database != 0:
            return []
        asked, asked_writes = self.database.prefix, self.database.write_prefix
        checkpoints = [one for one, tags in indexed if tags >= OF_CHECKPOINT]
        writes = [one for one, tags in indexed if tags >= OF_WRITE]
        return [
            self.named(Documents.name, prefix, writing)
            for prefix in checkpoints
            for writing in writes
            if asked in {None, prefix} and asked_writes in {None, writing}
        ]

    def _sampled(self, prefixes: set[str]) -> _Samples:
        return {
            (layout, prefix): names
            for prefix in sorted(prefixes)
            for layout, names in self.database.sampled(prefix).items()
            if layout in self.layouts
        }

    def _paired(self, stores: _Samples) -> Mapping[tuple[str, str], list[str]]:
        """By store, the possible prefixes of its writes; only one if it is certain."""
        asked = self.database.write_prefix
        if asked is not None:
            listed = {one: listed_prefixes(self.connection, one[0], stores[one]) for one in stores}
            return {one: [asked] for one in stores if asked in (listed[one] or {asked})}
        if self._known.are_usual and all(prefix == USUAL.checkpoint for _, prefix in stores):
            return {store: [USUAL.write] for store in stores}
        found = pair(self.connection, self._known, stores)
        if any(len(one) > 1 for one in found.values()) and self.database.prefix is not None:
            # Pair all stores: writes of another store cannot belong to this one.
            every = self._sampled(self._known.checkpoints) | stores
            paired = pair(self.connection, self._known, every)
            found = {store: paired[store] for store in stores}
        return found

    def fallback(self) -> RedisLayout | None:
        return OldDocuments(self.connection) if _OLD in self.database.kinds else None

    def expected(self, prefix: str | None) -> str:
        return f"{prefix or USUAL.checkpoint}:*"
