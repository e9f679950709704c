"""What only DynamoDB has: payloads beside items and in S3, scans, keys with `#`, AWS errors."""

import gzip
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.session import Session

from ckpt_backends.aws import engine
from ckpt_backends.aws.dynamodb.connect import DynamoConnection
from ckpt_backends.aws.dynamodb.records import decompressed, writes_partition
from ckpt_backends.aws.dynamodb.store import _owner
from ckpt_backends.aws.dynamodb.write import PARTITION
from ckpt_backends.codec.values import MOST_BYTES
from ckpt_backends.errors import Refused, StoreChanged, StoreUnavailable, UsageError
from ckpt_backends.model import CheckpointKey
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.registry import open_store
from ckpt_backends.rows import Row
from ckpt_backends.testing.chance import Chance
from ckpt_backends.url import parse_url
from ckpt_cli.complete import complete
from tests.kit.agents.steps import config_of, graph_of
from tests.kit.command import ckpt, ids_of, later
from tests.kit.harness.dynamodb import DynamoDbHarness, entry
from tests.kit.killing import run_and_kill
from tests.kit.servers import Server

# The conformance suite reads and changes this layout in the first tier.
pytestmark = pytest.mark.engines
CONFIG = config_of("trip")
READING = {"DescribeTable", "Query", "BatchGetItem", "Scan", "GetObject", "HeadObject"}
READING |= {"DescribeTimeToLive"}


@pytest.fixture
def place(dynamodb_server: Server, tmp_path: Path) -> Iterator[DynamoDbHarness]:
    """A table with one thread."""
    with DynamoDbHarness(tmp_path, dynamodb_server) as made:
        graph_of(made.kept_saver).invoke({"items": ["in"]}, CONFIG)
        yield made


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The operations that ckpt asks AWS for."""
    found: Counter[str] = Counter()
    before_calls(monkeypatch, lambda name: found.update([name]))
    return found


def before_calls(patch: pytest.MonkeyPatch, act: Callable[[str], object]) -> None:
    """Before each call of ckpt's clients, do something with the name of the operation."""

    class WatchedSession(Session):  # type: ignore[misc]
        def create_client(self, *given: Any, **named: Any) -> Any:
            client = super().create_client(*given, **named)
            client.meta.events.register("before-call", lambda model, **_: act(model.name))
            return client

    patch.setattr(engine, "Session", WatchedSession)


def chunk(checkpoint_id: str, thread_id: str = "trip") -> dict[str, Any]:
    """The key of a payload."""
    return {"PK": {"S": f"CHUNK_{thread_id}##{checkpoint_id}"}, "SK": {"S": "CHUNK"}}


def change(place: DynamoDbHarness, key: dict[str, Any], **attributes: Any) -> None:
    """Set or remove attributes of an item."""
    found = place.client.get_item(TableName=place.table, Key=key)["Item"]
    found.update(attributes)
    kept = {name: one for name, one in found.items() if one is not None}
    place.client.put_item(TableName=place.table, Item=kept)


@pytest.mark.nightly
def test_a_lost_payload_of_the_head_is_named(place: DynamoDbHarness) -> None:
    head, before, *_ = ids_of(place.url, "trip")
    place.client.delete_item(TableName=place.table, Key=chunk(head))
    loaded = place.kept_saver.get_tuple(CONFIG)
    assert loaded.checkpoint["id"] == before
    said = f"payload 'CHUNK_trip##{head}' is missing; the saver loads {before} before it instead"
    shown = ckpt("-s", place.url, "show", "trip")
    assert said in re.sub(r"\s+", " ", shown.out + shown.err)
    as_json = ckpt("-s", place.url, "show", "trip", "-o", "json")
    assert as_json.json["checkpoint_id"] == head
    assert said in as_json.out
    tree = ckpt("-s", place.url, "show", "trip", "--tree")
    assert tree.code == 0
    # The way out: go back to what the saver loads.
    assert ckpt("-s", place.url, "rollback", "trip", before, "--yes").code == 0
    assert place.kept_saver.get_tuple(CONFIG).metadata["forked_from"] == before


def test_another_lost_payload_says_that_the_saver_leaves_it_out(place: DynamoDbHarness) -> None:
    _, before, *_ = ids_of(place.url, "trip")
    place.client.delete_item(TableName=place.table, Key=chunk(before))
    shown = ckpt("-s", place.url, "show", "trip", before, "-o", "json")
    assert "is missing; the saver leaves this checkpoint out" in shown.out


