"""The layout of ValkeySaver, and how it is recognised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ckpt_backends.changes.change import Change
from ckpt_backends.protocol import Store
from ckpt_backends.redis.engine.purge_lock import PurgeLock
from ckpt_backends.redis.engine.recognition import RecognisedStore, Recogniser, Sample
from ckpt_backends.redis.engine.store import RedisStore
from ckpt_backends.redis.valkey.contents import ValkeyContents
from ckpt_backends.redis.valkey.receiving import ValkeyReception
from ckpt_backends.redis.valkey.rewriting import ValkeyRewriting
from ckpt_backends.redis.valkey.stored_values import START_BYTES
from ckpt_backends.redis.valkey.thread_keys import ValkeyKeyFinder, ValkeyRemoval
from ckpt_backends.redis.valkey.write import ValkeyPlan
from ckpt_backends.transfer.parts import Arrival, PartRewrite
from ckpt_backends.url import StoreUrl

_BEGINNING = b"checkpoint:{"


class ValkeyStrings(ValkeyContents):
    """The layout of ValkeySaver."""

    def open(self, url: StoreUrl) -> Store:
        return RedisStore(self, url)

    def finder(self) -> ValkeyKeyFinder:
        return ValkeyKeyFinder(self)

    def plan(self, change: Change) -> ValkeyPlan:
        return ValkeyPlan(self, change)

    def reception(self, arrival: Arrival) -> ValkeyReception:
        return ValkeyReception(self, arrival)

    def rewrite(self, thread_id: str, rewrites: Iterable[PartRewrite]) -> None:
        ValkeyRewriting(self, thread_id).run(rewrites)

    def removals(self, lock: PurgeLock, thread_ids: Sequence[str]) -> Iterator[ValkeyRemoval]:
        finder = self.finder()
        return (ValkeyRemoval(finder, lock, keys) for keys in finder.find(thread_ids))


class ValkeyRecogniser(Recogniser):
    """Finds the stores of ValkeySaver.

    Other layouts have keys `checkpoint:...` too, but no strings that begin like its checkpoints.
    """

    rank = 4
    layouts = ("valkey",)
    separators = (":{",)

    def recognise(self, sample: Sample) -> Iterator[tuple[bytes, str]]:
        names = [one for one in sample.strings if one.startswith(_BEGINNING)]
        starts = self.connection.ask_all(("GETRANGE", one, 0, START_BYTES) for one in names)
        for name, start in zip(names, starts, strict=True):
            if start is not None and start.lstrip()[:1] == b"{" and b'"thread_id"' in start:
                yield name, "valkey"

    def named(self, layout: str, prefix: str | None, write_prefix: str | None) -> RecognisedStore:  # noqa: ARG002
        return RecognisedStore(layout, lambda: ValkeyStrings(self.connection))

    def expected(self, prefix: str | None) -> str:  # noqa: ARG002
        return "checkpoint:{*"
