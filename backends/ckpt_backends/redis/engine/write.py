"""Changes a thread in Redis, with one transaction for each change; also erases and makes stores.

The transaction watches the keys that the plan was computed from. If a saver changes one of them
first, nothing is written. The names of new checkpoints are not known and cannot be watched, so they
are searched for right before the transaction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from operator import attrgetter
from typing import Any

from redis import exceptions

from ckpt_backends import shell
from ckpt_backends.base import BaseWritableStore
from ckpt_backends.changes import (
    BACKUPS,
    FREED_BLOCKS,
    Change,
    Remaining,
    Remains,
    Removal,
    RemovalBatch,
    Removed,
    moved,
)
from ckpt_backends.errors import PartlyDone, Refused, UnknownLayout, Unsupported
from ckpt_backends.model import Capability, Progress, first_of, in_batches, silent
from ckpt_backends.protocol import WritableStore
from ckpt_backends.redis.engine.changes import STAGED, carry_out_all, receive_thread
from ckpt_backends.redis.engine.connection import (
    Command,
    RedisConnection,
    Watch,
    connect,
    explained,
    explained_change,
    keys_of,
)
from ckpt_backends.redis.engine.keyspace import (
    ABOUT,
    DOCUMENT,
    HASH,
    LIST,
    MEMBER,
    STRING,
    USUAL,
    as_bytes,
    commands_of,
    name_of,
    raw,
    stored_of,
    text,
    time_now,
)
from ckpt_backends.redis.engine.layout import CommandPlan, RedisLayout, purge_lock
from ckpt_backends.redis.engine.store import open_layout
from ckpt_backends.rows import Cell, Restored, Row, RowEdit, conflict, is_part
from ckpt_backends.servers import opening, understanding
from ckpt_backends.transfer.copying import Arrival
from ckpt_backends.transfer.form import Language
from ckpt_backends.url import StoreUrl

# Replaces the contents of keys that are as they were read.
#
# On one server, as many keys as fit into memory are replaced in one transaction. On a cluster,
# and in a larger thread, each key has a transaction of its own. Times to live stay.


_AT_ONCE = 32 << 20
"""Bytes of one transaction, which the driver sends at once."""


def replace_rows(connection: RedisConnection, thread_id: str, edits: Iterable[RowEdit]) -> None:
    """See `WritableStore.replace`. Raises `StoreChanged`, and the driver's errors."""
    left = iter(edits)
    first, are_all = first_of(left, lambda one: one.new.size, _AT_ONCE)
    if are_all and not connection.is_cluster:
        _replace(connection, thread_id, first)
        return
    for one in chain(first, left):
        _replace(connection, thread_id, [one])


def _replace(connection: RedisConnection, thread_id: str, edits: Sequence[RowEdit]) -> None:
    names = [name_of(one.stored) for one in edits]
    if not names:
        return

    def checked(_: Watch) -> Iterator[Command]:
        stored = stored_of(connection, [one.stored for one in edits])
        for one, found in zip(edits, stored, strict=True):
            if not _is_as_read(one.stored, found):
                raise moved(thread_id)
        for one in edits:
            yield from _replacing(one)

    try:
        answers = connection.change(names, checked)
    except exceptions.WatchError:
        raise moved(thread_id) from None
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer


def _is_as_read(row: Row, found: dict[str, Cell] | None) -> bool:
    """Whether a key still has all that was read of it. A hash may have got other fields."""
    if found is None:
        return False
    return all(found.get(name) == cell for name, cell in row.cells.items() if name not in ABOUT)


def _replacing(one: RowEdit) -> Iterator[Command]:
    """The commands that replace what differs."""
    name, kind = name_of(one.stored), one.stored.cells["type"]
    changed = {
        field: cell for field, cell in one.new.cells.items() if cell != one.stored.cells[field]
    }
    if kind == DOCUMENT:
        yield ("JSON.SET", name, "$", as_bytes(changed["value"]))
    elif kind == STRING:
        yield ("SET", name, as_bytes(changed["value"]), "KEEPTTL")
    elif kind == HASH:
        for field, cell in changed.items():
            yield ("HSET", name, raw(field.removeprefix(MEMBER)), as_bytes(cell))
    elif kind == LIST:
        for field, cell in changed.items():
            yield ("LSET", name, int(field.removeprefix(MEMBER)), as_bytes(cell))
    else:
        raise Unsupported(f"a key of the type '{kind!s}' cannot be replaced")


