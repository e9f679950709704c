"""Fill a Redis with copies of a thread that a saver wrote, all with the same checkpoint ids."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import UUID

import redis

from tests.bench.make_postgres import build
from tests.redis_savers import PlainRedisSaver, SeeingRedisSaver

STEPS = 200
"""Number of checkpoints of a thread."""
TEMPLATE = "template"
"""The thread that is copied."""
_AT_ONCE = 500
Key = tuple[bytes, bytes, Any]
"""(name, type, value)."""


def fill_documents(url: str, threads: int) -> None:
    """Fill with threads of the official saver."""
    with SeeingRedisSaver.from_conn_string(url) as saver:
        saver.setup()
        _run(saver)
    with redis.Redis.from_url(url, protocol=2) as client:
        _copy_and_forget(client, threads)


def fill_hashes(url: str, threads: int) -> None:
    """Fill with threads of the plain saver."""
    with redis.Redis.from_url(url, protocol=2) as client:
        _run(PlainRedisSaver(client))
        _copy_and_forget(client, threads)


def _run(saver: Any) -> None:
    config: Any = {"configurable": {"thread_id": TEMPLATE}, "recursion_limit": STEPS}
    build(saver, STEPS - 2, False).invoke({"turns": 0}, config)


def _copy_and_forget(client: Any, threads: int) -> None:
    keys = keys_of(client)
    copy(client, keys, map(name_of, range(threads)))
    client.delete(*(name for name, _, _ in keys))


def keys_of(client: Any) -> list[Key]:
    """Return the keys of the thread that is copied."""
    return [
        (name, client.type(name), _value(client, name))
        for name in client.scan_iter(f"*{TEMPLATE}*", count=5000)
    ]


def copy(client: Any, keys: Sequence[Key], names: Iterable[str]) -> None:
    """Create threads with these names and the same keys."""
    commands = (command for name in names for key in keys for command in _set(key, name))
    some: list[Sequence[Any]] = []
    for command in commands:
        some.append(command)
        if len(some) == _AT_ONCE:
            _send(client, some)
            some = []
    _send(client, some)


def name_of(n: int) -> str:
    """Return the id of the n-th thread."""
    return str(UUID(int=(n * 0x9E3779B97F4A7C15) % (1 << 128), version=4))


def _value(client: Any, name: bytes) -> Any:
    match client.type(name):
        case b"ReJSON-RL":
            return json.dumps(json.loads(client.execute_command("JSON.GET", name)))
        case b"hash":
            return client.hgetall(name)
        case b"zset":
            return client.zrange(name, 0, -1, withscores=True)
    return client.get(name)


def _set(key: Key, thread_id: str) -> Iterator[Sequence[Any]]:
    stored, kind, value = key
    name = stored.replace(TEMPLATE.encode(), thread_id.encode())
    match kind:
        case b"ReJSON-RL":
            yield ("JSON.SET", name, "$", value.replace(f'"{TEMPLATE}"', f'"{thread_id}"'))
        case b"hash":
            yield ("HSET", name, *(part for pair in value.items() for part in pair))
        case b"zset":
            for member, score in value:
                yield ("ZADD", name, score, member.replace(TEMPLATE.encode(), thread_id.encode()))
        case _:
            yield ("SET", name, value.replace(TEMPLATE.encode(), thread_id.encode()))


def _send(client: Any, commands: Sequence[Sequence[Any]]) -> None:
    pipe = client.pipeline(transaction=False)
    for command in commands:
        pipe.execute_command(*command)
    pipe.execute()
