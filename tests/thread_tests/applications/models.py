"""State as a model of Pydantic, with models, an enum, times and decimals in it."""

from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any

from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel, Field


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    name: str
    price: Decimal
    color: Color = Color.RED


class State(BaseModel):
    items: list[Item] = Field(default_factory=list)
    total: Decimal = Decimal(0)
    due: date | None = None
    first: Item | None = None


def price(state: State) -> Any:
    return {"total": sum((one.price for one in state.items), Decimal(0)), "due": date(2026, 5, 4)}


def paint(state: State) -> Any:
    items = [one.model_copy(update={"color": Color.BLUE}) for one in state.items]
    return {"items": items, "first": items[0]}


def route(state: State) -> str:
    return "paint" if state.total > 5 else END


def build(checkpointer: Any = None) -> Any:
    graph = StateGraph(State)
    graph.add_node("price", price)
    graph.add_node("paint", paint)
    graph.add_edge(START, "price")
    graph.add_conditional_edges("price", route, ["paint", END])
    return graph.compile(checkpointer=checkpointer)


INPUTS = [
    {"items": [Item(name="cup", price=Decimal("3.50")), Item(name="pot", price=Decimal(4))]},
    {"items": [Item(name="pin", price=Decimal(1))]},
]
