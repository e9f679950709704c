"""The channels on which LangGraph records what became of a task."""

from __future__ import annotations

ERROR = "__error__"
INTERRUPT = "__interrupt__"
RESUME = "__resume__"
