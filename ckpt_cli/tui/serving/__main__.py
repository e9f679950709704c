"""One screen of `ckpt tui --serve`: `ckpt` with arguments that its command line does not show."""

import json
import os
import sys

from textual.drivers.web_driver import WebDriver
from textual.messages import ExitApp

from ckpt_cli.__main__ import main
from ckpt_cli.tui.serving import SERVED


class ServedDriver(WebDriver):
    """Draws through the pipe to the server, and closes the screen when the server is gone."""

    def run_input_thread(self) -> None:
        super().run_input_thread()
        self.send_message(ExitApp())


if __name__ == "__main__":
    # The variable stays: the command knows by it that its screen is served.
    sys.argv[1:] = json.loads(os.environ[SERVED])
    main()
