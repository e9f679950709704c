"""Make the picture of a report for the documents, from the sample store.

Run it with `python -m tests.commands.report_picture` after an intended change, and look at it.
"""

import tempfile
from pathlib import Path

import ckpt_cli
from tests.kit.browser import start_browser
from tests.kit.command import ROOT, SAMPLE, copy_store

PICTURE = ROOT / "docs" / "pictures" / "report.png"
_SIZE = {"width": 1280, "height": 1010}


def main() -> None:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "incident.html"
        with ckpt_cli.open(str(copy_store(SAMPLE, folder))) as store:
            file.write_text(store["refund-4711"].report(), "utf-8")
        browser = start_browser()
        try:
            browser.open(file, **_SIZE)
            browser.press("Home", "End")
            browser.picture(PICTURE, whole=False)
        finally:
            browser.stop()


if __name__ == "__main__":
    main()
