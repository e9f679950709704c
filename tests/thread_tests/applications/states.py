"""A state of Pydantic, with models, enums, dates and decimals in it."""

from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any

from langgraph.graph import END
from pydantic import BaseModel, Field

from tests.kit.agents.small import chain


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    name: str
    price: Decimal
    color: Color = Color.RED


class Shop(BaseModel):
    items: list[Item] = Field(default_factory=list)
    total: Decimal = Decimal(0)
    due: date | None = None
    first: Item | None = None


def models(checkpointer: Any = None) -> Any:
    def price(state: Shop) -> Any:
        total = sum((one.price for one in state.items), Decimal(0))
        return {"total": total, "due": date(2026, 5, 4)}

    def paint(state: Shop) -> Any:
        items = [one.model_copy(update={"color": Color.BLUE}) for one in state.items]
        return {"items": items, "first": items[0]}

    def route(state: Shop) -> str:
        return "paint" if state.total > 5 else END

    graph = chain(Shop, {"price": price}).add_node("paint", paint)
    graph.add_conditional_edges("price", route, ["paint", END])
    return graph.compile(checkpointer=checkpointer)


INPUTS: dict[Any, list[Any]] = {
    models: [
        {"items": [Item(name="cup", price=Decimal("3.50")), Item(name="pot", price=Decimal(4))]},
        {"items": [Item(name="pin", price=Decimal(1))]},
    ]
}
