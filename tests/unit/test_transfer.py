"""Bodies that are copied: versions, the order of their fields, and when a thread is ahead."""

import json
from typing import Any

import ormsgpack
import pytest

from ckpt_backends.codec.lossless import Ext, pack_lossless
from ckpt_backends.codec.values import CHANNELS
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import NULL_TASK_ID, CheckpointKey, Record, TypedBytes
from ckpt_backends.transfer import convert as seen_thread
from ckpt_backends.transfer.bodies import OpenBody, close_body, respelled, spelled
from ckpt_backends.transfer.convert import (
    KeptValues,
    SeenThread,
    absent_version,
    convert_versions,
    converted_version,
    replace_version,
)
from ckpt_backends.transfer.copying import record_digest, route
from ckpt_backends.transfer.form import CannotHold, Form, Language
from ckpt_backends.transfer.sealing import AsStored
from ckpt_cli.core.copying import went_on
from tests.kit.cases import cases

TEXTS = Form()
INTEGERS = Form(counts_with_integers=True)
WRITE = Record.write(CheckpointKey("t", "", "1"), "t", "", 0, "x", TypedBytes("msgpack", b"\x01"))
THIRD = "00000000000000000000000000000003.0.0000000000000000"


@cases(
    "version target expected",
    (3, TEXTS, THIRD),
    ("3", TEXTS, THIRD),
    (THIRD, TEXTS, THIRD),
    ("00000000000000000000000000000003.0.42", INTEGERS, 3),
)
def test_one_version(version: Any, target: Form, expected: Any) -> None:
    assert converted_version(version, target, "it") == expected


@cases(
    "one other is_same",
    ('{"a": 1, "b": [2]}', '{"b":[2.0],"a":1}', True),
    ("[1, 2]", "[2, 1]", False),
    ("1.5e300", f"15{'0' * 299}", True),  # as PostgreSQL writes it
    (str(2**53 + 1), f"{2**53}.0", False),
    (f"1{'0' * 400}", f"1{'0' * 399}", False),
)
def test_json_in_another_spelling_is_the_same(one: str, other: str, is_same: bool) -> None:
    written, read = (WRITE._replace(value=TypedBytes("json", it.encode())) for it in (one, other))
    assert (record_digest(written) == record_digest(read)) is is_same


def test_a_record_is_another_one_if_anything_differs_but_its_time_of_expiry() -> None:
    value = TypedBytes("msgpack", b"\x02")
    different: list[dict[str, Any]] = [
        *({"key": WRITE.key._replace(checkpoint_ns="a")}, {"task_id": "u"}, {"idx": 1}),
        *({"parent": ""}, {"task_path": "p"}, {"channel": "y"}),
        *({"value": value}, {"value": WRITE.value._replace(type="json")}, {"metadata": value}),
    ]
    digests = {record_digest(WRITE._replace(**one)) for one in (*different, {})}
    assert len(digests) == len(different) + 1
    assert record_digest(WRITE._replace(expires_at=5)) == record_digest(WRITE)


@pytest.mark.parametrize("version", ["first", 1.5, True])
def test_versions_of_another_form_are_refused(version: Any) -> None:
    with pytest.raises(CannotHold):
        converted_version(version, INTEGERS if version == "first" else TEXTS, "it")


def opened(versions: Any, seen: Any, **values: bytes) -> OpenBody:
    fields = {"channel_versions": versions, "versions_seen": seen}
    return OpenBody(fields, {name: TypedBytes("msgpack", one) for name, one in values.items()})


def converted(found: OpenBody, target: Form = TEXTS, *, by_value: bool = False) -> Any:
    convert_versions(found, target, "it", by_value=by_value)
    return found.fields


