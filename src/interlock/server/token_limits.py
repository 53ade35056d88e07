"""How many tokens a caller has used in the last 24 hours, counted from the stored turns: all servers see the same, also after a restart."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from pydantic_core import from_json

from interlock.runtime.turns import ENDED, Page, StoredTurn, TurnFilter, TurnStore
from interlock.server.request_errors import TooManyRequests

__all__ = ["TokenLimits"]

_DAY_S = 24 * 60 * 60.0
_PAGE = 100


@dataclass
class _Used:
    """What is known of one caller's turns: when each was submitted, and its tokens."""

    turns: dict[str, tuple[float, int]] = field(default_factory=dict[str, tuple[float, int]])
    open: set[str] = field(default_factory=set[str])
    """The turns whose tokens may still grow."""


class TokenLimits:
    """Checks the limit of tokens. It remembers turns that have ended, so that each is read once."""

    def __init__(self) -> None:
        self._used: dict[tuple[str, str | None], _Used] = {}

    async def check(self, store: TurnStore, tenant: str, principal: str | None, limit: int) -> None:
        """Refuse a turn of a caller that has used its tokens. Raises TooManyRequests.

        A turn counts for 24 hours from when it was submitted, with the tokens that its models have reported by its end or its last
        question: turns that run at the same time may take a caller over its limit.
        """
        used, now = self._used.setdefault((tenant, principal), _Used()), await store.now()
        await self._read(store, used, TurnFilter(tenant=tenant, principal=principal, with_hidden=True), now - _DAY_S)
        total = sum(tokens for _, tokens in used.turns.values())
        if total < limit:
            return
        for created, tokens in sorted(used.turns.values()):
            total -= tokens
            if total < limit:
                wait = max(1, math.ceil(created + _DAY_S - now))
                raise TooManyRequests("The key has reached its limit of tokens a day.", retry_after=wait)

    async def _read(self, store: TurnStore, used: _Used, chosen: TurnFilter, since: float) -> None:
        for name in list(used.open):
            found = await store.get(name)
            if found is not None:
                _count(used, found)
            else:
                used.open.discard(name)
        page = Page(limit=_PAGE)
        while found := await store.find(chosen, page):
            # Newest first: behind one that is known there are only others that are, and behind one that is too old only older ones.
            fresh = [turn for turn in found if turn.turn not in used.turns and turn.created > since]
            for turn in fresh:
                _count(used, turn)
            if len(fresh) < len(found) or len(found) < _PAGE:
                break
            page = Page(limit=_PAGE, before=found[-1].turn)
        for name in [name for name, (created, _) in used.turns.items() if created <= since]:
            del used.turns[name]
            used.open.discard(name)


def _count(used: _Used, turn: StoredTurn) -> None:
    usage: dict[str, int | None] = {} if turn.result is None else from_json(turn.result).get("usage") or {}
    used.turns[turn.turn] = (turn.created, (usage.get("input_tokens") or 0) + (usage.get("output_tokens") or 0))
    if turn.status in ENDED:
        used.open.discard(turn.turn)
    else:
        used.open.add(turn.turn)
