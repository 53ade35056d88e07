"""Spans follow the published conventions: OpenTelemetry's for generative AI, OpenInference's for graphs."""

from __future__ import annotations

import json
from typing import Annotated, Any, TypedDict

import jsonschema
import pytest
from openinference.semconv.trace import SpanAttributes
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai
from opentelemetry.semconv.attributes import error_attributes
from opentelemetry.trace import SpanKind

from interlock import END, Graph, Interlock, Outcome, Secret, Settings, node
from interlock import spans as module
from interlock.capabilities import Message, Model, ModelReply, ToolCall, ToolGateway, ToolRequest, Usage
from interlock.engine import EngineName
from interlock.errors import ModelUnavailable
from interlock.testing import Scripted, ScriptedModel
from interlock.tools.functions import FunctionTool
from interlock.tools.runner import Tools
from tests.support.spans import Spans

CANARY = "canary-Xq7ZvK"
TEXT = {"type": "object", "required": ["type", "content"], "properties": {"type": {"const": "text"}, "content": {"type": "string"}}}
CALL = {"type": "object", "required": ["type", "name"], "properties": {"type": {"const": "tool_call"}, "name": {"type": "string"}}}
RESPONSE = {"type": "object", "required": ["type", "response"], "properties": {"type": {"const": "tool_call_response"}}}
INPUT_MESSAGES: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["role", "parts"],
        "properties": {"role": {"enum": ["system", "user", "assistant", "tool"]}, "parts": {"items": {"anyOf": [TEXT, CALL, RESPONSE]}}},
    },
}
OUTPUT_MESSAGES: dict[str, Any] = {
    "type": "array",
    "items": {**INPUT_MESSAGES["items"], "required": ["role", "parts", "finish_reason"]},
}


class Talk(TypedDict, total=False):
    text: str
    token: Annotated[str, Secret]
    out: str


class Done(Outcome):
    out: str


async def ask(text: str, token: str | None, *, model: Model, tools: ToolGateway) -> Done:
    history = (
        Message(role="system", text="Be brief."),
        Message(role="assistant", calls=(ToolCall(id="c", name="double", arguments={"text": "a"}),)),
        Message(role="tool", text="aa", answers="c"),
        Message(role="user", text=f"{text} {token}"),
    )
    reply = await model.reply(history)
    found = await tools.run("any", ToolRequest(tool="double", args={"text": reply.text}))
    return Done(out=str(found.result))


def double(text: str) -> str:
    """Say it twice."""
    return text * 2


talk = Graph("talk", state=Talk, entry=ask, nodes=[node(ask, goes={Done: END})])
REPLY = ModelReply(text="yes", model="openai:gpt-5", usage=Usage(input_tokens=12, output_tokens=3))


async def run(engine: EngineName, *replies: Scripted, **settings: Any) -> None:
    app = Interlock(
        Settings(engine=engine, **settings), grants={Model: ScriptedModel(*replies), ToolGateway: Tools([FunctionTool("double", double)])}
    )
    await app.run(talk, {"text": "hello", "token": CANARY}, session="s1")


def attributes(spans: Spans, name: str) -> dict[str, Any]:
    (found,) = [dict(span.attributes or {}) for span in spans.ended if span.name == name]
    return found


def test_the_names_are_those_that_are_published():
    published = {
        module.OPERATION: gen_ai.GEN_AI_OPERATION_NAME,
        module.AGENT: gen_ai.GEN_AI_AGENT_NAME,
        module.CONVERSATION: gen_ai.GEN_AI_CONVERSATION_ID,
        module.PROVIDER: gen_ai.GEN_AI_PROVIDER_NAME,
        module.RESPONSE_MODEL: gen_ai.GEN_AI_RESPONSE_MODEL,
        module.INPUT_TOKENS: gen_ai.GEN_AI_USAGE_INPUT_TOKENS,
        module.OUTPUT_TOKENS: gen_ai.GEN_AI_USAGE_OUTPUT_TOKENS,
        module.INPUT_MESSAGES: gen_ai.GEN_AI_INPUT_MESSAGES,
        module.OUTPUT_MESSAGES: gen_ai.GEN_AI_OUTPUT_MESSAGES,
        module.TOOL_NAME: gen_ai.GEN_AI_TOOL_NAME,
        module.TOOL_TYPE: gen_ai.GEN_AI_TOOL_TYPE,
        module.TOOL_CALL_ID: gen_ai.GEN_AI_TOOL_CALL_ID,
        module.TOOL_ARGUMENTS: gen_ai.GEN_AI_TOOL_CALL_ARGUMENTS,
        module.TOOL_RESULT: gen_ai.GEN_AI_TOOL_CALL_RESULT,
        module.ERROR_TYPE: error_attributes.ERROR_TYPE,
        module.KIND: SpanAttributes.OPENINFERENCE_SPAN_KIND,
        module.AGENT_NAME: SpanAttributes.AGENT_NAME,
        module.NODE_ID: SpanAttributes.GRAPH_NODE_ID,
        module.NODE_NAME: SpanAttributes.GRAPH_NODE_NAME,
        module.NODE_PARENT: SpanAttributes.GRAPH_NODE_PARENT_ID,
    }
    assert list(published) == list(published.values())