def test_all_versions_of_a_body_are_converted() -> None:
    first, second = (THIRD.replace("3", one) for one in "12")
    versions, seen = {"a": 2, "b": None}, {"__input__": {}, "node": {"a": 1}}
    found = converted(opened(versions, seen))
    assert found["channel_versions"] == {"a": second, "b": None}
    assert found["versions_seen"]["node"] == {"a": first}
    same = {"channel_versions": versions, "versions_seen": seen}
    assert converted(opened(versions, seen), Form(language=Language.JAVASCRIPT)) == same
    # Texts stay as they are; versions that were seen are converted by themselves.
    found = converted(opened({"a": THIRD}, {"n": {"a": 1}}, a=b"\x01"), by_value=True)
    assert found == {"channel_versions": {"a": THIRD}, "versions_seen": {"n": {"a": first}}}
    assert converted(opened({"a": THIRD}, None))["channel_versions"] == {"a": THIRD}
    with pytest.raises(CannotHold):
        converted(opened({"a": THIRD}, {"n": {"a": None}}))


def test_branches_with_the_same_integers_get_different_texts() -> None:
    made = [
        converted(opened({"a": 3}, {"x": {"a": 3}, "y": {"a": 2}}, a=value), by_value=True)
        for value in (b"\x01", b"\x02", b"\x01")
    ]
    first, other, again = (one["channel_versions"]["a"] for one in made)
    assert first == again != other
    # A node has seen the version of its checkpoint, or an earlier one.
    for one in made:
        assert one["versions_seen"]["x"] == one["channel_versions"]
        assert one["versions_seen"]["y"]["a"] < one["channel_versions"]["a"]


def test_a_version_without_a_value_keeps_its_number_and_what_nodes_have_seen() -> None:
    found = opened({"a": THIRD}, {"x": {"a": THIRD}, "y": {}})
    own = absent_version(THIRD)
    assert own is not None
    assert own != THIRD
    assert own.partition(".")[0] == THIRD.partition(".")[0]
    replace_version(found, "a", THIRD, own)
    seen = {"x": {"a": own}, "y": {}}
    assert found.fields == {"channel_versions": {"a": own}, "versions_seen": seen}
    assert absent_version("3") is None


FIELDS: dict[str, Any] = {
    **{"v": 4, "versions_seen": {"node": {"bb": 2, "c": 1}}, "ts": "now", "zz": [1, None]},
    **{"channel_versions": {f"{n}": n for n in range(40)}, "ä": True, "b": {}},
}


@pytest.mark.parametrize("has_values", [True, False])
@pytest.mark.parametrize("fields", [{}, FIELDS], ids=len)
def test_fields_and_values_are_in_order(fields: dict[str, Any], has_values: bool) -> None:
    values: dict[str, Any] = {"note": "a", "x": None, "status": {}, "ä": [1, {"long": 2, "b": 3}]}
    stored = {name: TypedBytes("json", spelled(one)) for name, one in values.items()}
    found = OpenBody(dict(fields), stored)
    whole = fields | ({CHANNELS: values} if has_values else {})
    closed = close_body(found, "json", "it", has_values=has_values, in_order=True)
    assert closed == TypedBytes("json", spelled(whole))


@cases(
    "text expected",
    (
        '{"bb": 1, "c": [{"é": null, "b": 2}], "": {}}',
        '{"": {}, "c": [{"b": 2, "é": null}], "bb": 1}',
    ),
    (
        '{"ä": 1, "zz": {"c": 1.5, "b": true}, "b": -3}',
        '{"b": -3, "zz": {"b": true, "c": 1.5}, "ä": 1}',
    ),
    ('[[], {}, "b a"]', '[[], {}, "b a"]'),
)
def test_names_are_in_order_at_each_level(text: str, expected: str) -> None:
    for _ in range(2):  # a short text is remembered
        assert respelled(text.encode()) == expected.encode()


@pytest.mark.parametrize("text", [b'{"b": 1e9, "a": 1}', b'{"b": NaN, "a": 1}', b'{"b": ', b"\xff"])
def test_what_engines_spell_in_another_way_stays_as_it_is(text: bytes) -> None:
    assert respelled(text) == text


