"""Sessions beside the threads of a Redis, as agents with a saver of their own keep them."""

import json
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import redis

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
