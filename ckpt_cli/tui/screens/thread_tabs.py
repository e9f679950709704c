"""The tabs about the whole thread: its long-term memory."""

from __future__ import annotations

import time
from functools import partial

from ckpt_backends.errors import CkptError
from ckpt_backends.model import CheckpointKey
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.tui.content.tabs import Tab, TabContent
from ckpt_cli.tui.context import ScreenContext
from ckpt_cli.tui.screens.base import SHARE, error_lines
from ckpt_cli.tui.screens.live import LiveScreen


class ThreadTabsScreen(LiveScreen):
    """Threads, a tree and a checkpoint, and what is known about the whole thread."""

    def __init__(self, context: ScreenContext) -> None:
        super().__init__(context)
        self.is_memory_fresh = False
        """Whether the memory of the thread was read recently."""

    async def load_thread_tab(self, thread_id: str) -> None:
        await self._load_memory(thread_id)

    async def _load_memory(self, thread_id: str) -> None:
        """Read the memory items that came from a thread."""
        from ckpt_cli.tui.content.memory import read_thread_memory

        whole: tuple[CheckpointKey, Tab] = (CheckpointKey(thread_id, "", ""), "memory")
        if self.read == whole and self.is_memory_fresh:
            return
        began = time.monotonic()
        question = partial(
            read_thread_memory,
            thread_id=thread_id,
            clock=self.clock,
            width=max(self.inspector.document.width, 1),
            redacted=self.context.opening.redact,
        )
        with self.inspector.while_loading("Memory: loading"):
            try:
                document = await self.context.memory.ask(question)
            except CkptError as error:
                document = TabContent(error_lines(error, self.inspector.document.width))
            self.inspector.set_heading(f"Memory from {safe_text(thread_id)}")
        self.inspector.document.show_document(document, keep=self.read == whole)
        self.read, self.shown, self.is_memory_fresh = whole, None, True
        if self.context.pause:
            pause = max(self.context.pause, (time.monotonic() - began) * SHARE)
            self.schedule("memory", pause, self.load_memory_again)

    def load_memory_again(self) -> None:
        """Read the memory again, because it may have changed."""
        self.is_memory_fresh = False
        if self.inspector.tab == "memory":
            self.load_document()
