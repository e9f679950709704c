"""A configuration of somebody else names no server and reads no variable until it is trusted; what
a profile takes from the environment is never printed."""

import json
import os
import shutil
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ckpt_backends.url import masked, parse_url, printable_written
from ckpt_cli import diagnostics
from ckpt_cli.config.profiles import Profiles, store_of
from ckpt_cli.config.trust import fault_of
from tests.kit.cases import cases
from tests.kit.command import SAMPLE, CommandResult, ckpt
from tests.kit.hostile.standin import standin
from tests.kit.rows import change

SECRETS = {"AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI", "GITHUB_TOKEN": "ghp_16C7e42F292c"}


class Listener(NamedTuple):
    """A server that hangs up, and who connected."""

    port: int
    connected: list[socket.socket]


@pytest.fixture
def listener() -> Iterator[Listener]:
    connected: list[socket.socket] = []
    with standin(connected.append) as port:
        yield Listener(port, connected)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cloned repository, in which the test runs, with a store and secrets in the environment."""
    repository = tmp_path / "repository"
    repository.mkdir()
    shutil.copyfile(SAMPLE, repository / "agent.db")
    (repository / "memory.json").write_text(json.dumps({"version": "1.0", "facts": []}))
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(repository)
    return repository


def write(folder: Path, text: str) -> Path:
    path = folder / "ckpt.toml"
    path.write_text(text)
    return path


def own(text: str) -> Path:
    """Write the file of the user."""
    path = Path(os.environ["XDG_CONFIG_HOME"]) / "ckpt" / "ckpt.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def hostile(port: int, scheme: str = "postgresql") -> str:
    return (
        f'default = "evil"\n[stores.evil]\nretention = "1d"\n'
        f'url = "{scheme}://x:${{AWS_SECRET_ACCESS_KEY}}@127.0.0.1:{port}/leak_${{GITHUB_TOKEN}}"\n'
        f'[stores.plain]\nurl = "{scheme}://x@127.0.0.1:{port}/0"\n'
        f'[stores.local]\nurl = "agent.db"\nmemory = "evil"\nthreads = "plain"\nretention = "1d"\n'
        f'[stores.items]\nurl = "memory.json"\nthreads = "plain"\n'
    )


def tells_no_secret(answer: CommandResult) -> bool:
    return not any(value in answer.out + answer.err for value in SECRETS.values())


@cases(
    "words",
    *("threads list", "-s plain threads list", "-s plain stores", "-s plain memory list"),
    *(
        "-s plain memory sessions",
        "-s plain import agent.db --yes",
        "-s evil purge --expired --yes",
    ),
    *("-s local purge --expired --yes", "-s local show --long trip-to-kyoto"),
    *("-s ./agent.db show --long trip-to-kyoto --memory plain", "-s items memory list --orphans"),
)
def test_an_untrusted_file_tells_nobody(folder: Path, listener: Listener, words: str) -> None:
    path = write(folder, hostile(listener.port))
    answer = ckpt(*words.split(), code=2, says=f"'{path}' is not trusted and ")
    assert f"hint: read the file, then run `ckpt trust {path}`" in answer.err
    assert tells_no_secret(answer)
    assert listener.connected == []


@pytest.mark.parametrize("scheme", ["postgresql", "mysql", "mongodb", "redis"])
def test_stores_and_completions_connect_to_no_server_of_such_a_file(
    folder: Path, listener: Listener, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, hostile(listener.port, scheme))
    (folder / "deep").mkdir()
    monkeypatch.chdir(folder / "deep")
    answer = ckpt("stores", "-o", "json")
    found = {one["name"]: one for one in answer.json}
    for name, why in (("evil", "uses the environment variable"), ("plain", "names a server")):
        assert why in found[name]["error"]
        assert "not trusted" in found[name]["error"]
    assert found["local"]["layout"] == "sqlite"
    assert tells_no_secret(answer)
    for kind in ("thread", "target", "ref", "ns", "channel"):
        for store in ("", "evil", "plain"):
            assert ckpt("_complete", kind, "", store, "", "", "").out == ""
    offered = ckpt("_complete", "store", "", "", "", "", "").out.splitlines()
    assert [one for one in offered if one.endswith("not trusted")] == [
        "evil\tprofile, not trusted",
        "plain\tprofile, not trusted",
    ]
    monkeypatch.setenv("CKPT_STORE", "plain")
    ckpt("threads", "list", code=2)
    assert listener.connected == []


def test_a_trusted_file_may_do_what_it_showed_until_it_changes(
    folder: Path, listener: Listener
) -> None:
    path = write(folder, hostile(listener.port))
    shown = ckpt("trust", "--yes", "-o", "json")
    (evil, plain, local, _) = shown.json["profiles"]
    assert evil["url"] == f"postgresql://x:***@127.0.0.1:{listener.port}/leak_${{GITHUB_TOKEN}}"
    assert evil["variables"] == ["AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN"]
    assert evil["settings"] == {"retention": "1d"}
    assert local["settings"] == {"retention": "1d", "threads": "plain", "memory": "evil"}
    assert (shown.json["path"], shown.json["default"]) == (str(path), "evil")
    assert plain["variables"] == []
    assert tells_no_secret(shown)
    assert listener.connected == []
    answer = ckpt("threads", "list")
    assert (answer.code, tells_no_secret(answer)) == (4, True)
    assert listener.connected
    before = len(listener.connected)
    path.write_text(path.read_text() + "\n")
    ckpt("threads", "list", says=f"'{path}' changed since it was trusted and uses")
    assert ckpt("trust", "--list", "-o", "json").json[0]["status"] == "changed since it was trusted"
    assert len(listener.connected) == before


def test_a_default_that_is_no_profile_is_shown_too(folder: Path, listener: Listener) -> None:
    url = f"postgresql://x:${{AWS_SECRET_ACCESS_KEY}}word@127.0.0.1:{listener.port}/leak"
    masked = f"postgresql://x:***@127.0.0.1:{listener.port}/leak"
    write(folder, f'default = "{url}"\n[stores.local]\nurl = "agent.db"\n')
    assert "is not trusted and uses" in ckpt("threads", "list").err
    shown = ckpt("trust", "--yes", "-o", "json")
    assert "word" not in shown.out
    (local, default) = shown.json["profiles"]
    assert (local["name"], local["default"]) == ("local", False)
    assert (default["name"], default["url"], default["default"]) == ("", masked, True)
    assert default["variables"] == ["AWS_SECRET_ACCESS_KEY"]
    assert masked in ckpt("trust", "--yes", "-o", "table").out


def test_what_trusts_by_itself(
    folder: Path, listener: Listener, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def connects(*words: str | Path) -> bool:
        before = len(listener.connected)
        ckpt(*words, "threads", "list", code=4)
        return len(listener.connected) > before

    path = write(folder, hostile(listener.port))
    assert connects("--config", path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    mine = own(path.read_text())
    path.unlink()
    assert connects()
    monkeypatch.chdir(mine.parent)
    assert connects()
    # The specification of XDG ignores a relative path, which would name a folder of a stranger.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", "config")
    assert "no store given" in ckpt("threads", "list").err


def test_trust_belongs_to_a_path_and_can_be_removed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(folder, '[stores.x]\nurl = "${NOWHERE}"\n')
    ckpt("trust", "--yes", "-q", code=0)
    (entry,) = ckpt("trust", "--list", "-o", "json").json
    assert (entry["path"], entry["status"]) == (str(path), "trusted")
    copy = tmp_path / "ckpt.toml"
    copy.write_bytes(path.read_bytes())
    (folder / "deep").mkdir()
    (folder / "deep" / "ckpt.toml").symlink_to(path)
    for place in (tmp_path, folder / "deep"):
        monkeypatch.chdir(place)
        assert "is not trusted" in ckpt("-s", "x", "threads", "list").err
    monkeypatch.chdir(folder)
    assert "'NOWHERE' is not set" in ckpt("-s", "x", "threads", "list").err
    ckpt("trust", "--remove", code=0)
    assert "is not trusted" in ckpt("-s", "x", "threads", "list").err
    ckpt("trust", "--remove", code=3)
    assert ckpt("trust", "--list", "-o", "json").json == []


def test_the_list_is_private_and_keeps_what_other_runs_add(folder: Path) -> None:
    state = Path(os.environ["XDG_STATE_HOME"]) / "ckpt"
    before = os.umask(0)
    try:
        for name in ("a", "b"):
            (folder / name).mkdir(mode=0o755)
            write(folder / name, "").chmod(0o644)
            ckpt("trust", "--yes", folder / name / "ckpt.toml", code=0)
    finally:
        os.umask(before)
    assert len(ckpt("trust", "--list", "-o", "json").json) == 2
    for place in (state, state / "trusted"):
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
    for entry in (state / "trusted").iterdir():
        assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    # An entry that another user could have written does not count.
    (state / "trusted").chmod(0o777)
    assert ckpt("trust", "--list", "-o", "json").json == []
    ckpt("trust", "--yes", folder / "a" / "ckpt.toml", code=2, says="can be written by every user")


@cases(
    "lines why",
    *(
        (f"url = '{one}'", "names a file outside its folder")
        for one in (
            *("../other.db", "sqlite:////etc/passwd", "deerflow:////etc", "link.db"),
            *("links/other.db", "memories"),
        )
    ),
    ("url = '${HOME}/agent.db'", "uses the environment variable 'HOME'"),
    ("url = 'agent.db'\nlayout = '${HOME}'", "uses the environment variable 'HOME'"),
    ("url = 'agent.db'\ncopy = true", "sets 'copy'"),
    ("url = 'sqlite:///agent.db?copy=1'", "sets 'copy'"),
    ("url = 'postgresql:///db?host=/tmp'", "names a server"),
    ("url = 'somebodys+plugin://x'", "names a server"),
)
def test_only_a_store_beside_the_file_needs_no_trust(
    folder: Path, tmp_path: Path, lines: str, why: str
) -> None:
    (folder / "link.db").symlink_to(tmp_path / "other.db")
    (folder / "links").symlink_to(tmp_path)
    (folder / "memories" / ".deer-flow").mkdir(parents=True)
    (folder / "memories" / ".deer-flow" / "memory.json").symlink_to(tmp_path / "memory.json")
    shutil.copyfile(SAMPLE, tmp_path / "other.db")
    write(folder, f"[stores.x]\n{lines}\n")
    for words in (["-s", "x", "threads", "list"], ["-s", "x", "stores"]):
        ckpt(*words, code=2, says=f"is not trusted and {why}")


@cases(
    "lines",
    "url = './deep/../agent.db'",
    "url = 'sqlite:///agent.db'",
    "url = 'agent.db'\nlayout = 'sqlite'\nreducers = {notes = 'append'}",
    "url = 'agent.db'\nmemory = 'y'\nretention = '1d'\n[stores.y]\nurl = 'agent.db'",
)
def test_a_store_beside_the_file_needs_no_trust(folder: Path, lines: str) -> None:
    (folder / "deep").mkdir()
    write(folder, f"default = 'x'\n[stores.x]\n{lines}\n")
    assert len(ckpt("threads", "list", "-o", "json").json) == 8


def refused_as_not_ours(path: Path, why: str) -> None:
    """A store that is named by its file, and `--config`, still work."""
    folder = path.parent
    for words in (["threads", "list"], ["-s", "x", "threads", "list"], ["trust"]):
        answer = ckpt(*words, code=2, says=f"cannot use '{path}': ")
        assert why in answer.err
        assert f"hint: `--config {path}` uses it anyway" in answer.err
    for name in ("agent.db", "./agent.db", f"sqlite:///{folder}/agent.db"):
        ckpt("-s", name, "replay", "--all", code=0)
    ckpt("--config", path, "-s", "x", "threads", "list", code=0)
    found = {one["name"]: one for one in ckpt("stores", "-o", "json").json}
    assert found["agent.db"]["layout"] == "sqlite"
    assert why in found[str(path)]["error"]
    assert ckpt("_complete", "store", "", "", "", "", "").out == ""


@pytest.mark.parametrize("name", ["ckpt.toml", "pyproject.toml"])
def test_a_file_that_others_can_write_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    table = "stores" if name == "ckpt.toml" else "tool.ckpt.stores"
    path = folder / name
    path.write_text(f"[{table}.x]\nurl = 'agent.db'\n")
    ckpt("-s", "x", "threads", "list", code=0)
    path.chmod(0o666)
    refused_as_not_ours(path, "it can be written by every user")
    path.chmod(0o644)
    folder.chmod(0o777)
    refused_as_not_ours(path, f"'{folder}' can be written by every user")
    folder.chmod(0o1777)
    ckpt("-s", "x", "threads", "list", code=0)
    folder.chmod(0o755)
    folder.parent.chmod(0o777)
    refused_as_not_ours(path, f"'{folder.parent}' can be written by every user")
    folder.parent.chmod(0o700)
    # A file further up is not used in its stead, nor is one of the user.
    (folder / "deep").mkdir()
    mine = own(f"[stores.x]\nurl = '{folder}/agent.db'\n")
    path.chmod(0o666)
    monkeypatch.chdir(folder / "deep")
    assert f"cannot use '{path}'" in ckpt("-s", "x", "threads", "list").err
    path.unlink()
    ckpt("-s", "x", "threads", "list", code=0)
    mine.parent.chmod(0o777)
    assert f"cannot use '{mine}'" in ckpt("-s", "x", "threads", "list").err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("what", ["file", "folder", "link"])
def test_others_files_are_refused(folder: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(folder, "[stores.x]\nurl = 'agent.db'\n")
    given = {"file": path, "folder": folder, "link": path}[what]
    if what == "link":
        path.rename(folder / "real.toml")
        path.symlink_to("real.toml")
    os.chown(given, 65534, 65534, follow_symlinks=False)
    refused_as_not_ours(path, "belongs to user 'nobody'")
    monkeypatch.setenv("SUDO_UID", "65534")
    ckpt("-s", "x", "threads", "list", code=0)
    # Only root was called by another user: whoever else has the variable may have set it.
    monkeypatch.setattr(os, "geteuid", lambda: given.stat().st_uid + 1)
    assert "belongs to user" in str(fault_of(path, path.stat()))


@cases(
    "text says",
    ("x = " + "[" * 100_000, "recursion"),
    ("x = " + "9" * 10_000, "digits"),
    ("#" * 1_000_001, "larger than"),
    ("x = 1\n[" + "'a' . " * 100 + "'a']\n", "more than 32 parts"),
    ("x = {y = 1, " + '"\\"".' * 100 + "a = 1}\n", "more than 32 parts"),
    ("[stores.'a/b']\nurl = 'x'\n", "contains '/'"),
    ("[stores.'a.db']\nurl = 'x'\n", "or '.'"),
    ("[stores.'']\nurl = 'x'\n", "is empty"),
    ids=["nested", "number", "large", "quoted", "escaped", "slash", "dot", "empty"],
)
def test_a_malformed_file_is_an_error_of_one_line(folder: Path, text: str, says: str) -> None:
    write(folder, text)
    for words in (["threads", "list"], ["trust"], ["stores"]):
        ckpt(*words, code=2, says=says)
    ckpt("-s", "agent.db", "threads", "list", code=0)
    # A NUL in a name is told of its store alone.
    write(folder, 'default = "x"\n[stores.x]\nurl = "a\\u0000"\n')
    ckpt("threads", "list", code=2, says="NUL character")
    assert "NUL character" in ckpt("stores").out


def test_a_fifo_and_a_dangling_link_are_not_passed_over(folder: Path) -> None:
    own(f"default = 'x'\n[stores.x]\nurl = '{folder}/agent.db'\n")
    place = folder / "ckpt.toml"
    os.mkfifo(place)
    assert "it is a FIFO" in ckpt("threads", "list").err
    place.unlink()
    place.symlink_to("gone.toml")
    assert "no such file" in ckpt("threads", "list").err
    place.unlink()
    ckpt("threads", "list", code=0)


def test_what_cannot_be_trusted(folder: Path) -> None:
    assert "no configuration file" in ckpt("trust", "--yes").err
    (folder / "other.toml").write_text("")
    (folder / "pyproject.toml").write_text("[tool.other]\n")
    write(folder, "colour = 1\n")
    for words, says in (
        ("other.toml", "only ckpt.toml, pyproject.toml, and what names a server"),
        ("pyproject.toml", "no table [tool.ckpt]"),
        ("deep/ckpt.toml", "no such file"),
        ("--list --remove", "--remove"),
        ("ckpt.toml", "colour"),
    ):
        ckpt("trust", "--yes", *words.split(), code=2, says=says)
    assert ckpt("trust", "--list", "-o", "json").json == []


@pytest.mark.parametrize("section", ["checkpointer", "database"])
def test_settings_of_deerflow_in_a_folder_name_no_server(
    folder: Path, listener: Listener, section: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"postgresql://x@127.0.0.1:{listener.port}/db"
    names = {"checkpointer": ("type", "connection_string"), "database": ("backend", "postgres_url")}
    kind, place = names[section]
    config = folder / "config.yaml"
    (folder / ".deer-flow").mkdir()
    fact = {"id": "f", "content": "a", "source": "thread", "createdAt": "2026-01-01T00:00:00Z"}
    (folder / ".deer-flow" / "memory.json").write_text(
        json.dumps({"version": "1.0", "facts": [fact]})
    )
    settings = f"{section}:\n  {kind}: postgres\n  {place}: "
    for text in (url, f"{url}\n  postgres_schema: $GITHUB_TOKEN", "$GITHUB_TOKEN", "$EVIL"):
        config.write_text(f"{settings}{text}\n")
        (folder / ".env").write_text(f"EVIL={url}\n")
        for words in ("memory show f", "memory list --orphans", "threads list", "stores"):
            assert tells_no_secret(ckpt("-s", ".deer-flow", *words.split()))
    assert listener.connected == []
    config.write_text(f"{settings}$EVIL\n")
    monkeypatch.setenv("DEER_FLOW_CONFIG_PATH", "config.yaml")
    ckpt("-s", ".deer-flow", "memory", "show", "f")
    assert listener.connected


def test_a_file_is_trusted_only_after_it_was_shown_and_a_person_agreed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        folder,
        '[stores.local]\nurl = "agent.db"\nretention = "1d"\n'
        '[stores.local.doctor]\nignore = ["log-large"]\n'
        '[stores.local.secrets]\nignore = ["jwt"]\n',
    )
    record = json.loads(ckpt("trust", "-o", "json", code=5, says="add --yes").out)
    assert record["status"] == "is not trusted"
    settings = {"retention": "1d", "doctor.ignore": "log-large", "secrets.ignore": "jwt"}
    assert record["profiles"][0]["settings"] == settings
    asked: list[str] = []

    def ask(question: str) -> bool:
        asked.append(question)
        return len(asked) > 1

    monkeypatch.setattr(diagnostics, "ask", ask)
    ckpt("trust", code=5)
    assert ckpt("trust", "--list", "-o", "json").json == []
    ckpt("trust", code=0)
    assert [one["status"] for one in ckpt("trust", "--list", "-o", "json").json] == ["trusted"]
    assert ckpt("trust", "--yes", "-o", "json").json["status"] == "trusted"


def test_an_untrusted_file_switches_no_finding_off(folder: Path) -> None:
    store = folder / "agent.db"
    change(store, "UPDATE checkpoints SET checkpoint = x'00' WHERE thread_id = 'weekly-digest'")
    known = ckpt("-s", store, "doctor", "-o", "json").json["findings"]
    codes = sorted({one["code"] for one in known})
    write(
        folder,
        '[stores.local]\nurl = "agent.db"\n'
        f"[stores.local.doctor]\nignore = {json.dumps(codes)}\n"
        '[stores.local.secrets]\nignore = ["*"]\n'
        '[stores.local.reducers]\nmessages = "custom"\nnotes = "append"\n',
    )
    words = ("-s", "local", "doctor", "-o", "json")
    found = ckpt(*words)
    assert sorted({one["code"] for one in found.json["findings"]}) == codes
    assert "is not trusted: ignoring doctor.ignore" in found.err
    assert "ignoring secrets.ignore" in ckpt("-s", "local", "secrets").err
    assert "ignoring reducers 'custom'" in ckpt("-s", "local", "replay", "--all").err
    ckpt("trust", "--yes", code=0)
    trusted = ckpt(*words)
    assert (trusted.json["findings"], "ignoring" in trusted.err) == ([], False)


def test_a_link_is_as_safe_as_all_folders_on_its_way(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "ckpt.toml"
    path.parent.mkdir()
    path.write_text("")
    link, loop = tmp_path / "link.toml", tmp_path / "loop"
    link.symlink_to("folder/../folder/ckpt.toml")
    mine = frozenset({0, os.geteuid()})
    assert fault_of(link, path.stat(), mine) is None
    assert "belongs to user" in str(fault_of(link, path.stat(), frozenset({os.geteuid() + 4242})))
    assert "was replaced" in str(fault_of(link, tmp_path.stat(), mine))
    path.parent.chmod(0o777)
    assert f"'{path.parent}' can be written" in str(fault_of(link, path.stat(), mine))
    loop.symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"):
        fault_of(loop, path.stat(), mine)


def test_only_the_owners_group_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import grp
    import pwd

    path = tmp_path / "ckpt.toml"
    path.write_text("")
    path.chmod(0o664)
    me, group = os.geteuid(), path.stat().st_gid
    mine = frozenset({0, me})

    def users(*ids: tuple[int, int]) -> list[pwd.struct_passwd]:
        return [pwd.struct_passwd((f"u{u}", "", u, g, "", "", "")) for u, g in ids]

    def fault(everybody: list[pwd.struct_passwd], members: list[str]) -> str | None:
        monkeypatch.setattr(pwd, "getpwall", lambda: everybody)
        monkeypatch.setattr(pwd, "getpwuid", lambda uid: users((uid, group))[0])
        monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group(("g", "", gid, members)))
        return fault_of(path, path.stat(), mine)

    shared = "it can be written by other users of its group"
    other = me + 4242
    assert fault(users((me, group)), []) is None
    assert fault(users((me, group), (other, group + 1)), [f"u{me}"]) is None
    assert fault(users((me, group), (other, group)), []) == shared
    assert fault(users((me, group)), [f"u{other}"]) == shared
    assert fault(users((me, group + 1)), []) == shared
    monkeypatch.setattr(os, "listxattr", lambda _: ["system.posix_acl_access"], raising=False)
    assert fault(users((me, group)), []) == shared


VALUES = {"WHO": "alice-kingsleigh", "WHERE": "127.0.0.1", "BASE": "wonderland-db", "PW": "h4tt3r"}

OPTIONS = {"mongodb": "?serverSelectionTimeoutMS=50"}


def profile(folder: Path, lines: str) -> list[str | Path]:
    """Return the options for a profile with these lines."""
    path = folder / "profiles.toml"
    path.write_text(f"[stores.prod]\n{lines}\n")
    return ["--config", path, "-s", "prod"]


def tells(answer: CommandResult, *values: str) -> bool:
    return any(value in answer.out + answer.err for value in values)


@cases(
    "scheme whole",
    *((scheme, "") for scheme in ("postgresql", "mysql", "mongodb", "redis")),
    ("postgresql", "whole"),  # the whole URL is one variable
)
def test_no_error_tells_a_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, whole: str
) -> None:
    for name, value in VALUES.items():
        monkeypatch.setenv(name, value)

    with standin(lambda _: None) as port:
        monkeypatch.setenv("PORT", str(port))
        text = (
            f"{scheme}://${{WHO}}:${{PW}}@${{WHERE}}:${{PORT}}/${{BASE}}{OPTIONS.get(scheme, '')}"
        )
        shown = text.replace("${PW}", "***").replace("=50", "=***")
        if whole:
            values = VALUES | {"PORT": str(port)}
            for name, value in values.items():
                text = text.replace(f"${{{name}}}", value)
            monkeypatch.setenv("DATABASE_URL", text)
            text = shown = "${DATABASE_URL}"
        words = profile(tmp_path, f"url = '{text}'")
        answer = ckpt(*words, "threads", "list")
        assert answer.code in {2, 4}
        assert f"'{shown}'" in answer.err
        assert not tells(answer, *VALUES.values(), str(port))
        for command in ("stores", "memory list", "memory sessions", "stores -o json"):
            assert not tells(ckpt(*words, *command.split()), *VALUES.values(), str(port))
        listed = ckpt("--config", tmp_path / "profiles.toml", "stores", "-o", "json").json
        assert [one["url"] for one in listed if one["name"] == "prod"] == [shown]
        assert not tells(ckpt("--config", tmp_path / "profiles.toml", "stores"), *VALUES.values())


def test_a_plan_is_for_its_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        shutil.copyfile(SAMPLE, tmp_path / name / "agent.db")
    words = profile(tmp_path, "url = '${FOLDER}/agent.db'")
    plan = tmp_path / "plan.ndjson"
    monkeypatch.setenv("FOLDER", str(tmp_path / "one"))
    ckpt(*words, "purge", "--match", "weekly-*", "--plan-out", plan, code=0)
    assert json.loads(plan.read_text().splitlines()[0])["store"] == "${FOLDER}/agent.db"
    monkeypatch.setenv("FOLDER", str(tmp_path / "two"))
    ckpt(*words, "apply", plan, "--yes", code=2, says="other values of the environment variables")
    monkeypatch.setenv("FOLDER", str(tmp_path / "one"))
    ckpt(*words, "apply", plan, "--yes", code=0)
    for name, left in (("one", 7), ("two", 8)):
        store = tmp_path / name / "agent.db"
        assert len(ckpt("-s", store, "threads", "list", "-o", "json").json) == left


def test_the_folder_of_a_file_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = profile(tmp_path, "url = '${FOLDER}/agent.db'")
    secret, written = tmp_path / "acme-merger", tmp_path / "written"
    monkeypatch.setenv("FOLDER", str(secret))
    for prepare in (
        lambda: None,
        secret.mkdir,
        lambda: (secret / "agent.db").write_text("no database, but long enough for a header"),
        lambda: shutil.copyfile(SAMPLE, secret / "agent.db"),
    ):
        prepare()
        for command in ("threads list", "stores", "memory list", "--copy threads list"):
            answer = ckpt(*words, *command.split())
            assert not tells(answer, "acme-merger"), command
            assert answer.code == 0 or "${FOLDER}/agent.db" in answer.err
    assert ckpt(*words, "-v", "threads", "list").err.startswith("note: ${FOLDER}/agent.db: sqlite")
    written.mkdir()
    for command in (
        f"purge --match weekly-* --plan-out {written}/plan",
        f"export trip-to-kyoto --to {written}",
        f"threads delete trip-to-kyoto --archive {written}/deleted --yes -o json",
        "stores -o json",
        "gc --scope all --dry-run",
    ):
        answer = ckpt(*words, *command.split())
        answer.ends_cleanly(0, 4)
        assert not tells(answer, "acme-merger"), command
    files = [path for path in written.rglob("*") if path.is_file()]
    assert len(files) == 3
    assert not any(b"acme-merger" in path.read_bytes() for path in files)
    monkeypatch.setenv("CKPT_STORE", "prod")
    assert not tells(ckpt(*words[:2], "fork", "weekly-digest", "--dry-run"), "acme-merger")


@cases(
    "text raw shown",
    ("postgresql://u:${PW}@${H}/db?schema=${S}", "", "postgresql://u:***@${H}/db?schema=${S}"),
    ("pg://u:${PW}@h/db?schema=${S}", "", "pg://u:***@h/db?schema=***"),
    ("pg://u:hunter2${X}@h/db", "", "pg://u:***@h/db"),
    ("${D}/agent.db", "/d/agent.db", "${D}/agent.db"),
    ("${URL}", "pg://u:p@h/db", "${URL}"),
    ("${S}://u:hunter2@h/db", "", "${S}***"),
    ("${A}hunter2${B}", "pg://u:hunter2@h/db", "${A}***${B}"),
)
def test_a_url_as_written(text: str, raw: str, shown: str) -> None:
    assert printable_written(text, raw) == shown


def test_a_scheme_of_a_variable_is_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "ghp16C7e42F292c")
    for url in ("${TOKEN}://u@h/db", "${TOKEN}://u@h:x:y/db"):
        words = profile(tmp_path, f"url = '{url}'")
        for command in ("threads list", "memory list", "stores"):
            answer = ckpt(*words, *command.split(), code=2)
            assert not tells(answer, "ghp16C7e42F292c", "ghp16C7e42F292c".lower())


def test_messages_of_drivers_tell_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST", "DB.Internal.Example")
    monkeypatch.setenv("NAME", "a b")
    monkeypatch.setenv("PW", "p@ss word")
    url = store_of(Profiles(None, None, {}), "x", "postgresql://u:${PW}@${HOST}/${NAME}")
    said = 'no "db.internal.example": database "a b", password p@ss word or p%40ss%20word'
    assert masked(said, url) == 'no "${HOST}": database "${NAME}", password *** or ***'
    monkeypatch.setenv("DSN", "postgresql://u:pw1234@db.internal:5433/agents")
    url = store_of(Profiles(None, None, {}), "x", "${DSN}")
    assert masked("db.internal:5433 says: no database agents", url) == "*** says: no database ***"
    assert masked('"db.internal", port 5433', url) == '"***", port ***'
    plain = parse_url("postgresql://u:secret@db.internal/agents")
    assert masked("db.internal: secret", plain) == "db.internal: ***"
    url = store_of(Profiles(None, None, {}), "x", "mysql://u@h/db", {"ssl_key_password": "hunter2"})
    assert masked("no key: hunter2", url) == "no key: ***"


URL = "postgresql://ann:S3cret@db.example/agents"


@cases(
    "words",
    *("URL threads list", "threads list URL", "threads list --limit=URL", "threads list -nURL"),
    *("--URL", "-qoURL threads list", "-SURL threads list", "--stor=URL threads list", "trust URL"),
    *("show URL head more", "-s none.db show URL", "--config URL stores"),
    *("threads list postgresql://a:S3cret's@db/x", "threads list --where id=URL'"),
)
def test_no_error_prints_the_password_of_a_url(words: str) -> None:
    for form in ("table", "json"):
        found = ckpt("-o", form, *(word.replace("URL", URL) for word in words.split()))
        found.ends_cleanly(2, 3, 4)
        assert "S3cret" not in found.out + found.err
