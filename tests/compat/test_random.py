"""Random graphs and changes of them: what is harmed is never called ok, and the same is silent."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import Send, interrupt

from ckpt_backends.testing.chance import Chance
from tests.kit.agents.small import Log, running
from tests.kit.probing import CONFIG, finished, judged, told_of


@dataclass
class World:
    is_broken: bool = True
    ran: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """A random graph: its nodes in the order of edges, and what some of them do."""

    nodes: tuple[str, ...]
    edges: frozenset[tuple[str, str]]
    joins: tuple[tuple[tuple[str, ...], str], ...] = ()
    branches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The first one is taken."""
    sends: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    deferred: frozenset[str] = frozenset()

    def renamed(self, name: Callable[[str], str]) -> "Plan":
        return Plan(
            tuple(map(name, self.nodes)),
            frozenset((name(a), name(b)) for a, b in self.edges),
            tuple((tuple(map(name, members)), name(end)) for members, end in self.joins),
            {name(a): tuple(map(name, ends)) for a, ends in self.branches.items()},
            {name(a): name(b) for a, b in self.sends.items()},
            {name(a): role for a, role in self.roles.items()},
            frozenset(map(name, self.deferred)),
        )

    def without(self, node: str) -> "Plan":
        into = [a for a, b in self.edges if b == node]
        out = [b for a, b in self.edges if a == node]
        kept = {pair for pair in self.edges if node not in pair}
        return Plan(
            tuple(one for one in self.nodes if one != node),
            frozenset(kept | {(a, b) for a in into for b in out}),
            tuple((m, end) for m, end in self.joins if node not in (*m, end)),
            {a: ends for a, ends in self.branches.items() if node not in (a, *ends)},
            {a: b for a, b in self.sends.items() if node not in (a, b)},
            {a: role for a, role in self.roles.items() if a != node},
            self.deferred - {node},
        )


def planned(dice: Random) -> Plan:
    nodes = tuple(f"n{n}" for n in range(dice.randint(3, 7)))
    edges, joins = {(START, nodes[0])}, []
    branches: dict[str, tuple[str, ...]] = {}
    sends: dict[str, str] = {}
    if dice.random() < 0.3:
        edges.add((START, nodes[1]))
    for at, node in enumerate(nodes[:-1]):
        later, chance = nodes[at + 1 :], dice.random()
        if chance < 0.15 and len(later) > 1:
            branches[node] = tuple(dice.sample(later, 2))
        elif chance < 0.25:
            sends[node] = dice.choice(later)
        else:
            number = min(len(later), dice.choice((1, 2)))
            edges |= {(node, end) for end in dice.sample(later, number)}
    for _ in range(dice.choice((0, 1, 1, 2))):
        end = dice.randrange(2, len(nodes))
        members = tuple(dice.sample(nodes[:end], 2))
        joins.append((members, nodes[end]))
        edges -= {(one, nodes[end]) for one in members}
    back = dice.choice(nodes[1:])
    if dice.random() < 0.15 and back not in {*branches, *sends}:  # a cycle that is not taken
        branches[back] = ("__end__", nodes[0])
        edges = {pair for pair in edges if pair[0] != back}
    roles = {dice.choice(nodes): "ask"} if dice.random() < 0.2 else {}
    roles[dice.choice(nodes)] = dice.choice(("ask", "ask", "fail", "two"))
    deferred = frozenset([dice.choice(nodes[1:])] if dice.random() < 0.25 else ())
    return Plan(nodes, frozenset(edges), tuple(joins), branches, sends, roles, deferred)


def graph_of(plan: Plan, world: World) -> Any:
    def node(name: str) -> Callable[[Any], Any]:
        def run(_: Any) -> Any:
            role, said = plan.roles.get(name), name
            if role == "ask":
                said = f"{name}:{interrupt('q')}"
            elif role == "two":
                said = f"{name}:{interrupt('q1')}{interrupt('q2')}"
            elif role == "fail" and world.is_broken:
                raise ValueError("broken")
            world.ran.append(name)
            return {"log": [said]}

        return run

    built: Any = StateGraph(Log)
    for name in plan.nodes:
        built.add_node(name, node(name), defer=name in plan.deferred)
    for pair in sorted(plan.edges):
        built.add_edge(*pair)
    for members, end in plan.joins:
        built.add_edge(list(members), end)
    for start, ends in plan.branches.items():
        named = {one: one for one in ends}
        built.add_conditional_edges(start, lambda _, ends=ends: ends[:1], named)
    for start, end in plan.sends.items():
        built.add_conditional_edges(start, lambda _, end=end: [Send(end, {"log": []})] * 2, [end])
    return built