def test_large_payloads_are_read_from_and_written_to_s3(
    place: DynamoDbHarness, tmp_path: Path
) -> None:
    saver = place.kept_saver
    config = config_of("large")
    graph_of(saver).invoke({"items": ["x" * 400_000]}, config)
    objects = place.objects()
    assert objects
    assert all(one.startswith("agents/one/large/checkpoints/") for one in objects)
    shown = ckpt("-s", place.url, "show", "large", "-o", "json").json
    assert shown["values"]["items"][1:] == ["from a", "from b"]
    listed = ckpt("-s", place.url, "threads", "list", "--long", "-o", "json").json
    size = next(one["bytes"] for one in listed if one["thread_id"] == "large")
    assert size > 3 * 400_000
    without = place.url.split("&bucket")[0]
    closed = ckpt("-s", without, "show", "large", "-o", "json")
    assert "payload is in S3: add ?bucket=NAME to the URL" in closed.out
    assert ckpt("-s", without, "threads", "delete", "large", "--yes").code == 4
    assert place.objects() == objects
    back = ckpt("-s", place.url, "rollback", "large@~1", "--yes")
    assert back.code == 0, back.err
    assert len(place.objects()) == len(objects) + 1
    ended = graph_of(saver).invoke(None, config)
    assert ended["items"][1:] == ["from a", "from b"]
    assert ckpt("-s", place.url, "copy", "large", "--as", "twin", "--yes").code == 0
    twin = config_of("twin")
    assert graph_of(saver).get_state(twin).values == graph_of(saver).get_state(config).values
    before = place.rows("large"), place.objects()
    words = ["threads", "delete", "large", "--archive", str(tmp_path), "--yes"]
    assert ckpt("-s", place.url, *words).code == 0
    assert not any("/large/" in one for one in place.objects())
    (bundle,) = tmp_path.glob("*.ckpt.gz")
    assert ckpt("-s", place.url, "import", bundle, "--yes").code == 0
    assert (place.rows("large"), place.objects()) == before


def test_compressed_payloads_are_read_and_copied_compressed(place: DynamoDbHarness) -> None:
    place.compresses, place.ttl = True, 86_400
    config = config_of("small")
    with place.saver() as saver:
        graph_of(saver).invoke({"items": ["word " * 2000]}, config)
        head, before, *_ = ids_of(place.url, "small")
        assert ckpt("-s", place.url, "rollback", "small", before, "--yes").code == 0
        ended = graph_of(saver).invoke(None, config)
        assert ended["items"][1:] == ["from a", "from b"]
    items = [one for one in place.items() if one["PK"]["S"] == "CHECKPOINT_small"]
    packed = {one["id"]["S"] for one in items if "compression" in one}
    children = {one["id"]["S"] for one in items if one.get("parent_checkpoint_id") == {"S": before}}
    (made,) = children - {head}
    assert {head, before, made} <= packed
    # The new checkpoint expires with its original.
    ends = {one["id"]["S"]: one["ttl"]["N"] for one in items}
    assert ends[made] == ends[before]
    listed = ckpt("-s", place.url, "threads", "list", "-o", "json").json
    expiring = {one["thread_id"]: one.get("expires_at") for one in listed}
    assert expiring["small"] is not None
    assert expiring["trip"] is None


