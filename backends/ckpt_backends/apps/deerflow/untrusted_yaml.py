"""Reads untrusted YAML: only JSON values, and no aliases.

PyYAML's safe loader creates no objects, but it creates dates and follows aliases. With aliases, a
short text can become an endless value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ckpt_backends.errors import MissingDependency
from ckpt_backends.installing import install_command

if TYPE_CHECKING:
    from types import ModuleType

_MOST = 1 << 20
_TAG = "tag:yaml.org,2002:"
_TAGS = {_TAG + name for name in ("null", "bool", "int", "float", "str", "seq", "map", "merge")}
_LONGEST = 4000
"""Characters of a number; one in base 60, as `1:1:1`, takes time quadratic in its length."""


def front_matter(text: str) -> dict[str, Any]:
    """The fields of a front matter. Raises `ValueError` and `MissingDependency`."""
    yaml = _yaml()

    class Loader(yaml.SafeLoader):  # type: ignore[name-defined, misc]
        """A loader that refuses aliases and types that JSON does not have."""

        # Do not convert texts to dates.
        yaml_implicit_resolvers = {  # noqa: RUF012
            first: [one for one in found if one[0] != "tag:yaml.org,2002:timestamp"]
            for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise ValueError("aliases are not allowed")
            node = super().compose_node(parent, index)
            if node.tag not in _TAGS:
                raise ValueError(f"tag '{node.tag}' is not allowed")
            if node.tag in {_TAG + "int", _TAG + "float"} and len(node.value) > _LONGEST:
                raise ValueError("a number is too long")
            return node

    found = _read(lambda: yaml.load(text, Loader), text)
    if not isinstance(found, dict):
        raise ValueError("not a map")
    return found


def settings(text: str, sections: tuple[str, ...]) -> dict[str, dict[str, str | None]]:
    """The plain values of some sections of a configuration, as texts; None for null.

    Reads nothing else. Raises `ValueError` and `MissingDependency`.
    """
    yaml = _yaml()
    root = _read(lambda: yaml.compose(text, yaml.SafeLoader), text)
    found: dict[str, dict[str, str | None]] = {}
    for name, section in _entries(root):
        if name in sections:
            found[name] = {
                key: None if value.tag == "tag:yaml.org,2002:null" else value.value
                for key, value in _entries(section)
                if isinstance(value.value, str)
            }
    return found


def _entries(node: Any) -> list[tuple[str, Any]]:
    """Keys and nodes of a map; empty for other nodes."""
    if node is None or node.id != "mapping":
        return []
    return [(key.value, value) for key, value in node.value if isinstance(key.value, str)]


def _read(read: Any, text: str) -> Any:
    if len(text) > _MOST:
        raise ValueError("too long")
    try:
        return read()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except (KeyError, OverflowError) as error:  # A tag that its value does not fit.
        raise ValueError(f"wrong value: {error}") from None
    except _yaml().YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" at line {mark.line + 1}"
        raise ValueError(f"not YAML{where}: {getattr(error, 'problem', error)}") from None


def _yaml() -> ModuleType:
    try:
        import yaml
    except ImportError:
        raise MissingDependency(
            "cannot read YAML: package 'pyyaml' is not installed",
            hint=install_command("langgraph-ckpt[deerflow]"),
        ) from None
    return yaml
