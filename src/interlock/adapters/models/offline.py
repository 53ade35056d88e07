"""Deterministic rules in the place of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from interlock.capabilities.model import Metadata, ModelRequest, ModelResponse

__all__ = ["OfflineModelBackend", "Rules"]

Rules: TypeAlias = Callable[[ModelRequest], str]


class OfflineModelBackend:
    """Answers by an agent's own rules and says so in the metadata."""

    def __init__(self, rules: Rules | None = None) -> None:
        self._rules = rules or _nothing_to_say

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """Answer by the rules."""
        metadata: Metadata = {"backend": "offline rules", "trace_id": request.trace_id}
        return ModelResponse(status="success", output=self._rules(request), metadata=metadata)


def _nothing_to_say(_request: ModelRequest) -> str:
    return "No language model is configured."
