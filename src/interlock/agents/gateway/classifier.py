"""The classifier: a model's label behind a guard. The model can keep a text on the admin's side, never send it across."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from interlock.agents.gateway.roles import Route
from interlock.agents.prompts import Prompts
from interlock.capabilities import Model
from interlock.errors import SettingsInvalid

__all__ = ["PROMPTS", "GuardedClassifier"]

PROMPTS = Prompts(Path(__file__).with_name("prompts"))


class GuardedClassifier:
    """Asks a model for a label. Without a keyword in the text, no label leads to the bridge."""

    def __init__(self, keywords: Sequence[str]) -> None:
        if not all(keyword.split() for keyword in keywords):
            raise SettingsInvalid("'gateway_keywords' has a blank one, which every text would have.")
        words = "|".join(r"\s+".join(map(re.escape, keyword.split())) for keyword in keywords)
        self._keyword = re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE)

    async def classify(self, text: str, *, model: Model) -> Route:
        """Return `route_bridge` if there is a keyword, unless the model says that it is for the admin."""
        said = await model.reply(PROMPTS.asked(text, "classifier"))
        is_vetoed = said.text.strip() == "respond_admin"
        return "route_bridge" if self.has_keyword(text) and not is_vetoed else "respond_admin"

    def has_keyword(self, text: str) -> bool:
        """Tell whether a text has one of the keywords, as whole words in any case."""
        return self._keyword.search(text) is not None