@pytest.mark.in_ci("ref_loc")
@pytest.mark.parametrize(
    "bad",
    [
        {"ref_key": None},
        {"type": {"N": "1"}, "parent_checkpoint_id": {"BOOL": True}, "ttl": {"S": "soon"}},
        {"ref_loc": None, "type": None, "id": None, "ns": None},
        *later(
            {"ref_key": {"N": "5"}},
            {"ref_key": {"S": "x" * 3000}},
            {"ref_loc": {"S": "elsewhere"}},
            {"compression": {"S": "gzip"}},
            {"type": {"S": "pickle"}},
            {"type": {"S": "msgpack+aes"}},
            {"ttl": {"N": "99999999999999999999"}, "extra": {"M": {"a": {"L": [{"NULL": True}]}}}},
        ),
    ],
    ids=",".join,
)
def test_a_hostile_item_is_shown_as_what_it_is(place: DynamoDbHarness, bad: Any) -> None:
    head, *_ = ids_of(place.url, "trip")
    change(place, entry(head), **bad)
    for words in (
        ["threads", "list", "--long"],
        ["show", "trip", "--writes", "--metadata"],
        ["history", "trip"],
        ["show", "trip", "--tree"],
        ["du"],
    ):
        done = ckpt("-s", place.url, *words)
        assert done.code == 0, (words, done.err)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "payload",
    [{"B": b""}, {"B": b"\x82\xa1"}, {"B": b"\x93\x01\x02\x03"}, {"S": "text"}, None],
    ids=repr,
)
def test_a_damaged_payload_is_shown_as_what_it_is(place: DynamoDbHarness, payload: Any) -> None:
    head, *_ = ids_of(place.url, "trip")
    change(place, chunk(head), payload=payload)
    done = ckpt("-s", place.url, "show", "trip", "-o", "json")
    assert done.code == 0, done.err
    assert ckpt("-s", place.url, "replay", "trip").code in {0, 1}
    assert ckpt("-s", place.url, "rollback", "trip", head, "--yes").code == 4


def test_a_payload_of_another_thread_is_not_removed(place: DynamoDbHarness) -> None:
    config = config_of("evil")
    graph_of(place.kept_saver).invoke({"items": ["in"]}, config)
    victim, evil = ids_of(place.url, "trip")[0], ids_of(place.url, "evil")[0]
    key = {"PK": {"S": "CHECKPOINT_evil"}, "SK": {"S": f"#{evil}"}}
    change(place, key, ref_key=chunk(victim)["PK"])
    assert ckpt("-s", place.url, "threads", "delete", "evil", "--yes").code == 0
    assert place.kept_saver.get_tuple(CONFIG).checkpoint["id"] == victim
    assert not place.rows("evil").get("CHECKPOINT")


@pytest.mark.nightly
def test_a_gzip_bomb_is_not_unpacked(place: DynamoDbHarness) -> None:
    bomb = gzip.compress(bytes(MOST_BYTES + 1), 9)
    assert len(bomb) < 300_000
    assert decompressed(bomb) is None
    with pytest.raises(ValueError, match="cut off"):
        decompressed(bomb[:1000])
    head, *_ = ids_of(place.url, "trip")
    change(place, chunk(head), payload={"B": bomb})
    change(place, entry(head), compression={"S": "gzip"})
    shown = ckpt("-s", place.url, "show", "trip", "-o", "json")
    assert "decompresses to more than 256 MiB, not read" in shown.out


def test_a_namespace_with_a_hash_sign_is_whole(place: DynamoDbHarness) -> None:
    from langgraph.checkpoint.base import empty_checkpoint

    made = empty_checkpoint()
    config = config_of("trip", checkpoint_ns="in#ner:1")
    config = place.kept_saver.put(config, made, {"source": "loop", "step": 0}, {})
    place.kept_saver.put_writes(config, [("items", ["x"])], "task")
    with open_store(place.url) as store:
        assert store.namespaces("trip") == ["", "in#ner:1"]
        key = CheckpointKey("trip", "in#ner:1", made["id"])
        assert [one.key for one in store.checkpoints_at([key], body=True)] == [key]
        assert [one.task_id for one in store.writes_at([key], values=True)] == ["task"]


def test_one_thread_is_read_without_a_scan(place: DynamoDbHarness, called: Counter[str]) -> None:
    for words in (
        ["show", "trip", "--writes", "--metadata"],
        ["show", "trip", "--tree", "--all-ns"],
        ["history", "trip"],
        ["show", "--long", "trip"],
        ["diff", "trip"],
        ["messages", "trip"],
        ["replay", "trip"],
        ["interrupts", "trip"],
        ["doctor", "trip"],
        ["rollback", "trip@~1", "--dry-run"],
        ["show", "nosuch"],
    ):
        done = ckpt("-s", place.url, *words)
        assert "scanned" not in done.err, words
    assert "Scan" not in called
    assert called.keys() <= READING
    assert ckpt("-s", place.url, "stores").code == 0
    assert "Scan" not in called