# Restores keys in one transaction: all of them or none.
#
# The server queues the commands until EXEC. A key is created only if it does not exist, even if
# another process creates it meanwhile (NX).


_ROWS_AT_ONCE, _BYTES_AT_ONCE = 200, 4 << 20


def restore_rows(
    connection: RedisConnection,
    types: Mapping[str, str],
    stored: Callable[[Sequence[Row]], Iterable[Mapping[str, Cell] | None]],
    rows: Iterable[Row],
    also: Callable[[Sequence[Row]], Iterable[Command]] = lambda _: (),
) -> Restored:
    """Create the keys that do not exist yet.

    `types` are those of the keys, by kind; `stored` returns the stored contents of rows, None if
    one does not exist; `also` returns commands for other keys that must change with new rows.
    Raises `StoreChanged` if a key exists with different contents, and `Unsupported` if the layout
    has no such kind of key.
    """
    now = time_now(connection)
    added = there = expired = 0
    with connection.driver.client() as own:
        link: Any = own.connection
        try:
            _send(link, [("MULTI",)])
            for some in in_batches(rows, attrgetter("size"), _BYTES_AT_ONCE, _ROWS_AT_ONCE):
                for row in some:
                    if types.get(row.table) != row.cells.get("type"):
                        raise Unsupported(
                            f"unknown kind of key '{row.table}' in the archive",
                            hint="the archive comes from a newer ckpt: upgrade ckpt",
                        )
                live = [row for row in some if (at := _expiry(row)) is None or at > now]
                expired += len(some) - len(live)
                new = list(_missing(live, stored(live)))
                there += len(live) - len(new)
                added += len(new)
                _send(link, [one for row, stored in new for one in _restoring(row, stored)])
                _send(link, list(also([row for row, _ in new])))
            link.send_command("EXEC")
            for answer in link.read_response():
                if isinstance(answer, exceptions.ResponseError):
                    raise answer
        finally:
            # Disconnecting discards a transaction that was not executed.
            link.disconnect()
    return Restored(added, there, expired)


def _expiry(row: Row) -> int | None:
    at = row.cells.get("expires_at")
    return at if isinstance(at, int) else None


def _missing(
    rows: Sequence[Row], stored: Iterable[Mapping[str, Cell] | None]
) -> Iterator[tuple[Row, Mapping[str, Cell] | None]]:
    """The rows that do not exist yet, or only in part, with what is stored.

    Raises `StoreChanged` if one has different contents.
    """
    for row, cells in zip(rows, stored, strict=True):
        wanted = {key: cell for key, cell in row.cells.items() if key not in ABOUT}
        if cells is None or is_part(row.cells["type"], cells, wanted):
            yield row, cells
        elif cells != wanted:
            raise conflict(row.table)


def _restoring(row: Row, stored: Mapping[str, Cell] | None) -> Iterator[Command]:
    name = name_of(row)
    yield from commands_of(str(row.cells["type"]), name, row.cells, stored)
    if stored is None and (expiry := _expiry(row)) is not None:
        yield ("PEXPIREAT", name, expiry)


def _send(link: Any, commands: Sequence[Command]) -> None:
    """Send commands, which the server queues until EXEC. Raises the driver's errors."""
    link.send_packed_command(link.pack_commands(commands))
    for _ in commands:
        link.read_response()


_ONE_SCAN = RemovalBatch(threads=1000, rows=10_000)
"""A batch for which all keys of the store are looked at.

Nothing names a checkpoint that an agent adds after the scan: it is not seen, and stays behind
without its history. One that is added during the scan may be missed, too: SCAN promises only the
keys that exist from its beginning to its end. So the batch is small: its last key is removed less
than a second after the scan. Twice as many rows would save 6 % of the work.
"""


