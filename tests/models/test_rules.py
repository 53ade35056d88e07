"""Where no model is configured, an agent without rules of its own says so."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from interlock.capabilities import Message, ModelReply, ToolCall, Usage
from interlock.errors import ModelUnavailable
from interlock.models.rules import Rules, split_words

ASKED = [Message(role="user", text="?")]


class Plan(BaseModel):
    steps: list[str]


def test_default_rules_say_that_no_model_is_configured():
    assert Rules().reply(ASKED, ()) == "No language model is configured."
    with pytest.raises(ModelUnavailable, match="'Plan'"):
        Rules().decide(ASKED, Plan)


@pytest.mark.parametrize("text", ["", "one", "one two  three\n", "  \n"])
def test_a_reply_is_split_into_words_and_calls_come_last(text: str):
    call, usage = ToolCall(id="1", name="f", arguments={}), Usage(input_tokens=1, output_tokens=2)
    *words, last = split_words(ModelReply(text=text, calls=(call,), usage=usage, model="rules"))
    assert "".join(piece.text for piece in [*words, last]) == text
    assert all(piece.calls == () and piece.usage is None for piece in words)
    assert (last.calls, last.usage, last.model) == ((call,), usage, "rules")
