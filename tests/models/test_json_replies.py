"""A reply that is asked for in JSON comes as the model gave it; tools keep their names whatever names a server takes."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from pydantic import BaseModel, ConfigDict, Field

from interlock.capabilities.model import Message, Model, ModelReply, Tool, ToolCall, Usage, join_chunks
from interlock.errors import ModelCutOff, ModelError, ModelOutputInvalid, ModelRefused, ModelTimeout, ModelUnavailable
from interlock.models.langchain import LangChainModel
from interlock.models.local import LocalModel
from interlock.models.offline import OfflineModel
from interlock.models.rules import Rules
from interlock.models.stub import StubModel
from interlock.testing import ScriptedModel

Behaviour = Callable[[asyncio.StreamWriter], Awaitable[None]]
Serve = Callable[[Behaviour], Awaitable[str]]
Open = Callable[..., LangChainModel]
Requests = list[tuple[bytes, bytes]]
T = TypeVar("T", bound=BaseModel)

HELLO = [Message(role="user", text="hunter2")]
JSON = ("content-type: application/json",)


class Colour(BaseModel):
    colour: str


def answer(body: bytes, *, status: str = "200 OK", headers: Sequence[str] = JSON) -> Behaviour:
    async def behave(writer: asyncio.StreamWriter) -> None:
        head = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status}", "connection: close", *headers))
        writer.write(head.encode() + b"\r\n" + body)
        await writer.drain()

    return behave


def completion(message: Mapping[str, Any], finish: str = "stop", **more: Any) -> bytes:
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
    return json.dumps({"id": "1", "object": "chat.completion", "created": 1, "model": "tiny", "choices": [choice], **more}).encode()


def events(*deltas: Mapping[str, Any]) -> Behaviour:
    body = b""
    for delta, finish in [*((delta, None) for delta in deltas), (dict[str, Any](), "stop")]:
        choice = {"index": 0, "finish_reason": finish, "delta": delta}
        line = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "tiny", "choices": [choice]}
        body += b"data: " + json.dumps(line).encode() + b"\n\n"
    return answer(body + b"data: [DONE]\n\n", headers=("content-type: text/event-stream",))


# What is said is handed on


SAID = {
    "JSON": '{"colour": "red"}',
    "another shape": '{"color": "red"}',
    "trailing text": '{"colour": "red"} swordfish',
    "half": '{"colour": "re',
    "a number for a text": '{"colour": 5}',
    "no JSON": "Red, I would say.",
    "spaces around": '\n {"colour": "rot"} ',
    "not ASCII": '{"colour": "grün \U0001f600"}',
}


@pytest.mark.parametrize("text", SAID.values(), ids=SAID.keys())
async def test_the_json_of_the_model_is_returned_unchanged(served: Serve, opened: Open, text: str) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    model = opened(await served(answer(completion({"content": text}, usage=usage))))
    expected = ModelReply(text=text, model="openai:tiny", usage=Usage(input_tokens=3, output_tokens=2))
    assert await model.reply(HELLO, schema=Colour) == expected


FENCED = {
    "fenced": '```json\n{"colour": "red"}\n```',
    "talk around it": 'Sure!\n\n```json\n{"colour": "red"}\n```\nAnything else?',
    "no language": '```\n{"colour": "red"}\n```',
    "after thinking aloud": '<think>Is it {"colour": "blue"}?</think>\n{"colour": "red"}',
}


@pytest.mark.parametrize("text", FENCED.values(), ids=FENCED.keys())
async def test_json_is_extracted_from_fences_and_thinking(served: Serve, opened: Open, text: str) -> None:
    model = opened(await served(answer(completion({"content": text}))))
    assert json.loads((await model.reply(HELLO, schema=Colour)).text) == {"colour": "red"}
    assert (await model.decide(HELLO, schema=Colour)).value == Colour(colour="red")


async def test_two_blocks_of_json_are_not_an_answer(served: Serve, opened: Open) -> None:
    text = '```json\n{"colour": "red"}\n```\nor\n```json\n{"colour": "blue"}\n```'
    model = opened(await served(answer(completion({"content": text}))))
    assert (await model.reply(HELLO, schema=Colour)).text == text
    with pytest.raises(ModelOutputInvalid, match="it is not JSON"):
        await model.decide(HELLO, schema=Colour)


async def test_the_schema_is_sent_and_the_model_called_once(served: Serve, opened: Open, requests: Requests) -> None:
    model = opened(await served(answer(completion({"content": "{}"}))))
    await model.reply(HELLO, schema=Colour)
    (asked,) = (json.loads(body) for _, body in requests)
    assert asked["response_format"]["type"] == "json_schema"
    assert asked["response_format"]["json_schema"]["name"] == "Colour"
    assert list(asked["response_format"]["json_schema"]["schema"]["properties"]) == ["colour"]
    assert asked["messages"] == [{"role": "user", "content": "hunter2"}]
    assert "tools" not in asked


async def test_a_reply_without_a_schema_sends_none(served: Serve, opened: Open, requests: Requests) -> None:
    await opened(await served(answer(completion({"content": "hi"})))).reply(HELLO)
    assert "response_format" not in json.loads(requests[0][1])


async def test_tools_take_precedence_over_a_schema(served: Serve, opened: Open, requests: Requests) -> None:
    called = [{"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
    model = opened(await served(answer(completion({"content": None, "tool_calls": called}))))
    got = await model.reply(HELLO, tools=[tool("look")], schema=Colour)
    assert got.calls == (ToolCall(id="a", name="look", arguments={}),)
    assert "response_format" not in json.loads(requests[0][1])


class Talker(BaseChatModel):
    """A chat model that says one thing; one that is held to a shape by a tool, as many providers' are."""

    said: AIMessage
    offered: tuple[str, ...] = ()

    @property
    def _llm_type(self) -> str:
        return "talker"

    def _generate(self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        nothing: dict[str, Any] = {}
        calls = [{"name": name, "args": nothing, "id": str(number), "type": "tool_call"} for number, name in enumerate(self.offered)]
        said = self.said if self.said.content or self.said.tool_calls else AIMessage(content="", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=said)])

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        named = [one for one in tools if not isinstance(one, type) and "function" in one]
        return Talker(said=self.said, offered=tuple(one["function"]["name"] for one in named))