class WritableRedisStore(BaseWritableStore):
    """A Redis database, opened for changing."""

    def __init__(self, layout: RedisLayout, url: StoreUrl) -> None:
        self._connection = layout.connection
        self._layout = layout
        self._url = url

    @property
    def removal_batch(self) -> RemovalBatch:
        return RemovalBatch() if self._layout.is_indexed() else _ONE_SCAN

    def apply(self, change: Change) -> None:
        if Capability.ADDING not in self._layout.capabilities:
            raise Unsupported(
                f"'{self._url}' keeps no history, so no checkpoint can be added",
                hint="it stores only the newest checkpoint of each namespace",
            )
        try:
            with explained_change(self._url, "nothing was written"):
                answers = self._carry_out(self._layout.plan(self._layout, change))
        except exceptions.WatchError:
            raise moved(change.thread_id) from None
        failed = [one for one in answers if isinstance(one, Exception)]
        if failed:
            raise PartlyDone(
                f"the server refused a part of the change of thread '{change.thread_id}'",
                hint="Redis does not roll back a transaction; check the thread, then run ckpt undo",
            )

    def _carry_out(self, plan: CommandPlan[Any]) -> list[Any]:
        connection = self._connection
        early = [] if plan.watched else list(plan.commands())

        def commands(watch: Watch) -> Iterator[Command]:
            made = early or list(plan.commands())
            named = [name for command in made for name in keys_of(command)]
            connection.check_together([*plan.watched, *plan.touched, *plan.beside, *named])
            watch(plan.touched)
            plan.check()
            yield from made
            yield from plan.last()

        return connection.change(plan.watched, commands, () if plan.watched else plan.touched)

    def remove(self, removals: Sequence[Removal]) -> list[Removed]:
        with (
            explained_change(self._url, "what is left is removed by the next run"),
            purge_lock(self._connection, self._url) as lock,
        ):
            threads = self._layout.removals(lock, [one.thread_id for one in removals])
            return list(carry_out_all(self._connection, lock, removals, threads))

    def restore(self, rows: Iterable[Row]) -> Restored:
        with explained_change(self._url, "nothing was restored"):
            layout = self._layout
            return restore_rows(self._connection, layout.types, layout.stored, rows, layout.also)

    def receive(self, arrivals: Iterable[Arrival]) -> None:
        for arrival in arrivals:
            outcome = f"nothing of thread '{arrival.thread_id}' was added"
            with explained_change(self._url, outcome):
                receive_thread(self._connection, self._layout.reception(arrival))

    def replace(self, thread_id: str, edits: Iterable[RowEdit]) -> None:
        with explained_change(self._url, f"thread '{thread_id}' was changed in part"):
            replace_rows(self._connection, thread_id, edits)

    def vacuum(self) -> None:
        raise Unsupported(
            "Redis frees the memory of removed keys by itself",
            hint="leave --vacuum out; `redis-cli MEMORY PURGE` returns unused memory to the system",
        )

    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:  # noqa: ARG002

        return erase_remains(self._connection, self._url, progress)

    def close(self) -> None:
        self._connection.close()


def open_writable(url: StoreUrl) -> WritableStore:
    """Open for changing. Raises the errors of `store.open_store`, and `Unsupported`."""
    with opening(connect(url), url) as connection:
        layout = open_layout(connection, url)
        layout.check_writable(url)
        return understanding(WritableRedisStore(layout, url), url)


# Makes Redis write its files anew without removed keys, and names where they may still be.
#
# The append-only file holds each command, and so each removed value, until it is rewritten. A
# snapshot holds what was stored when it was made. An index of RediSearch keeps terms of removed
# documents until its garbage collector runs.


_WAIT_SECONDS = 600.0
_PAUSE_SECONDS = 0.1
_RUNNING = ("aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress")
"""Fields of INFO that are not 0 while a file is being written."""
_COLLECTING, _THRESHOLD = "FT.DEBUG GC_FORCEINVOKE", "FORK_GC_CLEAN_THRESHOLD"
_DEBUG = ("FT.DEBUG", "_FT.DEBUG")
"""The name of the command in RediSearch, and in Redis 8."""
_MEMORY = Remaining(
    "memory of the server", "freed memory is not overwritten; swap and core dumps may hold it"
)


def erase_remains(connection: RedisConnection, url: StoreUrl, progress: Progress) -> Remains:
    """Let each server write its files anew. Raises `StoreUnavailable`."""
    done: list[str] = []
    places: list[Remaining] = []
    with explained(url):
        for server in connection.servers():
            one = _Server(server, progress)
            one.erase()
            done += [step for step in one.done if step not in done]
            places += [place for place in one.places if place not in places]
    return Remains(tuple(done), (*places, _MEMORY, FREED_BLOCKS, BACKUPS))


