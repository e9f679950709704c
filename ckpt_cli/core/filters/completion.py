"""Complete the last word of a filter that is being typed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ckpt_backends.model import Status
from ckpt_cli.core.filters.fields import FIELDS

_LAST = re.compile(r"[^\s()=<>!~,'\"]*\Z")
_STATUS = re.compile(r"(?:^|[\s(])status\s*(?:!?=|(?:not\s+)?in\s*\([^)]*)\s*\Z")
_FIELD = re.compile(r"(?:^|\(|\b(?:and|or|not)\s)\s*\Z", re.IGNORECASE)


def last_words(text: str, aliases: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the text with its last word completed, each with a description.

    Aliases and fields are offered where a condition begins, statuses after `status =`.
    """
    found = _LAST.search(text)
    before = text if found is None else text[: found.start()]
    if _STATUS.search(before):
        yield from ((before + one, "status") for one in Status)
    elif _FIELD.search(before):
        yield from ((f"{before}@{name}", what) for name, what in aliases.items())
        for name, spec in FIELDS.items():
            yield f"{before}{name}{'.' if spec.needs_path else ''}", spec.summary
