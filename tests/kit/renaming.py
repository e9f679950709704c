"""Official graphs whose nodes have other names, as an application may name them anew."""

from collections.abc import Callable
from copy import copy
from typing import Any

from langgraph.graph import END, START, StateGraph


def renamed(graph: Any, name: Callable[[str], str]) -> Any:
    """Return the builder of a graph with other names of all nodes, those of subgraphs included."""
    builder = graph if isinstance(graph, StateGraph) else graph.builder

    def new(node: str) -> str:
        return node if node in {START, END} else name(node)

    made: Any = copy(builder)
    made.nodes = {new(node): _inside(spec, name) for node, spec in builder.nodes.items()}
    made.edges = {(new(start), new(end)) for start, end in builder.edges}
    made.waiting_edges = {
        (tuple(map(new, starts)), new(end)) for starts, end in builder.waiting_edges
    }
    made.branches = {
        new(start): {key: _branch(one, new) for key, one in branches.items()}
        for start, branches in builder.branches.items()
    }
    made.compiled = False
    return made


def _inside(spec: Any, name: Callable[[str], str]) -> Any:
    inner = getattr(spec.runnable, "builder", None)
    if inner is None:
        return spec
    found = copy(spec)
    found.runnable = renamed(inner, name).compile(checkpointer=spec.runnable.checkpointer)
    return found


def _branch(branch: Any, new: Callable[[str], str]) -> Any:
    ends = branch.ends
    return branch._replace(ends=None if ends is None else {k: new(v) for k, v in ends.items()})


def names_in(graph: Any) -> set[str]:
    found = set(graph.nodes)
    for spec in graph.nodes.values():
        inner = getattr(spec.runnable, "builder", None)
        found |= names_in(inner) if inner is not None else set()
    return found