class _Server:
    """The erasure on one server."""

    def __init__(self, server: Any, progress: Progress) -> None:
        self._server = server
        self._progress = progress
        self.done: list[str] = []
        self.places: list[Remaining] = []

    def erase(self) -> None:
        """Carry out all steps. Raises the driver's errors if the connection is lost."""
        self._collect_terms()
        about = self._asked("INFO", "persistence") or {}
        if not about:
            reason = "the server does not say whether it writes them"
            self.places.append(Remaining("append-only file and snapshots", reason))
        if about.get("aof_enabled"):
            self._write("BGREWRITEAOF", "append-only file", "aof_last_bgrewrite_status")
        if about and self._saves(about):
            self._write("BGSAVE", "snapshot (RDB file)", "rdb_last_bgsave_status")
        self.places += self._elsewhere()

    def _asked(self, *command: str | bytes) -> Any:
        """The answer to a command; None if the server refuses it."""
        with suppress(exceptions.ResponseError):
            return self._server.execute_command(*command)
        return None

    def _saves(self, about: Mapping[str, Any]) -> bool:
        """Whether the server writes snapshots, or has written or loaded one since its start."""
        if about.get("rdb_saves") or about.get("rdb_last_load_keys_loaded"):
            return True
        told = self._asked("CONFIG GET", "save")
        if not isinstance(told, dict) or len(told) != 1:
            reason = "the server does not say whether it writes some (CONFIG GET save)"
            self.places.append(Remaining("snapshots (RDB files)", reason))
            return False
        return any(told.values())

    def _write(self, command: str, place: str, status: str) -> None:
        """Write a file anew, and wait until it is complete. `status` is its field of INFO."""
        self._progress(command)
        reason = f"the server is still writing it after {_WAIT_SECONDS:.0f} seconds"
        is_refused = False
        if self._wait() is not None:
            is_refused = self._asked(command) is None
            if is_refused:
                reason = f"the server refuses {command}"
            elif (about := self._wait()) is not None:
                state = about.get(status)
                reason = "" if state == "ok" else f"{command} failed: {status} is {state}"
        if reason:
            self.places.append(Remaining(place, reason, is_reachable=not is_refused))
        else:
            self.done.append(command)

    def _wait(self) -> Mapping[str, Any] | None:
        """Wait until no file is being written. Returns the state of the files then.

        None if the server is still writing.
        """
        until = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < until:
            about: Mapping[str, Any] = self._asked("INFO", "persistence") or {}
            if not any(about.get(name) for name in _RUNNING):
                return about
            time.sleep(_PAUSE_SECONDS)
        return None

    def _collect_terms(self) -> None:
        """Run the garbage collector of each search index."""
        names = self._asked("FT._LIST") or []
        if not names:
            return
        self._progress(_COLLECTING)
        # The collector leaves an index alone that has fewer removed documents than this.
        told = self._asked("FT.CONFIG", "GET", _THRESHOLD)
        before = told[0][1] if told else None
        is_done = before is not None and self._set_threshold(b"0")
        try:
            is_done = is_done and all(map(self._collect, names))
        finally:
            if before is not None:
                self._set_threshold(before)
        if is_done:
            self.done.append(_COLLECTING)
        else:
            reason = "they keep terms of removed documents until their garbage collector runs"
            self.places.append(Remaining("search indexes", reason))

    def _set_threshold(self, value: bytes) -> bool:
        return self._asked("FT.CONFIG", "SET", _THRESHOLD, value) is not None

    def _collect(self, name: bytes) -> bool:
        # A server has one child at a time: beside a snapshot the collector does nothing, and says
        # that it is done.
        return self._wait() is not None and any(
            self._asked(one, "GC_FORCEINVOKE", name) == b"DONE" for one in _DEBUG
        )

    def _elsewhere(self) -> Iterator[Remaining]:
        about = self._asked("INFO", "replication")
        if about is None:
            yield Remaining("replicas", "the server does not say whether it has some")
        elif number := about.get("connected_slaves"):
            reason = "each has files of its own, and the server keeps recent commands for them"
            yield Remaining("replicas", f"it has {number}; {reason}")
        if self._asked("SLOWLOG LEN"):
            reason = "it keeps the beginnings of slow commands; SLOWLOG RESET empties it"
            yield Remaining("slow log", reason)


# Makes the search indexes of LangGraph's savers in an empty database, as `setup()` does.
#
# The savers are langgraph-checkpoint-redis 0.5 (`checkpoints_schema` and `writes_schema` in its
# `base.py`) and @langchain/langgraph-checkpoint-redis 1.0 (`SCHEMAS` in its `index.js`). Both need
# RediSearch; without it there is nothing to make.


