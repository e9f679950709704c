"""States of Pydantic and of dataclasses, with models, enums, times, bytes and sets in them."""

import operator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, NamedTuple
from uuid import UUID

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


class Place(NamedTuple):
    street: str
    number: int


@dataclass
class Parcel:
    code: UUID
    place: Place
    weight: float
    label: bytes = b""


@dataclass
class Post:
    parcels: Annotated[list[Parcel], operator.add] = field(default_factory=list)
    sent: set[str] = field(default_factory=set)
    at: datetime | None = None
    late: timedelta | None = None


def records(checkpointer: Any = None) -> Any:
    def pack(state: Post) -> Any:
        code = UUID("12345678-1234-5678-1234-567812345678")
        return {"parcels": [Parcel(code, Place("Main", len(state.parcels)), 2.5, b"\x00\xff")]}

    def send(state: Post) -> Any:
        at = datetime(2026, 5, 4, 12, tzinfo=timezone(timedelta(hours=2)))
        return {"sent": {str(one.place[0]) for one in state.parcels}, "at": at}

    def check(state: Post) -> Any:
        late = timedelta(minutes=len(state.parcels))
        return {"late": late} if state.at else {}

    nodes = {"pack": pack, "send": send, "check": check}
    return chain(Post, nodes).compile(checkpointer=checkpointer)


INPUTS: dict[Any, list[Any]] = {
    models: [
        {"items": [Item(name="cup", price=Decimal("3.50")), Item(name="pot", price=Decimal(4))]},
        {"items": [Item(name="pin", price=Decimal(1))]},
    ],
    records: [{"sent": set()}, {"sent": {"none"}}],
}
