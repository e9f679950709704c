"""`ckpt copy` from KaFlow's collection, whose checkpoints are pickles."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.model import Record
from ckpt_backends.registry import open_store
from ckpt_backends.transfer.copying import records_of_rows
from ckpt_backends.transfer.form import CannotHold
from tests.kit.agents.steps import config_of, graph_of
from tests.kit.command import ckpt
from tests.kit.savers.kaflow import InTime, MongoDBCheckpointer
from tests.kit.savers.mongodb import Place
from tests.kit.servers import Server, mongodb_database

TRIP = "anna_4f0c_agent"


@pytest.fixture
def place(mongodb_server: Server) -> Iterator[Place]:
    """A database of KaFlow with a thread of two runs."""
    with mongodb_database(mongodb_server) as url:
        found = Place(url)
        saver = MongoDBCheckpointer(url, found.name)
        found.fill(TRIP, TRIP, saver=saver)
        yield found
        saver.client.close()
        found.client.close()


def parts(place: Place, thread_id: str = TRIP) -> list[Record]:
    with open_store(place.url) as store:
        return list(records_of_rows("kaflow", store.rows(thread_id)))


def copied(place: Place, target: str) -> Any:
    more = ("--to", target, "--create", "--yes", "-o", "json")
    answer = ckpt("-s", place.url, "copy", TRIP, *more)
    return answer.code, json.loads(answer.out)


def history(saver: Any) -> list[Any]:
    return [
        (one.values, one.next, one.metadata, one.created_at, one.config, one.parent_config)
        for one in graph_of(saver).get_state_history(config_of(TRIP))
    ]


def test_a_thread_goes_on_in_another_store(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "new.db"
    code, report = copied(place, str(file))
    assert code == 0, report
    assert report["verified"]
    assert report["writes"] == 0
    source = MongoDBCheckpointer(place.url, place.name)
    with SqliteSaver.from_conn_string(str(file)) as saver:
        assert history(saver) == history(InTime(source))
        again = graph_of(saver).invoke({"items": ["more"]}, config_of(TRIP))
    wanted = graph_of(source).invoke({"items": ["more"]}, config_of(TRIP))
    source.client.close()
    assert again["items"] == wanted["items"]
    assert len(again["messages"]) == len(wanted["messages"]) == 3


def test_a_user_that_the_thread_id_does_not_name(place: Place) -> None:
    place.database["checkpoints"].update_one({}, {"$set": {"username": "bert"}})
    with pytest.raises(CannotHold, match="its user 'bert' is not part of the thread id"):
        parts(place)


def test_a_head_that_no_other_layout_would_load(place: Place, tmp_path: Path) -> None:
    checkpoints = place.database["checkpoints"]
    newest = checkpoints.find_one({}, sort=[("created_at", -1)])
    oldest = checkpoints.find_one({}, sort=[("created_at", 1)])
    later = newest["created_at"] + timedelta(seconds=1)
    checkpoints.update_one({"_id": oldest["_id"]}, {"$set": {"created_at": later}})
    with pytest.raises(CannotHold, match=rf"newest checkpoint '{oldest['checkpoint_id']}' has"):
        parts(place)
    code, report = copied(place, str(tmp_path / "new.db"))
    assert code == 4
    assert "which other layouts would load" in report["skipped"][0]["reason"]


def test_metadata_that_is_no_json(place: Place) -> None:
    change = {"$set": {"metadata.at": place.database["checkpoints"].find_one()["created_at"]}}
    place.database["checkpoints"].update_one({}, change)
    with pytest.raises(CannotHold, match="not plain JSON"):
        parts(place)


def test_rows_of_an_archive_in_another_order(place: Place) -> None:
    with open_store(place.url) as store:
        rows = list(store.rows(TRIP))
    with pytest.raises(CannotHold, match="older than the one before it"):
        list(records_of_rows("kaflow", reversed(rows)))
