"""What only DynamoDB has: payloads beside items and in S3, scans, keys with `#`, AWS errors."""

import gzip
import re
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.session import Session
from langgraph.checkpoint.base import empty_checkpoint

from ckpt_backends.aws import engine
from ckpt_backends.aws.dynamodb.connect import DynamoConnection
from ckpt_backends.aws.dynamodb.records import checkpoint_place, decompressed, writes_partition
from ckpt_backends.aws.dynamodb.store import _owner
from ckpt_backends.aws.dynamodb.write import PARTITION, ItemGroup, _visible_last, check
from ckpt_backends.codec.values import MOST_BYTES
from ckpt_backends.errors import (
    InsecureConnection,
    Refused,
    StoreChanged,
    StoreUnavailable,
    UsageError,
)
from ckpt_backends.model import CheckpointKey
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.registry import open_store
from ckpt_backends.rows import Row
from ckpt_backends.url import parse_url
from ckpt_cli.complete import complete
from tests.engines.answers import refuses, succeeds, threads_of
from tests.kit.agents.steps import config_of, graph_of
from tests.kit.cases import cases
from tests.kit.command import ckpt, ids_of, later
from tests.kit.harness.dynamodb import DynamoDbHarness, entry

# The conformance suite reads and changes this layout in the first tier.
pytestmark = pytest.mark.engines
LAYOUT = "dynamodb"
CONFIG = config_of("trip")
READING = {"DescribeTable", "Query", "BatchGetItem", "Scan", "GetObject", "HeadObject"}
READING |= {"DescribeTimeToLive"}


@pytest.fixture
def place(place: DynamoDbHarness) -> DynamoDbHarness:
    """A table with one thread."""
    graph_of(place.kept_saver).invoke({"items": ["in"]}, CONFIG)
    return place


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


def test_a_lost_payload_is_named_with_what_the_saver_does(place: DynamoDbHarness) -> None:
    head, before, *_, first = ids_of(place.url, "trip")
    for lost, says in (
        (first, "is missing; the saver leaves this checkpoint out"),
        (head, f"'CHUNK_trip##{head}' is missing; the saver loads {before} before it instead"),
    ):
        place.client.delete_item(TableName=place.table, Key=chunk(lost))
        assert says in ckpt("-s", place.url, "show", f"trip@{lost}", "-o", "json").out
    assert place.kept_saver.get_tuple(CONFIG).checkpoint["id"] == before
    ckpt("-s", place.url, "show", "trip", "--tree", code=0)
    # The way out: go back to what the saver loads.
    ckpt("-s", place.url, "rollback", "trip", before, "--yes", code=0)
    assert place.kept_saver.get_tuple(CONFIG).metadata["forked_from"] == before


def test_large_payloads_are_read_and_written_in_s3(place: DynamoDbHarness, tmp_path: Path) -> None:
    graph, config = graph_of(place.kept_saver), config_of("large")
    graph.invoke({"items": ["x" * 400_000]}, config)
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
    ckpt("-s", without, "threads", "delete", "large", "--yes", code=4)
    wrong = place.url.replace("key_prefix=agents/one", "key_prefix=agents/two")
    kept = ckpt("-s", wrong, "threads", "delete", "large", "--yes")
    assert "check ?bucket= and ?key_prefix=" in re.sub(r"\s+", " ", kept.out + kept.err)
    assert place.objects() == objects
    succeeds(place.url, "rollback", "large@~1", "--yes")
    assert len(place.objects()) == len(objects) + 1
    assert graph.invoke(None, config)["items"][1:] == ["from a", "from b"]
    succeeds(place.url, "copy", "large", "--as", "twin", "--yes")
    assert graph.get_state(config_of("twin")).values == graph.get_state(config).values
    before = place.rows("large"), place.objects()
    succeeds(place.url, "threads", "delete", "large", "--archive", tmp_path, "--yes")
    assert not any("/large/" in one for one in place.objects())
    succeeds(place.url, "import", *tmp_path.glob("*.ckpt.gz"), "--yes")
    assert (place.rows("large"), place.objects()) == before


