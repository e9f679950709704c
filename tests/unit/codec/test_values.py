"""The nodes of decoded values."""

from __future__ import annotations

import copy
import pickle

import pytest

from ckpt_backends.codec.values import Cut, Opaque, Tagged
from ckpt_cli.core.reducers import Pending

NODES = {
    "Tagged(type='a.B', payload={'x': [1]})": Tagged("a.B", {"x": [1]}),
    "Tagged(type='a.B', payload=None)": Tagged("a.B", None),
    "Pending(type='a.B', payload=None)": Pending("a.B", None),
    "Opaque(type='x', size=3, sha256='', reason='why')": Opaque("x", 3, "", "why"),
    "Opaque(type='x', size=3, sha256='', reason='why not')": Opaque("x", 3, "", "why not"),
    "Cut(kept='abc', size=9, reason='long', unit='character')": Cut("abc", 9, "long", "character"),
    "Cut(kept='abc', size=9, reason='long', unit='byte')": Cut("abc", 9, "long"),
}


@pytest.mark.parametrize("shown", NODES)
def test_a_node_equals_its_copies_and_no_other(shown: str) -> None:
    one = NODES[shown]
    assert repr(one) == shown
    assert [name for name, other in NODES.items() if other == one] == [shown]
    for again in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert again == one
        assert again is not one
        assert hash(again) == hash(one)
    assert one != [*map(repr, NODES)]
    assert not hasattr(one, "__dict__")
