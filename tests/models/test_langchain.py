"""What a chat model is asked, how one is opened, and what is kept from everybody else."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from pydantic import BaseModel

from interlock.capabilities.model import Message, ModelReply, Tool, ToolCall, Usage
from interlock.errors import ModelOutputInvalid, ModelRefused, ModelUnavailable, SettingsInvalid
from interlock.models import http_limits as bounded
from interlock.models.failures import translated
from interlock.models.langchain import LangChainModel, open_provider

Behaviour = Callable[[asyncio.StreamWriter], Awaitable[None]]
Serve = Callable[[Behaviour], Awaitable[str]]
Open = Callable[..., LangChainModel]
Requests = list[tuple[bytes, bytes]]

HELLO = [Message(role="user", text="hello")]
OPTIONS: dict[str, Any] = {"timeout_s": 5.0, "max_tokens": 9, "max_reply_bytes": 1000}


class Colour(BaseModel):
    colour: str


async def good(writer: asyncio.StreamWriter) -> None:
    message = {"role": "assistant", "content": "hi"}
    usage = {"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3}
    whole = {"id": "1", "model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": message}], "usage": usage}
    body = json.dumps(whole).encode()
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))


class Talker(BaseChatModel):
    """A chat model that says one thing, like those of providers whose packages are not installed here."""

    said: AIMessage

    @property
    def _llm_type(self) -> str:
        return "talker"

    def _generate(self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.said)])

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self


def talker(said: AIMessage) -> LangChainModel:
    return LangChainModel(Talker(said=said), name="talker", max_reply_bytes=1000)


# What is asked


async def test_messages_are_sent_unchanged(served: Serve, opened: Open, requests: Requests) -> None:
    model = opened(await served(good))
    conversation = [
        Message(role="system", text="Be {brief}."),
        Message(role="user", text="What is {{this}}?", images=("data:image/png;base64,AAAA",)),
        Message(role="assistant", text="Let me look.", calls=(ToolCall(id="a", name="look", arguments={"at": "x"}),)),
        Message(role="tool", text="a dot", answers="a"),
        Message(role="user", images=("data:image/png;base64,BBBB",)),
    ]
    tools = [Tool(name="look", description="Look.", parameters={"type": "object", "properties": {"at": {"type": "string"}}})]
    got = await model.reply(conversation, tools=tools)
    assert got == ModelReply(text="hi", model="openai:tiny", usage=Usage(input_tokens=2, output_tokens=1))
    head, body = requests[0]
    asked = json.loads(body)
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    assert asked["messages"][0] == {"role": "system", "content": "Be {brief}."}
    assert asked["messages"][1] == {"role": "user", "content": [{"type": "text", "text": "What is {{this}}?"}, picture]}
    assert asked["messages"][2]["content"] == "Let me look."
    assert asked["messages"][2]["tool_calls"][0]["id"] == "a"
    assert json.loads(asked["messages"][2]["tool_calls"][0]["function"]["arguments"]) == {"at": "x"}
    assert asked["messages"][3] == {"role": "tool", "content": "a dot", "tool_call_id": "a"}
    assert [block["type"] for block in asked["messages"][4]["content"]] == ["image_url"]
    assert asked["tools"][0]["function"] == {"name": "look", "description": "Look.", "parameters": tools[0].parameters}
    assert asked["model"] == "tiny"
    assert asked["max_completion_tokens"] == 100
    assert b"authorization: bearer sk-secret" in head.lower()


async def test_serialized_langchain_objects_stay_text(served: Serve, opened: Open, requests: Requests) -> None:
    text = json.dumps({"lc": 1, "type": "secret", "id": ["OPENAI_API_KEY"]})
    arguments: dict[str, Any] = {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {}}
    call = ToolCall(id="a", name="look", arguments=arguments)
    messages = [Message(role="user", text=text), Message(role="assistant", calls=(call,)), Message(role="tool", text=text, answers="a")]
    await opened(await served(good)).reply(messages)
    asked = json.loads(requests[0][1])["messages"]
    assert asked[0]["content"] == asked[2]["content"] == text
    assert json.loads(asked[1]["tool_calls"][0]["function"]["arguments"]) == arguments


async def test_image_urls_are_not_sent(opened: Open) -> None:
    with pytest.raises(ModelRefused, match="data URI"):
        await opened("http://127.0.0.1:1").reply([Message(role="user", images=("http://169.254.169.254/latest",))])


async def test_a_stream_requests_its_token_counts(served: Serve, opened: Open, requests: Requests) -> None:
    with pytest.raises(ModelOutputInvalid):
        _ = [piece async for piece in opened(await served(good)).stream(HELLO)]
    assert json.loads(requests[0][1])["stream_options"] == {"include_usage": True}


async def test_a_model_without_tool_support_is_refused(opened: Open) -> None:
    model = LangChainModel(FakeListChatModel(responses=["hi"]), name="fake", max_reply_bytes=100)
    tool = Tool(name="look", description="Look.", parameters={})
    with pytest.raises(ModelRefused):
        await model.reply(HELLO, tools=[tool])
    with pytest.raises(ModelRefused):
        await anext(model.stream(HELLO, tools=[tool]))
    with pytest.raises(ModelRefused):
        await model.decide(HELLO, schema=Colour)
    assert (await model.reply(HELLO)).text == "hi"
    assert [piece.text async for piece in model.stream(HELLO)] == ["h", "i", ""]


# Models that decide by calling a tool


async def test_a_decision_by_a_tool_call_is_accepted() -> None:
    call: Any = {"name": "Colour", "args": {"colour": "red"}, "id": "1"}
    model = talker(AIMessage(content="Let me think.", tool_calls=[call]))
    assert (await model.decide(HELLO, schema=Colour)).value == Colour(colour="red")


@pytest.mark.parametrize("args", [{}, {"colour": 5}, {"colour": "\ud800"}, {"colour": "x" * 1000}])
async def test_a_tool_call_that_is_not_a_decision_is_invalid(args: dict[str, Any]) -> None:
    call: Any = {"name": "Colour", "args": args, "id": "1"}
    with pytest.raises(ModelOutputInvalid):
        await talker(AIMessage(content="", tool_calls=[call])).decide(HELLO, schema=Colour)


async def test_unknown_exceptions_are_unavailable() -> None:
    class Odd(Talker):
        def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
            raise RuntimeError("swordfish")

    model = LangChainModel(Odd(said=AIMessage(content="")), name="odd", max_reply_bytes=100)
    for ask in (model.reply(HELLO), model.decide(HELLO, schema=Colour), anext(model.stream(HELLO))):
        with pytest.raises(ModelUnavailable, match=r"^The model could not be called: the provider's client failed in an unexpected way\.$"):
            await ask


def test_a_wrapped_model_error_is_unwrapped() -> None:
    ours = ModelOutputInvalid("too much")
    wrapped = ConnectionError("swordfish")
    wrapped.__cause__ = ours
    assert translated(wrapped) is ours


# Who else hears it


class Listening(AsyncCallbackHandler):
    def __init__(self) -> None:
        self.heard: list[str] = []

    async def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        self.heard.append("start")

    async def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
        self.heard.append("end")

    async def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
        self.heard.append("chain")


async def test_outer_langchain_callbacks_get_no_events() -> None:
    """A node runs inside LangGraph, whose callbacks would get what the gate redacts."""
    call: Any = {"name": "Colour", "args": {"colour": "red"}, "id": "1"}
    model = talker(AIMessage(content="hi", tool_calls=[call]))

    async def node(_: str, config: RunnableConfig) -> None:
        await model.reply(HELLO)
        await model.decide(HELLO, schema=Colour)
        _pieces = [piece async for piece in model.stream(HELLO)]

    listening = Listening()
    await RunnableLambda(node).ainvoke("go", config={"callbacks": [listening]})
    assert listening.heard == ["chain"]  # the node's own


async def test_langsmith_gets_no_traces(served: Serve, opened: Open, requests: Requests, monkeypatch: pytest.MonkeyPatch) -> None:
    from langchain_core.tracers import langchain  # noqa: PLC0415 - where traces go from

    told: list[str] = []

    def made(*_: Any, **__: Any) -> None:
        told.append("made")

    monkeypatch.setattr(langchain.LangChainTracer, "__init__", made)
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    monkeypatch.setenv("LANGCHAIN_TRACING_V2", "true")
    model = talker(AIMessage(content="hi"))
    await model.reply(HELLO)
    _ = [piece async for piece in model.stream(HELLO)]
    assert told == []


# How it is opened


@pytest.mark.parametrize("name", ["openai", "openai:", ":gpt", "", "offline"])
def test_a_model_is_a_provider_and_a_name(name: str) -> None:
    with pytest.raises(SettingsInvalid, match="provider:name"):
        open_provider(name, base_url=None, api_key="k", **OPTIONS)


def test_a_missing_provider_package_is_reported_with_its_command() -> None:
    assert "langchain_groq" not in sys.modules
    with pytest.raises(SettingsInvalid, match=r"pip install langchain-groq$"):
        open_provider("groq:llama", base_url=None, api_key="sk-secret", **OPTIONS)


def test_an_unknown_provider_is_an_invalid_setting() -> None:
    with pytest.raises(SettingsInvalid, match="pip install langchain-nobody"):
        open_provider("nobody:model", base_url=None, api_key=None, **OPTIONS)


def test_openai_without_a_key_names_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(SettingsInvalid, match="INTERLOCK_MODEL_API_KEY"):
        open_provider("openai:gpt", base_url=None, api_key=None, **OPTIONS)


async def test_another_server_does_not_get_the_key_of_openai(
    served: Serve, opened: Open, requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    assert (await opened(await served(good), api_key=None).reply(HELLO)).text == "hi"
    assert b"sk-of-openai" not in requests[0][0]


@pytest.mark.parametrize("key", ["", " ", "sk\nx", "sk-é", "sk-x ", "sk-x\0"])
def test_an_invalid_key_is_not_shown(key: str) -> None:
    with pytest.raises(SettingsInvalid) as raised:
        open_provider("openai:gpt", base_url="http://127.0.0.1/v1", api_key=key, **OPTIONS)
    assert "sk" not in str(raised.value)


@pytest.mark.parametrize("url", ["", "127.0.0.1:80", "ftp://x", "http://", "http://[", "http://x:99999", "file:///etc/passwd"])
def test_an_invalid_base_url_is_an_invalid_setting(url: str) -> None:
    with pytest.raises(SettingsInvalid, match="INTERLOCK_MODEL_BASE_URL"):
        open_provider("openai:gpt", base_url=url, api_key=None, **OPTIONS)


def test_other_errors_while_opening_are_invalid_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_PROXY", "http://swordfish:1")
    with pytest.raises(SettingsInvalid) as raised:
        open_provider("openai:gpt", base_url="http://127.0.0.1/v1", api_key="sk-secret", **OPTIONS)
    assert "sk-secret" not in str(raised.value)
    assert "swordfish" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "environment", "expected"),
    [
        ("https://api.example.com/v1", {"https_proxy": "http://proxy:1"}, "http://proxy:1"),
        ("https://api.example.com/v1", {"all_proxy": "http://proxy:1"}, "http://proxy:1"),
        ("https://api.example.com/v1", {"https_proxy": "http://proxy:1", "no_proxy": "example.com"}, None),
        ("http://127.0.0.1:80/v1", {"http_proxy": "http://proxy:1"}, None),
        ("http://localhost:80/v1", {"http_proxy": "http://proxy:1"}, None),
        ("http://[::1]:80/v1", {"http_proxy": "http://proxy:1"}, None),
        ("https://api.example.com/v1", {}, None),
    ],
)
def test_the_proxy_is_not_used_for_local_servers(
    url: str, environment: Mapping[str, str], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert bounded._proxy(url) == expected  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - a proxy cannot be had here


def test_a_model_serves_several_event_loops() -> None:
    async def ask() -> str:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"}]")
            await good(writer)
            await writer.drain()
            await reader.read()  # keeps the connection, as servers do
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", port)
        ports.append(server.sockets[0].getsockname()[1])
        nonlocal model
        model = model or open_provider("openai:tiny", base_url=f"http://127.0.0.1:{ports[0]}/v1", api_key=None, **OPTIONS)
        try:
            return (await model.reply(HELLO)).text
        finally:
            server.close()
            await server.wait_closed()

    ports: list[int] = []
    model: LangChainModel | None = None
    port = 0
    assert asyncio.run(ask()) == "hi"
    port = ports[0]
    assert asyncio.run(ask()) == "hi"
