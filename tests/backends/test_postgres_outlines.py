"""PostgreSQL groups checkpoints that an outline cannot tell apart."""

from __future__ import annotations

import json
import random

import psycopg
import pytest
from psycopg.types.json import Jsonb

from ckpt_backends.registry import open_store
from ckpt_cli.core.tasks.status import is_surely_done
from tests.backends.agent import saver_of
from tests.unit.core.test_surely_done import CHANNELS, some_checkpoint

_NUMBER = 1500


@pytest.mark.engines
def test_an_outline_says_of_each_checkpoint_what_its_own_says(postgres_url: str) -> None:
    chance = random.Random(7)
    with saver_of(postgres_url) as saver:
        saver.setup()
    with psycopg.connect(postgres_url) as connection:
        for n in range(_NUMBER):
            one = some_checkpoint(chance)
            assert one.body
            assert one.metadata
            body, metadata = json.loads(one.body.data), json.loads(one.metadata.data)
            if chance.random() < 0.05:
                body["versions_seen"] = {"a": chance.choice([None, [], 1])}
            connection.execute(
                "INSERT INTO checkpoints (thread_id, checkpoint_id, checkpoint, metadata)"
                " VALUES (%s, 'head', %s, %s)",
                (f"t{n}", Jsonb(body), Jsonb(metadata)),
            )
            versions = body["channel_versions"] or {}
            connection.cursor().executemany(
                "INSERT INTO checkpoint_blobs (thread_id, channel, version, type)"
                " VALUES (%s, %s, %s, %s)",
                [
                    (f"t{n}", name, str(versions.get(name, 1)), chance.choice(["null", "empty"]))
                    for name in CHANNELS
                    if chance.random() < 0.2
                ],
            )
    with open_store(postgres_url) as store:
        keys = [one.key for n in range(_NUMBER) for one in store.checkpoints(f"t{n}")]
        whole = {one.key: one for one in store.checkpoints_at(keys, body=True, metadata=True)}
        outlines = list(store.outlines_at(keys))
    assert sorted(key for _, alike in outlines for key in alike) == sorted(whole)
    assert len(outlines) < len(whole)
    told = set()
    for outline, alike in outlines:
        says = is_surely_done(outline)
        told.add(says)
        assert {is_surely_done(whole[key]) for key in alike} == {says}, outline
    assert told == {True, False}
