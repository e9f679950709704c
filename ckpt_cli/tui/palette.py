"""The command palette: every key by name, and going to a typed checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from ckpt_cli.tui.keys import Key, KeyGroup, keys_of

_SKIPPED = "app.command_palette"


class _MainScreen(Protocol):
    @property
    def key_groups(self) -> Sequence[KeyGroup]: ...

    def go_to(self, text: str) -> object: ...


class _App(Protocol):
    ran_lately: list[str]


def keys_by_use(groups: Sequence[KeyGroup], lately: Sequence[str]) -> Sequence[Key]:
    """Return the keys: first those of the actions that were run lately, then those of the footer.

    The rest is in the order of the help. `lately` has the last action last.
    """
    ranks = {action: at for at, action in enumerate(reversed(lately))}
    keys = [key for key in keys_of(groups) if key.action != _SKIPPED]
    return sorted(keys, key=lambda key: (ranks.get(key.action, len(ranks)), not key.footer))


class Palette(Provider):
    """The commands of the main screen, those that were used last first."""

    async def discover(self) -> Hits:
        for key in self._keys():
            shown = Content(f"{key.title} ({key.shown})")
            yield DiscoveryHit(shown, partial(self._run, key), text=key.title, help=key.help)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for key in self._keys():
            score = matcher.match(key.title)
            if score > 0:
                shown = Content.assemble(matcher.highlight(key.title), f" ({key.shown})")
                yield Hit(score, shown, partial(self._run, key), text=key.title, help=key.help)
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

    @property
    def _lately(self) -> list[str]:
        return cast("_App", self.app).ran_lately

    def _keys(self) -> Sequence[Key]:
        return keys_by_use(self._main.key_groups, self._lately)

    async def _run(self, key: Key) -> None:
        lately = self._lately
        lately[:] = [*(one for one in lately if one != key.action), key.action]
        await self.screen.run_action(key.action)
