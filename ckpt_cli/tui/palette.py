"""The command palette: every key by name, and going to a typed checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Protocol, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from ckpt_cli.tui.keys import Key, KeyGroup, keys_of


class _MainScreen(Protocol):
    @property
    def key_groups(self) -> Sequence[KeyGroup]: ...

    def go_to(self, text: str) -> object: ...


class Palette(Provider):
    """The commands of the main screen."""

    async def discover(self) -> Hits:
        for key in self._keys():
            yield DiscoveryHit(key.title, partial(self._run, key), help=self._help(key))

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for key in self._keys():
            score = matcher.match(key.title)
            if score > 0:
                shown = matcher.highlight(key.title)
                yield Hit(score, shown, partial(self._run, key), help=self._help(key))
        # Last, because any text may be a thread id.
        yield Hit(
            0.01,
            Content(f"Go to {query}"),
            partial(self._main.go_to, query),
            text=query,
            help="A thread, or THREAD@REF",
        )

    @property
    def _main(self) -> _MainScreen:
        return cast("_MainScreen", self.screen)

    def _keys(self) -> Iterator[Key]:
        skipped = {"app.command_palette"}
        return (key for key in keys_of(self._main.key_groups) if key.action not in skipped)

    async def _run(self, key: Key) -> None:
        await self.screen.run_action(key.action)

    @staticmethod
    def _help(key: Key) -> str:
        return f"{key.help}  ({key.shown})"