async def test_a_turn_is_an_agent_that_is_invoked_in_a_conversation(engine: EngineName, spans: Spans):
    await run(engine, REPLY)
    turn = attributes(spans, "invoke_agent talk")
    assert (turn["gen_ai.operation.name"], turn["gen_ai.provider.name"]) == ("invoke_agent", "interlock")
    assert (turn["gen_ai.agent.name"], turn["agent.name"], turn["gen_ai.conversation.id"]) == ("talk", "talk", "s1")
    assert (turn["gen_ai.usage.input_tokens"], turn["gen_ai.usage.output_tokens"]) == (12, 3)
    assert turn["openinference.span.kind"] == "AGENT"


async def test_a_node_is_a_node_of_the_graph(engine: EngineName, spans: Spans):
    await run(engine, REPLY)
    found = attributes(spans, "node ask")
    assert (found["graph.node.id"], found["graph.node.name"], found["graph.node.parent_id"]) == ("ask", "ask", "talk")


async def test_a_model_call_is_a_chat_with_its_model_and_tokens(engine: EngineName, spans: Spans):
    await run(engine, REPLY)
    found = attributes(spans, "chat openai:gpt-5")
    assert (found["gen_ai.operation.name"], found["gen_ai.provider.name"]) == ("chat", "openai")
    assert found["gen_ai.response.model"] == "openai:gpt-5"
    assert (found["gen_ai.usage.input_tokens"], found["gen_ai.usage.output_tokens"]) == (12, 3)
    assert {span.kind for span in spans.ended if span.name.startswith("chat")} == {SpanKind.CLIENT}


async def test_a_tool_is_executed_by_its_own_name(engine: EngineName, spans: Spans):
    await run(engine, REPLY)
    found = attributes(spans, "execute_tool double")
    assert (found["gen_ai.tool.name"], found["gen_ai.tool.type"], found["gen_ai.operation.name"]) == ("double", "function", "execute_tool")
    assert found["gen_ai.tool.call.id"] == found["interlock.run_id"]


async def test_an_error_has_its_code_as_type(engine: EngineName, spans: Spans):
    await run(engine, ModelUnavailable("It is away."))
    assert {attributes(spans, name)["error.type"] for name in ("invoke_agent talk", "node ask", "chat")} == {"model_unavailable"}


async def test_what_is_said_is_in_no_span_unless_it_is_asked_for(engine: EngineName, spans: Spans):
    await run(engine, REPLY)
    assert "hello" not in spans.text()
    assert "yes" not in spans.text()


@pytest.mark.parametrize(
    "reply", [REPLY, ModelReply(text="", calls=(ToolCall(id="d", name="double", arguments={"text": "b"}),), model="m")]
)
async def test_content_has_the_published_shape_and_no_secret(engine: EngineName, spans: Spans, reply: ModelReply):
    await run(engine, reply, trace_content=True)
    chat = attributes(spans, f"chat {reply.model}")
    given, returned = json.loads(chat["gen_ai.input.messages"]), json.loads(chat["gen_ai.output.messages"])
    jsonschema.validate(given, INPUT_MESSAGES)
    jsonschema.validate(returned, OUTPUT_MESSAGES)
    assert [one["role"] for one in given] == ["system", "assistant", "tool", "user"]
    assert given[-1]["parts"][0]["content"].startswith("hello ")
    tool = attributes(spans, "execute_tool double")
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {"text": reply.text}
    assert json.loads(tool["gen_ai.tool.call.result"])["result"] == reply.text * 2
    assert CANARY not in spans.text()
