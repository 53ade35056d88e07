"""Token usage of answers, also of those that are rejected."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from langchain_core.messages.ai import UsageMetadata

from interlock.capabilities.model import Usage
from interlock.errors import ModelError, RejectedAnswer

__all__ = ["cost_of_completion", "recording_cost", "reported_usage"]


def reported_usage(reported: UsageMetadata | None) -> Usage | None:
    """Return the token counts that a server reports, or None if they are not valid."""
    if reported is None:
        return None
    counts: list[Any] = [reported.get("input_tokens"), reported.get("output_tokens")]
    if not all(isinstance(count, int) and count >= 0 for count in counts) or not any(counts):
        return None
    return Usage(input_tokens=counts[0], output_tokens=counts[1])


@contextmanager
def recording_cost(text: str, reported: UsageMetadata | None) -> Generator[None, None, None]:
    """Add the cost of an answer to a ModelError that the block raises."""
    try:
        yield
    except ModelError as error:
        error.rejected = _cost(text, reported_usage(reported))
        raise


def cost_of_completion(error: BaseException) -> RejectedAnswer | None:
    """Return the cost of an answer that OpenAI's client rejects with an exception, which has the completion."""
    reported = getattr(getattr(error, "completion", None), "usage", None)
    counts: list[Any] = [getattr(reported, "prompt_tokens", None), getattr(reported, "completion_tokens", None)]
    if not all(isinstance(count, int) for count in counts):
        return None
    return _cost("", Usage(input_tokens=counts[0], output_tokens=counts[1]))


def _cost(text: str, usage: Usage | None) -> RejectedAnswer:
    size = len(text.encode(errors="replace"))
    if usage is None:
        return RejectedAnswer(output_bytes=size)
    return RejectedAnswer(output_bytes=size, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