def test_compressed_payloads_are_read_and_copied_compressed(place: DynamoDbHarness) -> None:
    place.compresses, place.ttl = True, 86_400
    config = config_of("small")
    with place.saver() as saver:
        graph_of(saver).invoke({"items": ["word " * 2000]}, config)
        head, before, *_ = ids_of(place.url, "small")
        ckpt("-s", place.url, "rollback", "small", before, "--yes", code=0)
        assert graph_of(saver).invoke(None, config)["items"][1:] == ["from a", "from b"]
    items = [one for one in place.items() if one["PK"]["S"] == "CHECKPOINT_small"]
    packed = {one["id"]["S"] for one in items if "compression" in one}
    children = {one["id"]["S"] for one in items if one.get("parent_checkpoint_id") == {"S": before}}
    (made,) = children - {head}
    assert {head, before, made} <= packed
    # The new checkpoint expires with its original.
    ends = {one["id"]["S"]: one["ttl"]["N"] for one in items}
    assert ends[made] == ends[before]
    listed = ckpt("-s", place.url, "threads", "list", "-o", "json").json
    told = {one["thread_id"]: "expires_at" in one for one in listed}
    assert told == {"small": True, "trip": False}


@pytest.mark.in_ci("ref_loc")
@cases(
    "bad",
    ({"ref_loc": None, "type": None, "id": None, "ns": None}, {"S": "text"}),
    *later(
        ({"ref_key": None}, {"B": b"\x93\x01\x02\x03"}),
        ({"type": {"N": "1"}, "parent_checkpoint_id": {"BOOL": True}, "ttl": {"S": "soon"}}, None),
        ({"ref_key": {"N": "5"}, "ttl": {"N": "9" * 20}}, {"B": b""}),
        ({"ref_loc": {"S": "elsewhere"}, "type": {"S": "pickle"}}, {"B": b"\x82\xa1"}),
        ({"compression": {"S": "gzip"}, "extra": {"M": {"a": {"L": [{"NULL": True}]}}}}, None),
    ),
    ids=lambda bad: ",".join(bad[0]),
)
def test_a_hostile_item_is_shown(place: DynamoDbHarness, bad: tuple[dict[str, Any], Any]) -> None:
    head, *_ = ids_of(place.url, "trip")
    for key, attributes in ((entry(head), bad[0]), (chunk(head), {"payload": bad[1]})):
        change(place, key, **attributes)
        for words in (
            *(["threads", "list", "--long"], ["show", "trip", "--writes", "--metadata"]),
            *(["show", "trip", "--tree"], ["du"]),
        ):
            succeeds(place.url, *words)
    assert ckpt("-s", place.url, "replay", "trip").code in {0, 1}
    ckpt("-s", place.url, "rollback", "trip", head, "--yes", code=4)


def test_a_payload_of_another_thread_is_not_removed(place: DynamoDbHarness) -> None:
    graph_of(place.kept_saver).invoke({"items": ["in"]}, config_of("evil"))
    victim, evil = ids_of(place.url, "trip")[0], ids_of(place.url, "evil")[0]
    key = {"PK": {"S": "CHECKPOINT_evil"}, "SK": {"S": f"#{evil}"}}
    change(place, key, ref_key=chunk(victim)["PK"])
    ckpt("-s", place.url, "threads", "delete", "evil", "--yes", code=0)
    assert place.kept_saver.get_tuple(CONFIG).checkpoint["id"] == victim
    assert not place.rows("evil").get("CHECKPOINT")


@pytest.mark.nightly
def test_a_gzip_bomb_is_not_unpacked(place: DynamoDbHarness) -> None:
    bomb = gzip.compress(bytes(MOST_BYTES + 1), 9)
    assert len(bomb) < 300_000
    assert decompressed(bomb) is None
    with pytest.raises(ValueError, match="cut off"):
        decompressed(bomb[:1000])
    begun = time.process_time()
    with pytest.raises(ValueError, match="members"):
        decompressed(gzip.compress(b"") * 200_000)
    assert time.process_time() - begun < 5
    assert decompressed(gzip.compress(b"a") + gzip.compress(b"b")) == b"ab"
    head, *_ = ids_of(place.url, "trip")
    change(place, chunk(head), payload={"B": bomb})
    change(place, entry(head), compression={"S": "gzip"})
    shown = ckpt("-s", place.url, "show", "trip", "-o", "json")
    assert "decompresses to more than 256 MiB, not read" in shown.out


