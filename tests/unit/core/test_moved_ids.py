"""The id of a task at a copy of its checkpoint."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from uuid import UUID

import pytest

from ckpt_backends.registry import open_store
from ckpt_cli.core.tasks import moved_id, origin_of
from ckpt_cli.reading.thread import ThreadReader
from tests.kit.command import FIXTURES, copy_store

OTHER = UUID("1f1e5fb3-2ac5-64af-8008-5d0b6978bc63")


@pytest.mark.parametrize("era", ["lg-1.2.22", "js-1.7.3"])
def test_every_stored_id_is_hashed_again(era: str, tmp_path: Path) -> None:
    """At the same checkpoint, the id is the stored one; at another, it is one of its own."""
    tasks = 0
    with open_store(str(copy_store(FIXTURES / era / "store.db", tmp_path))) as store:
        for thread in islice(store.threads(), 40):
            for moment in ThreadReader(store, thread).moments(""):
                origin = origin_of(
                    moment.key.checkpoint_id,
                    "",
                    (moment.number or 0) + 1,
                    moment.body.v,
                    is_numeric=era.startswith("js"),
                )
                assert origin is not None
                copy = origin._replace(checkpoint_id=OTHER, step=origin.step + 1)
                known = [one for one in moment.step.tasks if one.id is not None]
                found = [moved_id(one, moment.body, origin, origin) for one in known]
                assert found == [one.id for one in known]
                moved = {moved_id(one, moment.body, origin, copy) for one in known}
                assert len(moved - {one.id for one in known} - {None}) == len(known)
                tasks += len(known)
    assert tasks > 50