_LAYOUTS = {Language.PYTHON: "redis", Language.JAVASCRIPT: "redis-js"}
_BESIDE = (b"store:", b"store_vectors:", STAGED)
"""The beginnings of keys that may be there: of long-term memory, and of interrupted copies."""
_TAG, _NUMBER = "TAG", "NUMERIC"
_PLACE = ("thread_id", "checkpoint_ns", "checkpoint_id")
_TASK = {"task_id": _TAG, "idx": _NUMBER, "channel": _TAG, "type": _TAG}
_CHECKPOINT = {
    **dict.fromkeys(("thread_id", "run_id", "checkpoint_ns", "checkpoint_id"), _TAG),
    **{"parent_checkpoint_id": _TAG, "checkpoint_ts": _NUMBER, "source": _TAG, "step": _NUMBER},
    "has_writes": _TAG,
}
_WRITE = dict.fromkeys(_PLACE, _TAG) | _TASK
_OF_JAVASCRIPT: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "checkpoints": (
        "checkpoint:",
        {name: kind for name, kind in _CHECKPOINT.items() if name != "run_id"},
    ),
    "checkpoint_blobs": (
        "checkpoint_blob:",
        dict.fromkeys((*_PLACE, "channel", "version", "type"), _TAG),
    ),
    "checkpoint_writes": ("checkpoint_write:", _WRITE),
}
"""By name of an index, the prefix of its keys, and its fields with their types."""


def create_store(url: StoreUrl, language: Language) -> None:
    """Make the indexes in an empty database, unless they are there.

    Raises `Refused` if there are other keys, `Unsupported` without RediSearch, and
    `StoreUnavailable`.
    """
    wanted = _LAYOUTS[language]
    if url.params.get("layout", wanted) != wanted:
        raise Unsupported(f"cannot make a store of the layout '{url.params['layout']}'")
    with opening(connect(url), url) as connection:
        if connection.find("FT._LIST") is None:
            raise Unsupported(
                f"'{url}' has no RediSearch, so there are no indexes to make",
                hint=f"LangGraph's saver needs it; without it, name the layout: ?layout={wanted},"
                " and leave --create out",
            )
        try:
            found = open_layout(connection, url.with_params({}, without=("layout",))).name
        except UnknownLayout:
            _check_empty(connection, url)
            _create(connection, url, language)
        else:
            if found != wanted:
                raise Refused(f"cannot make a store in '{url}': it has one of the layout '{found}'")
        connection.close()


def _check_empty(connection: RedisConnection, url: StoreUrl) -> None:
    others = (
        name for names in connection.scan(b"*") for name in names if not name.startswith(_BESIDE)
    )
    if (first := next(others, None)) is not None:
        raise Refused(
            f"cannot make a store in '{url}': it is not empty",
            hint=f"found {shell.name(text(first))}; name an empty database",
        )


def _create(connection: RedisConnection, url: StoreUrl, language: Language) -> None:
    indexes = _OF_JAVASCRIPT
    if language is Language.PYTHON:
        checkpoint = url.params.get("prefix", USUAL.checkpoint)
        write = url.params.get("write_prefix", USUAL.write)
        indexes = {checkpoint: (f"{checkpoint}:", _CHECKPOINT), write: (f"{write}:", _WRITE)}
    # RedisSaver's library names the separator of a list of tags; LangGraph.js has none.
    tag = ("TAG", "SEPARATOR", ",") if language is Language.PYTHON else ("TAG",)
    with explained_change(url, "not all indexes were made"):
        for name, (prefix, fields) in indexes.items():
            kinds = {one: tag if kind == _TAG else (kind,) for one, kind in fields.items()}
            create_index(connection, name, prefix, kinds)


def create_index(
    connection: RedisConnection,
    name: str,
    prefix: str,
    fields: Mapping[str, Sequence[str]],
    *options: str,
) -> None:
    """Make a search index of the documents whose keys begin with a prefix.

    `fields` are those of the documents, with their types. Raises the driver's errors.
    """
    words = [word for field, kind in fields.items() for word in (f"$.{field}", "AS", field, *kind)]
    connection.driver.execute_command(
        *("FT.CREATE", raw(name), "ON", "JSON", "PREFIX", 1, raw(prefix)),
        *(*options, "SCHEMA", *words),
    )
