"""The keys for the value under the cursor: copy it, pin its channel, unfold all of it."""

from __future__ import annotations

import json
from typing import ClassVar

from ckpt_backends.codec import to_json
from ckpt_backends.codec.values import Value
from ckpt_cli.core.values import is_larger
from ckpt_cli.tui import command_line
from ckpt_cli.tui.screens.stepping import SteppingScreen

_MOST_COPIED = 1 << 20
"""Maximum number of bytes of a value that are copied. Terminals have limits of their own."""


class ValuesScreen(SteppingScreen):
    """The screen, with the keys for single values."""

    READING: ClassVar = SteppingScreen.READING | {"look"}

    def action_copy_value(self) -> None:
        """Copy the value under the cursor: a text as it is, anything else as JSON."""
        found, shown = self.inspector.document.value, self.read
        if found is None or shown is None:
            self.say("no value under the cursor", is_error=True)
            return
        path, value = found
        text = None if is_larger(value, _MOST_COPIED) else copied_text(value)
        if text is None or len(text.encode()) > _MOST_COPIED:
            shell = command_line.value_command(self.context.store_words, shown[0], path)
            self.say(f"not copied: more than 1 MiB; use `{shell}`", is_error=True)
            return
        self.app.copy_to_clipboard(text)
        number = f"{len(text):,} character{'' if len(text) == 1 else 's'}"
        self.say(f"copied {path}: {number}")

    def action_pin(self) -> None:
        """Show the channel under the cursor first, in all checkpoints; or no longer."""
        rows = self.inspector.document
        if (name := rows.pin()) is None:
            self.say("no channel under the cursor; choose one in the tab State", is_error=True)
        else:
            self.say(f"{'pinned' if name in rows.folds.pinned else 'unpinned'} {name}")

    def action_unfold_all(self) -> None:
        """Unfold everything below the value under the cursor, or fold it again."""
        if self.inspector.document.node is None:
            self.say("no value under the cursor; choose one in the tab State", is_error=True)
        else:
            self.inspector.document.unfold_all()


def copied_text(value: Value) -> str:
    """Return a value as text for a clipboard: a text as it is, anything else as JSON."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            # Half of a character; only JSON can say it.
            pass
        else:
            return value
    return json.dumps(to_json(value), ensure_ascii=False, indent=2)
