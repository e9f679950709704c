"""Prices of tokens, from the tables `[prices]` and `[stores.NAME.prices]`.

[prices]
currency = "EUR"

[prices."gpt-4o*"]
input = 2.5
output = 10
cache_read = 1.25
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ckpt_backends.errors import UsageError

if TYPE_CHECKING:
    from ckpt_cli.core.usage.prices import ModelPrice, PriceList

_KEYS = ("input", "output", "cache_read", "cache_creation")
_EXAMPLE = 'write [prices."gpt-4o"] with input = 2.5 and output = 10, for a million tokens'


def parse_prices(outer: Mapping[str, object], where: str) -> PriceList | None:
    """Return the prices of models, from the table `prices` of a table; None if it has none.

    Raises `UsageError` for a table in another form.
    """
    if "prices" not in outer:
        return None
    # Most runs need no prices.
    from ckpt_cli.core.usage.prices import PriceList

    table = outer["prices"]
    if not isinstance(table, dict):
        raise UsageError(f"prices are not a table in {where}", hint=_EXAMPLE)
    currency = table.get("currency", "USD")
    if not isinstance(currency, str):
        raise UsageError(f"currency is not text in {where}", hint='write currency = "EUR"')
    models = {
        model: _price(model, prices, where)
        for model, prices in table.items()
        if model != "currency"
    }
    return PriceList(currency, models)


def _price(model: str, table: object, where: str) -> ModelPrice:
    from ckpt_cli.core.usage.prices import ModelPrice

    if not isinstance(table, dict) or not {"input", "output"} <= table.keys():
        raise UsageError(f"the prices of '{model}' lack input or output in {where}", hint=_EXAMPLE)
    for key, value in table.items():
        if key not in _KEYS:
            raise UsageError(
                f"unknown key '{key}' in the prices of '{model}' in {where}",
                hint=f"known: {', '.join(_KEYS)}",
            )
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or value < 0:
            raise UsageError(f"{key} of '{model}' is not a price in {where}", hint=_EXAMPLE)
    return ModelPrice(**table)
