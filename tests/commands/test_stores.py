"""`stores` lists profiles, and what is in the folder."""

from pathlib import Path

import pytest
from langgraph.store.sqlite import SqliteStore

from tests.kit.command import ckpt


@pytest.fixture
def project(sample: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(sample.parent)
    return sample.parent


def test_profiles_and_files_are_listed_with_their_errors(project: Path) -> None:
    (project / "ckpt.toml").write_text(
        '[stores.gone]\nurl = "gone.db"\n[stores.secret]\nurl = "pg://u:hunter2@h/db"\n'
        '[stores.unset]\nurl = "${UNSET_VARIABLE}"\n'
    )
    (project / "notes.db").write_bytes(b"")
    ckpt("trust", "--yes")
    answer = ckpt("stores", "-o", "json")
    found = {one["name"]: one for one in answer.json}
    assert set(found) == {"gone", "secret", "unset", "store.db"}
    assert found["store.db"]["layout"] == "sqlite"
    assert "no such file" in found["gone"]["error"]
    assert "UNSET_VARIABLE" in found["unset"]["error"]
    assert "hunter2" not in answer.out + answer.err


def test_what_holds_memory_alone_is_a_store_too(project: Path) -> None:
    with SqliteStore.from_conn_string("memory.db") as store:
        store.setup()
        store.put(("users",), "k", {"a": 1})
    (project / "memory.json").write_text('{"version": "1.0", "facts": []}')
    found = {one["name"]: one.get("layout") for one in ckpt("stores", "-o", "json").json}
    kinds = {"memory.db": "sqlite-store", "memory.json": "deerflow", "store.db": "sqlite"}
    assert {name: found.get(name) for name in kinds} == kinds
    (named,) = ckpt("-s", "memory.db", "stores", "-o", "json").json
    assert (named["layout"], "capabilities" in named) == ("sqlite-store", False)


def test_layouts_are_listed_with_what_they_support() -> None:
    layouts = {one["layout"]: one for one in ckpt("stores", "--layouts", "-o", "json").json}
    assert {"sqlite", "postgres", "redis", "mongodb"} <= set(layouts)
    assert layouts["sqlite"]["commands"]["rollback"] == "yes"
    refused = ckpt("stores", "--bogus")
    assert (refused.code, "no such option: --bogus" in refused.err) == (2, True)
