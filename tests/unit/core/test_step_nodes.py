"""Nodes of subgraphs as paths from the root graph."""

from __future__ import annotations

import pytest

from ckpt_cli.core.tasks import node_path, path_text


@pytest.mark.parametrize(
    ("checkpoint_ns", "expected"),
    [
        ("", "ask"),
        ("memory", "memory > ask"),
        ("research:9c1e", "research > ask"),
        ("research:9c1e|dig:77aa", "research > dig > ask"),
        ("research:9c1e|1", "research > ask"),
        ("research:9c1e|memory", "research > memory > ask"),
    ],
)
def test_a_node_is_named_after_the_nodes_that_called_it(checkpoint_ns: str, expected: str) -> None:
    assert path_text(node_path(checkpoint_ns, ["ask"])) == expected