PLACE = ("", "items", "1.0")


@pytest.fixture(params=[0, 8 << 20])
def thread(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SeenThread:
    monkeypatch.setattr(seen_thread, "_ROOM", request.param)
    return SeenThread(KeptValues(), Form(), AsStored())


def _set(*members: str) -> TypedBytes:
    inner = pack_lossless(["builtins", "set", [*members]])
    return TypedBytes("msgpack", pack_lossless(Ext(0, inner)))


def test_an_equal_value_is_not_new_nor_a_set_in_another_order(thread: SeenThread) -> None:
    assert thread.is_new(PLACE, TypedBytes("msgpack", b"\x91\x01"), "it")
    assert not thread.is_new(PLACE, TypedBytes("msgpack", bytes([0x91, 1])), "it")
    other = ("", "items", "2.0")
    assert thread.is_new(other, _set("a", "b"), "it")
    assert not thread.is_new(other, _set("b", "a"), "it")
    # A value that is stored apart wins.
    apart = ("", "items", "3.0")
    thread.note_apart(apart)
    assert not thread.is_new(apart, TypedBytes("msgpack", b"\x91\x01"), "it")


@cases("other", TypedBytes("msgpack", b"\x91\x02"), TypedBytes("bytes", b"\x91\x01"), _set("a"))
def test_another_value_is_refused(thread: SeenThread, other: TypedBytes) -> None:
    assert thread.is_new(PLACE, TypedBytes("msgpack", b"\x91\x01"), "it")
    with pytest.raises(CannotHold, match="it has another value than version"):
        thread.is_new(PLACE, other, "it")


KEY = CheckpointKey("thread", "", "1f")


def answers(*given: str, task_id: str = "task") -> Record:
    value = TypedBytes("msgpack", ormsgpack.packb(given))
    return Record.write(KEY, task_id, "", -4, "__resume__", value)


def question(text: str) -> Record:
    value = TypedBytes("msgpack", ormsgpack.packb([text]))
    return Record.write(KEY, "task", "", -3, "__interrupt__", value)


def test_stores_of_a_layout_that_receives_nothing_exchange_archives() -> None:
    for source, is_told in (("agentcore", True), ("sqlite", False)):
        with pytest.raises(Unsupported, match="cannot be copied into this layout") as refused:
            route(source, "agentcore", Language.PYTHON)
        assert ("`ckpt import`" in (refused.value.hint or "")) is is_told


def test_the_order_of_writes_matters_only_for_values_that_are_rebuilt_from_them() -> None:
    order, one = seen_thread.ArrivalOrder(), TypedBytes("json", b"1")
    for task_id in ("b", "a"):
        value = TypedBytes("json", json.dumps(task_id).encode())
        order.add(Record.write(KEY, task_id, "", 0, "items", value))
    child = Record.checkpoint(KEY._replace(checkpoint_id="2f"), "1f", one, one)
    body = OpenBody({"channel_versions": {"items": "2"}}, {})
    with pytest.raises(CannotHold, match="parallel tasks wrote to channel 'items'"):
        order.check(child, body)
    order.add_value(Record.apart("thread", "", "items", "2", one))
    order.check(child, body)


@cases(
    "old new has_more is_ahead",
    ([answers("a")], [answers("a", "b")], False, True),
    ([question("q")], [question("r")], False, False),
    ([answers("a", "b")], [answers("a")], True, False),
    ([answers("a")], [answers("b", "c")], True, False),
    ([answers("a", task_id=NULL_TASK_ID)], [answers("b", task_id=NULL_TASK_ID)], True, True),
)
def test_a_thread_went_on_if_its_answers_were_only_added_to(
    old: list[Record], new: list[Record], has_more: bool, is_ahead: bool
) -> None:
    assert went_on(old, new, has_more=has_more) is is_ahead
