"""Reading DeerFlow's memory: every place, both generations, and what is not as it should be."""

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from langgraph.store.sqlite import SqliteStore

from ckpt_backends.errors import UnknownLayout, Unreadable
from ckpt_backends.memory import Source
from ckpt_backends.registry import open_memory
from ckpt_backends.url import parse_url
from ckpt_cli.api.opening import open_memory as open_memory_of
from ckpt_cli.queries.memory import FoundItem
from ckpt_cli.render.memory import tree_lines
from ckpt_cli.render.text import Ui, cell_len
from tests.kit.cases import cases
from tests.kit.command import ckpt
from tests.kit.savers.deerflow import BODY, FRONT, fact, memory, read, save, write_fact


def test_every_place_has_a_namespace_of_its_own(tmp_path: Path) -> None:
    base = tmp_path / ".deer-flow"
    for owner in ("", "agents/coder", "users/anna", "users/anna/agents/coder"):
        save(base / owner / "memory.json", memory())
    write_fact(base, "bert", "__default__", "fact_one", FRONT, BODY)
    with open_memory(parse_url(str(tmp_path))) as store:
        found = {"/".join(one.namespace): one.items for one in store.namespaces()}
        owners = ("", "agents/coder/", "users/anna/", "users/anna/agents/coder/")
        own = {f"{owner}{kind}": 2 for owner in owners for kind in ("facts", "user")}
        assert found == {**own, "users/bert/agents/__default__/facts": 1}
        assert {one.namespace[:2] for one in store.namespaces(("users", "anna"))} == {
            ("users", "anna")
        }
        info = store.describe()
        assert (info.layout, info.engine) == ("deerflow", "files of version 1.0")
        assert "users/anna/agents/coder/memory.json" in info.tables
    one = read(base / "users/anna/agents/coder/memory.json")
    assert {item.key.namespace[:-1] for item in one} == {("users", "anna", "agents", "coder")}
    assert len(one) == 4


@pytest.mark.parametrize("form", ["{}", "{}/", "deerflow:///{}", "{}/.deer-flow/memory.json"])
def test_a_store_is_named_by_its_file_its_folder_or_a_url(tmp_path: Path, form: str) -> None:
    save(tmp_path / ".deer-flow" / "memory.json", memory())
    assert len(read(form.format(tmp_path))) == 4
    assert (
        len(read(form.format(tmp_path / ".deer-flow").replace("/.deer-flow/.deer", "/.deer"))) == 4
    )


@pytest.mark.parametrize("created", ["'2026-07-23T10:00:00Z'", "2026-07-23T10:00:00Z"])
def test_a_fact_as_markdown_is_read_whole(tmp_path: Path, created: str) -> None:
    base = tmp_path / ".deer-flow"
    front = FRONT.replace("'2026-07-23T10:00:00Z'", created)
    write_fact(base, "anna", "coder", "fact_one", front, BODY)
    save(base / "users/anna/memory.json", {"version": "2.0", "revision": 3, "user": {}})
    (item,) = read(base)
    assert (item.category, item.confidence) == ("goal", 0.9)
    assert item.source == Source("thread", "thread_abc123")
    times = [at.isoformat() for at in (item.created_at, item.updated_at) if at is not None]
    assert times == ["2026-07-23T10:00:00+00:00", "2026-07-24T10:00:00+00:00"]
    assert item.value is not None
    value = json.loads(item.value.data)
    assert value["title"] == "迁移"
    assert value["content"] == "计划将团队 CI/CD 迁移到 GitHub Actions\n\n第二行"
    assert read(base / "users/anna/memory.json") == [item]
    assert "users/anna/agents/coder/facts/" in ckpt("-s", base, "memory", "show").out


