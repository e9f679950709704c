"""What ValkeySaver writes and reads."""

from __future__ import annotations

from typing import Any

from langgraph_checkpoint_aws.checkpoint.valkey import ValkeySaver
from valkey import Valkey

from tests.kit.savers.redis import config_of, graph, run


def saver_of(url: str, **options: Any) -> Any:
    return ValkeySaver(Valkey.from_url(url), **options)


def fill(url: str, *threads: str, asks: bool = False, **options: Any) -> None:
    """Let the official saver write some threads."""
    run(saver_of(url, **options), *threads, asks=asks)


def items(url: str, thread_id: str, **options: Any) -> list[str]:
    """What the official saver reads."""
    found = graph(saver_of(url, **options)).get_state(config_of(thread_id)).values
    return list(found.get("items", []))
