"""The classifier: a model's label behind a keyword guard. The model can veto the bridge, it can never open it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from interlock.capabilities import Model
from interlock.errors import SettingsInvalid
from interlock_agents.gateway.roles import Route
from interlock_agents.prompts import Prompts

__all__ = ["PROMPTS", "GuardedClassifier", "is_veto"]

PROMPTS = Prompts(Path(__file__).with_name("prompts"))
_VETO: Route = "respond_admin"


class GuardedClassifier:
    """Calls the model for a label. Without a keyword in the text, no label leads to the bridge."""

    def __init__(self, keywords: Sequence[str]) -> None:
        if not all(keyword.split() for keyword in keywords):
            raise SettingsInvalid("'gateway_keywords' has a blank one, which every text would have.")
        words = "|".join(r"\s+".join(map(re.escape, keyword.split())) for keyword in keywords)
        self._keyword = re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE)

    async def classify(self, text: str, *, model: Model) -> Route:
        """Return `route_bridge` if the text has a keyword and the model does not veto it."""
        said = await model.reply(PROMPTS.asked(text, "classifier"))
        return "route_bridge" if self.has_keyword(text) and not is_veto(said.text) else "respond_admin"

    def has_keyword(self, text: str) -> bool:
        """Return whether a text has one of the keywords, as whole words in any case."""
        return self._keyword.search(text) is not None


def is_veto(said: str) -> bool:
    """Return whether `respond_admin` occurs in a model's reply, however it is spelt.

    Only letters are compared, in one case and width: quotes, backticks, dots, spaces and a sentence around the label do
    not turn a veto into consent. A reply with both labels is a veto too.
    """
    return _letters(_VETO) in _letters(said)


def _letters(text: str) -> str:
    return "".join(filter(str.isalpha, unicodedata.normalize("NFKC", text).casefold()))