def talker(text: str = "", *calls: dict[str, Any]) -> LangChainModel:
    made = [{"name": "Colour", "args": args, "id": str(number), "type": "tool_call"} for number, args in enumerate(calls)]
    return LangChainModel(Talker(said=AIMessage(content=text, tool_calls=made)), name="talker", max_reply_bytes=1000)


async def test_the_arguments_of_a_single_call_are_the_answer() -> None:
    assert (await talker("", {"colour": "red"}).reply(HELLO, schema=Colour)).text == '{"colour": "red"}'
    assert (await talker("Let me see.", {"colour": 5}).reply(HELLO, schema=Colour)).text == '{"colour": 5}'
    assert (await talker("Let me see.", {"colour": "a"}, {"colour": "b"}).reply(HELLO, schema=Colour)).text == "Let me see."
    assert (await talker("Red.").reply(HELLO, schema=Colour)) == ModelReply(text="Red.", model="talker")


async def test_several_calls_are_not_an_answer() -> None:
    with pytest.raises(ModelOutputInvalid):
        await talker("", {"colour": "a"}, {"colour": "b"}).reply(HELLO, schema=Colour)


async def hang(writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def reset(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


BAD: dict[str, tuple[Behaviour, type[ModelError]]] = {
    "500": (answer(b"swordfish", status="500 Internal Server Error"), ModelUnavailable),
    "429": (answer(b'{"error": {"message": "swordfish"}}', status="429 Too Many Requests"), ModelUnavailable),
    "401": (answer(b'{"error": {"message": "swordfish"}}', status="401 Unauthorized"), ModelRefused),
    "400": (answer(b'{"error": {"message": "swordfish"}}', status="400 Bad Request"), ModelRefused),
    "silence": (hang, ModelTimeout),
    "a reset": (reset, ModelUnavailable),
    "HTML": (answer(b"<html>swordfish"), ModelOutputInvalid),
    "no choices": (answer(b'{"choices": []}'), ModelOutputInvalid),
    "nothing": (answer(completion({"content": ""})), ModelOutputInvalid),
    "blank": (answer(completion({"content": " \n"})), ModelOutputInvalid),
    "null": (answer(completion({"content": None})), ModelOutputInvalid),
    "half a surrogate": (answer(completion({"content": '"\ud800"'})), ModelOutputInvalid),
    "somebody else": (answer(completion({"role": "user", "content": '{"colour": "red"}'})), ModelOutputInvalid),
    "filtered": (answer(completion({"content": '{"colour": "sw'}, "content_filter")), ModelRefused),
    "refused": (answer(completion({"content": None, "refusal": "swordfish"})), ModelRefused),
    "too much": (answer(completion({"content": json.dumps({"colour": "x" * 10_000})})), ModelOutputInvalid),
    "packed": (answer(gzip.compress(completion({"content": "{}"})), headers=(*JSON, "content-encoding: gzip")), ModelOutputInvalid),
}


@pytest.mark.parametrize(("behave", "expected"), BAD.values(), ids=BAD.keys())
async def test_failures_are_model_errors(
    served: Serve, opened: Open, requests: Requests, behave: Behaviour, expected: type[ModelError]
) -> None:
    with pytest.raises(ModelError) as raised:
        await opened(await served(behave), timeout_s=0.5 if expected is ModelTimeout else 20).reply(HELLO, schema=Colour)
    assert type(raised.value) is expected
    assert not any(hidden in str(raised.value) for hidden in ("hunter2", "sk-secret", "swordfish"))
    assert len(requests) == 1


async def test_a_truncated_answer_is_rejected(served: Serve, opened: Open) -> None:
    model = opened(await served(answer(completion({"content": '{"colour": "red"}'}, "length"))))
    for ask in (model.reply(HELLO, schema=Colour), model.decide(HELLO, schema=Colour), model.reply(HELLO)):
        with pytest.raises(ModelCutOff, match="INTERLOCK_MODEL_MAX_TOKENS"):
            await ask


async def test_cancellation_is_not_translated(served: Serve, opened: Open) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await opened(await served(hang)).reply(HELLO, schema=Colour)


class Tail(BaseModel):
    length: int = Field(ge=0, le=9)
    bushy: bool


class Cat(BaseModel):
    wild: bool
    tail: Tail


async def test_a_real_model_answers_by_the_schema(smollm2: LocalModel) -> None:
    reply = await smollm2.reply([Message(role="user", text="Describe the cat Tom.")], schema=Cat)
    assert isinstance(Cat.model_validate_json(reply.text), Cat)
    assert reply.calls == ()
    assert reply.model.startswith("local:")
    assert reply.usage is not None


# Those who answer without a model


class Ranked(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    name: str | None
    start: str = Field(alias="from")
    size: int | None = 3
    more: dict[str, str | None] = {}


class Decided(Rules):
    def __init__(self, value: BaseModel) -> None:
        self._value = value

    def decide(self, messages: Sequence[Message], schema: type[T]) -> T:
        return cast("T", self._value)


RANKED = [
    {"name": "x", "from": "here"},
    {"name": None, "from": "grün"},
    {"name": None, "from": "", "size": None, "more": {"a": None, "b": "c"}},
]


@pytest.mark.parametrize("value", RANKED)
async def test_rules_return_their_decision_as_json(value: dict[str, Any]) -> None:
    decided = Ranked.model_validate(value)
    model: Model = OfflineModel(Decided(decided))
    reply = await model.reply(HELLO, schema=Ranked)
    assert Ranked.model_validate_json(reply.text) == decided
    assert (reply.model, reply.calls) == ("offline rules", ())


async def test_a_decision_of_another_class_is_rejected() -> None:
    with pytest.raises(ModelOutputInvalid, match="'Colour', not a 'Ranked'"):
        await OfflineModel(Decided(Colour(colour="red"))).reply(HELLO, schema=Ranked)


async def test_rules_without_a_decision_are_unavailable() -> None:
    with pytest.raises(ModelUnavailable, match="'Colour'"):
        await OfflineModel(Rules()).reply(HELLO, schema=Colour)
    assert (await OfflineModel(Rules()).reply(HELLO)).text == "No language model is configured."


async def test_the_stub_and_a_script_ignore_the_schema() -> None:
    stub: Model = StubModel()
    assert await stub.reply(HELLO, schema=Colour) == await stub.reply(HELLO)
    script: Model = ScriptedModel({"colour": "red"}, "no JSON", Colour(colour="blue"), ModelTimeout())
    assert [(await script.reply(HELLO, schema=Colour)).text for _ in range(3)] == ['{"colour":"red"}', "no JSON", '{"colour":"blue"}']
    with pytest.raises(ModelTimeout):
        await script.reply(HELLO, schema=Colour)


# Names of tools


def tool(name: str) -> Tool:
    return Tool(name=name, description=f"It is {name}.", parameters={"type": "object", "properties": {}})


def called(*names: str) -> list[dict[str, Any]]:
    return [{"index": n, "id": f"c{n}", "type": "function", "function": {"name": name, "arguments": "{}"}} for n, name in enumerate(names)]


async def asked_and_called(
    served: Serve, opened: Open, requests: Requests, tools: Sequence[Tool], wire: Sequence[str], *, streamed: bool
) -> tuple[list[str], list[str]]:
    """Offer tools, have the server call some; return the names that it was offered and those that came back."""
    body = {"content": None, "tool_calls": called(*wire)}
    model = opened(await served(events(body) if streamed else answer(completion(body))))
    got = join_chunks([piece async for piece in model.stream(HELLO, tools=tools)]) if streamed else await model.reply(HELLO, tools=tools)
    offered = [one["function"]["name"] for one in json.loads(requests[-1][1])["tools"]]
    return offered, [call.name for call in got.calls]


LONG = "a" * 63
NAMES: dict[str, tuple[list[str], list[str]]] = {
    "plain": (["look", "look_up", "look-up"], ["look", "look_up", "look-up"]),
    "dots": (["math.evaluate", "kb.search.all"], ["math_evaluate", "kb_search_all"]),
    "other characters": (["a b", "c/d", "grün", "é"], ["a_b", "c_d", "gr_n", "_"]),
    "a plain name after one that looks like it": (["a.b", "a_b"], ["a_b_0", "a_b"]),
    "a plain name before one that looks like it": (["a_b", "a.b"], ["a_b", "a_b_1"]),
    "three that look alike": (["a.b", "a/b", "a b"], ["a_b", "a_b_1", "a_b_2"]),
    "a name that was made up for another": (["a_b", "a_b_2", "a.b"], ["a_b", "a_b_2", "a_b_3"]),
    "a name that will be made up for another": (["a_b", "a.b", "a_b_1"], ["a_b", "a_b_2", "a_b_1"]),
    "too long": ([f"{LONG}bcd"], [f"{LONG}b"]),
    "too long and alike": ([f"{LONG}bcd", f"{LONG}bce"], [f"{LONG}b", f"{'a' * 60}_1"]),
}


@pytest.mark.parametrize("streamed", [False, True], ids=["reply", "stream"])
@pytest.mark.parametrize(("names", "wire"), NAMES.values(), ids=NAMES.keys())
async def test_tool_names_are_converted_for_servers_and_back(
    served: Serve, opened: Open, requests: Requests, *, names: list[str], wire: list[str], streamed: bool
) -> None:
    offered, back = await asked_and_called(served, opened, requests, [tool(name) for name in names], wire, streamed=streamed)
    assert offered == wire
    assert back == names


async def test_a_call_of_an_unknown_name_is_unchanged(served: Serve, opened: Open, requests: Requests) -> None:
    wire = ["math.evaluate", "math_evaluate", "kb_search", "Math_Evaluate"]
    _, back = await asked_and_called(served, opened, requests, [tool("math.evaluate")], wire, streamed=False)
    assert back == ["math.evaluate", "math.evaluate", "kb_search", "Math_Evaluate"]


async def test_the_conversation_uses_the_converted_names(served: Serve, opened: Open, requests: Requests) -> None:
    names = ["a.b", "a_b", f"{LONG}bcd", f"{LONG}bce"]
    calls = tuple(ToolCall(id=f"c{number}", name=name, arguments={}) for number, name in enumerate([*names, "gone.tool"]))
    answers = [Message(role="tool", text="fine", answers=call.id) for call in calls]
    model = opened(await served(answer(completion({"content": "hi"}))))
    await model.reply([*HELLO, Message(role="assistant", calls=calls), *answers], tools=[tool(name) for name in names])
    asked = json.loads(requests[0][1])
    offered = [one["function"]["name"] for one in asked["tools"]]
    assert [call["function"]["name"] for call in asked["messages"][1]["tool_calls"]] == [*offered, "gone_tool"]
    assert len(set(offered)) == len(names)


NAME = st.text(alphabet="ab._-1é", min_size=1, max_size=4) | st.sampled_from(
    ["a_b", "a.b", "a_b_1", "a_b_2", LONG, f"{LONG}.x", f"{LONG}_y"]
)


@given(names=st.lists(NAME, min_size=1, max_size=8, unique=True))
async def test_converted_names_are_unique(names: list[str]) -> None:
    chat = Talker(said=AIMessage(content=""))
    reply = await LangChainModel(chat, name="talker", max_reply_bytes=100_000).reply(HELLO, tools=[tool(name) for name in names])
    assert [call.name for call in reply.calls] == names


@given(names=st.lists(NAME, min_size=1, max_size=8, unique=True))
async def test_every_converted_name_is_valid(names: list[str]) -> None:
    seen: list[str] = []

    class Listening(Talker):
        def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
            seen.extend(one["function"]["name"] for one in tools)
            return self

    chat = Listening(said=AIMessage(content="hi"))
    await LangChainModel(chat, name="talker", max_reply_bytes=1000).reply(HELLO, tools=[tool(name) for name in names])
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in seen)
    assert len(set(seen)) == len(names)
