"""Offline rules of sam: repeat the input, and say that no language model is configured."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.capabilities import Message, Tool
from interlock.models.rules import Rules
from interlock_agents.sam.nodes import IMAGE_PROMPT

__all__ = ["SamRules"]


class SamRules(Rules):
    """Answers with a description of the input."""

    def reply(self, messages: Sequence[Message], tools: Sequence[Tool]) -> str:  # noqa: ARG002 - sam has no tools
        said = messages[-1]
        if said.images:
            asked = "" if said.text == IMAGE_PROMPT else f" with “{said.text}”"
            size = f"{len(said.images[0]):,} characters of data URI"
            return f"An image came in{asked} ({size}). No language model is configured to look at it."
        words = len(said.text.split())
        return f"You said: “{said.text}” ({words} {'word' if words == 1 else 'words'}). No language model is configured to say more."
