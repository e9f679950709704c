"""State as a dataclass, with dataclasses, named tuples, bytes, sets and times in it."""

import operator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any, NamedTuple
from uuid import UUID

from langgraph.graph import START, StateGraph


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
class State:
    parcels: Annotated[list[Parcel], operator.add] = field(default_factory=list)
    sent: set[str] = field(default_factory=set)
    at: datetime | None = None
    late: timedelta | None = None


def pack(state: State) -> Any:
    code = UUID("12345678-1234-5678-1234-567812345678")
    parcel = Parcel(code, Place("Main", len(state.parcels)), 2.5, b"\x00\xff")
    return {"parcels": [parcel]}


def send(state: State) -> Any:
    at = datetime(2026, 5, 4, 12, tzinfo=timezone(timedelta(hours=2)))
    return {"sent": {str(one.place[0]) for one in state.parcels}, "at": at}


def check(state: State) -> Any:
    late = timedelta(minutes=len(state.parcels))
    return {"late": late} if state.at else {}


def build(checkpointer: Any = None) -> Any:
    graph = StateGraph(State)
    graph.add_sequence([pack, send, check])
    graph.add_edge(START, "pack")
    return graph.compile(checkpointer=checkpointer)


INPUTS = [{"sent": set()}, {"sent": {"none"}}]
