"""The rules that answer if no model is configured."""

import re
from collections.abc import Sequence

from interlock import Rules
from interlock.capabilities import Message

from .draft import Shape

FACT = re.compile(r"^- (\w+): (.+)$", re.MULTILINE)


class OfflineRules(Rules):
    """Answers with the fact whose topic the question names."""

    def decide(self, messages: Sequence[Message], schema: type[Shape]) -> Shape:
        """Draft an answer from the facts in the prompt."""
        facts = dict(FACT.findall(messages[0].text))
        question = messages[-1].text.lower()
        topic = next((topic for topic in facts if topic in question), "other")
        return schema.model_validate({"topic": topic, "answer": facts.get(topic, "")})
