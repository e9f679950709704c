"""Threads of the small graph in Redis, as its savers store them, and sessions beside them."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import langgraph_checkpoint_plainredis
import redis
from langgraph.checkpoint.redis import ShallowRedisSaver
from langgraph_checkpoint_aws.checkpoint.valkey import ValkeySaver
from valkey import Valkey

from ckpt_backends.changes import Removal
from ckpt_backends.registry import open_store
from tests.kit.agents.steps import talk
from tests.kit.harness.redis import PlainRedisSaver, SeeingRedisSaver, dump


def client(url: str) -> Any:
    return redis.Redis.from_url(url, protocol=2)


def keys(url: str) -> dict[bytes, Any]:
    return {name: held for name, held in dump(url).items() if name}


def fill(url: str, *threads: str, asks: bool = False, **options: Any) -> None:
    """Let the official saver of documents write some threads."""
    with SeeingRedisSaver.from_conn_string(url, **options) as saver:
        saver.setup()
        talk(saver, *threads, asks=asks)


def fill_shallow(url: str, *threads: str, asks: bool = False) -> None:
    with ShallowRedisSaver.from_conn_string(url) as saver:
        saver.setup()
        talk(saver, *threads, asks=asks)


def fill_plain(url: str, *threads: str, separator: str = "$", seconds: int = 0) -> None:
    with redis.Redis.from_url(url) as connected:
        talk(PlainRedisSaver(connected, separator, seconds), *threads)


def fill_colon(url: str, *threads: str) -> None:
    fill_plain(url, *threads, separator=":")


def plainredis_of(url: str, **options: Any) -> Any:
    return langgraph_checkpoint_plainredis.RedisSaver(client(url), **options)


def fill_plainredis(url: str, *threads: str, asks: bool = False, **options: Any) -> None:
    talk(plainredis_of(url, **options), *threads, asks=asks)


def valkey_of(url: str, **options: Any) -> Any:
    return ValkeySaver(Valkey.from_url(url), **options)


def fill_valkey(url: str, *threads: str, asks: bool = False, **options: Any) -> None:
    talk(valkey_of(url, **options), *threads, asks=asks)


FILLS: dict[str, Callable[..., None]] = {
    "redis": fill,
    "redis-hash": fill_plain,
    "redis-shallow": fill_shallow,
    "redis-hash-colon": fill_colon,
    "redis-plain": fill_plainredis,
    "valkey": fill_valkey,
}


def removal_of(url: str, thread_id: str) -> Removal:
    with open_store(url) as store:
        thread, size = store.thread(thread_id), store.size(thread_id)
    assert thread is not None
    return Removal(thread_id, thread.last_at, size.checkpoints, size.writes)


DAYS = 3 * 86400


@dataclass
class ContextState:
    """The fields that the quoted `utils/context_manager.py` keeps."""

    session_id: str
    user_id: str
    thread_id: str
    current_step: int = 1
    total_steps: int = 3
    global_context: dict[str, Any] = field(default_factory=dict)
    agent_contexts: dict[str, Any] = field(default_factory=dict)
    shared_memory: dict[str, Any] = field(default_factory=lambda: {"note": "C4nary"})
    conversation_history: list[dict[str, Any]] = field(default_factory=list)
    research_findings: dict[str, Any] = field(default_factory=dict)
    created_at: str = field(default_factory=lambda: datetime.now().isoformat())  # noqa: DTZ005
    updated_at: str = field(default_factory=lambda: datetime.now().isoformat())  # noqa: DTZ005


def save(url: str, state: ContextState, prefix: str = "research_context") -> None:
    with redis.Redis.from_url(url) as client:
        text = json.dumps(asdict(state), ensure_ascii=False)
        client.set(f"{prefix}:{state.user_id}:{state.session_id}", text, ex=DAYS)
