"""A DeerFlow project on disk: its settings, its checkpoints and its memory."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import add_messages

from ckpt_backends.memory import Item
from ckpt_backends.registry import open_memory
from ckpt_backends.url import parse_url
from tests.kit.agents.small import chain, run

THREAD = "thread_abc123"
TURNS = (
    "我在字节跳动做后端开发，主要用 Go 和 Python。",
    "帮我分析一下 DeerFlow 的记忆系统架构。",
    "我计划下个季度把团队的 CI/CD 迁移到 GitHub Actions。",
)
LATER = "谢谢，CI/CD 迁移的后端开发计划以后再说。"
"""Said after the facts were stored; it shares words with both of them."""
SHARED = "database:\n  backend: sqlite\n  sqlite_dir: .deer-flow/data\n"


def save(path: Path, data: dict[str, Any]) -> None:
    """Save in the same way as `_save_memory_to_file` of DeerFlow's first release."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data["lastUpdated"] = now()
    beside = path.with_suffix(".tmp")
    with open(beside, "w", encoding="utf-8") as file:
        json.dump(data, file, indent=2, ensure_ascii=False)
    beside.replace(path)


def now() -> str:
    return datetime.now(UTC).isoformat().removesuffix("+00:00") + "Z"


def talk(store: Path, thread_id: str, *turns: str) -> None:
    store.parent.mkdir(parents=True, exist_ok=True)

    class State(TypedDict):
        messages: Annotated[list[Any], add_messages]

    graph = chain(State, {"lead_agent": lambda state: {"messages": [AIMessage("好的。")]}})
    run(store, graph, *({"messages": [HumanMessage(one)]} for one in turns), thread=thread_id)


def fact(ident: str, content: str, category: str, confidence: float, **more: Any) -> dict[str, Any]:
    return {
        "id": ident,
        "content": content,
        "category": category,
        "confidence": confidence,
        "createdAt": now(),
        "source": THREAD,
        **more,
    }


def memory() -> dict[str, Any]:
    """Return the memory of the first release after this conversation: two facts of three turns."""
    at = now()
    return {
        "version": "1.0",
        "lastUpdated": at,
        "user": {
            "workContext": {
                "summary": "字节跳动后端开发工程师，主要使用 Go 和 Python 技术栈。",
                "updatedAt": at,
            },
            "topOfMind": {
                "summary": "正在研究 DeerFlow 的记忆系统架构。"
                "计划下个季度将团队的 CI/CD 迁移到 GitHub Actions。",
                "updatedAt": at,
            },
        },
        "facts": [
            fact("fact_a1b2c3d4", "在字节跳动担任后端开发工程师", "context", 0.95),
            fact("fact_e5f6g7h8", "计划将团队 CI/CD 迁移到 GitHub Actions", "goal", 0.9),
        ],
    }


def make(root: Path, settings: str = SHARED, store: str = "data/deerflow.db") -> Path:
    """Make the worked example in a folder; returns DeerFlow's folder in it."""
    base = root / ".deer-flow"
    talk(base / store, THREAD, *TURNS)
    save(base / "memory.json", memory())
    talk(base / store, THREAD, LATER)
    talk(base / store, "another", "你好")
    (root / "config.yaml").write_text(settings, encoding="utf-8")
    return base


def write_fact(base: Path, user: str, agent: str, ident: str, front: str, body: str) -> Path:
    """Write a fact as Markdown, where newer releases store it."""
    from hashlib import sha256

    shard = sha256(ident.encode()).hexdigest()[:2]
    path = base / "users" / user / "agents" / agent / "facts" / shard / f"{ident}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\n{front}\n---\n\n{body}", encoding="utf-8")
    return path


FRONT = """id: fact_one
category: goal
confidence: 0.9
status: active
source:
  type: conversation
  threadId: thread_abc123
topics: []
createdAt: '2026-07-23T10:00:00Z'
updatedAt: '2026-07-24T10:00:00Z'
revision: 2
schemaVersion: 2
user_id: anna
agent_name: coder"""
BODY = "# 迁移\n\n计划将团队 CI/CD 迁移到 GitHub Actions\n\n第二行\n"


def read(path: Path | str) -> list[Item]:
    with open_memory(parse_url(str(path))) as store:
        return list(store.items(values=True))
