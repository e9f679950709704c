"""How the process of a served screen draws."""

from __future__ import annotations

from textual.drivers.web_driver import WebDriver
from textual.messages import ExitApp


class ServedDriver(WebDriver):
    """Draws through the pipe to the server, and closes the screen when the server is gone."""

    def run_input_thread(self) -> None:
        super().run_input_thread()
        self.send_message(ExitApp())
