"""Recognises the stores of LangGraph.js."""

from __future__ import annotations

from collections.abc import Iterator

from ckpt_backends.redis.engine.recognition import RecognisedStore, Recogniser, Sample
from ckpt_backends.redis.javascript.documents import JavaScriptDocuments, ShallowJavaScriptDocuments


class JavaScriptRecogniser(Recogniser):
    """Finds the stores of LangGraph.js: only its savers store `has_writes` as a text."""

    rank = 1
    layouts = (JavaScriptDocuments.name, ShallowJavaScriptDocuments.name)

    def recognise(self, sample: Sample) -> Iterator[tuple[bytes, str]]:
        for one in sample.documents:
            if isinstance(one.has_writes, str):
                yield one.name, self.layouts[one.name.endswith(b":shallow")]

    def named(self, layout: str, prefix: str | None, write_prefix: str | None) -> RecognisedStore:  # noqa: ARG002
        is_full = layout == JavaScriptDocuments.name
        kind = JavaScriptDocuments if is_full else ShallowJavaScriptDocuments
        return RecognisedStore(layout, lambda: kind(self.connection))
