"""Find what `ckpt` itself recorded about erased threads: operations, steps, repairs."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ckpt_backends.errors import CkptError, UsageError
from ckpt_backends.files.regular_file import open_regular
from ckpt_cli.config.folders import history_file, old_history, state_folder
from ckpt_cli.core.erasure.scope import ErasureScope, names_erased
from ckpt_cli.operations.log import OperationLog
from ckpt_cli.operations.scrubbing import (
    CANNOT_UNDO,
    history_entries,
    query_of,
    scrubbed,
    words_of_query,
)
from ckpt_cli.plans.erase import StateErasure, file_size
from ckpt_cli.plans.half_erased import is_half_erased, left_over
from ckpt_cli.queries.archive_folders import records_in

_TEXTS = ("command", "reason", "cannot_undo", "ended")
"""The texts of an operation that a person wrote, or that quote an id."""


def plan_state(
    log: OperationLog, place: str, scope: ErasureScope, audit: Path | None
) -> StateErasure:
    """Return what names erased threads or the person; `place` is the digest of their store."""
    naming = StateNaming(place, scope)
    steps: list[Path] = []
    size = 0
    places = {one.op: one.place for one in log.newest_first()}
    for path in sorted([*log.folder.glob("steps/*.ndjson"), *log.folder.glob("running/*.ndjson")]):
        op, records = path.name.partition(".")[0], list(records_in(path))
        where = next((one["place"] for one in records[:1] if "place" in one), places.get(op))
        if is_half_erased(path) or any(naming.is_in_step(one, where) for one in records):
            steps.append(path)
            naming.operations.add(op)
            size += file_size(path)
    steps += left_over(sorted(log.folder.glob("old.log*.ndjson")), log.folder)
    lines = 0
    for line in log.lines():
        if naming.is_in(line):
            lines += 1
            size += len(line)
    audited = 0
    if audit is not None:
        with suppress(OSError, CkptError), open_regular(audit) as file:
            audited = sum(map(naming.is_in, file))
    operations = frozenset(naming.operations)
    return StateErasure(
        *(str(log.folder), lines, size, operations, steps, list(_repairs(scope))),
        history=list(_history(scope)),
        audited=audited,
    )


class StateNaming:
    """Finds lines that name an erased thread or the person.

    An operation on another store counts only if it names the person: a thread with the same id is
    another one there.
    """

    def __init__(self, place: str, scope: ErasureScope, operations: Collection[str] = ()) -> None:
        self._place = place
        self.scope = scope
        self._elsewhere = ErasureScope(scope.word, scope.words, scope.namespaces)
        self._pattern = scope.name_pattern
        self.operations: set[str] = set(operations)
        """Ids of operations whose steps name an erased thread."""

    def is_in_step(self, record: Any, place: str | None) -> bool:
        """Return whether a step of an operation on a store names anyone."""
        scope = self.scope if place == self._place else self._elsewhere
        if isinstance(record, dict) and "ckpt_operation" in record:
            return self._is_in_operation(record)
        return names_erased(record, scope, self._pattern)

    def is_in(self, line: bytes) -> bool:
        """Return whether a line of a log names anyone."""
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            return False
        return isinstance(record, dict) and self._is_in_operation(record)

    def turned(self, line: bytes) -> bytes:
        """Return a line without the ids."""
        if not self.is_in(line):
            return line
        is_ours = json.loads(line).get("place") == self._place
        scope = self.scope if is_ours else self._elsewhere

        def is_erased(text: str) -> bool:
            return scope.has_thread(text) or bool(self._pattern and self._pattern.search(text))

        record = scrubbed(json.loads(line), is_erased)
        return json.dumps(record, separators=(",", ":")).encode() + b"\n"

    def _is_in_operation(self, record: Mapping[str, Any]) -> bool:
        threads = record.get("threads")
        texts = (
            [one for one in threads if isinstance(one, str)] if isinstance(threads, list) else []
        )
        if record.get("op") in self.operations and record.get("cannot_undo") != CANNOT_UNDO:
            return True
        if record.get("place") == self._place and any(map(self.scope.has_thread, texts)):
            return True
        texts += [one for one in map(record.get, _TEXTS) if isinstance(one, str)]
        return self._pattern is not None and any(map(self._pattern.search, texts))


def _history(scope: ErasureScope) -> Iterator[Path]:
    """Yield the history of `ckpt sql`, and what a killed erasure left of it, if it names anyone."""
    try:
        path = history_file()
    except UsageError:
        return
    for one in (old_history(path), path):
        with suppress(OSError, CkptError), open_regular(one, follow=False) as file:
            found = file.read()
            if without_queries(found, scope) != found:
                yield one


def without_queries(history: bytes, scope: ErasureScope) -> bytes:
    """Return a history without the queries that name an erased thread or the person."""
    pattern = scope.name_pattern

    def is_named(entry: bytes) -> bool:
        text = query_of(entry)
        return any(map(scope.has_thread, words_of_query(text))) or bool(
            pattern and pattern.search(text)
        )

    return b"".join(one for one in history_entries(history) if not is_named(one))


def _repairs(scope: ErasureScope) -> Iterator[Path]:
    """Yield the records of repaired values of erased threads."""
    try:
        folder = state_folder("repairs")
    except UsageError:
        return
    for path in sorted(folder.glob("*.json")):
        if is_half_erased(path):
            yield path
        with suppress(OSError, CkptError, ValueError, RecursionError):
            with open_regular(path, follow=False) as file:
                record = json.load(file)
            if isinstance(record, dict) and scope.has_thread(record.get("thread_id")):
                yield path