@cases(
    "front why",
    ("a: &a [1, 2]\nb: [*a, *a]", "aliases are not allowed"),
    ("a: !!python/object/apply:os.system ['true']", "is not allowed"),
    ("- " * 3000, "nested too deeply"),
    ("a: [", "not YAML at line 1"),
    ("just text", "not a map"),
    ("id: " + "x" * (1 << 21), "too long"),
)
def test_a_hostile_fact_is_shown_for_what_it_is(tmp_path: Path, front: str, why: str) -> None:
    base = tmp_path / ".deer-flow"
    write_fact(base, "anna", "coder", "bad", front, "x\n")
    write_fact(base, "anna", "coder", "fact_one", FRONT, BODY)
    bad, good = read(base)
    assert bad.value is not None
    assert why in bad.value.problem
    assert (bad.category, good.category) == (None, "goal")
    answer = ckpt("-s", base, "memory", "show", "bad")
    assert answer.code == 0
    assert "not read" in answer.out


@cases(
    "text why",
    ("", "the file is empty"),
    ("[]", "neither facts"),
    ('{"facts": []', "not JSON at line 1 column 13"),
    ('{"facts": [], "facts": [1]}', "duplicate key"),
    ('{"facts": ' + "[" * 100_000, "nested too deeply"),
    ('{"facts": [' + "9" * 5000 + "]}", "digits"),
    (b"\xff\xfe", "decode"),
)
def test_a_file_that_is_no_memory_is_told(tmp_path: Path, text: str | bytes, why: str) -> None:
    path = tmp_path / "memory.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(Unreadable, match=why):
        read(path)
    answer = ckpt("-s", path, "memory", "list")
    assert answer.code == 4
    assert "Traceback" not in answer.err


def test_odd_facts_are_listed_and_nothing_breaks(tmp_path: Path) -> None:
    data = memory()
    data["facts"] = [
        fact("same", "x", "a\x1b[31mb", 0.5, source={"type": "manual", "threadId": None}),
        fact("same", "y", "b", float("nan"), source=""),
        fact("../../etc", "z", "c", 10**400, createdAt="yesterday"),
        {"content": 5, "category": 7, "confidence": True, "source": 3, "createdAt": 12},
        "text",
        None,
        {"id": "half", "content": "\ud800"},
    ]
    data["history"] = {"recentMonths": None, "earlierContext": {"summary": ""}}
    path = tmp_path / "memory.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    found = {item.key.key: item for item in read(path)}
    assert {"same", "same[1]", "../../etc", "[3]", "[4]", "[5]", "half"} <= found.keys()
    assert found["same"].source == Source("manual")
    assert found["same[1]"].confidence is None
    for words in (["list"], ["show"], ["list", "--duplicates", "--orphans", "--threads", "x"]):
        for form in ("table", "json", "tsv"):
            answer = ckpt("-s", path, "memory", *words, "-o", form)
            assert "Traceback" not in answer.err
            assert "\x1b" not in answer.out
    for key in found:
        assert ckpt("-s", path, "memory", "show", key, "-o", "json").code == 0


def test_what_is_missing_is_told_and_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / ".deer-flow").mkdir()
    with pytest.raises(UnknownLayout):
        read(tmp_path)
    for words in (["memory", "list"], ["threads", "list"]):
        answer = ckpt("-s", tmp_path / "memory.json", *words)
        assert (answer.code, "no such file" in answer.err) == (4, True)
    os.mkfifo(tmp_path / "memory.json")
    assert ckpt("-s", tmp_path / "memory.json", "memory", "list").code == 4


def test_reading_changes_nothing(root: Path) -> None:
    def state() -> dict[str, tuple[bytes, int]]:
        return {
            str(path): (path.read_bytes(), path.stat().st_mtime_ns)
            for path in root.rglob("memory*")
        }

    before = state()
    for words in (["list"], ["show"], ["show", "fact_a1b2c3d4"], ["search", "CI"], ["export"]):
        assert ckpt("-s", root, "memory", *words).code == 0
    assert ckpt("-s", root, "memory", "edit", "fact_a1b2c3d4", "--set", "category=x").code == 0
    assert state() == before


def test_threads_of_a_memory_are_refused_with_where_they_are(root: Path, store: Path) -> None:
    for words in (["threads", "list"], ["show"], ["purge", "--match", "*", "--yes"]):
        answer = ckpt("-s", root, *words)
        assert answer.code == 4
        assert f"-s '{store}'" in answer.err
    assert ckpt("-s", root, "--copy", "memory", "list").code == 0
    assert ckpt("-s", f"deerflow:///{root}?x=1", "memory", "list").code == 2


