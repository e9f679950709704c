"""Recognises the stores of plain savers in the form of LangGraph's guide."""

from __future__ import annotations

from collections.abc import Iterator

from ckpt_backends.redis.engine.recognition import RecognisedStore, Recogniser, Sample
from ckpt_backends.redis.hashes.layout import COLON, DOLLAR, Hashes

_FIRST = "first"


class HashRecogniser(Recogniser):
    """Finds the stores of hashes, with either separator.

    A key `checkpoint:...` may be of another layout, so its hash must have the field `type`.
    """

    rank = 2
    layouts = ("redis-hash", "redis-hash-colon")
    separators = DOLLAR + COLON

    def recognise(self, sample: Sample) -> Iterator[tuple[bytes, str]]:
        told = self.connection.ask_all(("HMGET", one, "type", "parent_ts") for one in sample.hashes)
        for name, fields in zip(sample.hashes, told, strict=True):
            tag, parent_ts = fields or (None, None)
            if name.startswith(b"checkpoint$"):
                yield name, "redis-hash"
            elif tag is not None:
                yield name, "redis-hash-colon"
            elif parent_ts is not None:
                yield name, _FIRST

    def named(self, layout: str, prefix: str | None, write_prefix: str | None) -> RecognisedStore:  # noqa: ARG002
        separator = DOLLAR if layout == "redis-hash" else COLON
        return RecognisedStore(layout, lambda: Hashes(self.connection, separator))

    def unreadable(self) -> str:
        if _FIRST not in self.database.kinds:
            return ""
        return "hashes of LangGraph's guide of early 2024, with 'parent_ts'"

    def expected(self, prefix: str | None) -> str:  # noqa: ARG002
        return "checkpoint$*"
