"""No secret travels to a cluster: what cannot be left out is refused."""

import os
import sys
from collections.abc import Mapping
from dataclasses import fields
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest

from ckpt_backends.errors import MissingDependency, StoreUnavailable, UsageError
from ckpt_backends.url import StoreUrl, parse_url
from ckpt_cli.config.profiles import Profiles, store_of
from ckpt_cli.reading.cluster import Cluster, SentRange, sent_store
from ckpt_cli.reading.store import Opening
from tests.executor import works
from tests.kit.cases import cases

SECRET = "hunter2-of-the-store"


def in_profile(text: str, params: Mapping[str, str] | None = None) -> StoreUrl:
    return store_of(Profiles(None, None, {}), "profile 'prod'", text, params or {})


@pytest.fixture(autouse=True)
def _variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE_SECRET", SECRET)
    monkeypatch.setenv("STORE_URL", f"postgresql://reader:{SECRET}@db/agents")


@cases(
    "text params",
    ("postgresql://reader:${STORE_SECRET}@db/agents", {}),
    ("${STORE_URL}", {}),
    ("postgresql://reader@db/agents?sslpassword=${STORE_SECRET}", {}),
    ("postgresql://reader@db/agents", {"sslpassword": "${STORE_SECRET}"}),
)
def test_variables_travel_by_name(
    text: str, params: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = sent_store(Opening(in_profile(text, params)))
    whole = SentRange("run", "1", sent, works.lengths, ["chat"], 1)
    assert SECRET.encode() not in bytes(ForkingPickler.dumps(whole))
    monkeypatch.setenv("STORE_SECRET", "other")
    monkeypatch.setenv("STORE_URL", "postgresql://reader:other@db/agents")
    there = sent.opening()
    assert "other" in (there.url.raw + str(there.url.params))
    monkeypatch.delenv("STORE_SECRET")
    monkeypatch.delenv("STORE_URL")
    with pytest.raises(UsageError, match=r"'STORE_\w+' is not set.* on a worker"):
        sent.opening()


@cases(
    "url",
    parse_url(f"postgresql://reader:{SECRET}@db/agents"),
    parse_url(f"postgresql://reader@db/agents?sslpassword={SECRET}"),
    in_profile("postgresql://reader@db/agents", {"sslpassword": SECRET}),
    in_profile("postgresql://reader:x@${HOME}/agents"),
)
def test_what_is_written_out_is_refused(url: StoreUrl) -> None:
    with pytest.raises(UsageError, match="a password or another secret in a URL") as raised:
        sent_store(Opening(url))
    assert "${NAME}" in str(raised.value.hint)


def test_a_key_file_is_refused() -> None:
    with pytest.raises(UsageError, match="--aes-key-file is not sent"):
        sent_store(Opening(parse_url("agent.db"), "key.bin"))


def test_a_file_travels_with_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert sent_store(Opening(parse_url("agent.db"))).text == str(tmp_path / "agent.db")


def test_nothing_else_is_in_a_range() -> None:
    names = {one.name for one in fields(SentRange)}
    assert names == {"run", "release", "store", "work", "parts", "at_once"}


def test_without_the_library_a_hint_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingDependency) as raised:
        Cluster("tcp://127.0.0.1:1", Opening(parse_url("agent.db")), works.lengths, 1)
    assert "langgraph-ckpt[dask]" in str(raised.value.hint)


@pytest.mark.engines
@pytest.mark.parametrize("address", ["nowhere", "ftp://127.0.0.1:1"])
def test_no_scheduler_is_an_error(address: str) -> None:
    with pytest.raises(StoreUnavailable, match=f"cannot reach a Dask scheduler at '{address}'"):
        Cluster(address, Opening(parse_url(os.devnull)), works.lengths, 1)
