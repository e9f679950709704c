"""Tokens and their prices, sums by name, and the largest of them."""

from typing import Any

import pytest

from ckpt_backends.codec.values import Tagged
from ckpt_cli.core.conversation import TokenCounts, as_message, counts_of
from ckpt_cli.core.usage import (
    ByteSum,
    FoundMessage,
    MessageLedger,
    ModelPrice,
    Origin,
    PriceList,
    SizeTally,
    rank,
)
from tests.kit.cases import cases


def message(**fields: Any) -> Any:
    said: Any = {"content": "", **fields}
    found = as_message(Tagged("langchain_core.messages.ai.AIMessage", said))
    assert found is not None
    return found


def meant(**fields: Any) -> dict[str, Any]:
    return {"response_metadata": fields}


OF_LANGCHAIN = {
    **{"input_tokens": 100, "output_tokens": 20, "total_tokens": 120},
    "input_token_details": {"cache_read": 60, "cache_creation": 10},
    "output_token_details": {"reasoning": 5},
}
OF_OPENAI = {
    **{"prompt_tokens": 100, "completion_tokens": 20},
    "prompt_tokens_details": {"cached_tokens": 60},
    "completion_tokens_details": {"reasoning_tokens": 5},
}
OF_ANTHROPIC = {
    **{"input_tokens": 30, "output_tokens": 20},
    **{"cache_read_input_tokens": 60, "cache_creation_input_tokens": 10},
}


@cases(
    "fields counts",
    ({"usage_metadata": OF_LANGCHAIN}, TokenCounts(1, 100, 20, 60, 10, 5, 120)),
    (meant(token_usage=OF_OPENAI), TokenCounts(1, 100, 20, 60, 0, 5, 120)),
    (meant(usage=OF_ANTHROPIC), TokenCounts(1, 100, 20, 60, 10, 0, 120)),
    (meant(tokenUsage={"promptTokens": 4, "completionTokens": 1}), TokenCounts(1, 4, 1, total=5)),
    ({"usage_metadata": {"input_tokens": 3}}, TokenCounts(1, 3, 0, total=3)),
    ({"usage_metadata": {"input_tokens": 3, "total_tokens": 9}}, TokenCounts(1, 3, 0, total=9)),
    ({"usage": {"prompt_tokens": 1, "completion_tokens": True}}, TokenCounts(1, 1, 0, total=1)),
    ({"usage_metadata": None}, None),
    ({}, None),
)
def test_tokens_are_read_as_providers_write_them(fields: Any, counts: TokenCounts | None) -> None:
    assert counts_of(message(**fields)) == counts


def test_the_price_of_a_model_and_of_cached_tokens() -> None:
    tokens = TokenCounts(1, 1_000_000, 1_000_000, 600_000, 100_000)
    assert ModelPrice(2.0, 8.0).cost(tokens) == pytest.approx(10.0)
    assert ModelPrice(2.0, 8.0, 0.5, 2.5).cost(tokens) == pytest.approx(0.6 + 0.3 + 0.25 + 8.0)
    prices = [ModelPrice(n, n) for n in (1, 2, 3)]
    found = PriceList(models=dict(zip(("gpt-*", "gpt-4o*", "gpt-4o-mini"), prices, strict=True)))
    assert found.of("gpt-4o-mini") is prices[2]
    assert found.of("gpt-4o-2024") is prices[1]
    assert found.of("gpt-5") is prices[0]
    assert found.of("other") is found.of(None) is None


def _nodes(*origins: Origin, text: str = "id") -> list[Origin]:
    ledger = MessageLedger()
    for origin in origins:
        counted = FoundMessage("m", TokenCounts(1, 1, 1, total=2))
        ledger.add_list("messages", origin, [(message(id=text), counted)])
    return [one.origin for one in ledger.messages()]


def test_a_message_belongs_to_the_innermost_node_that_wrote_it() -> None:
    outer = Origin("", "1", "task", "~__pregel_pull, research")
    inner = Origin("research:task", "2", "own", "~__pregel_pull, dig")
    given = Origin("research:task", "2", "other", "~__pregel_pull, __start__")
    kept = Origin("research", "2", "own", "~__pregel_pull, dig")
    assert _nodes(outer, inner) == _nodes(inner, outer) == _nodes(given, inner, outer) == [inner]
    assert (_nodes(outer, given), _nodes(outer, kept)) == ([outer], [kept])


def test_a_list_that_is_written_whole_adds_only_what_is_new() -> None:
    ledger = MessageLedger()
    counted = FoundMessage("m", TokenCounts(1, 1, 1, total=2))
    origin = Origin("", "1", "task", "~__pregel_pull, chat")
    for number in (1, 2, 3):
        ledger.add_list("said", origin, [(message(), counted)] * number)
    assert len(list(ledger.messages())) == 3
    # One that got its id in the state belongs to the task that wrote it.
    state = [(message(id=one), counted) for one in "abcd"]
    ledger.add_state(Origin("", "9"), state)
    assert [one.origin for one in ledger.messages()] == [origin] * 3 + [Origin("", "9")]


def test_as_many_messages_without_an_id_are_counted_as_stand_at_one_place() -> None:
    ledger = MessageLedger()
    counted = FoundMessage("m", TokenCounts(1, 1, 1, total=2))
    wrote, stored = Origin("", "1", "task", "~__pregel_pull, chat"), Origin("", "9")
    of_a_person: Any = (message(content="no tokens"), None)
    ledger.add_list("said", wrote, [(message(), counted), of_a_person])
    ledger.add_state(stored, [(message(), counted)] * 3 + [of_a_person])
    assert [one.origin for one in ledger.messages()] == [wrote, stored, stored]


def test_the_largest_come_first_and_nothing_is_lost() -> None:
    found = [ByteSum("a", 1, 5), ByteSum("b", 2, 9), ByteSum("c", 0, 5), ByteSum("a", 3, 1)]
    ranked = rank(found, 2)
    assert [(one.key, one.bytes) for one in ranked.top] == [("b", 9), ("a", 5)]
    assert (ranked.total, ranked.more, ranked.more_bytes) == (20, 2, 6)
    tally = SizeTally[str]()
    for one in found:
        tally.add(one.key, one.rows, one.bytes)
    summed = [("a", 4, 6), ("b", 2, 9), ("c", 0, 5)]
    assert sorted((one.key, one.rows, one.bytes) for one in tally.amounts()) == summed
