"""Files that another user could have written are found, whoever runs the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ckpt_cli.config.trust import fault_of


def test_whose_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "ckpt.toml"
    path.parent.mkdir()
    path.write_text("")
    link = tmp_path / "link.toml"
    link.symlink_to("folder/../folder/ckpt.toml")
    me = os.geteuid()
    mine = frozenset({0, me})
    for place in (path, link):
        assert fault_of(place, path.stat(), mine) is None
        assert "belongs to user" in str(fault_of(place, path.stat(), frozenset({me + 4242})))
        assert "was replaced" in str(fault_of(place, tmp_path.stat(), mine))
    path.parent.chmod(0o777)
    for place in (path, link):
        fault = fault_of(place, path.stat(), mine)
        assert fault == f"'{path.parent}' can be written by every user"
    path.parent.chmod(0o755)
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"):
        fault_of(loop, path.stat(), mine)


def test_a_group_may_write_only_if_it_is_the_owners_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
