"""Redis servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import langgraph_checkpoint_plainredis
import redis

from tests.conformance.benches.bench import Bench, Refusal
from tests.conformance.benches.postgres import ShallowPostgresBench
from tests.redis_savers import PlainRedisSaver, SeeingShallowRedisSaver, dump
from tests.servers import Server


class RedisBench(Bench):
    """langgraph-checkpoint-redis on a separate server."""

    name: ClassVar[str] = "redis"
    server: ClassVar[str | None] = "redis"
    refused: ClassVar[frozenset[str]] = frozenset({"zoo-time"})
    """JSON has no times with a time zone."""
    refusal: ClassVar[Refusal] = TypeError
    mangled: ClassVar[frozenset[str]] = frozenset(
        {"zoo-pydantic", "zoo-times", "zoo-uuid-decimal", "zoo-path-regex", "zoo-numpy"}
    )
    parsed: ClassVar[bool] = True
    sparse: ClassVar[bool] = True

    def __init__(self, folder: Path, server: Server | None) -> None:
        assert server is not None
        self._url = server.url

    @property
    def url(self) -> str:
        return self._url

    @contextmanager
    def saver(self) -> Iterator[Any]:
        from tests.redis_savers import SeeingRedisSaver

        with SeeingRedisSaver.from_conn_string(self._url) as saver:
            saver.setup()
            yield saver

    def forget(self, saver: Any, thread_id: str) -> None:
        saver.delete_thread(thread_id)
        # The saver does not find ids with a comma.
        for name in saver._redis.scan_iter("checkpoint*", 1000, "ReJSON-RL"):
            if saver._redis.json().get(name, "$.thread_id") == [thread_id]:
                saver._redis.delete(name)

    def fingerprint(self) -> object:
        return dump(self._url)

    def close(self) -> None:
        """The fixture stops the server."""


class ShallowRedisBench(RedisBench):
    """The saver that keeps only the newest checkpoint of each namespace."""

    name: ClassVar[str] = "redis-shallow"
    has_history: ClassVar[bool] = False
    refused: ClassVar[frozenset[str]] = ShallowPostgresBench.refused | {"zoo-time"}
    refusal: ClassVar[type[Exception]] = Exception

    @contextmanager
    def saver(self) -> Iterator[Any]:
        from langgraph.checkpoint.redis.shallow import ShallowRedisSaver

        with ShallowRedisSaver.from_conn_string(self._url) as saver:
            saver.setup()
            yield saver

    def truthful(self, saver: Any) -> Any:
        return SeeingShallowRedisSaver(redis_client=saver._redis)


class PlainRedisBench(Bench):
    """The saver of hashes, which needs no modules of Redis."""

    name: ClassVar[str] = "redis-hash"
    server: ClassVar[str | None] = "redis"
    separator: ClassVar[str] = "$"

    def __init__(self, folder: Path, server: Server | None) -> None:
        assert server is not None
        self._url = server.url

    @property
    def url(self) -> str:
        return self._url

    @contextmanager
    def saver(self) -> Iterator[Any]:
        with redis.Redis.from_url(self._url) as client:
            yield PlainRedisSaver(client, self.separator)

    def forget(self, saver: Any, thread_id: str) -> None:
        saver.delete_thread(thread_id)

    def fingerprint(self) -> object:
        return dump(self._url)

    def close(self) -> None:
        """The fixture stops the server."""


class PlainRedisSaverBench(PlainRedisBench):
    """langgraph-checkpoint-plainredis on a separate server, without modules."""

    name: ClassVar[str] = "redis-plain"
    wrapped: ClassVar[bool] = True
    damaged: ClassVar[frozenset[tuple[str, int, str]]] = frozenset(
        {("fork-asking", 2, "items"), ("fork-update-open", 2, "items"), ("zoo-bytes", 3, "value")}
        | {("fork-chat", step, "messages") for step in (1, 2, 3)}
        | {("fork-update", step, "items") for step in (2, 3)}
        | {
            (f"delta-fork-{often}", step, "items_plain")
            for often in ("often", "rarely")
            for step in (3, 5, 6, 7)
        }
        | {(f"delta-fork-{often}", 6, "messages_plain") for often in ("often", "rarely")}
        | {("delta-fork-often", 6, "messages")}
    )
    """The saver numbers versions per branch, so after LangGraph's time travel the values of one
    branch overwrite those of the other. A bytearray in a write is read as bytes.
    """

    @contextmanager
    def saver(self) -> Iterator[Any]:
        saver = langgraph_checkpoint_plainredis.RedisSaver(url=self._url)
        try:
            yield saver
        finally:
            saver.close()
