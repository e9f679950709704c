"""Versions of channels, in the form that the saver of the target counts in."""

from __future__ import annotations

from typing import Any

import pytest

from ckpt_backends.model import TypedBytes
from ckpt_backends.transfer.bodies import OpenBody
from ckpt_backends.transfer.convert import (
    absent_version,
    convert_versions,
    converted_version,
    replace_version,
)
from ckpt_backends.transfer.form import CannotHold, Form, Language

TEXTS = Form()
INTEGERS = Form(counts_with_integers=True)
THIRD = "00000000000000000000000000000003.0.0000000000000000"


@pytest.mark.parametrize(
    ("version", "target", "expected"),
    [
        (3, TEXTS, THIRD),
        (3.0, TEXTS, THIRD),
        ("3", TEXTS, THIRD),
        (THIRD, TEXTS, THIRD),
        ("00000000000000000000000000000003.0.42", INTEGERS, 3),
        (3, INTEGERS, 3),
    ],
)
def test_one_version(version: Any, target: Form, expected: Any) -> None:
    assert converted_version(version, target, "it") == expected


def test_texts_sort_as_their_numbers_do() -> None:
    made = [converted_version(one, TEXTS, "it") for one in range(1, 12)]
    assert made == sorted(made)
    # The saver goes on with a random part.
    assert made[2] < "00000000000000000000000000000004.0.0001"


@pytest.mark.parametrize("version", ["first", 1.5, True])
def test_versions_of_another_form_are_refused(version: Any) -> None:
    with pytest.raises(CannotHold):
        converted_version(version, INTEGERS if version == "first" else TEXTS, "it")


def test_all_versions_of_a_body_are_converted() -> None:
    fields = {
        "channel_versions": {"a": 2, "b": None},
        "versions_seen": {"__input__": {}, "node": {"a": 1}},
    }
    found = OpenBody(dict(fields), {})
    convert_versions(found, TEXTS, "it", by_value=False)
    assert found.fields["channel_versions"] == {"a": THIRD.replace("3", "2"), "b": None}
    assert found.fields["versions_seen"]["node"] == {"a": THIRD.replace("3", "1")}
    script = OpenBody(dict(fields), {})
    convert_versions(script, Form(language=Language.JAVASCRIPT), "it", by_value=False)
    assert script.fields == fields


def test_branches_with_the_same_integers_get_different_texts() -> None:
    made = []
    for value in (b"\x01", b"\x02", b"\x01"):
        fields = {"channel_versions": {"a": 3}, "versions_seen": {"x": {"a": 3}, "y": {"a": 2}}}
        found = OpenBody(fields, {"a": TypedBytes("msgpack", value)})
        convert_versions(found, TEXTS, "it", by_value=True)
        made.append(found.fields)
    first, other, again = (one["channel_versions"]["a"] for one in made)
    assert first == again != other
    # A node has seen the version of its checkpoint, or an earlier one.
    for one in made:
        assert one["versions_seen"]["x"] == one["channel_versions"]
        assert one["versions_seen"]["y"]["a"] < one["channel_versions"]["a"]


def test_a_version_without_a_value_keeps_its_number_and_what_nodes_have_seen() -> None:
    fields = {"channel_versions": {"a": THIRD}, "versions_seen": {"x": {"a": THIRD}, "y": {}}}
    found = OpenBody(fields, {})
    own = absent_version(THIRD)
    assert own is not None
    assert own != THIRD
    assert own.partition(".")[0] == THIRD.partition(".")[0]
    replace_version(found, "a", THIRD, own)
    assert found.fields == {
        "channel_versions": {"a": own},
        "versions_seen": {"x": {"a": own}, "y": {}},
    }
    assert absent_version("3") is None


def test_texts_stay_as_they_are() -> None:
    fields = {
        "channel_versions": {"a": THIRD},
        "versions_seen": {"__input__": {}, "n": {"a": THIRD}},
    }
    found = OpenBody(dict(fields), {"a": TypedBytes("msgpack", b"\x01")})
    convert_versions(found, TEXTS, "it", by_value=True)
    assert found.fields == fields


@pytest.mark.parametrize("seen", [{"n": {"a": 1}}, {"n": {"a": None}}, None])
def test_versions_that_were_seen_are_converted_by_themselves(seen: Any) -> None:
    found = OpenBody({"channel_versions": {"a": THIRD}, "versions_seen": seen}, {})
    if seen == {"n": {"a": None}}:
        with pytest.raises(CannotHold):
            convert_versions(found, TEXTS, "it", by_value=False)
        return
    convert_versions(found, TEXTS, "it", by_value=False)
    assert found.fields["channel_versions"] == {"a": THIRD}
    if seen:
        assert found.fields["versions_seen"] == {"n": {"a": THIRD.replace("3", "1")}}