def test_a_completion_does_not_scan(
    place: DynamoDbHarness, called: Counter[str], capsys: pytest.CaptureFixture[str]
) -> None:
    complete(["thread", "t", place.url, "", "", ""])
    assert capsys.readouterr().out == ""
    complete(["ref", "he", place.url, "", "trip", ""])
    assert capsys.readouterr().out.startswith("head\t")
    assert "Scan" not in called


def test_a_list_says_what_its_scan_costs(place: DynamoDbHarness, called: Counter[str]) -> None:
    number = len(place.items())
    called.clear()
    for words in (
        ["threads", "list"],
        ["du"],
        ["show"],
        ["doctor"],
        ["grep", "from a", "--match", "t*"],
    ):
        done = ckpt("-s", place.url, *words)
        assert done.code == 0, done.err
        said = rf"note: scanned table '{place.table}': {number} items, [\d.]+ read units?\n"
        assert len(re.findall(said, done.err)) == 1, (words, done.err)
    assert called.keys() <= READING
    assert "note: scanned" not in ckpt("-q", "-s", place.url, "threads", "list").err


@pytest.mark.nightly
def test_pages_of_a_scan_and_of_a_query_are_joined(place: DynamoDbHarness) -> None:
    # A page has at most 1 MB.
    for number in range(6):
        config: Any = {"configurable": {"thread_id": f"page-{number}"}}
        graph_of(place.kept_saver).invoke({"items": ["y" * 90_000]}, config)
    listed = ckpt("-s", place.url, "threads", "list", "-o", "json").json
    assert len(listed) == 7
    for number in range(20):
        extra = {**entry(f"0000{number:04}"), "filler": {"S": "z" * 100_000}}
        place.client.put_item(TableName=place.table, Item=extra)
    with open_store(place.url) as store:
        thread = store.thread("trip")
        assert thread is not None
        assert thread.checkpoints == 24


def test_a_scan_shows_its_progress(place: DynamoDbHarness) -> None:
    seen: list[tuple[int, int | None]] = []
    reports: list[str] = []

    class Observer:
        def scanning(self, label: str, done: int, total: int | None) -> None:
            assert place.table in label
            seen.append((done, total))

        def scanned(self, report: str) -> None:
            reports.append(report)

    with open_store(place.url) as store:
        store.observe_scans(Observer())
        assert store.lists_by_scan
        list(store.threads())
        list(store.threads())
    number = len(place.items())
    assert seen == [(0, number), (number, number)]
    assert len(reports) == 1


def test_without_credentials_nothing_is_opened(
    place: DynamoDbHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    done = ckpt("-s", place.url, "threads", "list")
    assert done.code == 4
    assert "no AWS credentials found" in done.err
    assert "?profile=NAME" in done.err


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("AccessDeniedException", 400, "access denied, dynamodb:Query is not allowed"),
        ("ExpiredTokenException", 400, "the credentials have expired"),
        ("UnrecognizedClientException", 400, "AWS does not know these credentials"),
        ("ProvisionedThroughputExceededException", 400, "the table throttles requests"),
        ("SomethingElse", 400, "AWS answers SomethingElse to Query"),
    ],
)
def test_an_error_of_aws_has_a_next_step_and_no_secret(
    place: DynamoDbHarness, monkeypatch: pytest.MonkeyPatch, code: str, status: int, said: str
) -> None:
    def failing(name: str) -> None:
        if name == "Query":
            told = {"Code": code, "Message": "hunter2 is secret"}
            raise ClientError({"Error": told, "ResponseMetadata": {}}, name)

    before_calls(monkeypatch, failing)
    with open_store(place.url) as store, pytest.raises(StoreUnavailable) as caught:
        store.thread("trip")
    assert said in caught.value.message
    done = ckpt("-s", place.url, "--debug", "show", "trip")
    assert done.code == 4
    assert "hunter2" not in done.err + done.out


