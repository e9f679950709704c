"""What langgraph-checkpoint-plainredis writes and reads."""

from __future__ import annotations

from typing import Any

import langgraph_checkpoint_plainredis

from tests.kit.savers.redis import client, config_of, graph, run


def saver_of(url: str, **options: Any) -> Any:
    return langgraph_checkpoint_plainredis.RedisSaver(client(url), **options)


def fill(url: str, *threads: str, asks: bool = False, **options: Any) -> None:
    """Let the official saver write some threads."""
    run(saver_of(url, **options), *threads, asks=asks)


def items(url: str, thread_id: str, **place: str) -> list[str]:
    """What the official saver reads."""
    config = config_of(thread_id)
    config["configurable"].update(place)
    found: list[str] = graph(saver_of(url)).get_state(config).values.get("items", [])
    return found