def changed(plan: Plan, dice: Random) -> tuple[Plan, dict[str, str | None]]:
    """Return a changed graph, and the new name of each node; None for one that is gone."""
    names: dict[str, str | None] = {one: one for one in plan.nodes}
    node, joins = dice.choice(plan.nodes), plan.joins
    first, second = sorted(dice.sample(range(len(plan.nodes)), 2))
    pair = plan.nodes[first], plan.nodes[second]
    match dice.choice(
        ["same", "rename", "remove", "cut", "link", "swap", "edges", "join", "defer"]
    ):
        case "rename":
            names[node] = f"new_{node}"
            return plan.renamed(lambda one: f"new_{one}" if one == node else one), names
        case "remove":
            names[node] = None
            return plan.without(node), names
        case "cut":
            return replace(plan, edges=plan.edges - {dice.choice(sorted(plan.edges))}), names
        case "link":
            return replace(plan, edges=plan.edges | {pair}), names
        case "swap" if joins:
            members, end = joins[0]
            return replace(plan, joins=((members[::-1], end), *joins[1:])), names
        case "edges" if joins:
            members, end = joins[0]
            edges = plan.edges | {(one, end) for one in members}
            return replace(plan, joins=joins[1:], edges=edges), names
        case "join" if first:
            join = (plan.nodes[0], pair[0]), pair[1]
            edges = plan.edges - {(one, pair[1]) for one in join[0]}
            return replace(plan, joins=(*joins, join), edges=edges), names
        case "defer":
            return replace(plan, deferred=plan.deferred ^ {node}), names
    return plan, names


def finish(path: Path, plan: Plan, given: Any = None) -> tuple[list[str], list[str]]:
    """Run a thread to its end with the official library: the nodes that ran, and its log."""
    world = World(is_broken=False)
    with running(path, graph_of(plan, world)) as agent:
        if given is not None:
            agent.invoke(given, CONFIG)
        log = finished(agent).get("log", [])
    return world.ran, [one.split(":")[0] for one in log]


def is_harmed(
    path: Path, plan: Plan, new: Plan, names: Mapping[str, str | None], before: Sequence[str]
) -> bool | None:
    """Whether the official library drops, repeats or breaks something; None if nothing tells."""
    copies = [path.with_name(f"{one}.db") for one in ("same", "new")]
    for one in copies:
        one.write_bytes(path.read_bytes())
    try:
        same, logged = finish(copies[0], plan)
        whole, _ = finish(path.with_name("whole.db"), new, {"log": []})
    except Exception:  # a graph that runs in circles
        return None
    try:
        ran, log = map(Counter, finish(copies[1], new))
    except Exception:
        return True
    known = {name: now for name, now in names.items() if now is not None}
    total = ran + Counter(known[one] for one in before if one in known)
    needed = Counter(whole)
    behind = {end for start, end in plan.edges if start in names and names[start] is None}
    for name, times in Counter(same).items():
        now = known.get(name)
        if now is None:
            continue
        # What follows a node that was taken out runs once less, for it.
        is_dropped = name not in behind or not ran[now]
        if is_dropped and ran[now] < times and total[now] < needed[now]:
            return True
        if ran[now] > times and total[now] > needed[now] and name in before:
            return True
    kept = Counter(logged)
    return any(log[one] < min(n, kept[one]) for one, n in Counter(before).items())


def is_lost(path: Path, plan: Plan, new: Plan, names: Mapping[str, str | None]) -> bool:
    """Whether the official library does not plan a task any more, or drops what one wrote."""
    counts = []
    for graph, name in ((plan, names.get), (new, lambda one: one)):
        with running(path, graph_of(graph, World())) as agent:
            tasks = agent.get_state(CONFIG).tasks
        counts.append(
            (
                Counter(name(task.name) for task in tasks),
                Counter(name(task.name) for task in tasks if task.result),
            )
        )
    before, after = counts
    return any(one - other for one, other in zip(before, after, strict=True))


def tried_graph(dice: Random, folder: Path) -> tuple[bool, str, object] | None:
    """Whether one random thread is harmed, and what `ckpt` says."""
    folder.mkdir()
    plan, world, path = planned(dice), World(), folder / "s.db"
    with suppress(ValueError), running(path, graph_of(plan, world)) as agent:
        agent.invoke({"log": []}, CONFIG, durability="sync")
    new, names = changed(plan, dice)
    try:
        graphs = [graph_of(one, World()) for one in (new, plan)]
        graphs[0].compile()
        harmed = is_harmed(path, plan, new, names, list(world.ran))
    except ValueError:  # a graph without a beginning, or with an unknown end
        return None
    if harmed is None:
        return None
    harmed = harmed or is_lost(path, plan, new, names)
    found = judged(path, *graphs)
    if new == plan:
        assert found.findings == []
    return harmed, str(found.verdict), (plan, new, found.findings)


def test_no_harm_is_called_ok(tmp_path: Path) -> None:
    assert told_of(tried_graph, (Random(f"0 {number}") for number in range(12)), tmp_path)


@pytest.mark.nightly
def test_little_is_called_harmed_that_is_not(tmp_path: Path, chance: Chance) -> None:
    seen = told_of(tried_graph, chance.rounds(60), tmp_path)
    alarms = sum(seen[False, one] for one in ("breaks", "loses", "repeats", "changes"))
    assert alarms <= max(1, sum(seen.values()) * 0.01), seen
