"""The tokens of a message by kind: cached, reasoning and others."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ckpt_backends.codec.values import Value
from ckpt_cli.core.conversation.messages import Message
from ckpt_cli.core.conversation.transcript import usage_fields, usage_of
from ckpt_cli.core.values.unwrap import unwrap

_DETAILS = {
    "cache_read": (
        ("input_token_details", "cache_read"),
        ("prompt_tokens_details", "cached_tokens"),
        ("input_tokens_details", "cached_tokens"),
    ),
    "cache_creation": (("input_token_details", "cache_creation"),),
    "reasoning": (
        ("output_token_details", "reasoning"),
        ("completion_tokens_details", "reasoning_tokens"),
        ("output_tokens_details", "reasoning_tokens"),
    ),
}
"""Key names in different libraries, as (dict, key)."""
_APART = {"cache_read": "cache_read_input_tokens", "cache_creation": "cache_creation_input_tokens"}
"""Key names of Anthropic, which does not count these tokens as `input_tokens`."""


@dataclass(slots=True)
class TokenCounts:
    """The tokens of some messages."""

    messages: int = 0
    input: int = 0
    """All tokens of the prompts, cached ones included."""
    output: int = 0
    """All tokens of the answers, reasoning included."""
    cache_read: int = 0
    cache_creation: int = 0
    reasoning: int = 0
    total: int = 0

    def add(self, other: TokenCounts) -> None:
        """Add the tokens of other messages."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


def counts_of(message: Message) -> TokenCounts | None:
    """Return the tokens of one message; None if it does not say."""
    usage = usage_of(message)
    if usage is None:
        return None
    stored = usage_fields(message)
    found = TokenCounts(1, usage.input, usage.output, total=usage.total)
    for name, places in _DETAILS.items():
        for outer, key in places:
            details = unwrap(stored.get(outer))
            if isinstance(details, dict) and (number := _number(details.get(key))):
                setattr(found, name, number)
                break
    for name, key in _APART.items():
        number = _number(stored.get(key))
        setattr(found, name, getattr(found, name) or number)
        found.input += number
        found.total += number
    return found


def _number(value: Value) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