def test_a_namespace_with_a_hash_sign_is_whole(place: DynamoDbHarness) -> None:
    made = empty_checkpoint()
    config = config_of("trip", checkpoint_ns="in#ner:1")
    config = place.kept_saver.put(config, made, {"source": "loop", "step": 0}, {})
    place.kept_saver.put_writes(config, [("items", ["x"])], "task")
    with open_store(place.url) as store:
        assert store.namespaces("trip") == ["", "in#ner:1"]
        key = CheckpointKey("trip", "in#ner:1", made["id"])
        assert [one.key for one in store.checkpoints_at([key], body=True)] == [key]
        assert [one.task_id for one in store.writes_at([key], values=True)] == ["task"]
    succeeds(place.url, "history", "trip", "--ns", "in#ner:1")
    # Writes without checkpoints belong to the thread with an empty namespace.
    for key in (CheckpointKey("a#b", "", "1f1e"), CheckpointKey("a", "in#ner", "1f1e")):
        assert _owner(writes_partition(key), {"a"}) == key


def test_what_scans_says_what_it_costs(
    place: DynamoDbHarness, called: Counter[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (
        *(["show", "trip", "--writes", "--metadata"], ["show", "trip", "--tree", "--all-ns"]),
        *(["show", "--long", "trip"], ["history", "trip"], ["diff", "trip"], ["replay", "trip"]),
        *(["interrupts", "trip"], ["doctor", "trip"], ["rollback", "trip@~1", "--dry-run"]),
        *(["show", "nosuch"], ["stores"]),
    ):
        assert "scanned" not in ckpt("-s", place.url, *words).err, words
    # Nor for a completion.
    complete(["thread", "t", place.url, "", "", ""])
    assert capsys.readouterr().out == ""
    complete(["ref", "he", place.url, "", "trip", ""])
    assert capsys.readouterr().out.startswith("head\t")
    assert "Scan" not in called
    number = len(place.items())
    for words in (["threads", "list"], ["du"], ["doctor"], ["grep", "from a", "--match", "t*"]):
        done = succeeds(place.url, *words)
        said = rf"note: scanned table '{place.table}': {number} items, [\d.]+ read units?\n"
        assert len(re.findall(said, done.err)) == 1, (words, done.err)
    assert called.keys() <= READING


def test_pages_are_joined_and_what_is_left_out_is_asked_for_again(
    place: DynamoDbHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page has at most 1 MB, and here two items."""
    with open_store(place.url) as store:
        before = [*store.threads(), *store.rows("trip")]

    def shorten(params: dict[str, Any], **_: Any) -> None:
        params.setdefault("Limit", 2)

    def leave_out(parsed: dict[str, Any], **_: Any) -> None:
        found = parsed["Responses"][place.table]
        if len(found) > 1:
            key = {name: one for name, one in found.pop().items() if name in {"PK", "SK"}}
            parsed["UnprocessedKeys"] = {place.table: {"Keys": [key]}}

    class SlowSession(Session):  # type: ignore[misc]
        def create_client(self, *given: Any, **named: Any) -> Any:
            client = super().create_client(*given, **named)
            for name in ("Query", "Scan"):
                client.meta.events.register(f"before-parameter-build.dynamodb.{name}", shorten)
            client.meta.events.register("after-call.dynamodb.BatchGetItem", leave_out)
            return client

    monkeypatch.setattr(engine, "Session", SlowSession)
    with open_store(place.url) as store:
        assert [*store.threads(), *store.rows("trip")] == before


def test_errors_tell_no_secret(place: DynamoDbHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"Code": "", "Message": "hunter2 is secret"}

    def failing(name: str) -> None:
        if name == "Query":
            raise ClientError({"Error": told, "ResponseMetadata": {}}, name)

    before_calls(monkeypatch, failing)
    for code, said in {
        "AccessDeniedException": "access denied, dynamodb:Query is not allowed",
        "ExpiredTokenException": "the credentials have expired",
        "UnrecognizedClientException": "AWS does not know these credentials",
        "ProvisionedThroughputExceededException": "the table throttles requests",
        "SomethingElse": "AWS answers SomethingElse to Query",
    }.items():
        told["Code"] = code
        done = refuses(place.url, "--debug", "show", "trip", says=said)
        assert "hunter2" not in done.err + done.out
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    done = refuses(place.url, "threads", "list", says="no AWS credentials found")
    assert "?profile=NAME" in done.err


def test_another_table_is_no_store(place: DynamoDbHarness) -> None:
    place.client.create_table(
        TableName=f"{place.table}-x",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    url = place.url.replace("?", "-x?", 1)
    refuses(url, "threads", "list", says="is not a table of DynamoDBSaver")


@cases(
    "words what",
    ("rollback trip@~1", "run"),
    ("rollback trip@~1", "loss"),
    ("undo trip", "run"),
    ("undo trip", "write"),
    ("purge --match trip", "run"),
)
def test_what_happens_between_the_check_and_the_transaction_wins(
    place: DynamoDbHarness, monkeypatch: pytest.MonkeyPatch, words: str, what: str
) -> None:
    """An agent adds checkpoints or a write to the head, or a purge removes a checkpoint."""
    saver = place.kept_saver
    if words == "undo trip":
        ckpt("-s", place.url, "rollback", "trip@~1", "--yes", code=0)
    before = kept_items(place)
    head, parent, *_ = ids_of(place.url, "trip")
    place_of_head = config_of("trip", checkpoint_ns="", checkpoint_id=head)
    lost = entry(parent)
    act: dict[str, Act] = {
        "run": partial(graph_of(saver).invoke, {"items": ["again"]}, CONFIG),
        "write": partial(saver.put_writes, place_of_head, [("items", ["late"])], "task"),
        "loss": partial(place.client.delete_item, TableName=place.table, Key=lost),
    }
    on_call(monkeypatch, "TransactWriteItems", 1, act[what])
    done = ckpt("-s", place.url, *words.split(), "--yes")
    said = re.sub(r"\s+", " ", done.out + done.err)
    assert "nothing was written" in said or "changed since the plan was made" in said, said
    stay = [one for one in before if what != "loss" or {**one, **lost} != one]
    assert all(one in place.items() for one in stay)
    assert kept_items(place) == place.items()
    added = {"run": 4, "loss": -1}.get(what, 0)
    if words != "undo trip":
        assert len(ids_of(place.url, "trip")) == 4 + added, "no fork is left"


def test_a_payload_that_changed_before_the_transaction_is_not_replaced(
    place: DynamoDbHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chunks() -> list[dict[str, Any]]:
        return [one for one in place.items() if one["PK"]["S"].startswith("CHUNK_")]

    def act() -> None:
        for one in chunks():
            change(place, {name: one[name] for name in ("PK", "SK")}, payload={"B": b"\x80"})

    on_call(monkeypatch, "TransactWriteItems", 1, act)
    done = ckpt("-s", place.url, "erase", "--value", "trip:items[0]", "--yes")
    assert (done.code, "changed meanwhile" in done.err) == (6, True), done.err
    assert [one["payload"]["B"] for one in chunks()] == [b"\x80"] * len(chunks())


def test_a_lease_is_waited_for(place: DynamoDbHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckpt_backends.aws.dynamodb.write._PATIENCE", 0.2)
    of_thread = f"thread#{sha256(b'trip').hexdigest()}"

    def hold(until: str) -> None:
        for one in ("purge", of_thread):
            held = {"PK": {"S": PARTITION}, "SK": {"S": one}, "lease_holder": {"S": "other"}}
            place.client.put_item(TableName=place.table, Item={**held, "held_until": {"N": until}})

    hold("99999999999999")
    says = "being changed by another command, so nothing was written"
    refused = refuses(place.url, "rollback", "trip", "--steps", "1", "--yes", says=says)
    assert "a killed run (an item of CKPT_LOCK) expires after 20 s" in " ".join(refused.err.split())
    refuses(place.url, "threads", "delete", "trip", "--yes", says="another purge", code=5)
    assert threads_of(place.url) == ["trip"]
    hold("1")
    ckpt("-s", place.url, "threads", "delete", "trip", "--yes", code=0)
    assert [one["SK"]["S"] for one in place.items()] == [of_thread]


Act = Callable[[], object]


def on_call(
    monkeypatch: pytest.MonkeyPatch, name: str, first: int, act: Act, last: int | None = None
) -> None:
    """Before the call of this number of an operation, or each up to another one, do something."""
    seen = count(1)

    def changed(operation: str) -> None:
        if operation == name and first <= next(seen) <= (last or first):
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


@pytest.mark.parametrize("words", [["threads", "delete", "large"], ["undo", "large"]], ids=" ".join)
def test_payloads_stay_in_s3_if_a_removal_fails_and_are_named_if_they_cannot_go(
    place: DynamoDbHarness, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    graph_of(place.kept_saver).invoke({"items": ["x" * 400_000]}, config_of("large"))
    before, name, rollback = place.objects(), "TransactWriteItems", ["rollback", "large@~1"]
    with monkeypatch.context() as patch:
        on_call(patch, name, 1, failing("AccessDeniedException", name))
        ckpt("-s", place.url, *rollback, "--yes", code=4)
    assert place.objects() == before
    ckpt("-s", place.url, *rollback, "--yes", code=0)
    before, number = place.objects(), len(place.rows("large")["CHECKPOINT"])
    items = kept_items(place)
    with monkeypatch.context() as patch:
        on_call(patch, name, 1, failing("AccessDeniedException", name))
        ckpt("-s", place.url, *words, "--yes", code=4)
    assert (place.objects(), kept_items(place)) == (before, items)
    on_call(monkeypatch, "DeleteObjects", 1, failing("AccessDenied", "DeleteObjects"))
    done = succeeds(place.url, *words, "--yes")
    assert "could not be removed from bucket" in re.sub(r"\s+", " ", done.out + done.err)
    assert place.objects() == before
    assert len(place.rows("large").get("CHECKPOINT", ())) < number


def test_a_conflict_stops_no_purge(place: DynamoDbHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "pqr":
        graph_of(place.kept_saver).invoke({"items": ["in"]}, config_of(name))
    name = "TransactWriteItems"
    on_call(monkeypatch, name, 2, failing("TransactionCanceledException", name))
    done = ckpt("-s", place.url, "purge", "--match", "[pqr]", "--yes", "-o", "json").json
    assert [one["reason"] for one in done["skipped"]] == ["changed since the plan was made"]
    assert sum(bool(place.rows(name)) for name in "pqr") == 1


def checkpoints_of(place: DynamoDbHarness, thread_id: str) -> list[str]:
    partition = f"CHECKPOINT_{thread_id}"
    return sorted(one["SK"]["S"] for one in place.items() if one["PK"]["S"] == partition)


@pytest.mark.parametrize("works", [True, False], ids=["back", "stuck"])
def test_an_undo_of_a_long_copy_is_whole_or_says_so(
    place: DynamoDbHarness, monkeypatch: pytest.MonkeyPatch, works: bool
) -> None:
    graph, name = graph_of(place.kept_saver), "TransactWriteItems"
    monkeypatch.setattr("ckpt_backends.aws.dynamodb.write._MOST_ACTIONS", 3)
    seen = list[list[str]]()
    with monkeypatch.context() as patch:
        on_call(patch, name, 1, lambda: seen.append(checkpoints_of(place, "twin")), last=99)
        ckpt("-s", place.url, "copy", "trip", "--at", "head", "--as", "twin", "--yes", code=0)
    before, ids = kept_items(place), checkpoints_of(place, "twin")
    assert all(one == ids[: len(one)] for one in seen), "the newest comes last"
    assert (len(seen[0]), len(seen[-1]) > 0) == (0, True)
    with monkeypatch.context() as patch:
        conflict = failing("TransactionCanceledException", name)
        on_call(patch, name, 2, conflict, last=2 if works else 10_000)
        done = ckpt("-s", place.url, "undo", "twin", "--yes")
    if works:
        assert (done.code, "nothing was written" in done.err) == (6, True), done.err
        assert kept_items(place) == before
        ckpt("-s", place.url, "undo", "twin", "--yes", code=0)
    else:
        assert (done.code, "was changed in part" in done.err) == (7, True), done.err
        # Its head is whole.
        assert graph.get_state(config_of("twin")).values == graph.get_state(CONFIG).values
        ckpt("-s", place.url, "threads", "delete", "twin", "--yes", code=0)
    assert not place.rows("twin")


def test_the_newest_checkpoint_of_the_root_goes_and_comes_last() -> None:
    keys = [CheckpointKey("trip", ns, own) for own in "21" for ns in ("", "in:1")]
    item: Any = object()
    groups = [ItemGroup(one, item, ()) for one in keys] + [ItemGroup(keys[0], None, ())]
    last = [("in:1", "1"), ("in:1", "2"), ("", "1"), ("", "2")]
    assert [one.key[1:] for one in sorted(groups, key=lambda one: one.order)] == [last[-1], *last]
    actions = [check(checkpoint_place(one)) for one in keys]
    assert [one.key[1] for one in sorted(actions, key=_visible_last)] == list(map("#".join, last))


def row_of(checkpoint_id: str, thread_id: str = "a", ns: str = "", **cells: Any) -> Row:
    """A checkpoint, or with `task_id` a write, of an archive."""
    key = {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}
    table = "writes" if "task_id" in cells else "checkpoints"
    return Row(table, {**key, "type": "msgpack", "ref_loc": "DYNAMODB", **cells})


def restore(place: DynamoDbHarness, rows: list[Row]) -> Any:
    with open_writable(parse_url(place.url)) as store:
        return store.restore(iter(rows))


def test_an_import_damages_no_thread_and_no_payload_with_its_keys(place: DynamoDbHarness) -> None:
    graph_of(place.kept_saver).invoke({"items": ["in"]}, config_of("a#b"))
    head, *_ = ids_of(place.url, "a#b")
    before = place.items()
    write: dict[str, Any] = {"task_id": "T9", "idx": 0, "channel": "items", "value": b"\x90"}
    for rows in (
        [row_of(head, ns="b#", checkpoint=b"\x80")],
        [row_of(head, ns="b#", **write), row_of(head, ns="b#")],
    ):
        with pytest.raises(Refused, match="of another thread"):
            restore(place, rows)
        assert place.items() == before
    number = "1f1e70d7-2d68-67ab-8001-000000000001"
    other = {**chunk(number, "a"), "payload": {"B": b"\x90"}}
    place.client.put_item(TableName=place.table, Item=other)
    with pytest.raises(StoreChanged, match="different contents"):
        restore(place, [row_of(number, checkpoint=b"\x80")])
    assert other in place.items()
    assert restore(place, [row_of(number, checkpoint=b"\x90")]).added == 1
    before = place.items()
    for changed in ({"checkpoint": b"\x80"}, {"checkpoint": b"\x90", "type": "json"}):
        with pytest.raises(StoreChanged, match="different contents"):
            restore(place, [row_of(number, **changed)])
    assert place.items() == before


def test_the_next_import_goes_on(place: DynamoDbHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row_of(f"1f1e70d7-2d68-67ab-8001-{n:012x}", checkpoint=b"\x80") for n in range(60)]
    before = place.items()
    with pytest.raises(Refused, match="twice"):
        restore(place, [*rows, rows[0]])
    assert place.items() == before
    name = "TransactWriteItems"
    on_call(monkeypatch, name, 2, failing("TransactionCanceledException", name))
    with pytest.raises(StoreChanged, match="a part of it is stored"):
        restore(place, rows)
    assert restore(place, rows).added == 60
    assert restore(place, rows).there == 60


def test_an_endpoint_in_clear_text_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
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
