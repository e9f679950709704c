"""Makes Redis write its files anew without removed keys, and names where they may still be.

The append-only file holds each command, and so each removed value, until it is rewritten. A
snapshot holds what was stored when it was made. An index of RediSearch keeps terms of removed
documents until its garbage collector runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from redis import exceptions

from ckpt_backends.changes import BACKUPS, FREED_BLOCKS, Remaining, Remains
from ckpt_backends.model import Progress
from ckpt_backends.redis.engine.connection import RedisConnection, explained
from ckpt_backends.url import StoreUrl

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


class _Stopped(Exception):
    """A step was refused, failed or took too long."""

    def __init__(self, reason: str, *, is_reachable: bool = True) -> None:
        super().__init__(reason)
        self.is_reachable = is_reachable


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
        try:
            self._wait()
            try:
                self._server.execute_command(command)
            except exceptions.ResponseError as error:
                raise _Stopped(f"the server refuses {command}", is_reachable=False) from error
            about = self._wait()
            if about.get(status) != "ok":
                raise _Stopped(f"{command} failed: {status} is {about.get(status)}")
        except _Stopped as error:
            self.places.append(Remaining(place, str(error), is_reachable=error.is_reachable))
        else:
            self.done.append(command)

    def _wait(self) -> Mapping[str, Any]:
        """Wait until no file is being written. Returns the state of the files then."""
        until = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < until:
            about: Mapping[str, Any] = self._asked("INFO", "persistence") or {}
            if not any(about.get(name) for name in _RUNNING):
                return about
            time.sleep(_PAUSE_SECONDS)
        raise _Stopped(f"the server is still writing it after {_WAIT_SECONDS:.0f} seconds")

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
        try:
            self._wait()
        except _Stopped:
            return False
        return any(self._asked(one, "GC_FORCEINVOKE", name) == b"DONE" for one in _DEBUG)

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
