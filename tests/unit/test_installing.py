"""Hints for a missing package name the tool that installed `ckpt`."""

from pathlib import Path

import pytest

from ckpt_backends import installing
from ckpt_backends.installing import install_command, upgrade_command
from tests.kit.cases import cases

REQUIRES = [
    "typer>=0.27.2",
    "psycopg[binary]>=3.2 ; extra == 'postgres'",
    "psycopg[binary]>=3.2.10 ; (python_version >= '3.14') and extra == 'postgres'",
    'cryptography[ssh]>=42; extra == "sign"',
    'textual>=6; extra == "tui"',
    'langgraph-ckpt[postgres,tui]; extra == "all"',
]


@pytest.fixture(autouse=True)
def _metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.requires", lambda _: REQUIRES)
    installing.install_command.cache_clear()


def tool(folder: Path, mark: str, text: str = "{}", name: str = "langgraph-ckpt") -> str:
    """The environment of a tool that pipx or uv made."""
    made = folder / "venvs" / name
    made.mkdir(parents=True)
    (made / mark).write_text(text)
    return str(made)


def test_pip_gets_the_extra(tmp_path: Path) -> None:
    prefix = str(tmp_path)
    assert install_command("langgraph-ckpt[tui]", prefix) == "pip install 'langgraph-ckpt[tui]'"
    assert install_command("pynacl", prefix) == "pip install pynacl"
    assert upgrade_command(prefix) == "pip install -U langgraph-ckpt"


@cases(
    "requirement added",
    ("langgraph-ckpt[postgres]", "'psycopg[binary]'"),
    ("langgraph-ckpt[sign]", "'cryptography[ssh]'"),
    ("langgraph-ckpt[none-such]", "'langgraph-ckpt[none-such]'"),
    ("ckpt-toy[box]", "'ckpt-toy[box]'"),
)
def test_pipx_and_uv_get_packages_of_extras(tmp_path: Path, requirement: str, added: str) -> None:
    pipx = tool(tmp_path, "pipx_metadata.json")
    assert install_command(requirement, pipx) == f"pipx inject langgraph-ckpt {added}"
    uv = tool(tmp_path, "uv-receipt.toml", "", "ckpt-of-uv")
    assert install_command(requirement, uv) == f"uv tool install --with {added} ckpt-of-uv"


@cases(
    "mark folder install upgrade",
    ("pyvenv.cfg", "archive-v0", "uvx", "uvx langgraph-ckpt@latest"),
    ("pipx_metadata.json", "pipx", "pipx run", "pipx run --no-cache langgraph-ckpt"),
)
def test_a_run_that_installs_nothing_is_repeated_with_the_package(
    tmp_path: Path, mark: str, folder: str, install: str, upgrade: str
) -> None:
    made = tmp_path / folder / "56dfe67"
    made.mkdir(parents=True)
    (made / mark).write_text("")
    assert install_command("langgraph-ckpt[postgres]", str(made)) == (
        f"{install} --with 'psycopg[binary]' langgraph-ckpt"
    )
    assert upgrade_command(str(made)) == upgrade


RECEIPT = """[tool]
requirements = [
    { name = "langgraph-ckpt", extras = ["tui", "aes"] },
    { name = "psycopg", extras = ["binary"] },
    { name = "pymysql", specifier = ">=1.2" },
]
"""


def test_uv_keeps_what_was_added_and_pipx_the_name_of_its_environment(tmp_path: Path) -> None:
    prefix = tool(tmp_path / "uv", "uv-receipt.toml", RECEIPT)
    added = "--with 'psycopg[binary]' --with pymysql --with pynacl"
    assert install_command("pynacl", prefix) == f"uv tool install {added} 'langgraph-ckpt[tui,aes]'"
    assert upgrade_command(prefix) == "uv tool upgrade langgraph-ckpt"
    prefix = tool(tmp_path / "pipx", "pipx_metadata.json", name="langgraph-ckpt_dev")
    assert install_command("pynacl", prefix) == "pipx inject langgraph-ckpt_dev pynacl"
    assert upgrade_command(prefix) == "pipx upgrade langgraph-ckpt_dev"


@pytest.mark.parametrize("text", ["", "[tool", "tool = 1", "[tool]\nrequirements = [1]"])
def test_a_receipt_of_another_form_is_not_used(tmp_path: Path, text: str) -> None:
    prefix = tool(tmp_path, "uv-receipt.toml", text)
    assert install_command("pynacl", prefix) == "uv tool install --with pynacl langgraph-ckpt"
