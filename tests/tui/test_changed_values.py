"""What a step changed, as the tab State marks it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.official import drive
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.url import parse_url
from ckpt_cli.core.values import select
from ckpt_cli.queries import diff as module
from ckpt_cli.queries.diff import changed_values, compare
from ckpt_cli.queries.show import view
from ckpt_cli.reading.store import Opening
from ckpt_cli.reading.target import Target
from ckpt_cli.reading.thread import ThreadReader
from tests.kit.command import first_now
from tests.kit.harness.postgres import PostgresHarness
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.opening import empty_store


@pytest.mark.parametrize("kind", first_now([SqliteHarness, PostgresHarness]))
def test_what_a_diff_finds_is_marked_wherever_values_are_stored(
    kind: type[Harness],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with empty_store(kind, request, tmp_path) as harness:
        drive(harness.kept_saver, SCENARIOS["chat"])
        with Opening(parse_url(harness.url)).open(lambda _: None) as store:
            reader = ThreadReader(store, "chat")
            seen = set()
            for one in reader.index(""):
                target = Target(reader, "", one.key.checkpoint_id, chosen=True)
                found = view(target, None, writes=False)
                marked = changed_values(target, found)
                changes = compare(target, None, None).changes
                wanted = {name for name, what in changes.items() if what.change != "removed"}
                assert {path[0] for path in marked} == wanted
                for path in marked:
                    assert path[:-1] in {(), *marked}
                    values: Any = dict(found.state.values)
                    select(values, path)
                seen |= set(marked.items())
                monkeypatch.setattr(module, "_LARGEST", 0)
                large = changed_values(target, found)
                monkeypatch.undo()
                assert {path for path in large if len(path) > 1} == set()
                assert {path[0] for path in large} >= wanted
    assert (("messages",), "changed") in seen
    assert (("messages", 2), "added") in seen