def test_another_table_is_no_store(place: DynamoDbHarness) -> None:
    place.client.create_table(
        TableName=f"{place.table}-x",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    done = ckpt("-s", place.url.replace("?", "-x?", 1), "threads", "list")
    assert done.code == 4
    assert "is not a table of DynamoDBSaver" in done.err


def test_a_thread_that_moved_is_not_changed(
    place: DynamoDbHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent adds a checkpoint between the check and the transaction."""
    saver = place.kept_saver
    again = partial(graph_of(saver).invoke, {"items": ["again"]}, CONFIG)
    on_call(monkeypatch, "TransactWriteItems", 1, again)
    done = ckpt("-s", place.url, "rollback", "trip@~1", "--yes")
    assert (done.code, "nothing was written" in done.err) == (6, True), done.err
    sources = [one.metadata["source"] for one in saver.list(CONFIG)]
    assert "fork" not in sources
    state = graph_of(saver).get_state(CONFIG)
    assert state.values["items"][3:] == ["again", "from a", "from b"]
    assert not [one for one in place.items() if one["PK"]["S"] == PARTITION]


def test_a_checkpoint_that_goes_meanwhile_is_not_copied(
    place: DynamoDbHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A purge removes it between the check and the transaction."""
    before = ids_of(place.url, "trip")
    (key,) = (
        {name: one[name] for name in ("PK", "SK")}
        for one in kept_items(place)
        if one["PK"]["S"].startswith("CHECKPOINT_") and one["SK"]["S"].endswith(before[1])
    )
    remove = partial(place.client.delete_item, TableName=place.table, Key=key)
    on_call(monkeypatch, "TransactWriteItems", 1, remove)
    done = ckpt("-s", place.url, "rollback", "trip@~1", "--yes")
    assert (done.code, "nothing was written" in done.err) == (6, True), done.err
    assert ids_of(place.url, "trip") == [before[0], *before[2:]]


@pytest.mark.nightly
@pytest.mark.engines
def test_a_long_thread_is_copied_and_removed_whole(place: DynamoDbHarness) -> None:
    """It needs more than one transaction."""
    for number in range(11):
        graph_of(place.kept_saver).invoke({"items": [str(number)]}, CONFIG)
    assert len(place.rows("trip")["CHUNK"]) > 100
    assert ckpt("-s", place.url, "copy", "trip", "--as", "twin", "--yes").code == 0
    config = config_of("twin")
    kept = graph_of(place.kept_saver).get_state(CONFIG)
    assert graph_of(place.kept_saver).get_state(config).values == kept.values
    done = ckpt("-s", place.url, "threads", "delete", "twin", "--yes", "-o", "json").json
    assert done["after"]["checkpoints"] == done["after"]["bytes"] == 0
    assert not place.rows("twin")
    assert graph_of(place.kept_saver).get_state(CONFIG) == kept


def test_a_lease_of_another_run_is_waited_for_and_ends(
    place: DynamoDbHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ckpt_backends.aws.dynamodb.write._PATIENCE", 0.2)
    held = {"PK": {"S": PARTITION}, "SK": {"S": "purge"}, "lease_holder": {"S": "other"}}
    later = {**held, "held_until": {"N": "99999999999999"}}
    place.client.put_item(TableName=place.table, Item=later)
    refused = ckpt("-s", place.url, "threads", "delete", "trip", "--yes")
    assert (refused.code, "another purge" in refused.err) == (5, True)
    listed = ckpt("-s", place.url, "threads", "list", "-o", "json").json
    assert [one["thread_id"] for one in listed] == ["trip"]
    place.client.put_item(TableName=place.table, Item={**held, "held_until": {"N": "1"}})
    assert ckpt("-s", place.url, "threads", "delete", "trip", "--yes").code == 0
    assert place.items() == []


def test_a_lease_of_a_thread_names_the_item_that_blocks_it_and_for_how_long(
    place: DynamoDbHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ckpt_backends.aws.dynamodb.write._PATIENCE", 0.2)
    held = {"PK": {"S": PARTITION}, "SK": {"S": f"thread#{sha256(b'trip').hexdigest()}"}}
    later = {**held, "lease_holder": {"S": "other"}, "held_until": {"N": "99999999999999"}}
    place.client.put_item(TableName=place.table, Item=later)
    refused = ckpt("-s", place.url, "rollback", "trip", "--steps", "1", "--yes")
    assert refused.code == 4
    assert "being changed by another command, so nothing was written" in refused.err
    assert "a killed run (an item of CKPT_LOCK) expires after 20 s" in " ".join(refused.err.split())


Act = Callable[[], object]


def on_call(monkeypatch: pytest.MonkeyPatch, name: str, number: int, act: Act) -> None:
    """Before the call of this number of an operation, do something once."""
    seen = count(1)

    def changed(operation: str) -> None:
        if operation == name and next(seen) == number:
            act()

    before_calls(monkeypatch, changed)


def failing(code: str, name: str) -> Act:
    """What raises an error of AWS."""

    def act() -> None:
        reasons = [{"Code": "TransactionConflict"}]
        told: Any = {"Error": {"Code": code}, "CancellationReasons": reasons}
        raise ClientError(told, name)

    return act


def kept_items(place: DynamoDbHarness) -> list[dict[str, Any]]:
    """All items except locks."""
    return [one for one in place.items() if one["PK"]["S"] != PARTITION]


def large(place: DynamoDbHarness) -> dict[str, str]:
    """Make a thread with payloads in S3, and return all objects."""
    config = config_of("large")
    graph_of(place.kept_saver).invoke({"items": ["x" * 400_000]}, config)
    return place.objects()


@pytest.mark.nightly
def test_a_purge_that_fails_keeps_the_payloads_in_s3(
    place: DynamoDbHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, items = large(place), kept_items(place)
    name = "TransactWriteItems"
    on_call(monkeypatch, name, 1, failing("AccessDeniedException", name))
    assert ckpt("-s", place.url, "threads", "delete", "large", "--yes").code == 4
    assert (place.objects(), kept_items(place)) == (before, items)


@pytest.mark.nightly
@pytest.mark.parametrize("words", [["threads", "delete", "large"], ["undo", "large"]], ids=" ".join)
def test_payloads_that_stay_in_s3_are_named(
    place: DynamoDbHarness, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    large(place)
    assert ckpt("-s", place.url, "rollback", "large@~1", "--yes").code == 0
    before, number = place.objects(), len(place.rows("large")["CHECKPOINT"])
    on_call(monkeypatch, "DeleteObjects", 1, failing("AccessDenied", "DeleteObjects"))
    done = ckpt("-s", place.url, *words, "--yes")
    assert done.code == 0, done.err
    assert "could not be removed from bucket" in re.sub(r"\s+", " ", done.out + done.err)
    assert place.objects() == before
    assert len(place.rows("large").get("CHECKPOINT", ())) < number


def test_a_thread_is_kept_if_its_payloads_in_s3_are_not_found(place: DynamoDbHarness) -> None:
    before, items = large(place), kept_items(place)
    wrong = place.url.replace("key_prefix=agents/one", "key_prefix=agents/two")
    done = ckpt("-s", wrong, "threads", "delete", "large", "--yes")
    assert "check ?bucket= and ?key_prefix=" in re.sub(r"\s+", " ", done.out + done.err)
    assert (place.objects(), kept_items(place)) == (before, items)


@pytest.mark.parametrize("number", [1, 2], ids=["run", "write"])
def test_an_undo_stops_when_an_agent_continues(
    place: DynamoDbHarness, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """It continues just before the transaction, on top of what is removed."""
    assert ckpt("-s", place.url, "rollback", "trip@~1", "--yes").code == 0
    head, *before = ids_of(place.url, "trip")
    writes = [one for one in kept_items(place) if one["PK"]["S"].endswith(head)]

    def agent() -> None:
        if number == 1:
            graph_of(place.kept_saver).invoke(None, CONFIG)
        else:
            config: Any = {"configurable": {**CONFIG["configurable"], "checkpoint_ns": ""}}
            config["configurable"]["checkpoint_id"] = head
            place.kept_saver.put_writes(config, [("items", ["late"])], "task")

    on_call(monkeypatch, "TransactWriteItems", 1, agent)
    done = ckpt("-s", place.url, "undo", "trip", "--yes")
    assert (done.code, "nothing was written" in done.err) == (6, True), done.err
    assert set(ids_of(place.url, "trip")) >= {head, *before}
    assert all(one in kept_items(place) for one in writes)
    assert graph_of(place.kept_saver).get_state(CONFIG).values["items"][:2] == ["in", "from a"]


def test_a_purge_stops_when_an_agent_continues(
    place: DynamoDbHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = kept_items(place)
    on_call(
        monkeypatch,
        "TransactWriteItems",
        1,
        lambda: graph_of(place.kept_saver).invoke({"items": ["again"]}, CONFIG),
    )
    done = ckpt("-s", place.url, "purge", "--match", "trip", "--yes")
    assert "changed since the plan was made" in re.sub(r"\s+", " ", done.out + done.err)
    assert all(one in kept_items(place) for one in before)
    state = graph_of(place.kept_saver).get_state(CONFIG)
    assert state.values["items"] == ["in", "from a", "from b", "again", "from a", "from b"]


def test_a_conflict_in_one_thread_stops_no_purge(
    place: DynamoDbHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "pqr":
        config = config_of(name)
        graph_of(place.kept_saver).invoke({"items": ["in"]}, config)
    name = "TransactWriteItems"
    on_call(monkeypatch, name, 2, failing("TransactionCanceledException", name))
    done = ckpt("-s", place.url, "purge", "--match", "[pqr]", "--yes", "-o", "json").json
    assert [one["reason"] for one in done["skipped"]] == ["changed since the plan was made"]
    assert sum(bool(place.rows(name)) for name in "pqr") == 1


@pytest.mark.nightly
@pytest.mark.engines
@pytest.mark.parametrize("works", [True, False], ids=["back", "stuck"])
def test_an_undo_of_a_long_copy_is_whole_or_says_so(
    place: DynamoDbHarness, monkeypatch: pytest.MonkeyPatch, works: bool
) -> None:
    for number in range(11):
        graph_of(place.kept_saver).invoke({"items": [str(number)]}, CONFIG)
    assert ckpt("-s", place.url, "copy", "trip", "--at", "head", "--as", "twin", "--yes").code == 0
    before = kept_items(place)
    seen = count(1)

    def changed(operation: str) -> None:
        if operation == "TransactWriteItems":
            number = next(seen)
            if number == 2 or (number > 2 and not works):
                failing("TransactionCanceledException", operation)()

    with monkeypatch.context() as patched:
        before_calls(patched, changed)
        done = ckpt("-s", place.url, "undo", "twin", "--yes")
    if works:
        assert (done.code, "nothing was written" in done.err) == (6, True), done.err
        assert kept_items(place) == before
        assert ckpt("-s", place.url, "undo", "twin", "--yes").code == 0
    else:
        assert (done.code, "was changed in part" in done.err) == (7, True), done.err
        # Its head is whole.
        config = config_of("twin")
        state = graph_of(place.kept_saver).get_state(config)
        assert state.values == graph_of(place.kept_saver).get_state(CONFIG).values
        assert ckpt("-s", place.url, "threads", "delete", "twin", "--yes").code == 0
    assert not place.rows("twin")


def test_many_members_of_gzip_are_refused_fast() -> None:
    member = gzip.compress(b"")
    begun = time.process_time()
    with pytest.raises(ValueError, match="members"):
        decompressed(member * 200_000)
    assert time.process_time() - begun < 5
    assert decompressed(gzip.compress(b"a") + gzip.compress(b"b")) == b"ab"


def test_writes_without_checkpoints_belong_to_the_thread_with_an_empty_namespace() -> None:
    key = CheckpointKey("a#b", "", "1f1e")
    assert _owner(writes_partition(key), {"a"}) == key
    inner = CheckpointKey("a", "in#ner", "1f1e")
    assert _owner(writes_partition(inner), {"a"}) == inner


def row_of(checkpoint_id: str, thread_id: str = "a", ns: str = "", **cells: Any) -> Row:
    """A checkpoint, or with `task_id` a write, of an archive."""
    key = {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}
    table = "writes" if "task_id" in cells else "checkpoints"
    return Row(table, {**key, "type": "msgpack", "ref_loc": "DYNAMODB", **cells})


def restore(place: DynamoDbHarness, rows: list[Row]) -> Any:
    with open_writable(parse_url(place.url)) as store:
        return store.restore(iter(rows))


@pytest.mark.parametrize("row", ["checkpoint", "write"])
def test_an_import_damages_no_thread_with_the_same_keys(place: DynamoDbHarness, row: str) -> None:
    config = config_of("a#b")
    graph_of(place.kept_saver).invoke({"items": ["in"]}, config)
    head, *_ = ids_of(place.url, "a#b")
    before = place.items()
    rows = [row_of(head, ns="b#", checkpoint=b"\x80")]
    if row == "write":
        write: dict[str, Any] = {"task_id": "T9", "idx": 0, "channel": "items", "value": b"\x90"}
        rows = [row_of(head, ns="b#", **write), row_of(head, ns="b#")]
    with pytest.raises(Refused, match="of another thread"):
        restore(place, rows)
    assert place.items() == before


def test_an_import_keeps_a_payload_that_is_stored_already(place: DynamoDbHarness) -> None:
    number = "1f1e70d7-2d68-67ab-8001-000000000001"
    other = {**chunk(number, "a"), "payload": {"B": b"\x90"}}
    place.client.put_item(TableName=place.table, Item=other)
    with pytest.raises(StoreChanged, match="different contents"):
        restore(place, [row_of(number, checkpoint=b"\x80")])
    assert other in place.items()
    assert restore(place, [row_of(number, checkpoint=b"\x90")]).added == 1


def test_an_archive_with_a_row_twice_is_refused(place: DynamoDbHarness) -> None:
    before = place.items()
    rows = [row_of(f"1f1e70d7-2d68-67ab-8001-{n:012x}", checkpoint=b"\x80") for n in range(60)]
    with pytest.raises(Refused, match="twice"):
        restore(place, [*rows, rows[0]])
    assert place.items() == before


def test_a_long_import_that_conflicts_is_completed_by_the_next_one(
    place: DynamoDbHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row_of(f"1f1e70d7-2d68-67ab-8001-{n:012x}", checkpoint=b"\x80") for n in range(60)]
    name = "TransactWriteItems"
    on_call(monkeypatch, name, 2, failing("TransactionCanceledException", name))
    with pytest.raises(StoreChanged, match="a part of it is stored"):
        restore(place, rows)
    assert restore(place, rows).added == 60
    assert restore(place, rows).there == 60


@pytest.mark.nightly
def test_a_killed_purge_leaves_a_remainder_that_the_next_one_removes(
    place: DynamoDbHarness, monkeypatch: pytest.MonkeyPatch, chance: Chance
) -> None:
    monkeypatch.setattr("ckpt_backends.aws.dynamodb.write._PATIENCE", 30.0)
    kept, cut = place.rows("trip"), 0
    items_kept = len(place.items())
    for dice in chance.rounds(20, at_least=5):
        for number in range(4):
            config: Any = {"configurable": {"thread_id": f"old-{number}"}}
            graph_of(place.kept_saver).invoke({"items": ["in"]}, config)
        words: list[str | Path] = ["-s", place.url, "purge", "--match", "old-*", "--yes"]
        begun = partial(_has_fewer_items, place, len(place.items()))
        run_and_kill(words, dice, 0.3, begun)
        cut += len(place.items()) > items_kept
        for thread in (f"old-{number}" for number in range(4)):
            # What is left is whole: the items of each checkpoint, and what the saver reads.
            rows = place.rows(thread)
            entries = sum(len(rows.get(kind, ())) for kind in ("CHECKPOINT", "WRITES"))
            assert entries == len(rows.get("CHUNK", ()))
        assert ckpt(*words).code == 0
        assert not any(place.rows(f"old-{number}") for number in range(4))
    assert cut
    assert place.rows("trip") == kept


def _has_fewer_items(place: DynamoDbHarness, than: int) -> bool:
    return len(place.items()) < than


@pytest.mark.nightly
def test_a_killed_fork_leaves_the_new_thread_whole_or_absent(
    place: DynamoDbHarness, chance: Chance
) -> None:
    for number, dice in enumerate(chance.rounds(20)):
        words: list[str | Path] = ["-s", place.url, "copy", "trip", "--as", f"n-{number}"]
        run_and_kill([*words, "--yes"], dice, 3.0)
        made = place.rows(f"n-{number}")
        sizes = {kind: len(rows) for kind, rows in made.items()}
        assert sizes in ({}, {kind: len(rows) for kind, rows in place.rows("trip").items()})


def test_an_endpoint_in_clear_text_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    from ckpt_backends.errors import InsecureConnection
    from ckpt_backends.url import parse_url

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    monkeypatch.setattr(engine, "_CONNECT_SECONDS", 0.2)
    monkeypatch.setattr(engine, "_ATTEMPTS", 1)
    url = parse_url("dynamodb://agents?region=eu-central-1&endpoint=http://dynamo.invalid:8000")
    with (
        pytest.warns(InsecureConnection, match="from 'dynamo.invalid' comes over an unencrypted"),
        pytest.raises((StoreUnavailable, UsageError)),
    ):
        DynamoConnection(url)
