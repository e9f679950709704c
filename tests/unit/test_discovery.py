"""Backends of other packages are found as bundled ones are, and cost nothing where not needed."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ckpt_backends import discovery
from ckpt_backends.errors import MissingDependency, UnknownLayout, Unsupported, UsageError
from ckpt_backends.registry import open_memory, open_sessions, open_store
from ckpt_backends.url import parse_url, printable
from ckpt_cli.config.confined import needs_trust

_TOY = """
from ckpt_backends.declaration import NAME, Backend
from ckpt_backends.errors import UnknownLayout

def claims(path):
    return path.endswith(".toy")

def open_store(url):
    raise UnknownLayout(f"toy {url.path}")

BACKEND = Backend(
    title="Toy", schemes=("toy", "sqlite"), params={"box": NAME}, is_local=True,
    claims_path=claims, checkpoints="ckpt_toy:open_store", memory="ckpt_toy:nothing",
    driver="nosuchdriver" if DRIVER else "",
)
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed package with a backend, and one whose backend cannot be imported."""
    (tmp_path / "ckpt_toy.py").write_text(f"DRIVER = False\n{_TOY}")
    for name, place in (("ckpt_toy", "ckpt_toy:BACKEND"), ("ckpt_bad", "ckpt_bad:BACKEND")):
        folder = tmp_path / f"{name}-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (folder / "entry_points.txt").write_text(f"[ckpt.backends]\n{name} = {place}\n")
    monkeypatch.syspath_prepend(tmp_path)
    discovery.installed.cache_clear()
    yield tmp_path
    sys.modules.pop("ckpt_toy", None)
    discovery.installed.cache_clear()


@pytest.mark.parametrize("name", ["toy:///a.toy", "a.toy"])
def test_an_installed_backend_opens_its_urls_and_paths(toy: Path, name: str) -> None:
    assert parse_url(name).scheme == "toy"
    with pytest.raises(UnknownLayout, match=r"^toy a\.toy$"):
        open_store(name)


def test_its_parameters_are_printed_in_its_own_urls_only(toy: Path) -> None:
    assert printable("toy:///a?box=b&schema=s&x=y") == "toy:///a?box=b&schema=***&x=***"
    assert printable("toy:///a?box=b%20c") == "toy:///a?box=***"
    assert printable("postgresql://h/d?box=b&schema=s") == "postgresql://h/d?box=***&schema=s"
    assert printable("redis://h/0?schema=s&prefix=p") == "redis://h/0?schema=***&prefix=p"


def test_what_it_lacks_is_refused(toy: Path) -> None:
    with pytest.raises(Unsupported, match="no sessions"):
        open_sessions(parse_url("a.toy"))
    with pytest.raises(UsageError, match="unknown kind of store"):
        open_store("nosuch:///x")


def test_a_missing_driver_is_named(toy: Path) -> None:
    (toy / "ckpt_toy.py").write_text(f"DRIVER = True\n{_TOY}")
    with pytest.raises(MissingDependency, match="Toy needs the driver nosuchdriver") as error:
        open_memory(parse_url("a.toy"))
    assert error.value.hint == "install it: pip install nosuchdriver"


def test_a_bundled_backend_comes_first(toy: Path) -> None:
    found = discovery.backend_of("sqlite")
    assert found is not None
    assert found.title == "SQLite"


def test_an_untrusted_configuration_uses_bundled_backends_only(toy: Path) -> None:
    assert needs_trust(str(toy / "a.db"), {}, toy) is None
    assert needs_trust(str(toy / "a.toy"), {}, toy) is not None
    assert needs_trust("toy:///a.toy", {}, toy) is not None


@pytest.mark.parametrize("name", ["a.db", "/x/a.sqlite", "memory.json", "sqlite:///a", "redis://h"])
def test_entry_points_are_not_read_for_what_is_bundled(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise AssertionError("entry points were read")

    monkeypatch.setattr(importlib.metadata, "entry_points", refuse)
    discovery.installed.cache_clear()
    assert str(parse_url(f"{name}")) == name


def test_each_backend_is_declared_completely() -> None:
    found = discovery.bundled()
    schemes = [name for one in found for name in one.schemes]
    assert len(schemes) == len(set(schemes))
    assert sum(len(one.layouts) for one in found) == len(discovery.layouts())
    for one in found:
        assert bool(one.schemes) == bool(one.checkpoints), one.title
        assert one.schemes or one.engine, one.title