def test_facts_that_say_the_same_are_found(base: Path) -> None:
    data = memory()
    data["facts"] += [
        fact("fact_new", "  计划将团队 ci/cd 迁移到 github actions ", "goal", 0.8),
        fact("fact_empty", "  ", "goal", 0.8),
        fact("fact_void", "", "goal", 0.8),
    ]
    save(base / "memory.json", data)
    save(base / "agents/coder/memory.json", memory())
    found = ckpt("-s", base, "memory", "list", "--duplicates", "-o", "json").json
    assert [(one["key"], one["duplicate_of"]) for one in found] == [("fact_new", "fact_e5f6g7h8")]
    text = ckpt("-s", base, "memory", "list", "--duplicates", "-o", "table").out
    assert "duplicate of fact_e5f6g7h8" in text


def test_without_a_reader_of_yaml_all_else_is_read(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    shown = ckpt("-s", base, "memory", "show", "fact_a1b2c3d4", "-o", "json").json
    assert "langgraph-ckpt[deerflow]" in shown["origin"]["remark"]
    write_fact(base, "anna", "coder", "fact_one", FRONT, BODY)
    answer = ckpt("-s", base, "memory", "list")
    assert (answer.code, "langgraph-ckpt[deerflow]" in answer.err) == (2, True)
    alone = ckpt("-s", base / "memory.json", "memory", "list", "--category", "goal", "-o", "json")
    assert [one["key"] for one in alone.json] == ["fact_e5f6g7h8"]


def test_a_list_has_the_text_of_facts_and_sections(base: Path) -> None:
    write_fact(base, "anna", "coder", "fact_one", FRONT, BODY)
    listed = ckpt("-s", base, "memory", "list", "-o", "json").json
    texts = {one["key"]: one["text"] for one in listed}
    assert texts["fact_a1b2c3d4"] == "在字节跳动担任后端开发工程师"
    assert texts["topOfMind"].startswith("正在研究 DeerFlow")
    assert "第二行" in texts["fact_one"]
    hidden = ckpt("--redact", "-s", base, "memory", "list", "-o", "json").json
    assert not any("text" in one for one in hidden)
    assert "字节跳动" not in ckpt("--redact", "-s", base, "memory", "list").out
    with open_memory(parse_url(str(base))) as store:
        items = [FoundItem(one, is_expired=False) for one in store.items()]
    long = [one.text for one in tree_lines(items, Ui(datetime.now(UTC), width=100))]
    assert any("计划将团队 CI/CD" in one for one in long)
    assert any(one.endswith("…") for one in long)
    assert max(map(cell_len, long)) <= 100


def test_secrets_are_found_in_a_memory_without_threads(base: Path, store: Path) -> None:
    store.unlink()
    token = "ghp_" + "1234567890abcdefghij1234567890abcdef"
    kept = memory()
    kept["facts"].append(fact("fact_token", f"the token is {token}", "context", 0.5))
    save(base / "memory.json", kept)
    for place in (base, base / "memory.json", base.parent):
        found = ckpt("-s", place, "secrets", "-o", "json")
        assert found.code == 1, found.err
        (one,) = found.json
        assert (one["kind"], one["place"], one["key"]) == ("github-token", "memory", "fact_token")
        assert token not in found.out + found.err
    assert "searched long-term memory: 1 secret" in ckpt("-s", base, "secrets").err
    refused = ckpt("-s", base, "secrets", "trip")
    assert refused.code == 4
    assert "the file of its threads is not there" in refused.err


def test_secrets_of_a_place_that_is_no_store_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "songs.db").write_bytes(b"")
    assert ckpt("-s", tmp_path / "songs.db", "secrets").code == 4
    with SqliteStore.from_conn_string(str(tmp_path / "store.db")) as store:
        store.setup()
        store.put(("users",), "a", {"key": "sk-ant-api03-" + "A" * 93 + "-" + "A" * 8})
    found = ckpt("-s", tmp_path / "store.db", "secrets", "-o", "json")
    assert [one["namespace"] for one in found.json] == [["users"]]
    with open_memory_of(tmp_path / "store.db") as kept:
        assert [one.found.key for one in kept.secrets()] == ["a"]
