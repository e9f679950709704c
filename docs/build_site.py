"""Builds the site: `python docs/build_site.py build` or `serve`.

The documents are laid into `build/pages` as the site has them: with the README, the changes and the
guide for contributors as pages, and with links that leave them as links into the repository. A link
or an anchor that leads nowhere ends the build with exit code 1.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).parent.parent
PAGES = TOP / "build" / "pages"
SOURCE = "https://github.com/langgraph-ckpt/ckpt/blob/main"
ABOVE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "develop/contributing.md",
    "SECURITY.md": "develop/reporting.md",
}
"""Files of the folder above that are pages, too."""
_LINK = re.compile(r"(\]\(|(?:src|href)=\")(?![a-z]+:|#)([^)#\"\s]+)")


def lay() -> None:
    """Write all pages and what they show into `build/pages`, in place of what is there."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(
        TOP / "docs", PAGES, ignore=shutil.ignore_patterns("*.py", "__pycache__", "*.md")
    )
    pages = {str(path.relative_to(TOP)): path for path in (TOP / "docs").rglob("*.md")}
    for source, path in {**pages, **{name: TOP / name for name in ABOVE}}.items():
        page = ABOVE.get(source, source.removeprefix("docs/"))
        (PAGES / page).parent.mkdir(exist_ok=True)
        (PAGES / page).write_text(relinked(path.read_text("utf-8"), source, page), "utf-8")


def relinked(text: str, source: str, page: str) -> str:
    """Return the text of `source`, a path from the top, with its links as they are in `page`."""

    def link(found: re.Match[str]) -> str:
        target = os.path.normpath(os.path.join(os.path.dirname(source), found[2]))
        if target in ABOVE or target.startswith("docs/"):
            inside = ABOVE.get(target, target.removeprefix("docs/"))
            return found[1] + os.path.relpath(inside, os.path.dirname(page) or ".")
        if (TOP / target).exists():
            return f"{found[1]}{SOURCE}/{target}"
        return found[0]

    return _LINK.sub(link, text)


if __name__ == "__main__":
    lay()
    action = sys.argv[1] if len(sys.argv) > 1 else "build"
    more = ["--strict"] if action == "build" else []
    command = [sys.executable, "-m", "zensical", action, *more]
    sys.exit(subprocess.run(command, cwd=TOP, check=False).returncode)  # noqa: S603
