"""What is kept of threads that are judged: numbers, and a few examples of each difference."""

import tracemalloc
from collections.abc import Iterator

from ckpt_cli.core.compat import CompatVerdict, Graph, GraphFile, GraphNode, Incompatibility
from ckpt_cli.queries.compat import JudgedThread
from ckpt_cli.render.compat import Compatibility, compatibility_lines

NODE = GraphNode((), False, (), "", (), True, (), True, None, {}, None, {})
GRAPH = Graph("g", False, {"ask": NODE, "old": NODE}, {}, {}, {}, frozenset())
FILE = GraphFile({"g": 0}, (GRAPH,), {}, {}, {})


def found(name: str) -> Incompatibility:
    return Incompatibility(CompatVerdict.LOSES, "key-gone", name, "it is gone", "keep it")


def threads(number: int, keys: int) -> Iterator[JudgedThread]:
    for one in range(number):
        findings = [found(f"k{one % keys}")] * 2
        yield JudgedThread(f"thread {one}", True, findings, "g", frozenset({"ask"}))


def test_threads_are_counted_while_they_are_read() -> None:
    answer = Compatibility(threads(5, 1), FILE, None, are_all=True)
    first = next(iter(answer))
    assert (first.thread_id, answer.summary) == ("thread 0", {"loses": 1})
    text = [one.text for one in compatibility_lines(answer)]
    assert "loses  k0  key-gone, 5 threads" in text
    assert "  thread 0, thread 1, thread 2 and 2 more" in text
    assert "safe to remove: old" in text


def test_memory_does_not_grow_with_the_store() -> None:
    answer = Compatibility(threads(5_000, 5_000), FILE, None, are_all=False)
    tracemalloc.start()
    text = [one.text for one in compatibility_lines(answer)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 << 20
    assert "4000 findings of other kinds: -o ndjson shows all" in text
    assert answer.safe_to_remove == ()
